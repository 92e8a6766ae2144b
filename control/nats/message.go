package nats

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lingserve/lingserve/control"
)

// Headers of messages. Those of texts are escaped as in a query.
const (
	headerCommand = "Ask-Command"
	headerID      = "Ask-Id"
	headerRun     = "Ask-Run"
	headerSession = "Ask-Session"
	headerWait    = "Ask-Wait"  // milliseconds that an answer is waited for
	headerPart    = "Ask-Part"  // from 0
	headerParts   = "Ask-Parts" // how many there are
	headerCode    = "Ask-Code"  // of an error
	headerError   = "Ask-Error"
	headerProbe   = "Ask-Probe" // it is only asked whether anybody listens, which the servers answer

	codeGone = "(gone)" // nobody serves any more; no handler's code has brackets

	maxError = 4 << 10 // bytes of an error's text
)

// What of requests in parts there may be at once, all together: what is more is refused.
const (
	mostArriving      = 64
	mostArrivingBytes = 4 * control.MaxBody
)

// send sends a request. The headers stand in its first part.
func (n *Control) send(ctx context.Context, subject, reply string, r control.Request) error {
	h := http.Header{}
	h.Set(headerCommand, url.QueryEscape(r.Command))
	if r.ID != "" {
		h.Set(headerID, url.QueryEscape(r.ID))
	}
	if r.Run != "" {
		h.Set(headerRun, url.QueryEscape(r.Run))
	}
	if r.Session != "" {
		h.Set(headerSession, url.QueryEscape(r.Session))
	}
	h.Set(headerWait, strconv.FormatInt(max(1, control.Wait(ctx).Milliseconds()), 10))
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	return n.publish(subject, reply, client.Header(h), r.Body)
}

// publish sends a body in as many messages as it needs. The servers keep them in order.
func (n *Control) publish(subject, reply string, h client.Header, body []byte) error {
	parts := max(1, (len(body)+n.part-1)/n.part)
	for i := range parts {
		m := &client.Msg{Subject: subject, Reply: reply, Header: client.Header{}, Data: body[i*n.part : min(len(body), (i+1)*n.part)]}
		if i == 0 && h != nil {
			m.Header = h
		}
		if parts > 1 {
			m.Header.Set(headerPart, strconv.Itoa(i))
			m.Header.Set(headerParts, strconv.Itoa(parts))
		}
		if err := n.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// errParts is of parts that do not fit together: one was lost with a connection.
var errParts = errors.New("control: a part of a message is missing")

// arriving is a message in parts, as far as it is there.
type arriving struct {
	first *client.Msg
	body  []byte
	next  int
	since time.Time
}

// add takes a part, and says whether it was the last.
func (a *arriving) add(m *client.Msg) (done bool, err error) {
	part, parts := 0, 1
	if text := m.Header.Get(headerParts); text != "" {
		if parts, err = strconv.Atoi(text); err == nil {
			part, err = strconv.Atoi(m.Header.Get(headerPart))
		}
	}
	if err != nil || part != a.next || part >= parts {
		return false, errParts
	}
	if len(a.body)+len(m.Data) > control.MaxBody {
		return false, control.ErrTooLarge
	}
	if a.first == nil {
		a.first = m
	}
	if parts == 1 {
		a.body = m.Data
		return true, nil
	}
	a.body = append(a.body, m.Data...)
	a.next++
	return a.next == parts, nil
}

// answer is what a message of a replica says.
func (a *arriving) answer() ([]byte, error) {
	code := unescape(a.first.Header.Get(headerCode))
	switch code {
	case "":
		return a.body, nil
	case codeGone:
		return nil, control.ErrGone
	}
	return nil, &control.Error{Code: code, Message: unescape(a.first.Header.Get(headerError))}
}

// request is what a message of who asks says. The context knows the trace.
func (a *arriving) request() (ctx context.Context, wait time.Duration, r control.Request) {
	h := a.first.Header
	r = control.Request{
		ID: unescape(h.Get(headerID)), Command: unescape(h.Get(headerCommand)), Run: unescape(h.Get(headerRun)), Session: unescape(h.Get(headerSession)), Body: a.body,
	}
	wait = control.Patience
	if ms, err := strconv.ParseInt(h.Get(headerWait), 10, 64); err == nil && ms > 0 && ms < int64(time.Hour/time.Millisecond) {
		wait = time.Duration(ms) * time.Millisecond
	}
	return propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h)), wait, r
}

func unescape(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return ""
	}
	return plain
}

// arrivals takes what is asked of this replica.
type arrivals struct {
	n *Control

	mu     sync.Mutex
	open   map[string]*arriving // in parts, by the inbox of who asks
	bytes  int                  // of them
	closed bool
	sweep  *time.Timer // nil where nothing is open
}

// take takes a message; one goroutine does. It must not block.
func (in *arrivals) take(m *client.Msg) {
	if m.Reply == "" || m.Header.Get(headerProbe) != "" {
		return
	}
	if m.Header.Get(headerParts) == "" {
		a := &arriving{}
		if _, err := a.add(m); err != nil {
			in.n.refuse(m.Reply, err)
			return
		}
		in.n.serve(a, m.Reply)
		return
	}
	if a := in.part(m); a != nil {
		in.n.serve(a, m.Reply)
	}
}

// part takes a part of a request, and returns the request when it is whole.
func (in *arrivals) part(m *client.Msg) *arriving {
	in.mu.Lock()
	defer in.mu.Unlock()
	a := in.open[m.Reply]
	switch {
	case in.closed:
		return nil
	case a == nil && m.Header.Get(headerPart) != "0":
		return nil // of one that was refused, or has lost its beginning
	case a == nil && len(in.open) >= mostArriving, in.bytes+len(m.Data) > mostArrivingBytes:
		in.drop(m.Reply)
		in.n.refuse(m.Reply, &control.Error{Code: "overloaded", Message: "the replica serves too many large requests at once"})
		return nil
	case a == nil:
		a = &arriving{since: time.Now()}
		in.open[m.Reply] = a
		if in.sweep == nil {
			in.sweep = time.AfterFunc(control.Patience, in.late)
		}
	}
	done, err := a.add(m)
	if err != nil {
		in.drop(m.Reply)
		in.n.refuse(m.Reply, err)
		return nil
	}
	in.bytes += len(m.Data)
	if !done {
		return nil
	}
	in.drop(m.Reply)
	return a
}

// drop forgets a request in parts. The lock is held.
func (in *arrivals) drop(reply string) {
	if a := in.open[reply]; a != nil {
		in.bytes -= len(a.body)
		delete(in.open, reply)
	}
}

// late forgets the requests of which a part has not come.
func (in *arrivals) late() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.sweep = nil
	for reply, a := range in.open {
		if time.Since(a.since) >= control.Patience {
			in.drop(reply)
		}
	}
	if len(in.open) > 0 {
		in.sweep = time.AfterFunc(control.Patience, in.late)
	}
}

func (in *arrivals) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.sweep != nil {
		in.sweep.Stop()
	}
	clear(in.open)
}

// serve has a request answered.
func (n *Control) serve(a *arriving, reply string) {
	ctx, wait, r := a.request()
	if err := r.Check(); err != nil {
		n.refuse(reply, err)
		return
	}
	n.desk.Go(ctx, wait, r, func(answer []byte, err error) {
		if n.lose != nil && n.lose() {
			return
		}
		if err != nil {
			n.refuse(reply, err)
			return
		}
		_ = n.publish(reply, "", nil, answer) // else the servers are away, and who has asked waits in vain
	})
}

// refuse answers with an error.
func (n *Control) refuse(reply string, err error) {
	code, text := codeGone, ""
	if !errors.Is(err, control.ErrGone) {
		code, text = "internal", err.Error()
		if c, ok := errors.AsType[interface {
			error
			ErrorCode() string
		}](err); ok {
			code = c.ErrorCode()
		}
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	_ = n.publish(reply, "", client.Header{headerCode: {url.QueryEscape(code)}, headerError: {url.QueryEscape(text)}}, nil)
}
