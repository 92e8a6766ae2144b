package fakeslack

import (
	"strings"
	"time"
)

const (
	maxStream  = 12_000
	streamLife = 5 * time.Minute
)

// streams reports whether a message is being streamed. The lock is held.
func (s *Server) streams(m *Message) bool {
	since, ok := s.streaming[m]
	return ok && time.Since(since) < streamLife
}

// Streaming reports whether a message is being streamed.
func (s *Server) Streaming(channel, ts string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return s.streams(m)
		}
	}
	return false
}

// EndStream has the person who reads a streamed message end it.
func (s *Server) EndStream(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.streaming {
		if m.Channel == channel && m.TS == ts {
			s.streaming[m] = time.Time{}
		}
	}
}

// startStream begins a message that text is appended to. The lock is held.
func (s *Server) startStream(p map[string]string) map[string]any {
	c, why := s.place(p["channel"])
	user := p["recipient_user_id"]
	_, known := s.people[user]
	switch {
	case why != "":
	case !strings.Contains(s.opts.Scopes, "chat:write"):
		return map[string]any{"ok": false, "error": "missing_scope", "needed": "chat:write", "provided": s.opts.Scopes}
	case !strings.Contains(p["thread_ts"], "."):
		why = "invalid_thread_ts"
	case c.Kind == IM && (user != "" || p["recipient_team_id"] != ""):
		why = "invalid_arguments"
	case c.Kind != IM && user == "":
		why = "missing_recipient_user_id"
	case c.Kind != IM && p["recipient_team_id"] == "":
		why = "missing_recipient_team_id"
	case c.Kind != IM && !known:
		why = "user_not_found"
	case length(p["markdown_text"]) > maxStream:
		why = "msg_too_long"
	}
	if why != "" {
		return no(why)
	}
	m := &Message{
		Channel: c.ID, TS: s.next(), Thread: p["thread_ts"], User: Bot, BotID: BotID, Text: p["markdown_text"], Streamed: true,
	}
	s.messages = append(s.messages, m)
	s.streaming[m] = time.Now()
	delete(s.statuses, c.ID+m.Thread) // an answer removes the status
	if s.opts.Echo {
		s.tell(s.envelope(m.event(c)))
	}
	return map[string]any{"ok": true, "channel": c.ID, "ts": m.TS}
}

// continueStream appends to a message, or ends it. The lock is held.
func (s *Server) continueStream(method string, p map[string]string) map[string]any {
	c, why := s.place(p["channel"])
	if why != "" {
		return no(why)
	}
	text := p["markdown_text"]
	for _, m := range s.messages {
		if m.Channel != c.ID || m.TS != p["ts"] || m.Deleted {
			continue
		}
		since, streamed := s.streaming[m]
		switch {
		case m.BotID != BotID:
			return no("message_not_owned_by_app")
		case streamed && since.IsZero():
			return no("stopped_by_user")
		case !s.streams(m):
			return no("message_not_in_streaming_state")
		case text == "" && (method == "chat.appendStream" || m.Text == ""):
			return no("no_text")
		case length(m.Text+text) > maxStream:
			return no("msg_too_long")
		}
		before := m.members()
		m.Text += text
		all := map[string]any{"ok": true, "channel": c.ID, "ts": m.TS}
		if method == "chat.stopStream" {
			delete(s.streaming, m)
			all["message"] = m.members()
			if s.opts.Echo {
				s.tell(s.envelope(map[string]any{
					"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Kind, "ts": s.next(),
					"message": m.members(), "previous_message": before,
				}))
			}
		}
		return all
	}
	return no("message_not_found")
}

// setStatus sets the status of an assistant's thread, or removes it. The lock is held.
func (s *Server) setStatus(p map[string]string) map[string]any {
	c, why := s.place(p["channel_id"])
	_, given := p["status"]
	switch {
	case why != "":
	case !c.Assistant || !strings.Contains(p["thread_ts"], "."):
		why = "invalid_thread_ts"
	case !given:
		why = "invalid_arguments"
	}
	if why != "" {
		return no(why)
	}
	key := c.ID + p["thread_ts"]
	if s.statuses[key] = p["status"]; p["status"] == "" {
		delete(s.statuses, key)
	}
	return map[string]any{"ok": true}
}

// Status is that of an assistant's thread; "": there is none.
func (s *Server) Status(channel, thread string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statuses[channel+thread]
}
