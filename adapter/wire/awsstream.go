package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// AWSStream reads the messages of an AWS event stream in place: the length of all and that of the headers (4 bytes each) with their CRC,
// headers, payload, and the CRC of everything before it. The SDK's decoder copies each and makes a list of its headers; this one costs
// nothing but the two CRCs. https://smithy.io/2.0/aws/amazon-eventstream.html
type AWSStream struct{ buffer }

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
	return &AWSStream{buffer{r: r, max: maxMessage}}
}

// AWSMessages is Events for a body that is an AWS event stream.
func (a *Answer) AWSMessages(take func(*AWSMessage) (done bool, err error)) error {
	messages := NewAWSStream(a.Res.Body, a.MaxEvent)
	var m AWSMessage
	for {
		switch err := messages.Next(&m); {
		case err == ErrDamaged && a.Finish == "":
			return a.Server.NotPiece(err, nil) // with nothing of it: who knows what it is
		case err != nil:
			return a.Complete(false, err)
		}
		if done, err := take(&m); err != nil {
			return a.Server.NotPiece(err, m.Payload)
		} else if done {
			return a.Complete(true, nil)
		}
	}
}

// Next reads the next message. The error is io.EOF between two messages, bufio.ErrTooLong for one that is larger than allowed, or ErrDamaged.
func (s *AWSStream) Next(out *AWSMessage) error {
	if err := s.need(preludeSize); err != nil {
		return err
	}
	b := s.buf[s.start:]
	size, headers := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
	if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || size < minAWSMessage || headers > size-minAWSMessage {
		return ErrDamaged
	}
	if size > int64(s.max) {
		return bufio.ErrTooLong
	}
	if err := s.need(int(size)); err != nil {
		return err
	}
	b = s.buf[s.start : s.start+int(size)]
	if crc32.ChecksumIEEE(b[:size-4]) != binary.BigEndian.Uint32(b[size-4:]) {
		return ErrDamaged
	}
	s.start += int(size)
	*out = AWSMessage{Payload: b[preludeSize+headers : size-4]}
	return out.read(b[preludeSize : preludeSize+headers])
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

// need waits until n bytes are there.
func (s *AWSStream) need(n int) error {
	for s.end-s.start < n {
		switch err := s.fill(); {
		case err == io.EOF && s.end > s.start:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return nil
}
