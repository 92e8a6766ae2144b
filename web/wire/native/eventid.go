package native

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/run"
)

// An event's id is <run>:<n>. A browser asks first (preflight) before it sends an id with a colon to another origin, so
// <run>.<n> is read as well.

// lastNumber is a number that no run reaches: that of the last event of a stream whose run is not known any more. It is the largest
// integer that JavaScript counts exactly.
const lastNumber = 1<<53 - 1

// eventID is a parsed id.
type eventID struct {
	run string
	n   uint64
}

func (id eventID) String() string { return id.run + ":" + strconv.FormatUint(id.n, 10) }

// parseEventID reads an id. The error says what is wrong with it.
func parseEventID(text string) (eventID, error) {
	if len(text) > run.MaxID+1+16 {
		return eventID{}, fmt.Errorf("an event id of %d characters is too long", len(text))
	}
	i := strings.LastIndexAny(text, ":.")
	if i < 0 {
		return eventID{}, fmt.Errorf("%q is not an event id; expected <run>:<number>", text)
	}
	of, number := text[:i], text[i+1:]
	if !run.ValidID(of) {
		return eventID{}, fmt.Errorf("%q is not an event id; expected a run's id in place of %q", text, of)
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || number[0] == '+' || len(number) > 1 && number[0] == '0' || n > lastNumber {
		return eventID{}, fmt.Errorf("%q is not an event id; expected a whole number in place of %q", text, number)
	}
	return eventID{of, n}, nil
}
