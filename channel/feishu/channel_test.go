package feishu

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// stage is a channel beside a fake platform of its own, for the suite.
type stage struct {
	k    *channel.Kernel
	fake *fakefeishu.Server
	c    *Channel
	stop context.CancelFunc
	done chan error

	mu     sync.Mutex
	events map[string]map[string]any // by message
}

func startStage(plain bool, format, preview string) func(*testing.T, *channel.Kernel, time.Duration) channeltest.Platform {
	return func(t *testing.T, k *channel.Kernel, grace time.Duration) channeltest.Platform {
		s := &stage{k: k, fake: fakefeishu.New(&fakefeishu.Options{Plain: plain}), done: make(chan error, 1), events: map[string]map[string]any{}}
		set := settings(s.fake)
		set.Grace, set.Agent, set.Format, set.Preview = grace, "assistant", format, preview
		var err error
		if s.c, err = New(set); err != nil {
			t.Fatal(err)
		}
		s.fake.SetDoor(s.c.Webhook())
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() { s.done <- s.c.Serve(ctx, k) }()
		if err = s.fake.Await(t.Context(), func() bool { return len(s.fake.Calls("info")) > 0 }); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// event is what the platform would make of a message; the same for one that is delivered again.
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

func (s *stage) Send(ctx context.Context, m channeltest.Message) error {
	e := s.event(m)
	for { // as the platform does, until the channel runs
		p := s.fake.Post(ctx, e)
		if p.Status == http.StatusOK {
			return nil
		}
		if p.Status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return fmt.Errorf("status %d", p.Status)
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *stage) Shown() []string { return s.fake.Texts("") }

func (s *stage) Writes() int { return len(s.fake.Writes()) }

// attemptsAtAll is how often the channel tries what it may try again.
const attemptsAtAll = 1 + attempt.Again

func (s *stage) Fail(f channeltest.Failure) bool {
	switch f {
	case channeltest.FailRefused:
		s.fake.Fail(fakefeishu.Fault{Name: "send", Code: 230002})
	case channeltest.FailUnknown: // however often it is tried
		s.fake.Fail(fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter, Times: attemptsAtAll})
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

// CH-191
func TestTheChannelPassesTheSuite(t *testing.T) {
	for _, tt := range []struct {
		name            string
		plain           bool
		format, preview string
	}{
		{"encrypted events, cards that grow", false, FormatCard, PreviewEdit},
		{"events with a token, texts", true, FormatText, PreviewOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			channeltest.Run(t, channeltest.Fixture{
				Start: startStage(tt.plain, tt.format, tt.preview), Groups: true, Redelivers: true, Streams: tt.preview == PreviewEdit,
			})
		})
	}
}

func TestEveryHookIsOne(t *testing.T) {
	channeltest.Hooks(t, &adapter{})
	channeltest.Hooks(t, streaming{})
	channeltest.Hooks(t, &delivery{})
	channeltest.Hooks(t, &Channel{})
}
