package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return f(ctx, t)
}

// rig is a channel, its backend, and an agent that repeats what it is told.
type rig struct {
	t      *testing.T
	c      *Channel
	k      *channel.Kernel
	back   *fakecallback.Server
	secret Secrets

	mu     sync.Mutex
	heard  []*channel.TurnContext
	answer agentFunc
	traces []channel.Trace

	stop context.CancelFunc
	done chan error
}

// newRig starts a channel in which everybody may talk, without any socket.
func newRig(t *testing.T, change func(*Settings, *channel.Kernel)) *rig {
	t.Helper()
	r := &rig{t: t, back: fakecallback.New(vectorSecret), secret: secrets(t, vectorSecret)}
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{
		"webhook": {AccountPlace: channel.AccountPlace{Place: channel.Place{
			DMPolicy: channel.PolicyOpen, GroupPolicy: channel.PolicyOpen, Agent: "assistant", SenderRate: new(0), ChatRate: new(0),
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.k = &channel.Kernel{
		Agent: r, Observer: r, Settings: tree, Routes: tree, Window: channel.NewWindow(nil, channel.WindowOptions{}),
	}
	s := Settings{Secret: vectorSecret, Callback: "https://backend.test/replies"}
	if change != nil {
		change(&s, r.k)
	}
	if r.c, err = New(s); err != nil {
		t.Fatal(err)
	}
	r.c.http = &http.Client{Transport: r.back.Transport(), CheckRedirect: r.c.http.CheckRedirect, Timeout: callTimeout}
	r.serve()
	return r
}

// serve runs the channel until the test, or end, ends it.
func (r *rig) serve() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan error, 1)
	done := r.done
	go func() { done <- r.c.Serve(ctx, r.k) }()
	for r.c.open.Load() == nil {
		time.Sleep(time.Millisecond) // of a bubble, or hardly ever
	}
	r.t.Cleanup(r.end)
}

func (r *rig) end() {
	if r.done == nil {
		return
	}
	r.stop()
	if err := <-r.done; err != nil {
		r.t.Errorf("serve: %v", err)
	}
	r.done = nil
}

// Dispatch implements [channel.Agent].
func (r *rig) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	r.mu.Lock()
	r.heard = append(r.heard, t.Context)
	answer := r.answer
	r.mu.Unlock()
	t.Queued()
	if answer != nil {
		return answer(ctx, t)
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "echo " + t.Context.BodyForAgent})
}

// Observe implements [channel.Observer].
func (r *rig) Observe(_ context.Context, t channel.Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces = append(r.traces, t)
}

func (r *rig) told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*channel.TurnContext(nil), r.heard...)
}

// hello is a message.
func hello(text string) string {
	return fmt.Sprintf(`{"sender":{"id":"ann"},"conversation":{"id":"c1","kind":"direct"},"text":%q}`, text)
}

// got is an answer.
type got struct {
	status int
	answer
	problem problem
	header  http.Header
}

// post sends a message that is signed.
func (r *rig) post(id, body string) got { return r.postWith(context.Background(), id, body, nil) }

func (r *rig) postWith(ctx context.Context, id, body string, change func(http.Header)) got {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/channels/webhook/webhook", strings.NewReader(body))
	r.secret.Sign(req.Header, id, time.Now(), []byte(body))
	if change != nil {
		change(req.Header)
	}
	w := httptest.NewRecorder()
	r.c.Webhook().ServeHTTP(w, req)
	g := got{status: w.Code, header: w.Header()}
	to := any(&g.answer)
	if w.Code >= 400 {
		to = &g.problem
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		r.t.Errorf("the answer is %q: %v", w.Body, err)
	}
	return g
}

// texts are those of the messages that the backend took.
func texts(s *fakecallback.Server) (list []string) {
	for _, m := range s.Taken() {
		list = append(list, m.Text)
	}
	return list
}
