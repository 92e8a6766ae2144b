package replicas

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Bus carries requests from one replica to another, and the answers. It is safe for concurrent use.
type Bus interface {
	// Ask sends a request once, and waits for its answer until ctx ends. Errors are [ErrNobody], [ErrUnsent], and others after which it is
	// not known whether the request was served.
	Ask(ctx context.Context, replica string, request Message) (answer Message, err error)
	// Serve calls serve with each request to this replica until stop is called. serve must not block. It calls answer once, from any
	// goroutine.
	Serve(serve func(request Message, answer func(Message))) (stop func(), err error)
}

// Errors of a bus.
var (
	ErrNobody = errors.New("no replica serves the request")
	ErrUnsent = errors.New("the request was not sent")
)

// MaxMessage is how many bytes a bus carries as one message, beside the room for names that it has anyway.
const MaxMessage = 16 << 20

// Message is a request, or the answer to one.
type Message struct {
	ID      string // of a request that may be asked again
	Command string
	Run     string
	Session string
	Wait    time.Duration     // for an answer
	Trace   map[string]string // that the request belongs to
	Code    string            // of the error that an answer is
	Text    string
	Body    []byte
}

// codeNobody is the code of the answer of a replica that serves no requests; no handler's code has brackets.
const codeNobody = "(nobody)"

// NobodyServes is the answer of a replica that serves no requests.
func NobodyServes() Message { return Message{Code: codeNobody} }

// Nobody returns [ErrNobody] if the answer says so.
func (m *Message) Nobody() error {
	if m.Code == codeNobody {
		return ErrNobody
	}
	return nil
}

// head is what a message has beside its body. Texts are bytes, since they may be anything.
type head struct {
	ID      []byte            `json:"id,omitempty"`
	Command []byte            `json:"command,omitempty"`
	Run     []byte            `json:"run,omitempty"`
	Session []byte            `json:"session,omitempty"`
	Wait    time.Duration     `json:"wait,omitempty"`
	Trace   map[string]string `json:"trace,omitempty"`
	Code    []byte            `json:"code,omitempty"`
	Text    []byte            `json:"text,omitempty"`
}

// Encode returns a message as bytes: the length of its head in four bytes, the head, and the body.
func (m *Message) Encode() ([]byte, error) {
	h, err := json.Marshal(head{
		[]byte(m.ID), []byte(m.Command), []byte(m.Run), []byte(m.Session), m.Wait, m.Trace, []byte(m.Code), []byte(m.Text),
	})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, 4+len(h)+len(m.Body))
	data = binary.BigEndian.AppendUint32(data, uint32(len(h)))
	return append(append(data, h...), m.Body...), nil
}

// Decode undoes [Message.Encode]. The body is a part of data.
func Decode(data []byte) (Message, error) {
	if len(data) < 4 || uint64(binary.BigEndian.Uint32(data)) > uint64(len(data)-4) {
		return Message{}, fmt.Errorf("replicas: a message of %d bytes has no head", len(data))
	}
	body := 4 + int(binary.BigEndian.Uint32(data))
	var h head
	if err := json.Unmarshal(data[4:body], &h); err != nil {
		return Message{}, fmt.Errorf("replicas: the head of a message: %w", err)
	}
	return Message{
		ID: string(h.ID), Command: string(h.Command), Run: string(h.Run), Session: string(h.Session), Wait: h.Wait, Trace: h.Trace,
		Code: string(h.Code), Text: string(h.Text), Body: data[body:],
	}, nil
}

// NoBus is the bus of a server that has no other replicas.
type NoBus struct{}

// Ask implements [Bus].
func (NoBus) Ask(context.Context, string, Message) (Message, error) { return Message{}, ErrNobody }

// Serve implements [Bus].
func (NoBus) Serve(func(Message, func(Message))) (stop func(), err error) { return func() {}, nil }
