package nats

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/store"
)

// headerRecord is the header that has the head of a message.
const headerRecord = "Record"

// head is what the header of a message says.
type head struct {
	ID      []byte `json:"id"`             // of the put
	At      int64  `json:"at"`             // ms since 1970, as all times here
	End     int64  `json:"end,omitempty"`  // when the record's life ends; 0: never
	Made    uint64 `json:"made,omitempty"` // 0: this message created the record
	Meta    []byte `json:"meta,omitempty"`
	Size    int64  `json:"size,omitempty"`    // of the body
	Packed  bool   `json:"packed,omitempty"`  // the body is compressed
	Key     string `json:"key,omitempty"`     // if the subject does not tell it
	Deleted uint64 `json:"deleted,omitempty"` // of a marker: the revision that was deleted

	// Of a step:
	Body  uint64 `json:"body,omitempty"`  // the message that has the body
	Until int64  `json:"until,omitempty"` // when the servers remove that message; 0: never
	Floor int64  `json:"floor,omitempty"` // when the last of the records before this one would have ended; 0: never
}

// message is the last message of a key. Sequence 0 means that there is none.
type message struct {
	seq uint64
	key string
	head
	data    []byte
	damaged bool // it has no head
}

// Lives of messages.
const (
	markerLife = 10 * time.Minute // behind a marker, a put that comes late is refused
	bodySlack  = time.Hour        // that a body is there longer than its record, at most
	clockSlack = 2 * time.Second  // servers count whole seconds, and clocks differ
)

func (m *message) lives(now time.Time) bool {
	return m.seq > 0 && !m.damaged && m.Deleted == 0 && (m.End == 0 || now.UnixMilli() < m.End)
}

// record returns the record without its body.
func (m *message) record() store.Record {
	r := store.Record{Key: m.key, Made: m.made(), Rev: m.seq, Meta: m.Meta, At: time.UnixMilli(m.At)}
	if m.End > 0 {
		r.Expires = time.UnixMilli(m.End)
	}
	return r
}

func (m *message) made() uint64 { return cmp.Or(m.Made, m.seq) }

// bytes is what a record counts for.
func (m *message) bytes() int64 { return int64(len(m.key)+len(m.Meta)) + m.Size }

// later returns the later of two times of which 0 is never.
func later(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// bodyEnd is when the servers remove a whole, if steps may refer to its body.
func (h *head) bodyEnd() int64 {
	if h.End == 0 {
		return 0
	}
	return h.End + min(h.End-h.At, bodySlack.Milliseconds())
}

// stepAfter makes a head that refers to the body of an earlier message. It is not ok if the body may be removed before the record ends, or if
// the record ends but those before it do not.
func (h *head) stepAfter(m *message) (ok bool) {
	h.Size, h.Packed, h.Body, h.Until, h.Floor = m.Size, m.Packed, m.Body, m.Until, later(m.Floor, m.End)
	if m.Body == 0 {
		h.Body, h.Until, h.Floor = m.seq, m.bodyEnd(), m.End
	}
	bodyStays := h.Until == 0 || h.End > 0 && h.End+clockSlack.Milliseconds() <= h.Until
	return bodyStays && (h.End == 0 || h.Floor > 0)
}

// removed is when the servers are to remove a message; 0: never.
func (h *head) removed() int64 {
	switch {
	case h.Deleted > 0:
		return h.At + markerLife.Milliseconds()
	case h.Body > 0:
		return later(h.End, h.Floor)
	case h.Size > 0:
		return h.bodyEnd()
	}
	return h.End
}

// life is the TTL of a message; 0: none.
func (h *head) life() time.Duration {
	end := h.removed()
	if end == 0 {
		return 0
	}
	return (time.Duration(end-h.At)*time.Millisecond + clockSlack - 1).Truncate(time.Second)
}

// header returns the header of a message.
func (h *head) header() client.Header {
	text, err := json.Marshal(h)
	if err != nil {
		panic("store/nats: " + err.Error()) // all of it can be written
	}
	return client.Header{headerRecord: {string(text)}}
}

// read fills in a message from what the servers have.
func (m *message) read(header client.Header) {
	text := header[headerRecord]
	if len(text) != 1 || json.Unmarshal([]byte(text[0]), &m.head) != nil || len(m.ID) == 0 {
		m.head, m.damaged = head{}, true
	}
	if m.Key != "" {
		m.key = m.Key
	}
}

// packFrom is the size of bodies that are compressed: most are far smaller.
const packFrom = 256 << 10

// pack makes of a body what one message has room for.
func pack(body []byte, room int) (data []byte, packed bool, err error) {
	if len(body) < packFrom && len(body) <= room {
		return body, false, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(body)
	if err == nil {
		err = w.Close()
	}
	switch {
	case err != nil:
		return nil, false, err // a buffer takes everything
	case b.Len() < len(body) && b.Len() <= room:
		return b.Bytes(), true, nil
	case len(body) <= room:
		return body, false, nil
	}
	return nil, false, fmt.Errorf("%w: a body of %d bytes, compressed %d: a message of the servers has at most %d", store.ErrTooLarge, len(body), b.Len(), room)
}

// unpack returns the body that a message has.
func (h *head) unpack(data []byte) ([]byte, error) {
	if h.Packed {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r, store.MaxBody+1))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
	}
	if int64(len(data)) != h.Size {
		return nil, fmt.Errorf("%w: a body has %d bytes, want %d", store.ErrDamaged, len(data), h.Size)
	}
	return data, nil
}
