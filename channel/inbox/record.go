package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store"
)

// record is the meta of an event's record. The body is the event's raw form until the event is settled.
type record struct {
	State   state           `json:"state"`
	Owner   string          `json:"owner,omitempty"` // the process that runs it
	Claim   string          `json:"claim,omitempty"` // the one that runs it
	Key     string          `json:"key"`
	Brief   bool            `json:"brief,omitempty"`   // the key's id was made from content
	At      int64           `json:"at,omitempty"`      // when it arrived, ns since 1970
	Behind  int64           `json:"behind,omitempty"`  // so many ns later it is ordered, behind events that arrived at the same time
	Size    int             `json:"size,omitempty"`    // of the raw form, in bytes
	Stored  bool            `json:"stored,omitempty"`  // it was accepted, not only claimed
	Given   bool            `json:"given,omitempty"`   // by another process, to its owner, which does not know of it yet
	Attempt int             `json:"attempt,omitempty"` // earlier turns that were released, or in which a process has died
	Mark    mark            `json:"mark,omitempty"`
	Outcome channel.Outcome `json:"outcome,omitempty"` // of one that is settled
	Until   int64           `json:"until,omitempty"`   // it is known until then; of one that is settled, ns since 1970
}

// state is how far an event is.
type state string

const (
	accepted state = "accepted"
	claimed  state = "claimed"
	settled  state = "settled"
	erased   state = "" // there is no record
)

// mark is what the ledger has of an event; "" is nothing.
type mark string

// marks are the marks that are written.
var marks = map[channel.ReceiptState]mark{
	channel.Sent: "sent", channel.Partial: "partial", channel.NotSent: "not_sent", channel.Suppressed: "not_sent",
	channel.UnknownWhether: "unknown",
}

// receipt returns what a mark says.
func (m mark) receipt() channel.ReceiptState {
	if m == "" {
		return channel.NotSent
	}
	for s, written := range marks {
		if written == m && s != channel.Suppressed {
			return s
		}
	}
	return channel.UnknownWhether // of a later version: something may have been seen
}

// seen reports whether somebody has noticed what the mark is for.
func (m mark) seen() bool { return m == marks[channel.Sent] || m == marks[channel.Partial] }

var errDamaged = errors.New("channel: a stored event is damaged")

// recordOf reads a record of the table. If there is none, the event is erased.
func recordOf(rec store.Record) (r record, err error) {
	if rec.Rev != 0 && (json.Unmarshal(rec.Meta, &r) != nil || r.State == "") {
		return record{}, errDamaged
	}
	return r, nil
}

// key names the event.
func (r *record) key() (channel.EventKey, error) {
	k, err := channel.ParseEventKey(r.Key)
	if err != nil {
		return k, errDamaged
	}
	k.Synthetic = r.Brief
	return k, nil
}

// over reports whether the event is not known any more.
func (r *record) over(now time.Time) bool {
	return r.State == erased || r.State == settled && now.UnixNano() >= r.Until
}

// waits reports whether the event is not settled.
func (r *record) waits() bool { return r.State == accepted || r.State == claimed }

// order is where the event is in the order of arrival.
func (r *record) order() int64 { return r.At + r.Behind }

// bytes is what a waiting event counts for.
func (r *record) bytes() int64 { return int64(r.Size) + recordCost }

// recordCost is about what the table and the process keep of an event beside its raw form.
const recordCost = 512

// maxRaw bounds the raw form of an event, in bytes.
const maxRaw = store.MaxBody

func checkRaw(raw []byte) error {
	if len(raw) > maxRaw {
		return fmt.Errorf("an event of %d bytes is too large for the inbox; expected at most %d", len(raw), maxRaw)
	}
	return nil
}
