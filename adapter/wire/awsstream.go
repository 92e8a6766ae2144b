package wire

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// AWSStream reads the messages of an AWS event stream in place: the length of all and that of the headers (4 bytes each) with their CRC,
// headers, payload, and the CRC of everything before it. The SDK's decoder copies each and makes a list of its headers; this one costs
// nothing but the two CRCs. https://smithy.io/2.0/aws/amazon-eventstream.html
type AWSStream struct {
	messages   *bufio.Scanner
	maxMessage int
}

// AWSStreamType is the media type of an AWS event stream.
const AWSStreamType = "application/vnd.amazon.eventstream"

const (
	preludeSize   = 12
	minAWSMessage = preludeSize + 4
)

// ErrDamaged says that a message of an AWS event stream is not as it was sent.
var ErrDamaged = errors.New("a message of the event stream is damaged")

// AWSMessage is a message of an AWS event stream. What it has is lent until the next one.
type AWSMessage struct {
	Kind    []byte // "event", "exception" or "error"; empty where it has no such header
	Name    []byte // of the event or exception, or the code of the error
	Payload []byte
}

// NewAWSStream returns a reader of the messages of r, each of which may have so many bytes.
func NewAWSStream(r io.Reader, maxMessage int) *AWSStream {
	s := &AWSStream{maxMessage: maxMessage}
	s.messages = newScanner(r, maxMessage, s.split)
	return s
}

// AWSMessages is Events for a body that is an AWS event stream.
func (a *Answer) AWSMessages(take func(*AWSMessage) (done bool)) {
	messages := NewAWSStream(a.Res.Body, a.MaxEvent)
	var m AWSMessage
	a.pieces(func() (piece []byte, done bool, err error) {
		if err = messages.Next(&m); err == ErrDamaged && a.Finish == "" {
			a.Fail(err)
			a.wrap(nil) // with nothing of it: who knows what it is
		}
		return m.Payload, err == nil && take(&m), err
	})
}

// split is a [bufio.SplitFunc] of messages.
func (s *AWSStream) split(data []byte, atEOF bool) (advance int, message []byte, err error) {
	if len(data) >= preludeSize {
		size, headers := int64(binary.BigEndian.Uint32(data)), int64(binary.BigEndian.Uint32(data[4:]))
		switch {
		case !hasCRC(data[:preludeSize]) || size < minAWSMessage || headers > size-minAWSMessage:
			return 0, nil, ErrDamaged
		case size > int64(s.maxMessage):
			return 0, nil, bufio.ErrTooLong
		case size <= int64(len(data)) && !hasCRC(data[:size]):
			return 0, nil, ErrDamaged
		case size <= int64(len(data)):
			return int(size), data[:size], nil
		}
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// hasCRC reports whether the last four bytes are the CRC of those before.
func hasCRC(b []byte) bool {
	n := len(b) - 4
	return crc32.ChecksumIEEE(b[:n]) == binary.BigEndian.Uint32(b[n:])
}

// Next reads the next message. The error is io.EOF between two messages, bufio.ErrTooLong for one that is larger than allowed, or ErrDamaged.
func (s *AWSStream) Next(out *AWSMessage) error {
	if !s.messages.Scan() {
		return cmp.Or(s.messages.Err(), io.EOF)
	}
	b := s.messages.Bytes()
	headers := preludeSize + binary.BigEndian.Uint32(b[4:])
	*out = AWSMessage{Payload: b[headers : len(b)-4]}
	return out.read(b[preludeSize:headers])
}

// valueSizes are the sizes of the types of a header's value; -1 stands for one with its length in front.
var valueSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// read takes the headers that matter.
func (m *AWSMessage) read(b []byte) error {
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 || int(b[n]) >= len(valueSizes) {
			return ErrDamaged
		}
		name, size := b[1:n], valueSizes[b[n]]
		b = b[n+1:]
		if size < 0 {
			if len(b) < 2 {
				return ErrDamaged
			}
			size, b = int(binary.BigEndian.Uint16(b)), b[2:]
		}
		if len(b) < size {
			return ErrDamaged
		}
		switch string(name) {
		case ":message-type":
			m.Kind = b[:size]
		case ":event-type", ":exception-type", ":error-code":
			m.Name = b[:size]
		case ":error-message":
			m.Payload = b[:size]
		}
		b = b[size:]
	}
	return nil
}
