package feishu_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// stage is a channel beside a fake platform of its own, for the suite.
type stage struct {
	fake *fakefeishu.Server
	stop context.CancelFunc
	done chan error

	mu     sync.Mutex
	events map[string]map[string]any // by message
}

func startStage(preview string) func(*testing.T, *kernel.Queue, time.Duration) channeltest.Platform {
	return func(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
		s := &stage{fake: fakefeishu.New(&fakefeishu.Options{}), done: make(chan error, 1), events: map[string]map[string]any{}}
		set := settings(s.fake)
		set.Grace, set.Agent, set.Preview = grace, "assistant", preview
		c, err := feishu.New(set)
		if err != nil {
			t.Fatal(err)
		}
		s.fake.SetDoor(c.Webhook())
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() { s.done <- c.Serve(ctx, q) }()
		if err = s.fake.Await(t.Context(), func() bool { return len(s.fake.Calls("info")) > 0 }); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// event returns what the platform makes of a message: the same for one that is delivered again.
func (s *stage) event(m channeltest.Message) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := fakefeishu.Said{
		ID: "om_said" + strconv.Itoa(m.ID), Chat: "oc_d" + strconv.Itoa(cmp.Or(m.Chat, 1)), From: "ou_" + strconv.Itoa(cmp.Or(m.Sender, 1)), Text: m.Text,
	}
	kind := "p2p"
	if m.Group {
		kind, said.Chat = "group", "oc_g"+strconv.Itoa(cmp.Or(m.Chat, 1))
	}
	if m.Mention {
		said.Text, said.Mentions = "@_user_1 "+m.Text, fakefeishu.MentionBot()
	}
	if e := s.events[said.ID]; e != nil {
		return e
	}
	s.fake.AddChat(said.Chat, kind)
	e, _ := s.fake.Say(said)
	s.events[said.ID] = e
	return e
}

// Send posts the event until it is accepted, as the platform does.
func (s *stage) Send(ctx context.Context, m channeltest.Message) error {
	e := s.event(m)
	for {
		p := s.fake.Post(ctx, e)
		if p.Status == http.StatusOK {
			return nil
		}
		if p.Status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return fmt.Errorf("status %d", p.Status)
		}
	}
}

func (s *stage) Shown() []string { return s.fake.Texts("") }

func (s *stage) Writes() int { return len(s.fake.Writes()) }

func (s *stage) Fail(f channeltest.Failure) bool {
	switch f {
	case channeltest.FailRefused:
		s.fake.Fail(fakefeishu.Fault{Name: "send", Code: 230002})
	case channeltest.FailUnknown: // however often the call is repeated
		s.fake.Fail(fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter, Times: 1 + platform.Again})
	case channeltest.FailPartial:
		s.fake.Fail(fakefeishu.Fault{Name: "send", Skip: 1, Code: 230001})
	}
	return true
}

func (s *stage) Stop() error {
	s.stop()
	err := <-s.done
	_ = s.fake.Close()
	return err
}

func TestTheChannelPassesTheSuite(t *testing.T) {
	for _, tt := range []struct {
		name    string
		preview string
	}{
		{"cards that are edited", platform.PreviewEdit},
		{"cards that are complete", platform.PreviewOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			channeltest.Run(t, channeltest.Fixture{
				Start: startStage(tt.preview), Groups: true, Redelivers: true, Streams: tt.preview == platform.PreviewEdit, Bubble: true,
			})
		})
	}
}

// Over real sockets: the challenge, an event, and a card that is edited.
func TestTheChannelWorksOverTheNetwork(t *testing.T) {
	var c *feishu.Channel
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.Webhook().ServeHTTP(w, r) }))
	defer here.Close()
	fake := fakefeishu.New(&fakefeishu.Options{URL: here.URL + "/v1/channels/feishu/webhook", Deliver: here.Client()})
	api := httptest.NewServer(fake)
	defer api.Close()
	defer fake.Close()
	s := settings(fake)
	s.API, s.Client = api.URL, nil
	var err error
	if c, err = feishu.New(s); err != nil {
		t.Fatal(err)
	}
	tree := channeltest.Tree(t, "feishu", channel.Place{})
	q := channeltest.NewQueue(t, &kernel.Kernel{Settings: tree, Agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		turn.Sink.Preview(channel.Payload{Text: "half"})
		if err := fake.Await(ctx, func() bool { return len(fake.Ours(private)) == 1 }); err != nil {
			return channel.DispatchResult{}, err
		}
		return says("half and **whole**")(ctx, turn)
	})})
	fake.AddChat(private, "p2p")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(errors.New("the test has ended"))
	if p := fake.Post(ctx, fake.Challenge("c")); p.Status != http.StatusOK {
		t.Errorf("the challenge is answered with %d %s", p.Status, p.Body)
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Serve(serving, q) }()
	e, _ := fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hello"})
	for fake.Post(ctx, e).Status != http.StatusOK && ctx.Err() == nil { // until the bot's id is known
		continue
	}
	err = fake.Await(ctx, func() bool {
		shown := fake.Texts(private)
		return len(shown) == 1 && shown[0] == "half and **whole**"
	})
	if err != nil {
		t.Errorf("%v: %q is shown", err, fake.Texts(private))
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
