package faketelegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is a call whose parameters are read.
type request struct {
	ctx     context.Context
	params  map[string]string
	uploads map[string][]byte
	call    *Call
}

func (r *request) flag(name string) bool {
	v := strings.ToLower(r.params[name])
	return v == "true" || v == "1" || v == "yes"
}

func (r *request) list(name string) (list []string, given bool, refused *refusal) {
	v := r.params[name]
	if v == "" {
		return nil, false, nil
	}
	if json.Unmarshal([]byte(v), &list) != nil {
		return nil, false, bad("can't parse %s JSON object", name)
	}
	return list, true, nil
}

var methods map[string]func(*Server, *request) (any, *refusal)

func init() {
	methods = map[string]func(*Server, *request) (any, *refusal){
		"getMe":                  (*Server).getMe,
		"getUpdates":             (*Server).getUpdates,
		"setWebhook":             (*Server).setWebhook,
		"deleteWebhook":          (*Server).deleteWebhook,
		"getWebhookInfo":         (*Server).getWebhookInfo,
		"setMyCommands":          (*Server).setMyCommands,
		"getMyCommands":          (*Server).getMyCommands,
		"deleteMyCommands":       (*Server).deleteMyCommands,
		"answerCallbackQuery":    (*Server).answerCallbackQuery,
		"editMessageReplyMarkup": (*Server).editMessageReplyMarkup,
		"getChat":                (*Server).getChat,
		"sendMessage":            (*Server).sendMessage,
		"sendMessageDraft":       (*Server).sendMessageDraft,
		"editMessageText":        (*Server).editMessageText,
		"deleteMessage":          (*Server).deleteMessage,
		"sendChatAction":         (*Server).sendChatAction,
		"sendPhoto":              (*Server).sendMedia,
		"sendDocument":           (*Server).sendMedia,
		"sendAudio":              (*Server).sendMedia,
		"sendVoice":              (*Server).sendMedia,
		"sendVideo":              (*Server).sendMedia,
		"getFile":                (*Server).getFile,
		"setMessageReaction":     (*Server).setMessageReaction,
	}
}

func (s *Server) getMe(*request) (any, *refusal) { return s.me, nil }

func (s *Server) setMyCommands(r *request) (any, *refusal) {
	var commands []struct {
		Command     string `json:"command"`
		Description string `json:"description"`
	}
	if json.Unmarshal([]byte(r.params["commands"]), &commands) != nil {
		return nil, bad("can't parse commands JSON object")
	}
	for _, c := range commands {
		if c.Command == "" || len(c.Command) > 32 || strings.Trim(c.Command, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return nil, bad("BOT_COMMAND_INVALID")
		}
		if c.Description == "" || units(c.Description) > 256 {
			return nil, bad("BOT_COMMAND_DESCRIPTION_INVALID")
		}
	}
	if len(commands) > 100 {
		return nil, bad("BOT_COMMANDS_TOO_MUCH")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, refused := s.scope(r)
	if refused != nil {
		return nil, refused
	}
	s.commands[scope] = json.RawMessage(r.params["commands"])
	return true, nil
}

// scope is whose commands a call is about. The lock is held.
func (s *Server) scope(r *request) (string, *refusal) {
	scope := struct {
		Type string `json:"type"`
		Chat int64  `json:"chat_id"`
	}{Type: "default"}
	if text := r.params["scope"]; text != "" && json.Unmarshal([]byte(text), &scope) != nil {
		return "", bad("can't parse BotCommandScope")
	}
	switch scope.Type {
	case "default", "all_private_chats", "all_group_chats", "all_chat_administrators":
		return scope.Type, nil
	case "chat":
		if _, refused := s.find(strconv.FormatInt(scope.Chat, 10), false); refused != nil {
			return "", refused
		}
		return strconv.FormatInt(scope.Chat, 10), nil
	}
	return "", bad("unsupported scope type")
}

func (s *Server) getMyCommands(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, refused := s.scope(r)
	if refused != nil {
		return nil, refused
	}
	if s.commands[scope] == nil {
		return []int{}, nil
	}
	return s.commands[scope], nil
}

func (s *Server) deleteMyCommands(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, refused := s.scope(r)
	if refused != nil {
		return nil, refused
	}
	delete(s.commands, scope)
	return true, nil
}

// SetMenu sets the commands that everybody sees, as somebody does at @BotFather.
func (s *Server) SetMenu(commands string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands["default"] = json.RawMessage(commands)
}

// Menu is the JSON of the commands that are set for "default", or for a chat by its id.
func (s *Server) Menu(scope string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.commands[scope])
}

// find is the chat of a call. The lock is held. write is for calls that somebody notices.
func (s *Server) find(id string, write bool) (*chat, *refusal) {
	if id == "" {
		return nil, bad("chat_id is empty")
	}
	c := s.chats[number(id)]
	if c == nil && strings.HasPrefix(id, "@") {
		for _, other := range s.chats {
			if strings.EqualFold(other.Username, id[1:]) {
				c = other
			}
		}
	}
	switch {
	case c == nil:
		return nil, bad("chat not found")
	case write && c.migrated != 0:
		return nil, &refusal{
			code: http.StatusBadRequest, description: "Bad Request: group chat was upgraded to a supergroup chat", migrateTo: c.migrated,
		}
	case write && c.closed != "":
		return nil, &refusal{code: http.StatusForbidden, description: "Forbidden: " + c.closed}
	}
	return c, nil
}

// marked reads a text and its entities from a call.
func (r *request) marked(name string, limit int, empty, long string) (string, []Entity, *refusal) {
	text := r.params[name]
	var entities []Entity
	var err error
	switch strings.ToLower(r.params["parse_mode"]) {
	case "":
		if list := r.params["entities"] + r.params["caption_entities"]; list != "" {
			if json.Unmarshal([]byte(list), &entities) != nil {
				return "", nil, bad("can't parse entities JSON object")
			}
		}
	case "html":
		text, entities, err = parseHTML(text)
	case "markdownv2":
		text, entities, err = parseMarkdown(text)
	default:
		return "", nil, bad("unsupported parse_mode")
	}
	if err != nil {
		return "", nil, bad("can't parse entities: %v", err)
	}
	text, entities = trim(text, entities)
	if text == "" && empty != "" {
		return "", nil, bad("%s", empty)
	}
	if units(text) > limit {
		return "", nil, bad("%s", long)
	}
	return text, entities, nil
}

// place is the chat, topic and reply of a call that sends. The lock is held.
func (s *Server) place(r *request) (*chat, *Message, *refusal) {
	c, refused := s.find(r.params["chat_id"], true)
	if refused != nil {
		return nil, nil, refused
	}
	m := &Message{Chat: c.Chat, Date: time.Now().Unix(), Silent: r.flag("disable_notification")}
	me := s.Me()
	if m.From = &me; c.Type == "channel" {
		m.From, m.SenderChat = nil, &c.Chat
	}
	if thread := int(number(r.params["message_thread_id"])); thread != 0 {
		if _, ok := c.topics[thread]; !ok {
			return nil, nil, bad("message thread not found")
		}
		m.ThreadID, m.IsTopic = thread, true
	}
	reply := struct {
		ID    int             `json:"message_id"`
		Chat  json.RawMessage `json:"chat_id"`
		Allow bool            `json:"allow_sending_without_reply"`
	}{ID: int(number(r.params["reply_to_message_id"])), Allow: r.flag("allow_sending_without_reply")}
	if p := r.params["reply_parameters"]; p != "" {
		if json.Unmarshal([]byte(p), &reply) != nil {
			return nil, nil, bad("can't parse reply parameters JSON object")
		}
	}
	if reply.ID != 0 {
		if to := c.message(reply.ID); to != nil {
			short := *to
			short.ReplyTo = nil // one hop, as the platform gives it
			m.ReplyTo = &short
		} else if !reply.Allow {
			return nil, nil, bad("message to be replied not found")
		}
	}
	return c, m, nil
}

// message is one that was not deleted.
func (c *chat) message(id int) *Message {
	for _, m := range c.messages {
		if m.ID == id && !m.Deleted {
			return m
		}
	}
	return nil
}

// put adds a message to its chat. The lock is held.
func (s *Server) put(c *chat, m *Message) {
	if m.ID == 0 {
		s.messages++
		m.ID = s.messages
	}
	s.messages = max(s.messages, m.ID)
	c.messages = append(c.messages, m)
	s.change()
}

func (s *Server) sendMessage(r *request) (any, *refusal) {
	if r.params["text"] == "" {
		return nil, bad("message text is empty")
	}
	text, entities, refused := r.marked("text", 4096, "text must be non-empty", "message is too long")
	if refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, refused := s.place(r)
	if refused != nil {
		return nil, refused
	}
	if m.Keyboard, refused = r.keyboard(); refused != nil {
		return nil, refused
	}
	m.Text, m.Entities = text, entities
	s.put(c, m)
	r.call.Message = m.ID
	return *m, nil
}

func (s *Server) sendMessageDraft(r *request) (any, *refusal) {
	text, _, refused := r.marked("text", 4096, "", "message is too long")
	if refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _, refused := s.place(r)
	switch {
	case refused != nil:
		return nil, refused
	case c.Type != "private":
		return nil, bad("TEXTDRAFT_PEER_INVALID")
	case number(r.params["draft_id"]) == 0:
		return nil, bad("draft_id must be non-zero")
	}
	c.drafts = append(c.drafts, text)
	return true, nil
}

func (s *Server) editMessageText(r *request) (any, *refusal) {
	if r.params["text"] == "" {
		return nil, bad("message text is empty")
	}
	text, entities, refused := r.marked("text", 4096, "text must be non-empty", "message is too long")
	if refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, refused := s.find(r.params["chat_id"], true)
	if refused != nil {
		return nil, refused
	}
	keyboard, refused := r.keyboard()
	if refused != nil {
		return nil, refused
	}
	m := c.message(int(number(r.params["message_id"])))
	switch {
	case m == nil:
		return nil, bad("message to edit not found")
	case m.From == nil && c.Type != "channel" || m.From != nil && m.From.ID != s.me.ID:
		return nil, bad("message can't be edited")
	case m.Text == "" && m.Caption != "":
		return nil, bad("there is no text in the message to edit")
	case m.Text == text && (keyboard == nil) == (m.Keyboard == nil) && slices.EqualFunc(m.Entities, entities, func(a, b Entity) bool {
		a.User, b.User = nil, nil
		return a == b
	}):
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a " +
			"current content and reply markup of the message")
	}
	m.Text, m.Entities, m.EditDate, m.Keyboard = text, entities, time.Now().Unix(), keyboard
	r.call.Message = m.ID
	s.change()
	return *m, nil
}

func (s *Server) deleteMessage(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, refused := s.find(r.params["chat_id"], true)
	if refused != nil {
		return nil, refused
	}
	m := c.message(int(number(r.params["message_id"])))
	if m == nil {
		return nil, bad("message to delete not found")
	}
	m.Deleted = true
	r.call.Message = m.ID
	return true, nil
}

var actions = []string{
	"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document", "choose_sticker",
	"find_location", "record_video_note", "upload_video_note",
}

func (s *Server) sendChatAction(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, refused := s.place(r); refused != nil {
		return nil, refused
	}
	if !slices.Contains(actions, r.params["action"]) {
		return nil, bad("wrong parameter action in request")
	}
	return true, nil
}

func (s *Server) setMessageReaction(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, refused := s.find(r.params["chat_id"], true)
	if refused != nil {
		return nil, refused
	}
	if c.message(int(number(r.params["message_id"]))) == nil {
		return nil, bad("message to react not found")
	}
	return true, nil
}

func (s *Server) getChat(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, refused := s.find(r.params["chat_id"], false)
	if refused != nil {
		return nil, refused
	}
	return struct {
		Chat
		AccentColor  int            `json:"accent_color_id"`
		MaxReactions int            `json:"max_reaction_count"`
		Gifts        map[string]any `json:"accepted_gift_types"`
	}{Chat: c.Chat, MaxReactions: 11, Gifts: map[string]any{}}, nil
}

// sendMedia sends an upload, or what is there by its id. The method's name says what it is.
func (s *Server) sendMedia(r *request) (any, *refusal) {
	kind := strings.ToLower(strings.TrimPrefix(r.call.Method, "send"))
	caption, entities, refused := r.marked("caption", 1024, "", "message caption is too long")
	if refused != nil {
		return nil, refused
	}
	data, uploaded := r.uploads[kind]
	if name, ok := strings.CutPrefix(r.params[kind], "attach://"); ok && !uploaded {
		data, uploaded = r.uploads[name]
	}
	s.mu.Lock()
	known := s.files[r.params[kind]]
	s.mu.Unlock()
	var f File
	switch {
	case uploaded && len(data) == 0:
		return nil, bad("file must be non-empty")
	case uploaded:
		f = s.AddFile(filepath.Base(strings.TrimPrefix(r.params[kind], "attach://")), data)
	case known != nil:
		f = known.File
	case r.params[kind] == "":
		return nil, bad("there is no %s in the request", kind)
	default:
		return nil, bad("wrong remote file identifier specified: Wrong string length")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, refused := s.place(r)
	if refused != nil {
		return nil, refused
	}
	m.Caption, m.CaptionEntities = caption, entities
	switch f.FilePath = ""; kind {
	case "photo":
		f.FileName, f.MimeType = "", ""
		m.Photo = []File{f}
	case "document":
		m.Document = &f
	case "audio":
		m.Audio = &f
	case "voice":
		m.Voice = &f
	case "video":
		m.Video = &f
	}
	s.put(c, m)
	r.call.Message = m.ID
	return *m, nil
}

func (s *Server) getFile(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[r.params["file_id"]]
	switch {
	case f == nil:
		return nil, bad("wrong file_id or the file is temporarily unavailable")
	case f.FileSize > s.opts.MaxFile:
		return nil, bad("file is too big")
	}
	return File{FileID: f.FileID, FileUniqueID: f.FileUniqueID, FileSize: f.FileSize, FilePath: f.FilePath}, nil
}

// AddFile keeps a file, so that messages can have it.
func (s *Server) AddFile(name string, data []byte) File {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.files) + 1
	f := &file{data: data, File: File{
		FileID: fmt.Sprintf("file-id-%d", n), FileUniqueID: fmt.Sprintf("unique%d", n), FileName: name, FileSize: int64(len(data)),
		FilePath: fmt.Sprintf("documents/file_%d%s", n, filepath.Ext(name)),
	}}
	s.files[f.FileID] = f
	out := f.File
	out.FilePath = ""
	return out
}

// File is the content of a file.
func (s *Server) File(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[id].data
}

func (s *Server) download(w http.ResponseWriter, path string) {
	s.mu.Lock()
	var data []byte
	found := false
	for _, f := range s.files {
		if f.FilePath == path {
			data, found = f.data, true
		}
	}
	fault := s.fault("download", 0)
	s.calls = append(s.calls, Call{At: time.Now(), Method: "download", Params: map[string]string{"path": path}, Status: http.StatusOK})
	s.change()
	s.mu.Unlock()
	switch {
	case fault != nil && fault.Cut != Whole:
		w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
		w.Write(data[:len(data)/2])
		panic(http.ErrAbortHandler)
	case fault != nil && fault.Code != 0:
		s.answer(w, nil, fault.refusal())
	case !found:
		s.answer(w, nil, &refusal{code: http.StatusNotFound, description: "Not Found"})
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data)
	}
}

// secretChars are what a webhook's secret may have.
const secretChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

func (s *Server) setWebhook(r *request) (any, *refusal) {
	allowed, given, refused := r.list("allowed_updates")
	if refused != nil {
		return nil, refused
	}
	secret := r.params["secret_token"]
	address := r.params["url"]
	u, err := url.Parse(address)
	switch {
	case address == "":
		return s.deleteWebhook(r)
	case err != nil || u.Host == "":
		return nil, bad("bad webhook: invalid webhook URL specified")
	case u.Scheme != "https" && !local(u.Hostname()):
		return nil, bad("bad webhook: An HTTPS URL must be provided for webhook")
	case len(secret) > 256:
		return nil, bad("secret token is too long")
	case strings.Trim(secret, secretChars) != "":
		return nil, bad("secret token contains unallowed characters")
	}
	s.mu.Lock()
	if s.hooked != nil {
		s.hooked()
	}
	if s.poll != nil {
		close(s.poll)
		s.poll = nil
	}
	if r.flag("drop_pending_updates") {
		s.updates = nil
	}
	if given {
		s.allowed = allowed
	}
	most := int(number(r.params["max_connections"]))
	if most == 0 {
		most = 40
	}
	s.hook = WebhookInfo{URL: address, MaxConnections: most, IPAddress: "127.0.0.1", secret: secret}
	ctx, cancel := context.WithCancel(s.ctx)
	s.hooked = cancel
	if !s.closed {
		s.running.Go(func() { s.push(ctx, address, secret) })
	}
	s.mu.Unlock()
	return true, nil
}

// local hosts may be told of without TLS, which the real server allows only where it runs on one's own machine.
func local(host string) bool { return host == "127.0.0.1" || host == "localhost" || host == "::1" }

func (s *Server) deleteWebhook(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hooked != nil {
		s.hooked()
		s.hooked = nil
	}
	s.hook = WebhookInfo{}
	if r.flag("drop_pending_updates") {
		s.updates = nil
	}
	return true, nil
}

func (s *Server) getWebhookInfo(*request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.hook
	info.Pending = len(s.updates)
	info.AllowedUpdates = s.allowed
	return info, nil
}

// Webhook is what getWebhookInfo says.
func (s *Server) Webhook() WebhookInfo {
	info, _ := s.getWebhookInfo(nil)
	return info.(WebhookInfo)
}
