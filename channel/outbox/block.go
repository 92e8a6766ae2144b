package outbox

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store"
)

// record is the meta of a block's record: all that is known of the block without its text. The body is the block.
type record struct {
	State   state  `json:"state"`
	Owner   string `json:"owner,omitempty"` // the process that sends it
	Left    bool   `json:"left,omitempty"`  // by another process, which had died
	At      int64  `json:"at,omitempty"`    // when it was put in, ns since 1970
	Size    int64  `json:"size,omitempty"`  // what it counts for
	Bytes   int64  `json:"bytes,omitempty"` // of the body
	Target  string `json:"target,omitempty"`
	Channel string `json:"channel,omitempty"`
	Sender  string `json:"sender,omitempty"`
	Event   string `json:"event,omitempty"`
	Session string `json:"session,omitempty"` // a hash of it
	Attempt int    `json:"attempt,omitempty"`
	Came    string `json:"came,omitempty"` // of one that has gone
}

// state is how far a block is.
type state string

const (
	prepared state = "prepared"
	sending  state = "sending"
	gone     state = "gone"
	erased   state = "" // there is no record
)

var errDamaged = errors.New("channel: a stored reply is damaged")

// recordOf reads a record of the table. If there is none, the block is erased.
func recordOf(rec store.Record) (r record, err error) {
	if rec.Rev != 0 && (json.Unmarshal(rec.Meta, &r) != nil || r.State == "") {
		return record{}, errDamaged
	}
	return r, nil
}

// bytes is what a block counts for here.
func (r *record) bytes() int64 { return r.Bytes + 512 }

func (r *record) over() bool { return r.State == gone || r.State == erased }

// news is what the outbox is told of the block.
func (r *record) news(id uint64, alive bool) channel.BlockNews {
	return channel.BlockNews{
		ID: id, At: time.Unix(0, r.At), Size: r.Size, Target: r.Target, Channel: r.Channel, Sender: r.Sender, Event: r.Event,
		Attempt: r.Attempt, Sending: r.State == sending, Alive: alive, Left: r.Left || !alive, Gone: r.over(), Came: r.came(),
	}
}

// came is what a block that has gone came to.
func (r *record) came() channel.ReceiptState {
	if r.State == erased {
		return channel.Suppressed
	}
	all := []channel.ReceiptState{channel.Sent, channel.Partial, channel.Suppressed, channel.NotSent}
	if i := slices.IndexFunc(all, func(s channel.ReceiptState) bool { return s.String() == r.Came }); i >= 0 {
		return all[i]
	}
	return channel.UnknownWhether
}
