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

// parseEventID reads an id.
func parseEventID(text string) (eventID, error) {
	if i := strings.LastIndexAny(text, ":."); i >= 0 && run.ValidID(text[:i]) {
		id := eventID{run: text[:i]}
		var err error
		if id.n, err = strconv.ParseUint(text[i+1:], 10, 64); err == nil && id.n <= lastNumber && strconv.FormatUint(id.n, 10) == text[i+1:] {
			return id, nil
		}
	}
	return eventID{}, fmt.Errorf("%q is not an event id; expected <run>:<number>", text)
}
