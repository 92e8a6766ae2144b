package nats

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// Headers of our messages.
const (
	headerRecord = "Tape"       // of the last message of a batch: a record
	headerBatch  = "Tape-Batch" // "<id> <number> <of>": which message of a batch it is, from 1
)

// States of a tape that is not there.
const (
	stateErased  = "erased"  // a marker: whoever creates the tape again, goes on behind it
	statePending = "pending" // an import that has not come to its end
)

const (
	pageLen   = 64       // batches in the list of a record: some 200 bytes of it
	maxRecord = 32 << 10 // bytes; a message's headers have 64 KiB
)

// record is what is known of a tape when a batch is at its end.
type record struct {
	State     string  `json:"state,omitempty"` // "" is a tape that is there
	Tape      string  `json:"tape"`
	Session   string  `json:"session,omitempty"`
	Workspace string  `json:"workspace,omitempty"`
	Title     string  `json:"title,omitempty"`
	Agent     string  `json:"agent,omitempty"`
	Created   int64   `json:"created,omitempty"` // µs since 1970, as all times
	Updated   int64   `json:"updated,omitempty"`
	Entries   int64   `json:"entries,omitempty"`
	LastID    int64   `json:"last,omitempty"`
	Bytes     int64   `json:"bytes,omitempty"`
	Anchors   int64   `json:"anchors,omitempty"`
	Anchor    *anchor `json:"anchor,omitempty"` // the last one
	// Before is the last message of the batch with the last anchor before this batch, where this batch has an anchor.
	Before uint64 `json:"before,omitempty"`

	Born uint64 `json:"born"` // all messages of the tape come behind this one, which is another one's or none

	// Epoch is that of the newest lease under which was appended, and By the replica that had it.
	Epoch uint64 `json:"epoch,omitempty"`
	By    string `json:"by,omitempty"`

	// Page lists the batches before this one, up to where the page begins; Prev is the last message of the page before.
	Page string `json:"page,omitempty"`
	Prev uint64 `json:"prev,omitempty"`

	First    int64 `json:"first"` // id of the batch's first entry
	Messages int   `json:"n"`     // of the batch; 0 is a fence, which is no batch: it only changes the epoch
}

// anchor says where an anchor is.
type anchor struct {
	ID   int64  `json:"id"`
	Name string `json:"name,omitempty"`
	Date int64  `json:"date,omitempty"`
	At   uint64 `json:"at,omitempty"` // the last message of its batch; 0 is this one
}

// spot says where a batch lies.
type spot struct {
	seq      uint64 // of its last message; the others come directly before
	messages int
	first    int64 // id
}

// head is the last batch of a tape.
type head struct {
	seq uint64
	record
	data []byte // the batch's lines; nil where they are not at hand
}

// there says whether there is a tape.
func (h *head) there() bool { return h != nil && h.State == "" }

// last is the sequence that the next batch has to expect.
func (h *head) last() uint64 {
	if h == nil {
		return 0
	}
	return h.seq
}

// epoch is zero where there is none.
func (h *head) epoch() epoch {
	if h == nil {
		return epoch{}
	}
	return epoch{h.Epoch, h.By}
}

// at is the message with the last anchor, 0 where there is none.
func (h *head) at() uint64 {
	switch {
	case h.Anchor == nil:
		return 0
	case h.Anchor.At == 0:
		return h.seq
	}
	return h.Anchor.At
}

// info is zero, but for the name, where there is no tape.
func (h *head) info(name string) tape.Info {
	if !h.there() {
		return tape.Info{Tape: name}
	}
	i := h.record.info()
	i.Tape = name
	return i
}

func (r *record) info() tape.Info {
	i := tape.Info{
		Tape: r.Tape, Session: r.Session, Workspace: r.Workspace, Title: r.Title, Agent: r.Agent,
		Created: date(r.Created), Updated: date(r.Updated), Entries: r.Entries, LastID: r.LastID, Anchors: r.Anchors, Bytes: r.Bytes,
	}
	if a := r.Anchor; a != nil {
		i.LastAnchor = tape.AnchorRef{ID: a.ID, Name: a.Name, Date: date(a.Date)}
	}
	return i
}

func date(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// follow is the record of a batch behind h, given what the tape is with it. fresh begins the tape.
func (h *head) follow(i tape.Info, first int64, messages int, fresh bool) (record, error) {
	r := record{
		Tape: i.Tape, Session: i.Session, Workspace: i.Workspace, Title: i.Title, Agent: i.Agent,
		Created: i.Created.UnixMicro(), Updated: i.Updated.UnixMicro(), Entries: i.Entries, LastID: i.LastID, Anchors: i.Anchors, Bytes: i.Bytes,
		Born: h.last(), First: first, Messages: messages,
	}
	if i.Anchors > 0 {
		r.Anchor = &anchor{ID: i.LastAnchor.ID, Name: i.LastAnchor.Name, Date: i.LastAnchor.Date.UnixMicro()}
	}
	if fresh {
		return r, nil
	}
	r.Born = h.Born
	if h.Anchor != nil {
		if h.Anchor.ID == r.Anchor.ID {
			r.Anchor.At = h.at()
		} else {
			r.Before = h.at()
		}
	}
	page, err := h.spots()
	if err != nil {
		return r, err
	}
	if len(page) == pageLen {
		r.Prev = h.seq
	} else {
		r.Prev, r.Page = h.Prev, encodePage(page)
	}
	return r, nil
}

// fence is the record of a message behind h that has no entries and another epoch.
func (h *head) fence() record {
	r := h.record
	r.Before, r.Messages = 0, 0
	page, err := h.spots()
	if err == nil {
		r.Page = encodePage(page)
	}
	if h.Anchor != nil {
		a := *h.Anchor
		a.At = h.at()
		r.Anchor = &a
	}
	return r
}

// spots are the batches of the page up to h, which is the last.
func (h *head) spots() ([]spot, error) {
	page, err := decodePage(h.Page)
	if h.Messages > 0 {
		page = append(page, spot{h.seq, h.Messages, h.First})
	}
	return page, err
}

func encodePage(page []spot) string {
	var raw []byte
	var last spot
	for _, s := range page {
		raw = binary.AppendUvarint(raw, s.seq-last.seq)
		raw = binary.AppendUvarint(raw, uint64(s.messages))
		raw = binary.AppendUvarint(raw, uint64(s.first-last.first))
		last = s
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

var errDamaged = errors.New("a message of the tape is damaged")

func decodePage(text string) ([]spot, error) {
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errDamaged
	}
	page := make([]spot, 0, pageLen)
	var last spot
	for len(raw) > 0 {
		var numbers [3]uint64
		for i := range numbers {
			n, size := binary.Uvarint(raw)
			if size <= 0 {
				return nil, errDamaged
			}
			numbers[i], raw = n, raw[size:]
		}
		last = spot{last.seq + numbers[0], int(numbers[1]), last.first + int64(numbers[2])}
		if last.messages < 1 || uint64(last.messages) > last.seq || len(page) == pageLen {
			return nil, errDamaged
		}
		page = append(page, last)
	}
	return page, nil
}

// headOf reads the last message of a batch.
func headOf(m *message) (*head, error) {
	h := &head{seq: m.seq}
	if err := json.Unmarshal([]byte(m.header.Get(headerRecord)), &h.record); err != nil {
		return nil, fmt.Errorf("message %d: %w", m.seq, errDamaged)
	}
	if h.Messages == 1 {
		h.data = m.data
	}
	return h, nil
}

// part is what the header of a batch says.
type part struct {
	id         string
	number, of int
}

func (p part) String() string { return fmt.Sprintf("%s %d %d", p.id, p.number, p.of) }

func partOf(m *message) (part, error) {
	fields := strings.Fields(m.header.Get(headerBatch))
	if len(fields) == 3 {
		number, err1 := strconv.Atoi(fields[1])
		of, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && 1 <= number && number <= of {
			return part{fields[0], number, of}, nil
		}
	}
	return part{}, fmt.Errorf("message %d: %w", m.seq, errDamaged)
}
