package telegram_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// stage is a channel with its platform, for the suite.
type stage struct {
	fake *faketelegram.Server
	c    *telegram.Channel
	stop context.CancelFunc
	done chan error

	mu    sync.Mutex
	chats map[int64]bool
	next  int64 // the id of the next update
}

// nowhere is a network that reaches no server.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("nowhere") }

func startStage(mode, preview string) func(*testing.T, *kernel.Queue, time.Duration) channeltest.Platform {
	return func(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
		s := &stage{
			fake: faketelegram.New(&faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}}),
			done: make(chan error, 1), chats: map[int64]bool{}, next: 5000,
		}
		var err error
		s.c, err = telegram.New(telegram.Settings{
			Token: platform.Secret(s.fake.Token()), Mode: mode, PublicURL: "https://here.test", Preview: preview,
			Settings: platform.Settings{API: "http://api.test", Client: &http.Client{Transport: s.fake.Transport()}, Agent: "assistant", Grace: grace},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() { s.done <- s.c.Serve(ctx, q) }()
		ready := map[string]string{telegram.ModePoll: "deleteWebhook", telegram.ModeWebhook: "setWebhook"}[mode]
		if err := s.fake.Await(t.Context(), func() bool { return len(s.fake.Calls(ready)) > 0 }); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// update is what the platform makes of a message.
func (s *stage) update(m channeltest.Message) faketelegram.Update {
	chat := faketelegram.Chat{ID: int64(100 + cmp.Or(m.Chat, 1)), Type: "private"}
	text, entities := m.Text, []faketelegram.Entity(nil)
	if m.Group {
		chat = faketelegram.Chat{ID: -chat.ID, Type: "group", Title: "G"}
	}
	if m.Mention {
		text, entities = "@ling_bot "+text, []faketelegram.Entity{{Type: "mention", Offset: 0, Length: 9}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.chats[chat.ID] {
		s.chats[chat.ID] = true
		s.fake.AddChat(chat)
	}
	s.next++
	return faketelegram.Update{ID: s.next, Kind: "message", Data: faketelegram.Message{
		ID: 1_000_000 + m.ID, Chat: chat, From: &faketelegram.User{ID: int64(1000 + cmp.Or(m.Sender, 1)), FirstName: "A"},
		Date: 1, Text: text, Entities: entities,
	}}
}

func (s *stage) Send(ctx context.Context, m channeltest.Message) error {
	u := s.update(m)
	hook := s.c.Webhook()
	if hook == nil {
		s.fake.Again(u)
		return s.fake.Await(ctx, func() bool {
			return !slices.ContainsFunc(s.fake.Pending(), func(p faketelegram.Update) bool { return p.ID == u.ID })
		})
	}
	for { // as the platform does
		if w := post(ctx, hook, u); w.Code == http.StatusOK {
			return nil
		} else if w.Code != http.StatusServiceUnavailable || ctx.Err() != nil {
			return fmt.Errorf("status %d", w.Code)
		}
	}
}

// post brings an update to a webhook.
func post(ctx context.Context, hook http.Handler, u faketelegram.Update) *httptest.ResponseRecorder {
	body, err := json.Marshal(u)
	if err != nil {
		panic(err) // an update is JSON
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
	req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, req)
	return w
}

func (s *stage) Shown() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []faketelegram.Message
	for id := range s.chats {
		all = append(all, s.fake.Messages(id, s.fake.Me().ID)...)
	}
	slices.SortFunc(all, func(a, b faketelegram.Message) int { return a.ID - b.ID })
	for _, m := range all {
		texts = append(texts, m.Text)
	}
	return texts
}

func (s *stage) Writes() int { return len(s.fake.Writes()) }

func (s *stage) Fail(f channeltest.Failure) bool {
	s.fake.Fail(map[channeltest.Failure]faketelegram.Fault{
		channeltest.FailRefused: {Method: "sendMessage", Code: http.StatusForbidden},
		channeltest.FailUnknown: {Method: "sendMessage", Cut: faketelegram.CutAfter},
		channeltest.FailPartial: {Method: "sendMessage", Skip: 1, Code: http.StatusBadRequest},
	}[f])
	return true
}

func (s *stage) Stop() error {
	s.stop()
	return errors.Join(<-s.done, s.fake.Close())
}

func TestTheChannelPassesTheSuite(t *testing.T) {
	for _, tt := range []struct{ mode, preview string }{
		{telegram.ModePoll, platform.PreviewEdit},
		{telegram.ModeWebhook, platform.PreviewOff},
	} {
		t.Run(tt.mode+" "+tt.preview, func(t *testing.T) {
			channeltest.Run(t, channeltest.Fixture{
				Start: startStage(tt.mode, tt.preview), Groups: true, Redelivers: true, Bubble: true, Streams: tt.preview == platform.PreviewEdit,
			})
		})
	}
}
