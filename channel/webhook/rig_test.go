package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store/db"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func openDatabase(t *testing.T) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

type agentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

// Dispatch implements [channel.Agent].
func (f agentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	return f(ctx, t)
}

// say ends a turn with a text.
func say(ctx context.Context, turn *channel.Turn, text string) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Upto: turn.Shown + len(text)})
}

// part says a part of an answer before its end.
func part(ctx context.Context, turn *channel.Turn, text string) {
	_ = turn.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: text, Upto: turn.Shown + len(text)})
}

// rig is a process with the channel, its backend, and an agent that repeats what it is told.
type rig struct {
	t       *testing.T
	c       *webhook.Channel
	k       *kernel.Kernel
	q       *kernel.Queue
	back    *fakecallback.Server
	secrets webhook.Secrets

	mu     sync.Mutex
	heard  []*channel.TurnContext
	answer agentFunc
	traces []channel.Trace

	stop context.CancelFunc
	done chan error
}

func newTree(t *testing.T, place channel.Place) *channel.Tree {
	t.Helper()
	place.Agent = "assistant"
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{"webhook": {AccountPlace: channel.AccountPlace{Place: place}}}})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// newRig starts a process with a database of its own, in which everybody may talk.
func newRig(t *testing.T, change func(*webhook.Settings, *kernel.Kernel)) *rig {
	t.Helper()
	return newReplica(t, openDatabase(t), "a", fakecallback.New(vectorSecret), change)
}

// newReplica starts one of the processes "a" and "b", which share a database.
func newReplica(t *testing.T, d *db.DB, name string, back *fakecallback.Server, change func(*webhook.Settings, *kernel.Kernel)) *rig {
	t.Helper()
	r := &rig{t: t, back: back, secrets: parseSecrets(t, vectorSecret)}
	tree := newTree(t, channel.Place{DMPolicy: channel.PolicyOpen, GroupPolicy: channel.PolicyOpen, SenderRate: new(0), ChatRate: new(0)})
	r.k = &kernel.Kernel{Agent: r, Observer: r, Settings: tree, Routes: tree, Store: d.Events()}
	s := webhook.Settings{
		Secret: vectorSecret, Callback: "https://backend.test/replies", Results: d.Results(webhook.ResultLife), Grace: time.Second,
	}
	if change != nil {
		change(&s, r.k)
	}
	var err error
	if r.c, err = webhook.New(s); err != nil {
		t.Fatal(err)
	}
	r.c.UseTransport(r.back.Transport())
	r.q = kernel.NewQueue(r.k, kernel.QueueOptions{Replica: name, Alive: func() []string { return []string{"a", "b"} }})
	r.serve()
	t.Cleanup(func() { r.end(); r.q.Close(context.Background()) })
	return r
}

// withResult answers messages with the reply; without a callback if that is said.
func withResult(callback bool) func(*webhook.Settings, *kernel.Kernel) {
	return func(s *webhook.Settings, _ *kernel.Kernel) {
		s.Ack = webhook.AckResult
		if !callback {
			s.Callback = ""
		}
	}
}

// serve runs the channel until end.
func (r *rig) serve() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r.stop, r.done = stop, done
	go func() { done <- r.c.Serve(ctx, r.q) }()
	synctest.Wait()
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
	return say(ctx, t, "echo "+t.Context.BodyForAgent)
}

// Observe implements [channel.Observer].
func (r *rig) Observe(_ context.Context, t channel.Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces = append(r.traces, t)
}

// answers sets how the agent answers.
func (r *rig) answers(f agentFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// told is what the agent was told.
func (r *rig) told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*channel.TurnContext(nil), r.heard...)
}

// hello is a message.
func hello(text string) string {
	return fmt.Sprintf(`{"sender":{"id":"ann"},"conversation":{"id":"c1","kind":"direct"},"text":%q}`, text)
}

// got is an answer to a message, or a problem.
type got struct {
	status int
	header http.Header
	answer struct {
		Turn, Status, Admission, Reason, Outcome string
		Replies                                  []struct {
			Kind, Text string
			Seq        int
		}
		Duplicate bool
	}
	problem struct {
		Type, Title, Detail, Code string
		Status                    int
	}
}

// texts are those of the reply.
func (g *got) texts() string {
	var list []string
	for _, r := range g.answer.Replies {
		list = append(list, r.Kind+" "+r.Text)
	}
	return strings.Join(list, ", ")
}

// post sends a message that is signed.
func (r *rig) post(id, body string) got { return r.postWith(r.t.Context(), id, body, nil) }

func (r *rig) postWith(ctx context.Context, id, body string, change func(http.Header)) (g got) {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/channels/webhook/webhook", strings.NewReader(body))
	r.secrets.Sign(req.Header, id, time.Now(), []byte(body))
	if change != nil {
		change(req.Header)
	}
	w := httptest.NewRecorder()
	r.c.Webhook().ServeHTTP(w, req)
	g.status, g.header = w.Code, w.Header()
	to := any(&g.answer)
	if g.header.Get("Content-Type") == "application/problem+json" {
		to = &g.problem
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		r.t.Errorf("the answer is %q: %v", w.Body, err)
	}
	return g
}

// texts are those of the messages that the backend has accepted.
func texts(s *fakecallback.Server) (list []string) {
	for _, m := range s.Taken() {
		list = append(list, m.Text)
	}
	return list
}
