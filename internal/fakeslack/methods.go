package fakeslack

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxText is what a message holds.
const maxText = 4000

// do makes a call, or finds a file.
func (s *Server) do(r *http.Request, method string, p map[string]string) (map[string]any, *stored) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = p["token"] // in a form
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == "file" {
		if strings.HasSuffix(r.URL.Path, "/signin") {
			return nil, &stored{"text/html; charset=utf-8", []byte("<html>Sign in</html>")}
		}
		f := s.files[r.URL.Path]
		if token != s.opts.Token || f != nil && f.kind == "" { // the real one sends whoever may not read it to a page to log in
			return nil, &stored{signIn, []byte("/files-pri/signin?redir=" + r.URL.Path)}
		}
		if f != nil {
			return nil, f
		}
		return no("file_not_found"), nil
	}
	if method == "upload" { // whoever has the address may
		f := s.files[r.URL.Path]
		if f == nil {
			return no("file_not_found"), nil
		}
		f.data = []byte(p["body"])
		return nil, &stored{"text/plain", []byte("OK - " + strconv.Itoa(len(f.data)))}
	}
	if method == "apps.connections.open" {
		return s.openConnection(token, r.Host), nil
	}
	if token == "" {
		return no("not_authed"), nil
	}
	if token != s.opts.Token {
		return no("invalid_auth"), nil
	}
	switch method {
	case "auth.test":
		return map[string]any{
			"ok": true, "url": "https://fake.slack.test/", "team": "Fake", "user": Handle, "team_id": Team, "user_id": Bot, "bot_id": BotID,
			"is_enterprise_install": false,
		}, nil
	case "chat.postMessage":
		return s.post(p), nil
	case "chat.update", "chat.delete":
		return s.revise(method, p), nil
	case "chat.startStream":
		return s.startStream(p), nil
	case "chat.appendStream", "chat.stopStream":
		return s.continueStream(method, p), nil
	case "assistant.threads.setStatus":
		return s.setStatus(p), nil
	case "chat.postEphemeral":
		return s.whisper(p), nil
	case "reactions.add", "reactions.remove":
		return s.react(method, p), nil
	case "files.getUploadURLExternal":
		s.events++
		id := "F" + strconv.Itoa(s.events)
		s.files["/upload/v1/"+id] = &stored{kind: p["filename"] + "\x00" + p["length"]}
		return map[string]any{"ok": true, "upload_url": "http://" + r.Host + "/upload/v1/" + id, "file_id": id}, nil
	case "files.completeUploadExternal":
		return s.share(p), nil
	case "users.info":
		names, ok := s.people[p["user"]]
		if !ok {
			return no("user_not_found"), nil
		}
		return map[string]any{"ok": true, "user": map[string]any{
			"id": p["user"], "team_id": Team, "name": names[0], "real_name": names[1],
			"profile": map[string]any{"real_name": names[1], "display_name": names[1]},
		}}, nil
	}
	return no("unknown_method"), nil
}

func no(code string) map[string]any { return map[string]any{"ok": false, "error": code} }

// place is the conversation of a call, or why nothing can be written there. The lock is held.
func (s *Server) place(id string) (*Conversation, string) {
	c := s.conversations[id]
	switch {
	case c == nil:
		return nil, "channel_not_found"
	case c.Archived:
		return nil, "is_archived"
	case c.Absent:
		return nil, "not_in_channel"
	}
	return c, ""
}

// brackets are the things in angle brackets that the platform reads.
var brackets = regexp.MustCompile(`^(@[UWB][A-Z0-9]+|#C[A-Z0-9]+|!(here|channel|everyone|subteam\^S[A-Z0-9]+|date\^.+)|(https?|mailto):[^|<>]+)(\|[^<>]*)?$`)

// readable says why a text is refused, "" where it is not.
func readable(text string) string {
	if strings.TrimSpace(text) == "" {
		return "no_text"
	}
	if len(utf16.Encode([]rune(text))) > maxText {
		return "msg_too_long"
	}
	rest := text
	for {
		i := strings.IndexAny(rest, "<>")
		if i < 0 {
			return ""
		}
		end := strings.IndexByte(rest[i:], '>')
		if rest[i] == '>' && (i == 0 || rest[i-1] == '\n') { // the mark of a quote
			rest = rest[i+1:]
			continue
		}
		if rest[i] == '>' || end < 0 || !brackets.MatchString(rest[i+1:i+end]) {
			return "invalid_blocks"
		}
		rest = rest[i+end+1:]
	}
}

// post writes a message. The lock is held.
func (s *Server) post(p map[string]string) map[string]any {
	c, why := s.place(p["channel"])
	if why == "" {
		why = readable(p["text"])
	}
	if why == "" {
		why = s.look(p["blocks"])
	}
	if thread := p["thread_ts"]; why == "" && thread != "" && !strings.Contains(thread, ".") {
		why = "invalid_thread_ts"
	}
	if why != "" {
		return no(why)
	}
	m := &Message{Channel: c.ID, TS: s.next(), Thread: p["thread_ts"], User: Bot, BotID: BotID, Text: p["text"], Blocks: p["blocks"]}
	s.messages = append(s.messages, m)
	delete(s.statuses, c.ID+m.Thread) // an answer removes the status
	if s.opts.Echo {
		s.tell(s.envelope(m.event(c)))
	}
	return map[string]any{"ok": true, "channel": c.ID, "ts": m.TS, "message": m.members()}
}

// share shows a file that was put where it was to be. The lock is held.
func (s *Server) share(p map[string]string) map[string]any {
	var files []struct {
		ID string `json:"id"`
	}
	c, why := s.place(p["channel_id"])
	if why == "" && (json.Unmarshal([]byte(p["files"]), &files) != nil || len(files) != 1) {
		why = "invalid_arguments"
	}
	if why != "" {
		return no(why)
	}
	f := s.files["/upload/v1/"+files[0].ID]
	if f == nil {
		return no("file_not_found")
	}
	name, length, _ := strings.Cut(f.kind, "\x00")
	if strconv.Itoa(len(f.data)) != length {
		return no("file_upload_size_mismatch")
	}
	s.messages = append(s.messages, &Message{
		Channel: c.ID, TS: s.next(), Thread: p["thread_ts"], User: Bot, BotID: BotID,
		More: map[string]any{"files": []any{map[string]any{"id": files[0].ID, "name": name, "size": len(f.data)}}},
	})
	return map[string]any{"ok": true, "files": []any{map[string]any{"id": files[0].ID, "title": name}}}
}

// revise changes a message or takes it away. The lock is held.
func (s *Server) revise(method string, p map[string]string) map[string]any {
	c, why := s.place(p["channel"])
	if why != "" {
		return no(why)
	}
	for _, m := range s.messages {
		if m.Channel != c.ID || m.TS != p["ts"] || m.Deleted {
			continue
		}
		if m.BotID != BotID {
			return no("cant_update_message")
		}
		switch streams := s.streams(m); {
		case streams && method == "chat.delete":
			return no("cant_delete_message")
		case streams:
			return no("streaming_state_conflict")
		}
		if method == "chat.delete" {
			m.Deleted = true
			if s.opts.Echo {
				s.tell(s.envelope(map[string]any{
					"type": "message", "subtype": "message_deleted", "hidden": true, "channel": c.ID, "channel_type": c.Kind, "ts": s.next(),
					"deleted_ts": m.TS, "previous_message": m.members(),
				}))
			}
			return map[string]any{"ok": true, "channel": c.ID, "ts": m.TS}
		}
		if why := readable(p["text"]); why != "" {
			return no(why)
		}
		if why := s.look(p["blocks"]); why != "" {
			return no(why)
		}
		before := m.members()
		m.Text = p["text"]
		if blocks, given := p["blocks"]; given { // else they stay
			m.Blocks = strings.TrimSuffix(blocks, "[]")
		}
		m.Edits++
		if s.opts.Echo {
			s.tell(s.envelope(map[string]any{
				"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Kind, "ts": s.next(),
				"message": m.members(), "previous_message": before,
			}))
		}
		return map[string]any{"ok": true, "channel": c.ID, "ts": m.TS, "text": m.Text}
	}
	return no("message_not_found")
}
