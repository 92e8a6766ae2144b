package fakefeishu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// do answers a call that is not made to fail.
func (s *Server) do(call *Call, r *http.Request, ids []string, raw []byte) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.Name == "token" {
		return s.giveToken(call)
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || bearer == "" {
		return reply{status: http.StatusBadRequest, code: 99991661, msg: "Missing access token for authorization"}
	}
	if ends, known := s.tokens[bearer]; !known || !time.Now().Before(ends) {
		return reply{status: http.StatusBadRequest, code: 99991663, msg: "Invalid access token for authorization"}
	}
	if fields, ok := bodies[call.Name]; ok {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return no(9499, "Bad Request")
		}
		for name := range call.Body {
			if !slices.Contains(fields, name) {
				return no(99992402, "field validation failed")
			}
		}
	}
	switch call.Name {
	case "info":
		return reply{top: map[string]any{"bot": map[string]any{
			"activate_status": 2, "app_name": s.o.Name, "avatar_url": "", "ip_white_list": []string{}, "open_id": BotID,
		}}}
	case "send":
		if r.URL.Query().Get("receive_id_type") != "chat_id" {
			return no(99992402, "field validation failed")
		}
		id, _ := call.Body["receive_id"].(string)
		return s.send(call, raw, id, nil, false)
	case "reply":
		to := s.messages[ids[0]]
		if to == nil {
			return no(230001, "Your request contains an invalid request parameter")
		}
		if to.Recalled {
			return no(230011, "The message was withdrawn")
		}
		topic, _ := call.Body["reply_in_thread"].(bool)
		return s.send(call, raw, to.Chat, to, topic)
	case "patch":
		return s.patch(call, raw, ids[0])
	case "recall":
		m := s.messages[ids[0]]
		if m == nil || m.From != s.o.AppID {
			return no(230026, "No permission to recall this message")
		}
		if m.Recalled {
			return no(230011, "The message was withdrawn")
		}
		m.Recalled, call.Message = true, m.ID
		return reply{data: map[string]any{}}
	case "get":
		return s.get(ids[0])
	case "react", "reactions", "unreact":
		return s.react(call, r, ids)
	case "resource":
		data, known := s.files[ids[0]+"/"+ids[1]]
		if kind := r.URL.Query().Get("type"); !known || kind != "image" && kind != "file" {
			return no(234003, "File not in msg")
		}
		return reply{raw: data}
	default:
		return s.take(call, r, raw)
	}
}

// bodies are the fields of calls whose body is JSON.
var bodies = map[string][]string{
	"send": {"receive_id", "msg_type", "content", "uuid"}, "reply": {"msg_type", "content", "uuid", "reply_in_thread"}, "patch": {"content"},
	"react": {"reaction_type"},
}

func (s *Server) giveToken(call *Call) reply {
	if call.Body["app_id"] != s.o.AppID {
		return reply{code: 10003, msg: "invalid app_id"}
	}
	if call.Body["app_secret"] != s.o.AppSecret {
		return reply{code: 10014, msg: "app secret invalid"}
	}
	now := time.Now()
	token := ""
	var ends time.Time
	for t, until := range s.tokens {
		if until.Sub(now) >= 30*time.Minute && until.After(ends) {
			token, ends = t, until // the same once more
		}
	}
	if token == "" {
		s.next++
		token, ends = fmt.Sprintf("t-fake%d", s.next), now.Add(s.o.Life)
		s.tokens[token] = ends
	}
	return reply{top: map[string]any{"tenant_access_token": token, "expire": int(ends.Sub(now) / time.Second)}}
}

func (s *Server) id(prefix string) string {
	s.next++
	return fmt.Sprintf("%s_%06d", prefix, s.next)
}

// Sizes of requests.
const (
	maxText = 150 << 10
	maxCard = 30 << 10
)

// send makes a message of the app.
func (s *Server) send(call *Call, raw []byte, chatID string, to *Message, topic bool) reply {
	c := s.chats[chatID]
	if c == nil {
		return no(230002, "Bot/User can NOT be out of the chat.")
	}
	if c.closed != 0 {
		return no(c.closed, "refused")
	}
	kind, _ := call.Body["msg_type"].(string)
	content, _ := call.Body["content"].(string)
	uuid, _ := call.Body["uuid"].(string)
	if len(uuid) > 50 {
		return no(230001, "invalid uuid")
	}
	if before, ok := s.uuids[uuid]; ok && uuid != "" && time.Since(before.at) < time.Hour {
		call.Message = before.message
		return reply{data: s.shape(s.messages[before.message])}
	}
	shown, told, refused := look(kind, content, len(raw))
	if refused != nil {
		return *refused
	}
	m := &Message{
		ID: s.id("om"), Chat: chatID, From: s.o.AppID, Type: kind, Content: content, Text: shown, Mentions: told, At: time.Now(),
	}
	if to != nil {
		m.Parent, m.Root, m.Thread = to.ID, to.ID, to.Thread
		if to.Root != "" {
			m.Root = to.Root
		}
		if topic && m.Thread == "" {
			m.Thread = s.id("omt")
			to.Thread = m.Thread
		}
	}
	s.messages[m.ID] = m
	c.messages = append(c.messages, m)
	if uuid != "" {
		s.uuids[uuid] = used{m.ID, time.Now()}
	}
	call.Message = m.ID
	return reply{data: s.shape(m)}
}

func (s *Server) patch(call *Call, raw []byte, id string) reply {
	m := s.messages[id]
	switch {
	case m == nil:
		return no(230001, "Your request contains an invalid request parameter")
	case m.Recalled:
		return no(230011, "The message was withdrawn")
	case m.From != s.o.AppID:
		return no(230012, "Bot is NOT the sender of the message")
	case m.Type != "interactive":
		return no(230001, "This message is NOT a card")
	}
	now := time.Now()
	recent := slices.DeleteFunc(s.patches[id], func(at time.Time) bool { return now.Sub(at) >= time.Second })
	if s.o.Limited && len(recent) >= 5 {
		return no(230020, "The message is being updated too frequently")
	}
	s.patches[id] = append(recent, now)
	content, _ := call.Body["content"].(string)
	shown, told, refused := look("interactive", content, len(raw))
	if refused != nil {
		return *refused
	}
	m.Content, m.Text, call.Message = content, shown, id
	m.Mentions = append(m.Mentions, told...)
	return reply{data: map[string]any{}}
}

// shape is a message in an answer.
func (s *Server) shape(m *Message) map[string]any {
	who := map[string]any{"id": m.From, "id_type": "open_id", "sender_type": "user", "tenant_key": "tenant"}
	if m.From == s.o.AppID {
		who["id_type"], who["sender_type"] = "app_id", "app"
	}
	at := fmt.Sprint(m.At.UnixMilli())
	return map[string]any{
		"message_id": m.ID, "root_id": m.Root, "parent_id": m.Parent, "thread_id": m.Thread, "msg_type": m.Type, "create_time": at,
		"update_time": at, "deleted": m.Recalled, "updated": false, "chat_id": m.Chat, "sender": who,
		"body": map[string]any{"content": m.Content},
	}
}

func (s *Server) get(id string) reply {
	m := s.messages[id]
	if m == nil {
		return no(230001, "Your request contains an invalid request parameter")
	}
	return reply{data: map[string]any{"items": []any{s.shape(m)}}}
}

// take keeps a file that is uploaded.
func (s *Server) take(call *Call, r *http.Request, raw []byte) reply {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return no(234001, "Invalid request param")
	}
	form, err := multipart.NewReader(bytes.NewReader(raw), params["boundary"]).ReadForm(64 << 20)
	if err != nil {
		return no(234001, "Invalid request param")
	}
	defer form.RemoveAll()
	field, kind, limit := "image", "image_type", 10<<20
	if call.Name == "file" {
		field, kind, limit = "file", "file_type", 30<<20
	}
	if len(form.File[field]) != 1 || len(form.Value[kind]) != 1 {
		return no(234001, "Invalid request param")
	}
	f, err := form.File[field][0].Open()
	if err != nil {
		return no(234001, "Invalid request param")
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil || len(data) == 0 || len(data) > limit {
		return no(234010, "File size is 0 or too large")
	}
	key := s.id(map[string]string{"image": "img", "file": "file"}[call.Name])
	s.files[key] = data
	return reply{data: map[string]any{call.Name + "_key": key}}
}

// Uploaded is a file that the app has uploaded.
func (s *Server) Uploaded(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key]
}

var mentions = regexp.MustCompile(`(?i)<at\b[^>]*?(?:user_id|id|ids|email)\s*=\s*"?([^">\s]*)`)

// look reads a content as the platform does: what is seen of it, and who is told of it.
func look(kind, content string, size int) (shown string, told []string, refused *reply) {
	bad := func(code int, format string, args ...any) (string, []string, *reply) {
		a := no(code, format, args...)
		return "", nil, &a
	}
	tell := func(text string) {
		for _, m := range mentions.FindAllStringSubmatch(text, -1) {
			told = append(told, m[1])
		}
	}
	limit := maxCard
	if kind == "text" {
		limit = maxText
	}
	if size > limit {
		return bad(230025, "The length of the message content reaches its limit")
	}
	switch kind {
	case "text":
		var c struct {
			Text string `json:"text"`
		}
		if json.Unmarshal([]byte(content), &c) != nil || c.Text == "" {
			return bad(230001, "text content is empty")
		}
		tell(c.Text)
		return c.Text, told, nil
	case "image", "file":
		return "[" + kind + "]", nil, nil
	case "interactive":
	default:
		return bad(230001, "invalid msg_type")
	}
	var card struct {
		Schema string `json:"schema"`
		Config struct {
			UpdateMulti bool `json:"update_multi"`
		} `json:"config"`
		Body struct {
			Elements []json.RawMessage `json:"elements"`
		} `json:"body"`
	}
	d := json.NewDecoder(strings.NewReader(content))
	d.DisallowUnknownFields() // in version 2.0, what is not known is refused
	if err := d.Decode(&card); err != nil {
		return bad(230099, "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err")
	}
	if card.Schema != "2.0" || !card.Config.UpdateMulti || len(card.Body.Elements) == 0 {
		return bad(230099, "Failed to create card content, ext=ErrCode: 200861")
	}
	var lines []string
	for _, raw := range card.Body.Elements {
		e, ok := readElement(raw)
		if !ok {
			return bad(230099, "Failed to create card content, ext=ErrCode: 11310")
		}
		if e.Tag == "markdown" {
			tell(e.Content)
		}
		lines = append(lines, e.seen())
	}
	return strings.Join(lines, "\n"), told, nil
}
