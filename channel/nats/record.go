package nats

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/channel"
)

// record is what a step says of an event: all that is known of it.
type record struct {
	State   state           `json:"state"`
	Owner   string          `json:"owner,omitempty"` // whose it is to run it
	Claim   string          `json:"claim,omitempty"` // the one that runs it
	Key     string          `json:"key,omitempty"`
	Brief   bool            `json:"brief,omitempty"`   // the key's id was made from content
	At      int64           `json:"at,omitempty"`      // of its arrival, ns since 1970
	Raw     uint64          `json:"raw,omitempty"`     // the message with its raw form; 0: this one
	Size    int             `json:"size,omitempty"`    // of that, in bytes
	Packed  bool            `json:"packed,omitempty"`  // it is compressed
	Stored  bool            `json:"stored,omitempty"`  // it was accepted, and is not only claimed
	Given   bool            `json:"given,omitempty"`   // by another replica, to its owner, which does not know of it yet
	Attempt int             `json:"attempt,omitempty"` // earlier turns that were released, or in which a replica has died
	Mark    mark            `json:"mark,omitempty"`
	Outcome channel.Outcome `json:"outcome,omitempty"`
	Until   int64           `json:"until,omitempty"` // it is known until then, of one that is settled, ns since 1970
}

// state is how far an event is.
type state string

const (
	accepted state = "accepted"
	claimed  state = "claimed"
	settled  state = "settled"
	erased   state = "erased" // as if it had never been
)

// key names the event.
func (r *record) key() (channel.EventKey, error) {
	k, err := channel.ParseEventKey(r.Key)
	if err != nil {
		return k, errDamaged
	}
	k.Synthetic = r.Brief
	return k, nil
}

// mark is what the ledger has of an event; "" is nothing.
type mark string

// marks are those that are written, by what they say.
var marks = map[channel.ReceiptState]mark{
	channel.Sent: "sent", channel.Partial: "partial", channel.NotSent: "not_sent", channel.Suppressed: "not_sent", channel.UnknownWhether: "unknown",
}

// receipt is what a mark says.
func (m mark) receipt() channel.ReceiptState {
	switch m {
	case "":
		return channel.NotSent
	case "unknown":
		return channel.UnknownWhether
	}
	for s, written := range marks {
		if written == m && s != channel.Suppressed {
			return s
		}
	}
	return channel.UnknownWhether // of a version to come: something may have been seen
}

// seen says whether somebody has noticed what the mark is for.
func (m mark) seen() bool { return m == marks[channel.Sent] || m == marks[channel.Partial] }

const headerEvent = "Event"

// header has the record in it.
func (r *record) header() client.Header {
	text, err := json.Marshal(r)
	if err != nil {
		panic("channel/nats: " + err.Error()) // all of it can be written
	}
	return client.Header{headerEvent: {string(text)}}
}

var errDamaged = errors.New("channel: a stored event is damaged")

// recordOf reads what a step says; a message of none is as good as one that says that the event was erased.
func recordOf(m message) (r record, err error) {
	if m.seq == 0 {
		return record{State: erased}, nil
	}
	if err := json.Unmarshal([]byte(m.header.Get(headerEvent)), &r); err != nil || r.State == "" {
		return record{}, errDamaged
	}
	if r.Raw == 0 && r.Stored {
		r.Raw = m.seq
	}
	return r, nil
}

// over says whether an event is known no longer.
func (r *record) over(now time.Time) bool {
	return r.State == erased || r.State == settled && now.UnixNano() >= r.Until
}

// waits says whether an event is not settled.
func (r *record) waits() bool { return r.State == accepted || r.State == claimed }

// bytes is what an event that waits counts for.
func (r *record) bytes() int64 { return int64(r.Size) + recordCost }

// recordCost is about what the steps of an event take beside its raw form.
const recordCost = 512

// token stands for an event in subjects. It tells nothing about it.
func token(event string) string {
	sum := sha256.Sum256([]byte(event))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func unixNano(n int64) time.Time { return time.Unix(0, n) }
