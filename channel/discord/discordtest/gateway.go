package discordtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// heartbeatEvery is what the gateway asks for.
const heartbeatEvery = 41_250 * time.Millisecond

// intents that the bot has to ask for, and no others: guilds, messages of guilds and of direct conversations, and what they say.
const intents = 1<<0 | 1<<9 | 1<<12 | 1<<15

// session is what a client may resume.
type session struct {
	events []json.RawMessage // each with the number of its place, from 1
}

// connection is one of the client.
type connection struct {
	mu      sync.Mutex // of writes
	ws      *websocket.Conn
	session *session
}

type payload struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  int             `json:"s,omitempty"`
	Type string          `json:"t,omitempty"`
}

func (c *connection) write(op int, d any) {
	data, _ := json.Marshal(d)
	c.send(&payload{Op: op, Data: data})
}

func (c *connection) send(p any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(time.Minute))
	_ = c.ws.WriteJSON(p)
}

func (c *connection) close(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
	c.ws.Close()
}

// gateway serves one connection.
func (s *Server) gateway(w http.ResponseWriter, r *http.Request) {
	v, encoding := r.URL.Query().Get("v"), r.URL.Query().Get("encoding")
	ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	c := &connection{ws: ws}
	if v != "9" && v != "10" || encoding != "json" { // both have what the channel reads
		c.close(4012)
		return
	}
	c.write(10, map[string]any{"heartbeat_interval": heartbeatEvery.Milliseconds()})
	for {
		_ = ws.SetReadDeadline(time.Now().Add(2 * heartbeatEvery))
		var p payload
		if ws.ReadJSON(&p) != nil {
			break
		}
		if code := s.receive(c, &p); code != 0 {
			c.close(code)
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn = nil
	}
	s.wake()
}

// receive does what the client asks for, and returns the code to close the connection with.
func (s *Server) receive(c *connection, p *payload) (code int) {
	switch p.Op {
	case 1:
		c.write(11, nil)
	case 2:
		return s.identify(c, p.Data)
	case 6:
		return s.resume(c, p.Data)
	default:
		return 4001
	}
	return 0
}

func (s *Server) identify(c *connection, data []byte) (code int) {
	var d struct {
		Token      string            `json:"token"`
		Intents    int               `json:"intents"`
		Properties map[string]string `json:"properties"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case json.Unmarshal(data, &d) != nil || d.Token != "Bot "+Token && d.Token != Token:
		return 4004
	case s.o.Close != 0:
		return s.o.Close
	case d.Intents != intents || d.Properties["os"]+d.Properties["$os"] == "":
		s.wrong("the intents are %d and the properties %v", d.Intents, d.Properties)
		return 4013
	}
	id := "session-" + strconv.Itoa(len(s.sessions)+1)
	c.session = &session{}
	s.sessions[id] = c.session
	s.begin(c)
	user := map[string]any{"id": Bot, "username": "ling", "bot": true}
	s.emit("READY", map[string]any{"v": 10, "session_id": id, "user": user, "application": map[string]any{"id": Application}, "guilds": []any{}})
	guilds := map[string][]*Channel{}
	for _, ch := range s.channels {
		if ch.GuildID != "" {
			guilds[ch.GuildID] = append(guilds[ch.GuildID], ch)
		}
	}
	for _, guild := range slices.Sorted(maps.Keys(guilds)) {
		channels, threads := []*Channel{}, []*Channel{}
		for _, ch := range guilds[guild] {
			if ch.Type == 11 {
				threads = append(threads, ch)
			} else {
				channels = append(channels, ch)
			}
		}
		s.emit("GUILD_CREATE", map[string]any{
			"id": guild, "name": "Team", "channels": channels, "threads": threads,
			"roles":   []map[string]any{{"id": BotRole, "name": "Ling", "managed": true, "permissions": "0"}, {"id": "903", "name": "Crew", "permissions": "0"}},
			"members": []map[string]any{{"user": user, "roles": []string{BotRole, "903"}, "joined_at": time.Now()}},
		})
	}
	return 0
}

// begin makes a connection the one that events go to. mu is held.
func (s *Server) begin(c *connection) {
	s.conn = c
	s.connections++
	s.wake()
}

func (s *Server) resume(c *connection, data []byte) (code int) {
	var d struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.Unmarshal(data, &d) != nil || d.Token != "Bot "+Token {
		return 4004
	}
	c.session = s.sessions[d.Session]
	if c.session == nil || d.Seq > len(c.session.events) {
		c.write(9, false)
		return 0
	}
	s.begin(c)
	for _, e := range c.session.events[d.Seq:] {
		c.send(e)
	}
	s.emit("RESUMED", map[string]any{})
	return 0
}

// emit tells the client of an event. Without a connection, its last session keeps it. mu is held.
func (s *Server) emit(kind string, d any) {
	var last *session
	if s.conn != nil {
		last = s.conn.session
	} else {
		last = s.sessions["session-"+strconv.Itoa(len(s.sessions))]
	}
	if last == nil {
		return
	}
	data, _ := json.Marshal(d)
	event, _ := json.Marshal(&payload{Data: data, Seq: len(last.events) + 1, Type: kind})
	last.events = append(last.events, event)
	if s.conn != nil {
		s.conn.send(json.RawMessage(event))
	}
}

// Connections counts the connections that were identified or resumed.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Connected reports whether there is a connection.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

// Cut ends the connection to the gateway.
func (s *Server) Cut() {
	s.mu.Lock()
	c := s.conn
	s.conn = nil
	s.mu.Unlock()
	if c != nil {
		c.ws.Close()
	}
}

// Reconnect asks the client to connect again.
func (s *Server) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.write(7, nil)
}

// Rename changes the id of a button.
func (s *Server) Rename(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		for i := range m.Buttons {
			if m.Buttons[i] == from {
				m.Buttons[i] = to
			}
		}
	}
}

// Forget ends the connection and its session, and those before.
func (s *Server) Forget() {
	s.Cut()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]*session{}
}

// Say has somebody write; the members of m go over those that a message has anyway. It returns the id of the message.
func (s *Server) Say(channel, author, content string, m map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	event := map[string]any{
		"id": s.id(), "channel_id": channel, "content": content, "type": 0, "timestamp": time.Now(), "edited_timestamp": nil, "mentions": []any{}, "mention_roles": []any{}, "attachments": []any{},
		"author": map[string]any{"id": author, "username": "user" + author, "global_name": "User " + author},
	}
	if c := s.channels[channel]; c != nil && c.GuildID != "" {
		event["guild_id"], event["member"] = c.GuildID, map[string]any{"nick": nil, "roles": []string{}, "joined_at": time.Now()}
	}
	maps.Copy(event, m)
	s.people = append(s.people, event)
	s.emit("MESSAGE_CREATE", event)
	return event["id"].(string)
}

// Emit tells the client of an event of any kind.
func (s *Server) Emit(kind string, d map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(kind, d)
}

// Interact has somebody give a command, or press a button below a message of the bot. It returns the token of the interaction.
func (s *Server) Interact(channel, user string, data map[string]any) (token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id()
	token = "token-" + id
	s.interactions[token] = &interaction{at: time.Now(), channel: channel}
	who := map[string]any{"id": user, "username": "user" + user, "global_name": "User " + user}
	event := map[string]any{"id": id, "application_id": Application, "token": token, "channel_id": channel, "data": data, "type": 2, "version": 1, "app_permissions": "0"}
	if custom, ok := data["custom_id"]; ok {
		event["type"] = 3
		for _, m := range s.messages {
			if slices.Contains(m.Buttons, fmt.Sprint(custom)) {
				event["message"] = map[string]any{"id": m.ID, "channel_id": m.Channel, "author": map[string]any{"id": Bot}, "components": []any{map[string]any{"type": 99}}}
			}
		}
	}
	if c := s.channels[channel]; c != nil && c.GuildID != "" {
		event["guild_id"], event["member"] = c.GuildID, map[string]any{"user": who, "roles": []string{}, "permissions": "0", "joined_at": time.Now()}
	} else {
		event["user"] = who
	}
	s.emit("INTERACTION_CREATE", event)
	return token
}

// Withdrawn reports whether the deferred answer to an interaction was taken back.
func (s *Server) Withdrawn(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interactions[token].withdrawn
}

// Acknowledged returns the type of the first answer to an interaction; 0 is none.
func (s *Server) Acknowledged(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interactions[token].acknowledged
}
