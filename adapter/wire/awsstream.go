package wire

import (
	"bufio"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// AWSStream reads the messages of an AWS event stream with the SDK's decoder. https://smithy.io/2.0/aws/amazon-eventstream.html
type AWSStream struct {
	body       *bufio.Reader
	maxMessage int
	left       int   // bytes that this message may still have
	err        error // of the body, or that nothing is left
	payload    []byte
}

// AWSStreamType is the media type of an AWS event stream.
const AWSStreamType = "application/vnd.amazon.eventstream"

// ErrDamaged says that a message of an AWS event stream is not as it was sent.
var ErrDamaged = errors.New("a message of the event stream is damaged")

// AWSMessage is a message of an AWS event stream. Its payload is lent until the next one.
type AWSMessage struct {
	Kind    string // "event", "exception" or "error"; empty where it has no such header
	Name    string // of the event or exception, or the code of the error
	Payload []byte
}

// NewAWSStream returns a reader of the messages of r, each of which may have so many bytes.
func NewAWSStream(r io.Reader, maxMessage int) *AWSStream {
	return &AWSStream{body: bufio.NewReader(r), maxMessage: maxMessage}
}

// AWSMessages is Events for a body that is an AWS event stream.
func (a *Answer) AWSMessages(take func(AWSMessage) (done bool)) {
	messages := NewAWSStream(a.Res.Body, a.MaxEvent)
	a.pieces(func() (piece []byte, done bool, err error) {
		m, err := messages.Next()
		if err == ErrDamaged && a.Finish == "" {
			a.Fail(err)
			a.wrap(nil) // with nothing of it: who knows what it is
		}
		return m.Payload, err == nil && take(m), err
	})
}

// Next reads the next message. The error is io.EOF between two messages, bufio.ErrTooLong for one that is larger than allowed, ErrDamaged, or
// that of the reader.
func (s *AWSStream) Next() (out AWSMessage, err error) {
	s.left = s.maxMessage
	m, err := eventstream.NewDecoder().Decode(readerFunc(s.read), s.payload)
	switch {
	case err == nil:
	case s.err == nil: // the decoder does not like what it has read
		return out, ErrDamaged
	case s.err == io.EOF && s.left < s.maxMessage:
		return out, io.ErrUnexpectedEOF
	default:
		return out, s.err
	}
	s.payload, out.Payload = m.Payload, m.Payload
	for _, h := range m.Headers {
		switch value := h.Value.String(); h.Name {
		case ":message-type":
			out.Kind = value
		case ":event-type", ":exception-type", ":error-code":
			out.Name = value
		case ":error-message":
			out.Payload = []byte(value)
		}
	}
	return out, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// read reads from this message.
func (s *AWSStream) read(p []byte) (n int, err error) {
	if s.left == 0 {
		s.err = bufio.ErrTooLong
		return 0, s.err
	}
	n, s.err = s.body.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, s.err
}
