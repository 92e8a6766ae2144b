package slack_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// stage is a channel beside a fake platform of its own, for the suite.
type stage struct {
	fake *fakeslack.Server
	c    *slack.Channel
	stop context.CancelFunc
	done chan error
}

func startStage(replies, preview, appToken string) func(*testing.T, *kernel.Queue, time.Duration) channeltest.Platform {
	return func(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
		s := &stage{done: make(chan error, 1)}
		s.fake = fakeslack.New(&fakeslack.Options{AppToken: appToken, Hook: "http://here.test/", Deliver: &http.Client{Transport: fakeslack.Local(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { s.c.Webhook().ServeHTTP(w, r) },
		))}})
		client := &http.Client{Transport: s.fake.Transport()}
		if appToken != "" {
			client = s.fake.Client()
		}
		for i := range 8 {
			s.fake.AddConversation(fakeslack.Conversation{ID: fmt.Sprint("D", i), Kind: fakeslack.IM})
			s.fake.AddConversation(fakeslack.Conversation{ID: fmt.Sprint("C", i), Kind: fakeslack.Channel})
			s.fake.AddPerson(fmt.Sprint("U", i), "somebody", "Some Body")
		}
		var err error
		s.c, err = slack.New(slack.Settings{
			Token: platform.Secret(s.fake.Token()), SigningSecret: platform.Secret(s.fake.Secret()), AppToken: platform.Secret(appToken),
			Replies: replies, Preview: preview,
			Settings: platform.Settings{API: "http://api.test/api", Client: client, Agent: "assistant", Grace: grace},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() { s.done <- s.c.Serve(ctx, q) }()
		return s
	}
}

// body is what the platform would make of a message: a mention is told of as such, once more than as a message.
func (s *stage) body(m channeltest.Message, kind string) []byte {
	place, text := "D", m.Text
	if m.Group {
		place = "C"
	}
	if m.Mention {
		text = us + " " + text
	}
	ts := fmt.Sprintf("1700000000.%06d", m.ID)
	inner := map[string]any{
		"type": kind, "channel": fmt.Sprint(place, cmp.Or(m.Chat, 1)), "user": fmt.Sprint("U", cmp.Or(m.Sender, 1)), "text": text, "ts": ts,
		"event_ts": ts,
	}
	if kind == "message" {
		inner["channel_type"] = map[string]string{"D": "im", "C": "channel"}[place]
	}
	return s.fake.Envelope(inner)
}

func (s *stage) Send(ctx context.Context, m channeltest.Message) error {
	kinds := []string{"message"}
	if m.Mention && m.ID%2 == 0 {
		kinds = []string{"app_mention", "message"}
	} else if m.Mention {
		kinds = []string{"message", "app_mention"}
	}
	for _, kind := range kinds {
		for retry := 0; ; retry++ { // as the platform does, until the channel runs
			d := s.fake.Send(ctx, s.body(m, kind), retry, "http_error")
			if d.Status == http.StatusOK {
				break
			}
			if d.Status != http.StatusServiceUnavailable && d.Status != 0 || ctx.Err() != nil {
				return fmt.Errorf("status %d", d.Status)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (s *stage) Shown() []string {
	var texts []string
	for _, m := range s.fake.Shown("") {
		texts = append(texts, m.Text)
	}
	return texts
}

func (s *stage) Writes() int { return len(s.fake.Writes()) }

func (s *stage) Fail(f channeltest.Failure) bool {
	switch f {
	case channeltest.FailRefused:
		s.fake.Fail(fakeslack.Fault{Method: "chat.postMessage", Error: "is_archived"})
	case channeltest.FailUnknown:
		s.fake.Fail(fakeslack.Fault{Method: "chat.postMessage", Cut: fakeslack.CutAfter})
	case channeltest.FailPartial:
		s.fake.Fail(fakeslack.Fault{Method: "chat.postMessage", Skip: 1, Error: "restricted_action"})
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
	for name, tt := range map[string]struct{ replies, preview, appToken string }{
		"thread edit":             {slack.ReplyInThread, platform.PreviewEdit, ""},
		"channel off Socket Mode": {slack.ReplyInChannel, platform.PreviewOff, "xapp-1-fake"},
	} {
		t.Run(name, func(t *testing.T) {
			channeltest.Run(t, channeltest.Fixture{
				Start: startStage(tt.replies, tt.preview, tt.appToken), Groups: true, Redelivers: true, Bubble: true, Streams: tt.preview == platform.PreviewEdit,
			})
		})
	}
}
