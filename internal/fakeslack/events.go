package fakeslack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// patience is how long the platform waits for an app's answer to an event.
const patience = 3 * time.Second

// pauses come before the repetitions of an event that was not taken.
var pauses = []time.Duration{0, time.Minute, 5 * time.Minute}

// members are those that a message has wherever it is told of.
func (m *Message) members() map[string]any {
	all := map[string]any{"type": "message", "ts": m.TS, "text": m.Text, "team": Team}
	for name, v := range map[string]string{"thread_ts": m.Thread, "user": m.User, "bot_id": m.BotID} {
		if v != "" {
			all[name] = v
		}
	}
	if m.Blocks != "" {
		all["blocks"] = json.RawMessage(m.Blocks)
	}
	maps.Copy(all, m.More)
	return all
}

// event is a message as the Events API tells of it.
func (m *Message) event(c *Conversation) map[string]any {
	all := m.members()
	all["channel"], all["channel_type"], all["event_ts"] = c.ID, c.Kind, m.TS
	return all
}

// envelope is the body of a request with an event. The lock is held.
func (s *Server) envelope(inner map[string]any) []byte {
	s.events++
	body, err := json.Marshal(map[string]any{
		"token": "verification-token", "team_id": Team, "api_app_id": App, "event": inner, "type": "event_callback",
		"event_id": fmt.Sprintf("Ev%08d", s.events), "event_time": s.clock / 1_000_000,
		"authorizations":        []any{map[string]any{"enterprise_id": nil, "team_id": Team, "user_id": Bot, "is_bot": true, "is_enterprise_install": false}},
		"is_ext_shared_channel": false, "event_context": "4-fake",
	})
	if err != nil {
		panic(err)
	}
	return body
}

// Envelope is the body of a request with an event.
func (s *Server) Envelope(inner map[string]any) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.envelope(inner)
}

// Say has somebody write a message, of which the app is told: once as a message, and where it is mentioned elsewhere than in a direct
// conversation, once as a mention. It returns what was written, with its ts.
func (s *Server) Say(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conversations[m.Channel]
	if c == nil {
		panic("fakeslack: there is no conversation " + m.Channel)
	}
	if m.TS == "" {
		m.TS = s.next()
	}
	s.messages = append(s.messages, &m)
	s.tell(s.envelope(m.event(c)))
	if c.Kind != IM && strings.Contains(m.Text, "<@"+Bot) {
		mention := m.event(c)
		delete(mention, "channel_type")
		mention["type"] = "app_mention"
		s.tell(s.envelope(mention))
	}
	return m
}

// Put makes a message known, of which the app is not told.
func (s *Server) Put(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, &m)
}

// Edit has somebody change a message, Delete take it away.
func (s *Server) Edit(m Message, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := m
	after.Text = text
	now := after.members()
	now["edited"] = map[string]any{"user": m.User, "ts": m.TS}
	s.tell(s.envelope(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": m.Channel, "channel_type": s.conversations[m.Channel].Kind,
		"ts": s.next(), "message": now, "previous_message": m.members(),
	}))
}

// Delete has somebody take a message away.
func (s *Server) Delete(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(s.envelope(map[string]any{
		"type": "message", "subtype": "message_deleted", "hidden": true, "channel": m.Channel, "channel_type": s.conversations[m.Channel].Kind,
		"ts": s.next(), "deleted_ts": m.TS, "previous_message": m.members(),
	}))
}

// Command is the body of a request with a slash command.
func (s *Server) Command(command, text, channel, user string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	return []byte(url.Values{
		"token": {"verification-token"}, "team_id": {Team}, "team_domain": {"fake"}, "channel_id": {channel}, "channel_name": {"x"},
		"user_id": {user}, "user_name": {"ann"}, "command": {command}, "text": {text}, "api_app_id": {App},
		"response_url": {"https://hooks.slack.test/commands/1"}, "trigger_id": {fmt.Sprintf("%d.1.fake", s.events)},
	}.Encode())
}

// Tell sends a body to the app, and repeats it until it is taken.
func (s *Server) Tell(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(body)
}

// tell starts the delivery of a body. The lock is held.
func (s *Server) tell(body []byte) {
	if s.opts.Hook == "" && s.opts.AppToken == "" || s.closed {
		return
	}
	s.running.Go(func() {
		reason := ""
		for retry := 0; ; retry++ {
			d := s.Send(s.ctx, body, retry, reason)
			lost := s.opts.AppToken != "" && !bytes.HasPrefix(body, []byte("{")) // slash commands and presses are not repeated
			if d.Status/100 == 2 || lost || retry == len(pauses) || s.ctx.Err() != nil {
				return
			}
			reason = "http_error"
			if d.Status == 0 {
				reason = "http_timeout"
			}
			_ = backoff.Sleep(s.ctx, pauses[retry])
		}
	})
}

// Send makes one attempt to send a body to the app, signed as of now.
func (s *Server) Send(ctx context.Context, body []byte, retry int, reason string) Delivery {
	var head struct {
		Type  string `json:"type"`
		ID    string `json:"event_id"`
		Event struct {
			Type string `json:"type"`
		} `json:"event"`
	}
	_ = json.Unmarshal(body, &head)
	d := Delivery{ID: head.ID, Type: head.Event.Type, Retry: retry, Reason: reason}
	if d.Type == "" {
		d.Type = head.Type
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	if s.opts.AppToken != "" {
		if s.sendEnvelope(ctx, body, retry, reason) {
			d.Status = http.StatusOK
		}
	} else {
		d.Status, d.Body = s.request(ctx, body, retry, reason)
	}
	d.Took = time.Since(began)
	s.mu.Lock()
	s.deliveries = append(s.deliveries, d)
	s.change()
	s.mu.Unlock()
	return d
}

// request sends a body to the Request URL.
func (s *Server) request(ctx context.Context, body []byte, retry int, reason string) (status int, said []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.opts.Hook, strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	kind := "application/json"
	if len(body) > 0 && body[0] != '{' {
		kind = "application/x-www-form-urlencoded"
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	if retry > 0 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(retry))
		req.Header.Set("X-Slack-Retry-Reason", reason)
	}
	Sign(req.Header, s.opts.Secret, body, time.Now())
	if res, err := s.opts.Deliver.Do(req); err == nil {
		said, _ = io.ReadAll(io.LimitReader(res.Body, 1<<20))
		res.Body.Close()
		status = res.StatusCode
	}
	return status, said
}

// Sign signs a body as the platform does.
func Sign(h http.Header, secret string, body []byte, at time.Time) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}
