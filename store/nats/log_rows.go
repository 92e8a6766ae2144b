package nats

import (
	"strings"

	"github.com/lingserve/lingserve/store/internal/recent"
)

// logRows are the logs of a space, each with the sequence of its last message. The zero value is empty.
type logRows struct {
	recent.Rows[uint64]
	below map[string]map[string]bool // names with a "/", by what is before the first
}

func folder(name string) (string, bool) {
	first, _, below := strings.Cut(name, "/")
	return first, below
}

// put adds a log, or replaces what is known of it.
func (x *logRows) put(name, label string, updated int64, seq uint64) {
	if r, ok := x.Get(name); ok && r.Value >= seq {
		return
	}
	x.Put(recent.Row[uint64]{Name: name, Label: label, Updated: updated, Value: seq})
	first, below := folder(name)
	if !below {
		return
	}
	if x.below == nil {
		x.below = map[string]map[string]bool{}
	}
	if x.below[first] == nil {
		x.below[strings.Clone(first)] = map[string]bool{}
	}
	x.below[first][strings.Clone(name)] = true
}

// remove removes a log if its last message is not behind another one.
func (x *logRows) remove(name string, seq uint64) {
	if r, ok := x.Get(name); !ok || r.Value > seq {
		return
	}
	x.Remove(name)
	if first, below := folder(name); below {
		if delete(x.below[first], name); len(x.below[first]) == 0 {
			delete(x.below, first)
		}
	}
}

// removeAll removes a log and all below it that are older than a message.
func (x *logRows) removeAll(name string, seq uint64) {
	x.remove(name, seq-1)
	first, _ := folder(name)
	for other := range x.below[first] {
		if strings.HasPrefix(other, name+"/") {
			x.remove(other, seq-1)
		}
	}
}
