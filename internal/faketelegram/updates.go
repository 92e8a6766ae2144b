package faketelegram

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// MarshalJSON writes the update with its one member.
func (u Update) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(u.Data)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"update_id":%d,%q:%s}`, u.ID, u.Kind, data), nil
}

// silentKinds are given only to bots that ask for them.
var silentKinds = []string{"chat_member", "message_reaction", "message_reaction_count"}

// wants says whether the bot has asked for a kind. The lock is held.
func (s *Server) wants(kind string) bool {
	if len(s.allowed) == 0 {
		return !slices.Contains(silentKinds, kind)
	}
	return slices.Contains(s.allowed, kind)
}

// enqueue adds an update, if the bot wants its kind. The lock is held.
func (s *Server) enqueue(kind string, data any) int64 {
	if !s.wants(kind) {
		return 0
	}
	s.nextID++
	s.updates = append(s.updates, Update{ID: s.nextID, Kind: kind, Data: data})
	s.change()
	return s.nextID
}

// Push adds an update of any kind and returns its id, 0 where the bot has not asked for it.
func (s *Server) Push(kind string, data any) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enqueue(kind, data)
}

// Again puts an update back that was given out, as the platform does when it has not learned of its end.
func (s *Server) Again(u Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, u)
	s.change()
}

// Pending are the updates that were not confirmed.
func (s *Server) Pending() []Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.updates)
}

// AddChat makes a conversation known. Topics are those of a forum, by id.
func (s *Server) AddChat(c Chat, topics ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[int]string{}
	for _, id := range topics {
		known[id] = fmt.Sprintf("topic %d", id)
	}
	s.chats[c.ID] = &chat{Chat: c, topics: known}
}

// CloseChat lets nothing be sent to a chat any more, for a reason such as "bot was kicked from the group chat"; "" opens it.
func (s *Server) CloseChat(id int64, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[id].closed = why
}

// Migrate makes a supergroup of a group: both say so in a message.
func (s *Server) Migrate(from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.chats[from]
	old.migrated = to
	grown := old.Chat
	grown.ID, grown.Type = to, "supergroup"
	c := &chat{Chat: grown, topics: map[int]string{}}
	s.chats[to] = c
	first := &Message{Chat: old.Chat, Date: time.Now().Unix(), MigrateTo: to}
	s.put(old, first)
	s.enqueue("message", *first)
	second := &Message{Chat: grown, Date: time.Now().Unix(), MigrateFrom: from}
	s.put(c, second)
	s.enqueue("message", *second)
}

// Say lets somebody write a message and returns it with what the platform adds: id, date, and the entities of @names and
// /commands. A chat that is not known yet becomes known.
func (s *Server) Say(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[m.Chat.ID]
	if c == nil {
		c = &chat{Chat: m.Chat, topics: map[int]string{}}
		s.chats[m.Chat.ID] = c
	}
	if m.Chat = c.Chat; m.Date == 0 {
		m.Date = time.Now().Unix()
	}
	if m.Entities == nil {
		m.Entities = detect(m.Text)
	}
	if m.CaptionEntities == nil {
		m.CaptionEntities = detect(m.Caption)
	}
	if m.ThreadID != 0 && m.IsTopic {
		c.topics[m.ThreadID] = ""
	}
	s.put(c, &m)
	kind := "message"
	if c.Type == "channel" {
		kind = "channel_post"
	}
	s.enqueue(kind, m)
	return m
}

// Edit lets somebody change what they wrote.
func (s *Server) Edit(chat int64, id int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[chat]
	m := c.message(id)
	m.Text, m.Entities, m.EditDate = text, detect(text), time.Now().Unix()
	kind := "edited_message"
	if c.Type == "channel" {
		kind = "edited_channel_post"
	}
	s.enqueue(kind, *m)
}

// Messages are those of a chat that were not deleted, as they stand now; of is who wrote them, 0 for everybody.
func (s *Server) Messages(chat, of int64) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	if c := s.chats[chat]; c != nil {
		for _, m := range c.messages {
			if !m.Deleted && (of == 0 || m.From != nil && m.From.ID == of || m.SenderChat != nil && m.SenderChat.ID == of) {
				list = append(list, *m)
			}
		}
	}
	return list
}

// Drafts are the drafts that a chat was shown.
func (s *Server) Drafts(chat int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chats[chat].drafts)
}

func (s *Server) getUpdates(r *request) (any, *refusal) {
	allowed, given, refused := r.list("allowed_updates")
	if refused != nil {
		return nil, refused
	}
	limit := int(number(r.params["limit"]))
	if limit <= 0 || limit > 100 {
		limit = 100
	}
	offset := number(r.params["offset"])
	wait := time.NewTimer(time.Duration(min(number(r.params["timeout"]), 50)) * time.Second)
	defer wait.Stop()

	s.mu.Lock()
	if s.hook.URL != "" {
		s.mu.Unlock()
		return nil, &refusal{code: http.StatusConflict, description: "Conflict: can't use getUpdates method while webhook is active; " +
			"use deleteWebhook to delete the webhook first"}
	}
	if s.poll != nil {
		close(s.poll) // the one that waits is told that there is another
	}
	mine := make(chan struct{})
	s.poll = mine
	if given {
		s.allowed = allowed
	}
	switch {
	case offset > 0:
		s.updates = slices.DeleteFunc(s.updates, func(u Update) bool { return u.ID < offset })
	case offset < 0:
		s.updates = slices.Clone(s.updates[max(0, len(s.updates)+int(offset)):])
	}
	s.change() // what is confirmed is gone
	defer func() {
		s.mu.Lock()
		if s.poll == mine {
			s.poll = nil
		}
		s.mu.Unlock()
	}()
	for {
		if batch := s.updates[:min(limit, len(s.updates))]; len(batch) > 0 {
			batch = slices.Clone(batch)
			s.mu.Unlock()
			return batch, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-mine:
			return nil, (&Fault{Code: http.StatusConflict}).refusal()
		case <-wait.C:
			return []Update{}, nil
		case <-r.ctx.Done():
			return []Update{}, nil
		case <-s.ctx.Done():
			return []Update{}, nil
		}
		s.mu.Lock()
	}
}

// push gives updates to a webhook, one behind the other, and each again until it is taken.
func (s *Server) push(ctx context.Context, address, secret string) {
	pauses := backoff.New(time.Second, time.Minute)
	for ctx.Err() == nil {
		s.mu.Lock()
		changed := s.changed
		var u Update
		if len(s.updates) > 0 {
			u = s.updates[0]
		}
		s.mu.Unlock()
		if u.ID == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := s.deliver(ctx, address, secret, u)
		s.mu.Lock()
		if ctx.Err() == nil {
			if err == nil {
				s.updates = slices.DeleteFunc(s.updates, func(o Update) bool { return o.ID == u.ID })
				pauses.Reset()
			} else {
				s.hook.LastErrorDate, s.hook.LastError = time.Now().Unix(), err.Error()
			}
			s.change()
		}
		s.mu.Unlock()
		if err != nil {
			_ = backoff.Sleep(ctx, pauses.NextBackOff())
		}
	}
}

func (s *Server) deliver(ctx context.Context, address, secret string, u Update) error {
	body, err := json.Marshal(u)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	res, err := s.opts.Deliver.Do(req)
	if err != nil {
		return wrong("Connection refused")
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	if res.StatusCode/100 != 2 {
		return wrong("Wrong response from the webhook: %s", res.Status)
	}
	return nil
}
