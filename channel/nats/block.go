package nats

import (
	"encoding/json"
	"slices"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/channel"
)

// blockRecord is what a step says of a block: all that is known of it without its text.
type blockRecord struct {
	State   state  `json:"state"`
	Owner   string `json:"owner,omitempty"` // whose it is to send it
	Left    bool   `json:"left,omitempty"`  // that has it from another one, which had died
	ID      uint64 `json:"id,omitempty"`    // the message with the block; 0: this one
	At      int64  `json:"at,omitempty"`    // when it was put in, ns since 1970
	Size    int64  `json:"size,omitempty"`  // what it counts for
	Bytes   int64  `json:"bytes,omitempty"` // of the message
	Packed  bool   `json:"packed,omitempty"`
	Target  string `json:"target,omitempty"`
	Channel string `json:"channel,omitempty"`
	Sender  string `json:"sender,omitempty"`
	Event   string `json:"event,omitempty"`
	Session string `json:"session,omitempty"` // the token of it
	Attempt int    `json:"attempt,omitempty"`
	Came    string `json:"came,omitempty"` // of one that is settled
}

// Beside settled and erased, a block is one of these.
const (
	prepared state = "prepared"
	sending  state = "sending"
)

const headerBlock = "Block"

// header has the record in it.
func (r *blockRecord) header() client.Header {
	text, err := json.Marshal(r)
	if err != nil {
		panic("channel/nats: " + err.Error()) // all of it can be written
	}
	return client.Header{headerBlock: {string(text)}}
}

// blockOf reads what a step says; a message of none is as good as one that says that the block has gone.
func blockOf(m message) (r blockRecord, err error) {
	if m.seq == 0 {
		return blockRecord{State: erased}, nil
	}
	if err := json.Unmarshal([]byte(m.header.Get(headerBlock)), &r); err != nil || r.State == "" {
		return blockRecord{}, errDamaged
	}
	if r.ID == 0 {
		r.ID = m.seq
	}
	return r, nil
}

// bytes is about what a block takes with its steps.
func (r *blockRecord) bytes() int64 { return r.Bytes + int64(2*r.Attempt+2)*recordCost }

func (r *blockRecord) over() bool { return r.State == settled || r.State == erased }

// news is what the outbox is told of the block.
func (r *blockRecord) news(alive bool) channel.BlockNews {
	return channel.BlockNews{
		ID: r.ID, At: time.Unix(0, r.At), Size: r.Size, Target: r.Target, Channel: r.Channel, Sender: r.Sender, Event: r.Event,
		Attempt: r.Attempt, Sending: r.State == sending, Alive: alive, Left: r.Left || !alive, Gone: r.over(), Came: r.came(),
	}
}

// came is what a block that has gone came to.
func (r *blockRecord) came() channel.ReceiptState {
	if r.State == erased {
		return channel.Suppressed
	}
	all := []channel.ReceiptState{channel.Sent, channel.Partial, channel.Suppressed, channel.NotSent}
	if i := slices.IndexFunc(all, func(s channel.ReceiptState) bool { return s.String() == r.Came }); i >= 0 {
		return all[i]
	}
	return channel.UnknownWhether
}
