package fakeslack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// Whisper is a message that one person sees.
type Whisper struct{ Channel, Thread, User, Text string }

// Whispers are those so far.
func (s *Server) Whispers() []Whisper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.whispers)
}

// whisper writes a message that one person sees. The lock is held.
func (s *Server) whisper(p map[string]string) map[string]any {
	c, why := s.place(p["channel"])
	if why == "" {
		why = readable(p["text"])
	}
	if _, known := s.people[p["user"]]; why == "" && !known {
		why = "user_not_in_channel"
	}
	if why != "" {
		return no(why)
	}
	s.whispers = append(s.whispers, Whisper{c.ID, p["thread_ts"], p["user"], p["text"]})
	return map[string]any{"ok": true, "message_ts": s.next()}
}

// react adds a reaction of the app, or removes it. The lock is held.
func (s *Server) react(method string, p map[string]string) map[string]any {
	if !strings.Contains(s.opts.Scopes, "reactions:write") {
		return map[string]any{"ok": false, "error": "missing_scope", "needed": "reactions:write", "provided": s.opts.Scopes}
	}
	c, why := s.place(p["channel"])
	switch {
	case why != "":
		return no(why)
	case p["name"] == "" || strings.Trim(p["name"], "abcdefghijklmnopqrstuvwxyz0123456789_+-") != "":
		return no("invalid_name")
	}
	for _, m := range s.messages {
		if m.Channel != c.ID || m.TS != p["timestamp"] || m.Deleted {
			continue
		}
		i := slices.Index(m.Reactions, p["name"])
		switch add := method == "reactions.add"; {
		case add && i >= 0:
			return no("already_reacted")
		case !add && i < 0:
			return no("no_reaction")
		case add:
			m.Reactions = append(m.Reactions, p["name"])
		default:
			m.Reactions = slices.Delete(m.Reactions, i, i+1)
		}
		s.change()
		return map[string]any{"ok": true}
	}
	return no("message_not_found")
}

// Reactions are those of the app at a message.
func (s *Server) Reactions(channel, ts string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return slices.Clone(m.Reactions)
		}
	}
	return nil
}

// block is one block of a message, with the members that the platform knows of the kinds that stand here.
type block struct {
	Type     string  `json:"type"`
	ID       string  `json:"block_id"`
	Text     *text   `json:"text"`
	Elements []piece `json:"elements"`
}

type text struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji"`
}

type piece struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"`
	ID       string          `json:"action_id"`
	Value    string          `json:"value"`
	Style    json.RawMessage `json:"style"`
	Elements []piece         `json:"elements"`
	Border   int             `json:"border"`
}

// strict reads JSON that has no member beyond those of v.
func strict(data string, v any) bool {
	d := json.NewDecoder(strings.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v) == nil
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

// look says why blocks are refused, "" where they are not. It knows the kinds section, actions with buttons, and rich_text, and refuses all
// others.
func (s *Server) look(blocks string) string {
	if blocks == "" {
		return ""
	}
	var list []block
	if !strict(blocks, &list) {
		return "invalid_blocks_format"
	}
	if len(list) > 50 {
		return "invalid_blocks"
	}
	total := 0
	seen := map[string]bool{}
	for _, b := range list {
		if length(b.ID) > 255 || b.ID != "" && seen[b.ID] {
			return "invalid_blocks"
		}
		seen[b.ID] = true
		ok := false
		switch b.Type {
		case "section":
			ok = b.Text != nil && len(b.Elements) == 0 && (b.Text.Type == "mrkdwn" || b.Text.Type == "plain_text") &&
				b.Text.Text != "" && length(b.Text.Text) <= 3000 && readable(b.Text.Text) == ""
		case "actions":
			ok = b.Text == nil && len(b.Elements) > 0 && len(b.Elements) <= 25 && buttons(b.Elements)
		case "rich_text":
			ok = b.Text == nil && len(b.Elements) > 0 && !slices.ContainsFunc(b.Elements, func(p piece) bool { return !rich(p, &total) })
		}
		if !ok {
			return "invalid_blocks"
		}
	}
	if total > 12_000 {
		return "msg_blocks_too_long"
	}
	return ""
}

func buttons(list []piece) bool {
	ids := map[string]bool{}
	for _, b := range list {
		var label text
		if b.Type != "button" || !strict(string(b.Text), &label) || label.Type != "plain_text" || label.Text == "" || length(label.Text) > 75 ||
			b.ID == "" || length(b.ID) > 255 || ids[b.ID] || length(b.Value) > 2000 {
			return false
		}
		if s := string(b.Style); s != "" && s != `"primary"` && s != `"danger"` {
			return false
		}
		ids[b.ID] = true
	}
	return true
}

// rich says whether a part of a rich text is one that the platform knows.
func rich(p piece, total *int) bool {
	switch p.Type {
	case "rich_text_section", "rich_text_preformatted":
		for _, e := range p.Elements {
			var s string
			var style map[string]bool
			if e.Type != "text" || json.Unmarshal(e.Text, &s) != nil || s == "" || len(e.Style) > 0 && !strict(string(e.Style), &style) {
				return false
			}
			*total += length(s)
		}
		return len(p.Elements) > 0
	}
	return false
}

// Seen is what people see of the blocks of a message: their texts by line, and the labels of buttons in brackets.
func (m Message) Seen() string {
	var list []block
	_ = json.Unmarshal([]byte(m.Blocks), &list)
	var lines []string
	for _, b := range list {
		if b.Text != nil {
			lines = append(lines, b.Text.Text)
		}
		var line strings.Builder
		for _, e := range b.Elements {
			var label text
			if e.Type == "button" && json.Unmarshal(e.Text, &label) == nil {
				line.WriteString("[" + label.Text + "]")
			}
			for _, part := range e.Elements {
				var s string
				_ = json.Unmarshal(part.Text, &s)
				line.WriteString(s)
			}
			if e.Type == "rich_text_section" {
				line.WriteString("\n")
			}
		}
		if line.Len() > 0 {
			lines = append(lines, line.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Press is the body of a request with the press of the button with a label, nil where there is no such button. The message is as it stands
// now, or as the client of whoever presses still shows it.
func (s *Server) Press(m Message, label, user string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []block
	_ = json.Unmarshal([]byte(m.Blocks), &list)
	for _, b := range list {
		for _, e := range b.Elements {
			if e.Type != "button" || !bytes.Contains(e.Text, []byte(`"`+label+`"`)) {
				continue
			}
			return s.interaction(m, user, map[string]any{
				"type": "button", "action_id": e.ID, "block_id": b.ID, "value": e.Value, "text": e.Text, "style": "primary", "action_ts": s.stamp(),
			})
		}
	}
	return nil
}

// stamp is a time of an action. The lock is held.
func (s *Server) stamp() string { return fmt.Sprintf("%d.%06d", s.clock/1_000_000, s.clock%1_000_000) }

// interaction is the body of a request with an action at a message. The lock is held.
func (s *Server) interaction(m Message, user string, action map[string]any) []byte {
	s.events++
	container := map[string]any{"type": "message", "message_ts": m.TS, "channel_id": m.Channel, "is_ephemeral": false}
	if m.Thread != "" {
		container["thread_ts"] = m.Thread
	}
	name := s.people[user][0]
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "api_app_id": App, "token": "verification-token", "trigger_id": fmt.Sprintf("%d.2.fake", s.events),
		"user": map[string]any{"id": user, "username": name, "name": name, "team_id": Team},
		"team": map[string]any{"id": Team, "domain": "fake"}, "channel": map[string]any{"id": m.Channel, "name": "x"}, "enterprise": nil,
		"is_enterprise_install": false, "container": container, "message": m.members(), "state": map[string]any{"values": map[string]any{}},
		"response_url": "https://hooks.slack.test/actions/1", "actions": []any{action},
	})
	if err != nil {
		panic(err)
	}
	return []byte(url.Values{"payload": {string(payload)}}.Encode())
}
