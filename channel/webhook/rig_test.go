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
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
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
	d, err := db.Open(t.Context(), "memory", &db.Options{Log: slog.New(slog.DiscardHandler), Beside: true})
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

type agentFunc = channeltest.AgentFunc

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
	*channeltest.Recorder
	t       *testing.T
	c       *webhook.Channel
	k       *kernel.Kernel
	q       *kernel.Queue
	back    *fakecallback.Server
	secrets webhook.Secrets

	stop context.CancelFunc
	done chan error
}

// newRig starts a process with a database of its own, in which everybody may talk.
func newRig(t *testing.T, change func(*webhook.Settings, *kernel.Kernel)) *rig {
	t.Helper()
	return newReplica(t, openDatabase(t), "a", fakecallback.New(vectorSecret), change)
}

// newReplica starts one of the processes "a" and "b", which share a database.
func newReplica(t *testing.T, d *db.DB, name string, back *fakecallback.Server, change func(*webhook.Settings, *kernel.Kernel)) *rig {
	t.Helper()
	r := &rig{Recorder: new(channeltest.Recorder), t: t, back: back, secrets: parseSecrets(t, vectorSecret)}
	r.Answers(agentFunc(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		return say(ctx, t, "echo "+t.Context.BodyForAgent)
	}))
	tree := channeltest.Tree(t, "webhook", channel.Place{SenderRate: new(0), ChatRate: new(0)})
	r.k = &kernel.Kernel{Agent: r, Observer: r, Settings: tree, Store: d.Events()}
	s := webhook.Settings{
		Secret: vectorSecret, Callback: "https://backend.test/replies", Results: d.Results(webhook.ResultLife),
		Settings: platform.Settings{Grace: time.Second},
	}
	if change != nil {
		change(&s, r.k)
	}
	if s.Ack == webhook.AckResult {
		s.Callback = ""
	}
	var err error
	if r.c, err = webhook.New(s); err != nil {
		t.Fatal(err)
	}
	r.c.UseTransport(r.back.Transport())
	r.q = kernel.NewQueue(r.k, kernel.QueueOptions{Replica: name, Alive: func() []string { return []string{"a", "b"} }})
	r.serve()
	t.Cleanup(func() { r.end(); r.q.Close() })
	return r
}

// withResult answers messages with the reply.
func withResult(s *webhook.Settings, _ *kernel.Kernel) { s.Ack = webhook.AckResult }

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
