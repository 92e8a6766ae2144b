package nats

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/store"
)

// The headers of a message. A meta that is no line is in base64.
const (
	headerRecord  = "Record" // the ID, and the numbers of the head
	headerMeta    = "Meta"
	headerKey     = "Record-Key" // if the subject does not tell it
	idLength      = 22
	numbersOfHead = 9
)

// head is what the headers of a message say. Times are ms since 1970.
type head struct {
	ID      [16]byte // of the put
	At      int64
	End     int64  // when the record's life ends; 0: never
	Made    uint64 // 0: this message created the record
	Meta    []byte // of a marker, the ID of the put that was deleted
	Size    int64  // of the body
	Packed  bool   // the body is compressed
	Deleted uint64 // of a marker: the revision that was deleted

	// Of a step:
	Body  uint64 // the message that has the body
	Until int64  // when the servers remove that message; 0: never
	Floor int64  // when the last of the records before this one would have ended; 0: never
}

// message is the last message of a key. Sequence 0 means that there is none.
type message struct {
	seq uint64
	key string
	head
	data    []byte
	damaged bool // it has no head
	evicted bool // it is a marker that makes room
}

// Lives of messages.
const (
	markerLife = 10 * time.Minute // behind a marker, a put that comes late is refused
	evictLife  = time.Minute      // of the marker of a record that made room: a full table has many
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

func (m *message) sequence() uint64 { return m.seq }

func (m *message) cost() int { return len(m.Meta) + headCost }

// light returns the message without its data.
func (m *message) light() *message {
	if m.data == nil {
		return m
	}
	light := *m
	light.data = nil
	return &light
}

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
func (m *message) life() time.Duration {
	end := m.removed()
	switch {
	case end == 0:
		return 0
	case m.evicted:
		return evictLife
	}
	return (time.Duration(end-m.At)*time.Millisecond + clockSlack - 1).Truncate(time.Second)
}

// header returns the headers of a message.
func (m *message) header(withKey bool) client.Header {
	packed := uint64(0)
	if m.Packed {
		packed = 1
	}
	header := client.Header{headerRecord: {numbersText(
		m.ID, uint64(m.At), uint64(m.End), m.Made, uint64(m.Size), packed, m.Deleted, m.Body, uint64(m.Until), uint64(m.Floor),
	)}}
	setText(header, headerMeta, m.Meta)
	if withKey {
		header[headerKey] = []string{m.key}
	}
	return header
}

// read fills in a message from its headers.
func (m *message) read(header client.Header) {
	if h, err := readHead(header); err == nil {
		m.head = h
	} else {
		m.damaged = true
	}
	if key := header[headerKey]; len(key) == 1 {
		m.key = key[0]
	}
}

func readHead(header client.Header) (h head, err error) {
	text := header[headerRecord]
	if len(text) != 1 {
		return h, store.ErrDamaged
	}
	var numbers [numbersOfHead]uint64
	if h.ID, err = readNumbers(text[0], numbers[:]); err != nil {
		return h, err
	}
	h.At, h.End, h.Made, h.Size, h.Packed = int64(numbers[0]), int64(numbers[1]), numbers[2], int64(numbers[3]), numbers[4] == 1
	h.Deleted, h.Body, h.Until, h.Floor = numbers[5], numbers[6], int64(numbers[7]), int64(numbers[8])
	h.Meta, err = getText(header, headerMeta)
	return h, err
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
