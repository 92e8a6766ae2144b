package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/aside"
)

const (
	// linger is how long an answer whose end is known is still read, for the usage and what marks the end of the stream.
	linger = 3 * time.Second
	// drain is how long the end of a body is waited for after that, so that its connection can be used again.
	drain = 10 * time.Millisecond
	// maxWhole is how large an answer in one piece may be, in bytes.
	maxWhole = 16 << 20
)

// errEnough ends a request whose answer is complete.
var errEnough = errors.New("the answer is complete")

// ErrLeft says that the reader has left its loop.
var ErrLeft = errors.New("the reader has left")

// Answer is one answer of a provider as it is read. An adapter fills in what it learns: Usage, and Finish as soon as the end is known.
type Answer struct {
	Server   *Server
	Ctx      context.Context
	Res      *http.Response
	Model    string // "provider:name", of the first chunk
	MaxEvent int    // bytes of one event
	Usage    *adapter.Usage
	Finish   string // one of adapter's; what comes after it can be missed
	Passed   int    // chunks that were passed on
	Refused  bool   // the text says why the model does not answer; see SetFinish
	// Last is called where the answer is complete, before its end is passed on; nil is nothing. It may change Usage and Finish.
	Last func() error

	cancel context.CancelCauseFunc
	yield  func(adapter.Chunk, error) bool
	timer  *time.Timer // of linger and drain
}

// Stream asks a provider and yields its answer. ask sends the request, and returns the answer once it is known to be one: status
// 200. read passes on what is in it, and returns the error that is to be the last pair: nil when the answer is complete, ErrLeft
// when the reader has left. The end of the loop ends the request and its connection, unless the answer was read to its end.
func (s *Server) Stream(ctx context.Context, model string, ask func(context.Context) (*http.Response, error),
	read func(*Answer) error,
) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		var res *http.Response
		var err error
		aside.Run(func() { res, err = ask(ctx) }) // on a stack that is gone when the answer begins
		if err != nil {
			yield(adapter.Chunk{}, err)
			return
		}
		defer res.Body.Close()
		a := &Answer{Server: s, Ctx: ctx, Res: res, Model: s.Prefix + ":" + model, MaxEvent: s.MaxEvent, cancel: cancel, yield: yield}
		defer a.stop()
		if err := read(a); err != nil && err != ErrLeft {
			if a.Usage != nil && !a.Pass(adapter.Chunk{Usage: a.Usage}) { // what was counted until then is to be paid, too
				return
			}
			yield(adapter.Chunk{}, err)
		}
	}
}

// stop ends what may still run.
func (a *Answer) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Read passes on an answer that is a stream of events, as Events does, or JSON in one piece, which whole is given. hint says what to
// check where it is neither.
func (a *Answer) Read(hint string, take func(kind, data []byte) (done bool, err error), whole func(body []byte) error) error {
	switch a.Kind() {
	case "text/event-stream", "": // some servers send no type
		return a.Events(take)
	case "application/json":
		body, err := a.Whole()
		if err == nil {
			err = whole(body)
		}
		if err != nil {
			return err
		}
		return a.End()
	}
	return a.Unknown("an event stream", hint)
}

// Kind is the answer's media type, "" where it has none.
func (a *Answer) Kind() string {
	kind, _, _ := mime.ParseMediaType(a.Res.Header.Get("Content-Type"))
	return kind
}

// Unknown makes the error of an answer that is of no kind that a model gives; expected names the kind, hint says what to check.
func (a *Answer) Unknown(expected, hint string) error {
	return a.Server.Unknown(a.Res.Header, Said(a.Res.Body), expected, hint)
}

// Unknown is [Answer.Unknown] for an answer whose body has been read.
func (s *Server) Unknown(header http.Header, body []byte, expected, hint string) error {
	return s.NotAnswer(expected+": "+hint, fmt.Errorf("Content-Type %q", s.Redact([]byte(header.Get("Content-Type")))), body)
}

// Whole reads an answer in one piece, as servers send it that never stream.
func (a *Answer) Whole() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(a.Res.Body, maxWhole+1))
	if err != nil {
		return nil, a.Server.Broken(a.Ctx, err)
	}
	if len(body) > maxWhole {
		return nil, a.Server.NotAnswer("an answer", errors.New("larger than allowed"), body)
	}
	return body, nil
}

// NotAnswer makes the error of an answer that is not what was expected.
func (s *Server) NotAnswer(expected string, err error, body []byte) error {
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: s.Name() + " did not answer with " + expected,
		Cause:   fmt.Errorf("%w: %s", err, s.Redact(body)),
	}
}

// NotPiece makes the error of an event that cannot be read. An error that is whole already stays as it is.
func (s *Server) NotPiece(err error, event []byte) error {
	if _, whole := errors.AsType[*adapter.Error](err); whole || err == nil || err == ErrLeft {
		return err
	}
	return &adapter.Error{
		Code:    adapter.CodeProtocol,
		Message: s.Name() + " sent an invalid piece of an answer",
		Cause:   fmt.Errorf("%w: %s", err, s.Redact(event)),
	}
}

// Events gives the events of the body to take, until that says that it is done or returns an error. kind and data are only lent. It ends the
// answer where no error does: with Usage and Finish, or with the error that the stream was cut off. done without a Finish is a stop: nothing is
// missing.
func (a *Answer) Events(take func(kind, data []byte) (done bool, err error)) error {
	events := NewEvents(a.Res.Body, a.MaxEvent)
	for {
		kind, data, err := events.Next()
		if err != nil {
			return a.Complete(false, err)
		}
		if done, err := take(kind, data); done || err != nil {
			return a.taken(data, err)
		}
	}
}

// Lines is Events for a body that is a list of lines of JSON.
func (a *Answer) Lines(take func(line []byte) (done bool, err error)) error {
	lines := NewLines(a.Res.Body, a.MaxEvent)
	for {
		line, ended, err := lines.Next()
		switch {
		case err == bufio.ErrTooLong:
			return a.tooLarge("a line")
		case err == nil && !ended && !json.Valid(line):
			err = lines.end()
		}
		if err != nil {
			return a.Complete(false, err)
		}
		if done, err := take(line); done || err != nil {
			return a.taken(line, err)
		}
	}
}

// taken ends an answer whose last piece has been read, or could not be.
func (a *Answer) taken(piece []byte, err error) error {
	if err != nil {
		return a.Server.NotPiece(err, piece)
	}
	return a.Complete(true, nil)
}

// tooLarge makes the error of a piece of an answer that is larger than allowed.
func (a *Answer) tooLarge(piece string) error {
	return &adapter.Error{
		Code:    adapter.CodeProtocol,
		Message: a.Server.Name() + " sent " + piece + " that is larger than allowed",
		Cause:   fmt.Errorf("%s of more than %d bytes", piece, a.MaxEvent),
	}
}

// Complete ends an answer: with what an answer ends with, or with the error that it is not complete. done says that what marks the end of
// the stream was there, broken is what ended it otherwise, io.EOF or an error.
func (a *Answer) Complete(done bool, broken error) error {
	switch {
	case done && a.Finish == "":
		a.Finish = adapter.FinishStop // of servers that send none at all
	case a.Finish != "": // complete, although the rest is missing
	case errors.Is(broken, bufio.ErrTooLong):
		return a.tooLarge("an event")
	case broken == io.EOF:
		return a.Server.Broken(a.Ctx, nil)
	default:
		return a.Server.Broken(a.Ctx, broken)
	}
	if err := a.End(); err != nil {
		return err
	}
	if done {
		a.Wait(drain)
		io.Copy(io.Discard, io.LimitReader(a.Res.Body, 4<<10)) // what comes after the end does not matter
	}
	return nil
}

// End passes on the usage and the reason for the end.
func (a *Answer) End() error {
	if a.Last != nil {
		if err := a.Last(); err != nil {
			return err
		}
	}
	usage := a.Usage
	if a.Usage = nil; !a.Pass(adapter.Chunk{Usage: usage, Finish: a.Finish}) {
		return ErrLeft
	}
	if a.Finish == adapter.FinishContentFilter {
		return Filtered(errors.New("finish_reason content_filter"))
	}
	return nil
}

// Pass yields a chunk; false when the reader has left.
func (a *Answer) Pass(c adapter.Chunk) bool {
	if a.Passed++; a.Passed == 1 {
		c.Model = a.Model
	}
	return a.yield(c, nil)
}

// Yield is Pass with an error where the reader has left.
func (a *Answer) Yield(c adapter.Chunk) error {
	if !a.Pass(c) {
		return ErrLeft
	}
	return nil
}

// Beside passes on the extra data of a part; call is the number of a call.
func (a *Answer) Beside(kind string, call int, data json.RawMessage) error {
	return a.Yield(adapter.Chunk{Beside: &adapter.Beside{Type: kind, Index: call, Data: data}})
}

// Failed is the error of an event that reports one; nil where the answer is whole already (MO-14).
func (a *Answer) Failed(data []byte) error {
	if a.Finish != "" {
		return nil
	}
	return a.Server.Failed(data)
}

// SetFinish makes the finish reason fit the calls of the answer: some servers always send a stop, and calls of a provider's own tools are not
// for us.
func (a *Answer) SetFinish(calls int) {
	switch {
	case a.Finish == adapter.FinishStop && calls > 0:
		a.Finish = adapter.FinishToolCalls
	case a.Finish == adapter.FinishStop && a.Refused:
		a.Finish = adapter.FinishRefusal
	case a.Finish == adapter.FinishToolCalls && calls == 0:
		a.Finish = adapter.FinishStop
	}
}

// Enough says that the end is known: what comes after it is waited for only for a moment.
func (a *Answer) Enough() { a.Wait(linger) }

// Wait ends the request after d, because the answer is complete.
func (a *Answer) Wait(d time.Duration) {
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.cancel(errEnough) })
	} else {
		a.timer.Reset(d)
	}
}
