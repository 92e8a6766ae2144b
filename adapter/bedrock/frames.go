package bedrock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// frames reads the messages of an AWS event stream in place: the length of all and that of the headers (4 bytes each) with their CRC,
// headers, payload, and the CRC of everything before it. The SDK's decoder copies each and makes a list of its headers; this one costs
// nothing but the two CRCs. https://smithy.io/2.0/aws/amazon-eventstream.html
type frames struct {
	r          io.Reader
	max        int // bytes of one message
	buf        []byte
	start, end int // of what has been read and not taken
	err        error
}

const (
	preludeSize = 12
	minFrame    = preludeSize + 4
	minBuffer   = 2 << 10 // a token takes about 250 bytes
)

var errDamaged = errors.New("a message of the event stream is damaged")

// frame is a message. What it has is lent until the next one.
type frame struct {
	kind    []byte // "event", "exception" or "error"; empty where it has no such header
	name    []byte // of the event or exception, or the code of the error
	payload []byte
}

// next returns the next message. The error is io.EOF between two messages, bufio.ErrTooLong for one that is larger than allowed, or
// errDamaged.
func (f *frames) next(out *frame) error {
	if err := f.need(preludeSize); err != nil {
		return err
	}
	b := f.buf[f.start:]
	size, headers := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
	if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || size < minFrame || headers > size-minFrame {
		return errDamaged
	}
	if size > int64(f.max) {
		return bufio.ErrTooLong
	}
	if err := f.need(int(size)); err != nil {
		return err
	}
	b = f.buf[f.start : f.start+int(size)]
	if crc32.ChecksumIEEE(b[:size-4]) != binary.BigEndian.Uint32(b[size-4:]) {
		return errDamaged
	}
	f.start += int(size)
	*out = frame{payload: b[preludeSize+headers : size-4]}
	return out.read(b[preludeSize : preludeSize+headers])
}

// valueSizes are the sizes of the types of a header's value; -1 stands for one with its length in front.
var valueSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// read takes the headers that matter.
func (f *frame) read(b []byte) error {
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 || int(b[n]) >= len(valueSizes) {
			return errDamaged
		}
		name, size := b[1:n], valueSizes[b[n]]
		b = b[n+1:]
		if size < 0 {
			if len(b) < 2 {
				return errDamaged
			}
			size, b = int(binary.BigEndian.Uint16(b)), b[2:]
		}
		if len(b) < size {
			return errDamaged
		}
		switch string(name) {
		case ":message-type":
			f.kind = b[:size]
		case ":event-type", ":exception-type", ":error-code":
			f.name = b[:size]
		case ":error-message":
			f.payload = b[:size]
		}
		b = b[size:]
	}
	return nil
}

// need waits until n bytes are there.
func (f *frames) need(n int) error {
	for idle := 0; f.end-f.start < n; idle++ {
		if f.err == nil && idle == 100 { // as bufio has it
			f.err = io.ErrNoProgress
		}
		if f.err != nil {
			if f.err == io.EOF && f.end > f.start {
				return io.ErrUnexpectedEOF
			}
			return f.err
		}
		if f.start > 0 && (f.start == f.end || f.start+n > len(f.buf)) {
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		}
		if f.end == len(f.buf) { // it grows with what comes, and not with what was said to come
			larger := make([]byte, max(minBuffer, min(n, 2*len(f.buf))))
			copy(larger, f.buf)
			f.buf = larger
		}
		var k int
		k, f.err = f.r.Read(f.buf[f.end:])
		if f.end += k; k > 0 {
			idle = 0
		}
	}
	return nil
}
