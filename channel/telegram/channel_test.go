package telegram

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// stage is a channel beside a fake platform of its own, for the suite.
type stage struct {
	k    *channel.Kernel
	fake *faketelegram.Server
	c    *Channel
	stop context.CancelFunc
	done chan error

	mu    sync.Mutex
	chats map[int64]bool
	next  int64 // the id of the next update
}

func startStage(mode, parse, preview string) func(*testing.T, *channel.Kernel, time.Duration) channeltest.Platform {
	return func(t *testing.T, k *channel.Kernel, grace time.Duration) channeltest.Platform {
		s := &stage{k: k, fake: faketelegram.New(&faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}}), done: make(chan error, 1), chats: map[int64]bool{}, next: 5000}
		var err error
		s.c, err = New(Settings{
			Token: secret.Text(s.fake.Token()), API: "http://api.test", Client: &http.Client{Transport: s.fake.Transport()}, Agent: "assistant",
			Mode: mode, PublicURL: "https://here.test", Secret: "s-0123456789abcd", Grace: grace, ParseMode: parse, Preview: preview,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() { s.done <- s.c.Serve(ctx, k) }()
		ready := "getUpdates"
		if mode == ModeWebhook {
			ready = "setWebhook"
		}
		if ready == "getUpdates" {
			err = s.fake.Await(t.Context(), func() bool { return len(s.fake.Calls("deleteWebhook")) > 0 })
		} else {
			err = s.fake.Await(t.Context(), func() bool { return len(s.fake.Calls(ready)) > 0 })
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// update is what the platform would make of a message.
func (s *stage) update(m channeltest.Message) faketelegram.Update {
	chat := faketelegram.Chat{ID: int64(100 + cmp.Or(m.Chat, 1)), Type: "private"}
	text := m.Text
	var entities []faketelegram.Entity
	if m.Group {
		chat = faketelegram.Chat{ID: -chat.ID, Type: "group", Title: "G"}
	}
	if m.Mention {
		text = "@ling_bot " + text
		entities = []faketelegram.Entity{{Type: "mention", Offset: 0, Length: 9}}
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
	door := s.c.Webhook()
	if door == nil {
		s.fake.Again(u)
		return s.fake.Await(ctx, func() bool {
			return !slices.ContainsFunc(s.fake.Pending(), func(p faketelegram.Update) bool { return p.ID == u.ID })
		})
	}
	body, err := json.Marshal(u)
	if err != nil {
		return err
	}
	for { // as the platform does, until the channel runs
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
		req.Header.Set(secretHeader, "s-0123456789abcd")
		w := httptest.NewRecorder()
		door.ServeHTTP(w, req)
		if w.Code == http.StatusOK {
			return nil
		}
		if w.Code != http.StatusServiceUnavailable || ctx.Err() != nil {
			return fmt.Errorf("status %d", w.Code)
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *stage) Shown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []faketelegram.Message
	for id := range s.chats {
		all = append(all, s.fake.Messages(id, s.fake.Me().ID)...)
	}
	slices.SortFunc(all, func(a, b faketelegram.Message) int { return a.ID - b.ID })
	var texts []string
	for _, m := range all {
		texts = append(texts, m.Text)
	}
	return texts
}

func (s *stage) Writes() int { return len(s.fake.Writes()) }

func (s *stage) Fail(f channeltest.Failure) bool {
	switch f {
	case channeltest.FailRefused:
		s.fake.Fail(faketelegram.Fault{Method: "sendMessage", Code: http.StatusForbidden})
	case channeltest.FailUnknown:
		s.fake.Fail(faketelegram.Fault{Method: "sendMessage", Cut: faketelegram.CutAfter})
	case channeltest.FailPartial:
		s.fake.Fail(faketelegram.Fault{Method: "sendMessage", Skip: 1, Code: http.StatusBadRequest})
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
	for _, tt := range []struct{ mode, parse, preview string }{
		{ModePoll, ParseHTML, PreviewEdit},
		{ModeWebhook, ParseMarkdown, PreviewOff},
	} {
		t.Run(tt.mode+" "+tt.parse+" "+tt.preview, func(t *testing.T) {
			channeltest.Run(t, channeltest.Fixture{
				Start: startStage(tt.mode, tt.parse, tt.preview), Groups: true, Redelivers: true, Streams: tt.preview == PreviewEdit,
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
