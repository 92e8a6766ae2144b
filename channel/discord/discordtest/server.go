// Package discordtest is a Discord for tests, in memory: the REST API and the gateway, as an application with one bot sees them. It is as strict as the
// platform where a client could be wrong: versions, tokens, intents, heartbeats, unknown members, sizes, nonces, and times of interactions. It shares no code
// with the channel.
package discordtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The bot and its application.
const (
	Token       = "MTIzNDU2Nzg5MDEy.fake.0123456789abcdefghijklmnopq"
	Bot         = "900"
	BotRole     = "901" // which the bot alone has, in every guild
	Application = "902"
	API         = "http://discord.test/api"
)

// Channel is a channel, a thread, or a direct conversation, which has no guild.
type Channel struct {
	ID       string `json:"id"`
	Type     int    `json:"type"`
	GuildID  string `json:"guild_id,omitempty"`
	Name     string `json:"name,omitempty"`
	ParentID string `json:"parent_id,omitempty"`
	Locked   bool   `json:"-"` // the bot may not write there
}

// Message is one that the bot has sent.
type Message struct {
	ID, Channel, Content string
	Reply                string // the message that it replies to
	Buttons              []string
	Files                map[string]string // contents, by name
	Ephemeral            bool
	Edits                int
	nonce                string
	at                   time.Time
}

// Call is a request to the REST API.
type Call struct {
	Method, Path string
	Body         map[string]any
	Status       int
}

// Fault is how a later call fails: the first with this method whose path contains Path, after Skip others.
type Fault struct {
	Method, Path string
	Skip         int
	Status, Code int
	RetryAfter   float64 // seconds, with the status 429
	Text         string  // in place of JSON
	Cut          bool    // the call is made, and the connection ends without an answer
}

// Options change the platform.
type Options struct {
	Close     int // the code that the gateway closes connections with that identify
	Remaining int // connections today; 0 is 1000
}

// Server is the platform.
type Server struct {
	o        Options
	listener *pipe
	server   *http.Server
	client   *http.Client
	served   sync.WaitGroup

	mu           sync.Mutex
	changed      chan struct{}
	lastID       int64
	channels     map[string]*Channel
	messages     []*Message
	people       []map[string]any // messages of people, as events have them
	files        map[string]string
	interactions map[string]*interaction
	calls        []Call
	faults       []*Fault
	faulty       []string // what the client did wrong
	commands     []string
	sessions     map[string]*session
	conn         *connection
	connections  int
}

type interaction struct {
	at           time.Time
	channel      string
	acknowledged int      // the type of the answer; 0 is none
	original     *Message // of a deferred answer
	withdrawn    bool
}

// New starts a platform.
func New(o Options) *Server {
	s := &Server{
		o: o, listener: &pipe{conns: make(chan net.Conn), done: make(chan struct{})}, changed: make(chan struct{}), lastID: 1_000_000_000,
		channels: map[string]*Channel{}, files: map[string]string{}, interactions: map[string]*interaction{}, sessions: map[string]*session{},
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.listener.dial}}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve)}
	s.served.Go(func() { _ = s.server.Serve(s.listener) })
	return s
}

// Close ends the platform, and returns what the client did wrong.
func (s *Server) Close() []string {
	s.Cut()
	_ = s.server.Close()
	s.listener.Close()
	s.client.CloseIdleConnections()
	s.served.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faulty
}

// Client reaches the platform.
func (s *Server) Client() *http.Client { return s.client }

// pipe is a network of one server.
type pipe struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "discord"} }

// Await waits until something is so.
func (s *Server) Await(ctx context.Context, so func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if so() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wake tells those who wait. mu is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// id returns a new id. mu is held.
func (s *Server) id() string {
	s.lastID++
	return strconv.FormatInt(s.lastID, 10)
}

// AddChannel adds a channel; the gateway tells of it, if it is one of a guild.
func (s *Server) AddChannel(c Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[c.ID] = &c
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Calls returns the calls with a method whose paths contain a text.
func (s *Server) Calls(method, path string) (list []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Method == method && strings.Contains(c.Path, path) {
			list = append(list, c)
		}
	}
	return list
}

// Writes counts the calls that people could notice.
func (s *Server) Writes() int {
	return len(s.Calls("POST", "/channels/")) + len(s.Calls("PATCH", "/channels/")) + len(s.Calls("POST", "/webhooks/"))
}

// Sent returns the messages of the bot in a channel, the oldest first; "" is all.
func (s *Server) Sent(channel string) (list []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if channel == "" || m.Channel == channel {
			list = append(list, *m)
		}
	}
	return list
}

// Commands returns the names of the commands of the application.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

// AddFile adds a file and returns its address.
func (s *Server) AddFile(name, data string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files["/files/"+name] = data
	return "http://discord.test/files/" + name
}

// answer is what a call is answered with.
type answer struct {
	status int
	body   any
}

func fault(status, code int, format string, args ...any) answer {
	return answer{status, map[string]any{"code": code, "message": fmt.Sprintf(format, args...)}}
}

// wrong notes what the client did wrong, and refuses it. mu is held.
func (s *Server) wrong(format string, args ...any) answer {
	s.faulty = append(s.faulty, fmt.Sprintf(format, args...))
	return fault(400, 50035, format, args...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/gateway/" || r.URL.Path == "/gateway" {
		s.gateway(w, r)
		return
	}
	body, files, err := readBody(r)
	s.mu.Lock()
	if data, ok := s.files[r.URL.Path]; ok {
		if r.Header.Get("Authorization") != "" {
			s.wrong("the token was sent to the server of files")
		}
		s.mu.Unlock()
		_, _ = io.WriteString(w, data)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/files/") {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	path, isAPI := strings.CutPrefix(r.URL.Path, "/api/v10")
	f := s.faultFor(r.Method, path)
	a := answer{}
	switch {
	case f != nil && !f.Cut:
		a = fault(f.Status, f.Code, "as the test wants")
		if f.Status == 429 {
			a.body = map[string]any{"message": "You are being rate limited.", "retry_after": f.RetryAfter, "global": false}
		}
		if f.Text != "" {
			a.body = json.RawMessage(f.Text)
		}
	case !isAPI:
		a = s.wrong("the path %s is not of version 10", r.URL.Path)
	case err != nil:
		a = s.wrong("%s %s: %v", r.Method, path, err)
	case r.Header.Get("Authorization") != "Bot "+Token:
		a = fault(401, 0, "401: Unauthorized")
	case !strings.HasPrefix(r.UserAgent(), "DiscordBot ("):
		a = s.wrong("the user agent is %q", r.UserAgent())
	default:
		a = s.call(r, path, body, files)
	}
	call := Call{Method: r.Method, Path: path, Status: a.status}
	_ = json.Unmarshal(body, &call.Body)
	s.calls = append(s.calls, call)
	s.wake()
	s.mu.Unlock()
	if f != nil && f.Cut {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return
	}
	if f != nil && f.Text != "" {
		w.Header().Set("Retry-After", fmt.Sprint(f.RetryAfter))
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, f.Text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if a.body != nil {
		_ = json.NewEncoder(w).Encode(a.body)
	}
}

// faultFor returns the fault of a call. mu is held.
func (s *Server) faultFor(method, path string) *Fault {
	for i, f := range s.faults {
		if f.Method != method || !strings.Contains(path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		s.faults = slices.Delete(s.faults, i, i+1)
		return f
	}
	return nil
}

// readBody returns the JSON of a request, and its files.
func readBody(r *http.Request) (body []byte, files map[string]string, err error) {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	data, err := io.ReadAll(r.Body)
	if err != nil || kind != "multipart/form-data" {
		if len(data) > 0 && kind != "application/json" {
			err = fmt.Errorf("the media type is %q", kind)
		}
		return data, nil, err
	}
	form, err := multipart.NewReader(bytes.NewReader(data), params["boundary"]).ReadForm(1 << 24)
	if err != nil {
		return nil, nil, err
	}
	files = map[string]string{}
	for name, list := range form.File {
		f, err := list[0].Open()
		if err != nil {
			return nil, nil, err
		}
		text, _ := io.ReadAll(f)
		f.Close()
		if !strings.HasPrefix(name, "files[") {
			return nil, nil, fmt.Errorf("the field of a file is %q", name)
		}
		files[list[0].Filename] = string(text)
	}
	return []byte(strings.Join(form.Value["payload_json"], "")), files, nil
}

// strict reads JSON without members that are unknown.
func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// call answers a call. mu is held.
func (s *Server) call(r *http.Request, path string, body []byte, files map[string]string) answer {
	part := strings.Split(strings.Trim(path, "/"), "/")
	route := r.Method
	for i, p := range part {
		if i%2 == 1 && part[0] != "gateway" && p != "@me" {
			p = "*"
		}
		route += "/" + p
	}
	switch route {
	case "GET/applications/@me":
		return answer{200, map[string]any{"id": Application, "name": "Ling", "flags": 1 << 19, "bot": map[string]any{"id": Bot, "username": "ling", "bot": true}}}
	case "GET/gateway/bot":
		remaining := s.o.Remaining
		if remaining == 0 {
			remaining = 1000
		}
		s.o.Remaining = 0
		return answer{200, map[string]any{
			"url": "ws://discord.test/gateway", "shards": 1, "session_start_limit": map[string]any{"total": 1000, "remaining": max(remaining, 0), "reset_after": 3_600_000, "max_concurrency": 1},
		}}
	case "PUT/applications/*/commands":
		return s.putCommands(part[1], body)
	case "GET/channels/*":
		if c := s.channels[part[1]]; c != nil {
			return answer{200, c}
		}
		return fault(404, 10003, "Unknown Channel")
	case "GET/channels/*/messages":
		return s.listMessages(part[1], r.URL.Query().Get("after"), r.URL.Query().Get("limit"))
	case "POST/channels/*/typing":
		return answer{204, nil}
	case "POST/channels/*/messages":
		return s.create(part[1], body, files)
	case "PATCH/channels/*/messages/*":
		return s.edit(part[3], body, false)
	}
	switch {
	case r.Method == "POST" && part[0] == "interactions" && len(part) == 4 && part[3] == "callback":
		return s.callback(part[2], body)
	case r.Method == "POST" && part[0] == "webhooks" && len(part) == 3:
		return s.followUp(part[1], part[2], body, files)
	case r.Method == "PATCH" && part[0] == "webhooks" && len(part) == 5:
		return s.edit(part[4], body, true)
	case r.Method == "DELETE" && part[0] == "webhooks" && len(part) == 5 && part[4] == "@original":
		if i := s.interactions[part[2]]; i != nil && i.acknowledged == 5 {
			i.withdrawn = true
			return answer{204, nil}
		}
		return fault(404, 10008, "Unknown Message")
	}
	return s.wrong("%s %s is not known", r.Method, path)
}

func (s *Server) putCommands(application string, body []byte) answer {
	var list []struct {
		Type        int    `json:"type"`
		Name        string `json:"name"`
		Description string `json:"description"`
		Options     []struct {
			Type         int    `json:"type"`
			Name         string `json:"name"`
			Description  string `json:"description"`
			Required     bool   `json:"required"`
			Autocomplete bool   `json:"autocomplete"`
			ChannelTypes []int  `json:"channel_types"`
			Options      []any  `json:"options"`
			Choices      []any  `json:"choices"`
		} `json:"options"`
	}
	if err := strict(body, &list); err != nil || application != Application {
		return s.wrong("commands of %s: %v", application, err)
	}
	s.commands = nil
	for _, c := range list {
		if c.Type != 1 || c.Name == "" || len(c.Name) > 32 || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || c.Description == "" || utf8.RuneCountInString(c.Description) > 100 {
			return s.wrong("the command %q is invalid", c.Name)
		}
		s.commands = append(s.commands, c.Name)
	}
	return answer{200, list}
}

func (s *Server) listMessages(channel, after, limit string) answer {
	n, _ := strconv.Atoi(limit)
	if s.channels[channel] == nil {
		return fault(404, 10003, "Unknown Channel")
	}
	if n < 1 || n > 100 || after == "" {
		return s.wrong("messages with limit %q after %q", limit, after)
	}
	list := []map[string]any{}
	for _, m := range s.people {
		id := m["id"].(string)
		if m["channel_id"] == channel && (len(id) > len(after) || len(id) == len(after) && id > after) && len(list) < n {
			clean := map[string]any{}
			for k, v := range m {
				if k != "guild_id" && k != "member" { // as the platform has them here
					clean[k] = v
				}
			}
			list = append(list, clean)
		}
	}
	slices.Reverse(list)
	return answer{200, list}
}

// draft is a message as a client sends it.
type draft struct {
	Content   *string `json:"content"`
	Nonce     string  `json:"nonce"`
	Enforce   bool    `json:"enforce_nonce"`
	Flags     int     `json:"flags"`
	Reference *struct {
		MessageID string `json:"message_id"`
		MustExist *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`
	Allowed *struct {
		Parse       []string `json:"parse"`
		RepliedUser bool     `json:"replied_user"`
	} `json:"allowed_mentions"`
	Components *[]struct {
		Type       int `json:"type"`
		Components []struct {
			Type     int    `json:"type"`
			Style    int    `json:"style"`
			Label    string `json:"label"`
			CustomID string `json:"custom_id"`
			Disabled bool   `json:"disabled"`
		} `json:"components"`
	} `json:"components"`
}

// read checks a draft and puts it into a message. mu is held.
func (s *Server) read(body []byte, m *Message, files map[string]string) (d draft, bad *answer) {
	refuse := func(format string, args ...any) (draft, *answer) {
		a := s.wrong(format, args...)
		return d, &a
	}
	if err := strict(body, &d); err != nil {
		return refuse("a message: %v", err)
	}
	if d.Allowed == nil || d.Allowed.Parse == nil || len(d.Allowed.Parse) > 0 {
		return refuse("a message may mention anyone: %s", body)
	}
	if d.Content != nil {
		m.Content = strings.TrimSpace(*d.Content)
	}
	if utf8.RuneCountInString(m.Content) > 2000 || m.Content == "" && len(files) == 0 && len(m.Files) == 0 {
		return refuse("a message has %d characters", utf8.RuneCountInString(m.Content))
	}
	if d.Components != nil {
		m.Buttons = nil
		for _, row := range *d.Components {
			if row.Type != 1 || len(row.Components) == 0 || len(row.Components) > 5 {
				return refuse("a row of components is invalid: %s", body)
			}
			for _, b := range row.Components {
				if b.Type != 2 || b.Style < 1 || b.Style > 4 || b.CustomID == "" || len(b.CustomID) > 100 || b.Label == "" || len(b.Label) > 80 {
					return refuse("a button is invalid: %s", body)
				}
				m.Buttons = append(m.Buttons, b.CustomID)
			}
		}
	}
	return d, nil
}

func (s *Server) create(channel string, body []byte, files map[string]string) answer {
	c := s.channels[channel]
	switch {
	case c == nil:
		return fault(404, 10003, "Unknown Channel")
	case c.Locked:
		return fault(403, 50013, "Missing Permissions")
	}
	m := &Message{Channel: channel, Files: files, at: time.Now()}
	d, bad := s.read(body, m, files)
	if bad != nil {
		return *bad
	}
	if d.Flags&^(4|4096) != 0 || len(d.Nonce) > 25 || d.Nonce == "" || !d.Enforce {
		return s.wrong("a message has the flags %d and the nonce %q", d.Flags, d.Nonce)
	}
	for _, earlier := range s.messages {
		if earlier.nonce == d.Nonce && time.Since(earlier.at) < 3*time.Minute {
			return answer{200, map[string]any{"id": earlier.ID, "content": earlier.Content}}
		}
	}
	if d.Reference != nil {
		m.Reply = d.Reference.MessageID
		known := slices.ContainsFunc(s.people, func(p map[string]any) bool { return p["id"] == m.Reply && p["channel_id"] == channel })
		if !known && (d.Reference.MustExist == nil || *d.Reference.MustExist) {
			return fault(400, 50035, "Unknown message")
		}
	}
	m.nonce = d.Nonce
	return s.add(m)
}

// add adds a message of the bot, and tells the gateway of it.
func (s *Server) add(m *Message) answer {
	m.ID = s.id()
	s.messages = append(s.messages, m)
	if !m.Ephemeral {
		s.emit("MESSAGE_CREATE", s.asEvent(m))
	}
	return answer{200, map[string]any{"id": m.ID, "content": m.Content}}
}

// asEvent returns a message of the bot as events have it.
func (s *Server) asEvent(m *Message) map[string]any {
	event := map[string]any{
		"id": m.ID, "channel_id": m.Channel, "content": m.Content, "type": 0, "timestamp": m.at, "author": map[string]any{"id": Bot, "username": "ling", "bot": true},
	}
	if c := s.channels[m.Channel]; c != nil && c.GuildID != "" {
		event["guild_id"] = c.GuildID
	}
	if m.Edits > 0 {
		event["edited_timestamp"] = time.Now()
	}
	return event
}

func (s *Server) edit(id string, body []byte, webhook bool) answer {
	i := slices.IndexFunc(s.messages, func(m *Message) bool { return m.ID == id && m.Ephemeral == webhook })
	if i < 0 {
		return fault(404, 10008, "Unknown Message")
	}
	m := s.messages[i]
	if d, bad := s.read(body, m, m.Files); bad != nil {
		return *bad
	} else if d.Nonce != "" || d.Reference != nil {
		return s.wrong("an edit has a nonce or a reference")
	}
	m.Edits++
	if !webhook {
		s.emit("MESSAGE_UPDATE", s.asEvent(m))
	}
	return answer{200, map[string]any{"id": m.ID}}
}

// callback answers an interaction, which has to happen within three seconds.
func (s *Server) callback(token string, body []byte) answer {
	var d struct {
		Type int `json:"type"`
		Data *struct {
			Flags int `json:"flags"`
		} `json:"data"`
	}
	i := s.interactions[token]
	switch err := strict(body, &d); {
	case err != nil || d.Type != 5 && d.Type != 6:
		return s.wrong("the answer to an interaction: %v %s", err, body)
	case i == nil || time.Since(i.at) > 3*time.Second:
		return fault(404, 10062, "Unknown interaction")
	case i.acknowledged != 0:
		return fault(400, 40060, "Interaction has already been acknowledged")
	}
	i.acknowledged = d.Type
	return answer{204, nil}
}

func (s *Server) followUp(application, token string, body []byte, files map[string]string) answer {
	i := s.interactions[token]
	if i == nil || application != Application || i.acknowledged == 0 {
		return fault(404, 10015, "Unknown Webhook")
	}
	if time.Since(i.at) > 15*time.Minute {
		return fault(401, 50027, "Invalid Webhook Token")
	}
	m := &Message{Channel: i.channel, Files: files, Ephemeral: true, at: time.Now()}
	d, bad := s.read(body, m, files)
	if bad != nil {
		return *bad
	}
	if d.Nonce != "" || d.Reference != nil || d.Flags&^(4|64|4096) != 0 || d.Flags&64 == 0 {
		return s.wrong("a follow-up has a nonce, a reference or wrong flags: %s", body)
	}
	if i.original == nil {
		i.original = m
	}
	return s.add(m)
}
