package wire

import (
	"bufio"
	"cmp"
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
	// maxCalls is how many tools one answer may call; OpenAI takes 128 tools.
	maxCalls = 1024
	// maxHeld is how much an adapter may hold of an answer, in bytes: signatures, citations, images, sounds and blocks.
	maxHeld = 32 << 20
)

// ItemSize is what an item, a message or a block of an answer counts for in [Answer.Hold], however little it has: no answer has thousands of them.
const ItemSize = 8 << 10

var (
	errCalls = errors.New("the answer calls too many tools")
	errHeld  = errors.New("the answer has more beside its text than allowed")
)

// errEnough ends a request whose answer is complete.
var errEnough = errors.New("the answer is complete")

// errLeft says that the reader has left its loop.
var errLeft = errors.New("the reader has left")

// Answer is one answer of a provider as it is read. An adapter fills in what it learns: Usage, and Finish as soon as the end is known. The
// first error ends the answer: what would be passed on behind it comes to nothing, so those who read a piece need not look after each step.
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
	Last func()

	held   int   // bytes, see Hold
	err    error // that has ended it
	cancel context.CancelCauseFunc
	yield  func(adapter.Chunk, error) bool
	timer  *time.Timer // of linger and drain
}

// Answer posts a request to a model at an address, with its fallbacks, and yields the answer as read passes it on.
func (s *Server) Answer(ctx context.Context, model, url string, a Asking, read func(*Answer)) iter.Seq2[adapter.Chunk, error] {
	return s.Stream(ctx, model, func(ctx context.Context) (*http.Response, error) { return s.Ask(ctx, url, a) }, read)
}

// Stream asks a provider and yields its answer. ask sends the request, and returns the answer once it is known to be one: status
// 200. read passes on what is in it, and fails it where it is not complete. The end of the loop ends the request and its connection, unless
// the answer was read to its end.
func (s *Server) Stream(ctx context.Context, model string, ask func(context.Context) (*http.Response, error), read func(*Answer),
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
		read(a)
		if a.err == nil || a.err == errLeft {
			return
		}
		err, a.err = a.err, nil
		if a.Usage != nil { // what was counted until then is to be paid, too
			a.Pass(adapter.Chunk{Usage: a.Usage})
		}
		if a.err == nil {
			yield(adapter.Chunk{}, err)
		}
	}
}

// Fail ends the answer with an error, unless one has ended it already.
func (a *Answer) Fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// Hold counts bytes that are held until the answer ends, and fails an answer that has too many of them.
func (a *Answer) Hold(bytes int) {
	if a.held += bytes; a.held > maxHeld {
		a.Fail(errHeld)
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
func (a *Answer) Read(hint string, take func(kind, data []byte) (done bool), whole func(body []byte)) {
	switch a.Kind() {
	case "text/event-stream", "": // some servers send no type
		a.Events(take)
	case "application/json":
		if body := a.body(); a.err == nil {
			whole(body)
			a.wrap(body)
			a.end()
		}
	default:
		a.Unknown("an event stream", hint)
	}
}

// Kind is the answer's media type, "" where it has none.
func (a *Answer) Kind() string {
	kind, _, _ := mime.ParseMediaType(a.Res.Header.Get("Content-Type"))
	return kind
}

// Unknown fails an answer that is of no kind that a model gives; expected names the kind, hint says what to check.
func (a *Answer) Unknown(expected, hint string) {
	a.Fail(a.Server.Unknown(a.Res.Header, Said(a.Res.Body), expected, hint))
}

// Unknown makes the error of [Answer.Unknown] for an answer whose body has been read.
func (s *Server) Unknown(header http.Header, body []byte, expected, hint string) error {
	return s.NotAnswer(expected+": "+hint, fmt.Errorf("Content-Type %q", s.Redact([]byte(header.Get("Content-Type")))), body)
}

// body reads an answer in one piece, as servers send it that never stream.
func (a *Answer) body() []byte {
	body, err := io.ReadAll(io.LimitReader(a.Res.Body, maxWhole+1))
	switch {
	case err != nil:
		a.CutOff(err)
	case len(body) > maxWhole:
		a.Fail(a.Server.NotAnswer("an answer", errors.New("larger than allowed"), body))
	}
	return body
}

// NotAnswer makes the error of an answer that is not what was expected.
func (s *Server) NotAnswer(expected string, err error, body []byte) error {
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: s.Name() + " did not answer with " + expected,
		Cause:   fmt.Errorf("%w: %s", err, s.Redact(body)),
	}
}

// wrap makes the error of a piece that cannot be read one that may be shown.
func (a *Answer) wrap(piece []byte) {
	if a.err == nil || a.err == errLeft || isA[*adapter.Error](a.err) || errors.Is(a.err, context.Cause(a.Ctx)) {
		return
	}
	a.err = &adapter.Error{
		Code:    adapter.CodeProtocol,
		Message: a.Server.Name() + " sent an invalid piece of an answer",
		Cause:   fmt.Errorf("%w: %s", a.err, a.Server.Redact(piece)),
	}
}

// Events gives the events of the body to take, until that says that it is done or fails the answer. kind and data are only lent. It ends the
// answer where no error does: with Usage and Finish, or with the error that the stream was cut off. done without a Finish is a stop: nothing is
// missing.
func (a *Answer) Events(take func(kind, data []byte) (done bool)) {
	events := NewEvents(a.Res.Body, a.MaxEvent)
	a.pieces(func() (piece []byte, done bool, err error) {
		kind, data, err := events.Next()
		return data, err == nil && take(kind, data), err
	})
}

// Lines is Events for a body that is a list of lines of JSON.
func (a *Answer) Lines(take func(line []byte) (done bool)) {
	lines := NewLines(a.Res.Body, a.MaxEvent)
	a.pieces(func() (piece []byte, done bool, err error) {
		line, ended, err := lines.Next()
		if err == nil && !ended && !json.Valid(line) {
			err = lines.end()
		}
		return line, err == nil && take(line), err
	})
}

// pieces reads the pieces of a body until next says that it is done, returns an error, or fails the answer. Then it ends the answer.
func (a *Answer) pieces(next func() (piece []byte, done bool, err error)) {
	for {
		piece, done, err := next()
		switch {
		case err != nil:
			a.complete(err)
		case a.err != nil:
			a.wrap(piece)
		case done:
			a.complete(nil)
		default:
			continue
		}
		return
	}
}

// complete ends an answer: with what an answer ends with, or with the error that it is not complete. broken is what has ended it, nil for what marks
// the end of the stream.
func (a *Answer) complete(broken error) {
	if a.Finish == "" && errors.Is(broken, bufio.ErrTooLong) {
		a.Fail(&adapter.Error{
			Code:    adapter.CodeProtocol,
			Message: a.Server.Name() + " sent an event that is larger than allowed",
			Cause:   fmt.Errorf("an event of more than %d bytes", a.MaxEvent),
		})
	} else if a.Finish == "" && broken != nil {
		a.CutOff(broken)
	} else {
		a.Finish = cmp.Or(a.Finish, adapter.FinishStop) // of servers that send none at all
	}
	if a.end(); broken == nil && a.err == nil {
		a.Wait(drain)
		io.Copy(io.Discard, io.LimitReader(a.Res.Body, 4<<10)) // what comes after the end does not matter
	}
}

// CutOff fails an answer that has ended too early: by what the network says, or io.EOF.
func (a *Answer) CutOff(broken error) {
	if broken == io.EOF {
		broken = nil
	}
	a.Fail(a.Server.Broken(a.Ctx, broken))
}

// end passes on the usage and the reason for the end.
func (a *Answer) end() {
	if a.err == nil && a.Last != nil {
		a.Last()
	}
	if a.err != nil {
		return
	}
	usage := a.Usage
	a.Usage = nil
	a.Pass(adapter.Chunk{Usage: usage, Finish: a.Finish})
	if a.Finish == adapter.FinishContentFilter {
		a.Fail(Filtered(errors.New("finish_reason content_filter")))
	}
}

// Pass yields a chunk.
func (a *Answer) Pass(c adapter.Chunk) {
	if a.err != nil {
		return
	}
	if c.ToolCall != nil && c.ToolCall.Index >= maxCalls {
		a.err = errCalls
		return
	}
	if a.Passed++; a.Passed == 1 {
		c.Model = a.Model
	}
	if !a.yield(c, nil) {
		a.err = errLeft
	}
}

// Say passes on pieces of text, and of the thoughts that lead to it.
func (a *Answer) Say(text, thought string) {
	if text != "" || thought != "" {
		a.Pass(adapter.Chunk{Text: text, Reasoning: thought})
	}
}

// Next decodes the next piece of a text, which is escaped.
func (a *Answer) Next(t *Text, raw []byte) string {
	text, err := t.Next(raw)
	if err != nil {
		a.Fail(err)
	}
	return text
}

// Beside passes on the extra data of a part; call is the number of a call.
func (a *Answer) Beside(kind string, call int, data json.RawMessage) {
	a.Pass(adapter.Chunk{Beside: &adapter.Beside{Type: kind, Index: call, Data: data}})
}

// Report fails the answer with the error that an event reports, unless it is whole already (MO-14).
func (a *Answer) Report(data []byte) {
	if a.Finish == "" {
		a.Fail(a.Server.Failed(data))
	}
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
