package fakeslack

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Times and limits of Socket Mode.
const (
	maxSockets  = 10
	pingEvery   = 30 * time.Second
	closingTime = 10 * time.Second // between the warning and the end of a connection
	ticketLife  = 30 * time.Second
)

// sockets are the connections of Socket Mode. They are guarded by the server's lock.
type sockets struct {
	tickets map[string]time.Time // of addresses that were not used, when they were made
	open    []*socket            // the oldest first
	acks    map[string]func()    // by envelope
	opened  int
	sent    int      // envelopes
	faulty  []string // what the app did wrong
}

type socket struct {
	mu       sync.Mutex // of writes
	ws       *websocket.Conn
	inFlight map[string]bool
	hangs    atomic.Bool
}

func (c *socket) write(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(time.Minute))
	_ = c.ws.WriteJSON(v)
}

// Client reaches the server through connections in this process, which can be WebSockets. Close ends it.
func (s *Server) Client() *http.Client {
	listener := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	transport := &http.Transport{DialContext: listener.dial}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.running.Go(func() { _ = server.Serve(listener) })
	context.AfterFunc(s.ctx, func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return &http.Client{Transport: transport}
}

// memory is a listener in this process.
type memory struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-m.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "slack"} }

// openConnection is apps.connections.open. The lock is held.
func (s *Server) openConnection(token, host string) map[string]any {
	switch {
	case s.opts.AppToken == "" || strings.HasPrefix(token, "xoxb-"):
		return no("not_allowed_token_type")
	case token == "":
		return no("not_authed")
	case token != s.opts.AppToken:
		return no("invalid_auth")
	}
	ticket := "canary-ticket-" + rand.Text()
	s.sockets.tickets[ticket] = time.Now()
	return map[string]any{"ok": true, "url": "ws://" + host + "/link/?ticket=" + ticket + "&app_id=" + App}
}

// link serves one connection.
func (s *Server) link(w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	s.mu.Lock()
	made := s.sockets.tickets[ticket]
	valid := time.Since(made) < ticketLife
	delete(s.sockets.tickets, ticket)
	s.mu.Unlock()
	if !valid {
		http.Error(w, "expired", http.StatusRequestTimeout)
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // libraries send the origin https://api.slack.com
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &socket{ws: ws, inFlight: map[string]bool{}}
	stop := context.AfterFunc(s.ctx, func() { ws.Close() })
	defer stop()
	defer ws.Close()
	s.mu.Lock()
	n := len(s.sockets.open) + 1
	if n <= maxSockets {
		s.sockets.open = append(s.sockets.open, c)
		s.sockets.opened++
	}
	s.mu.Unlock()
	if n > maxSockets {
		c.write(map[string]any{"type": "disconnect", "reason": "too_many_websockets"})
		return
	}
	// Events come after hello only.
	c.write(map[string]any{"type": "hello", "num_connections": n, "connection_info": map[string]any{"app_id": App}, "debug_info": map[string]any{"host": "fake"}})
	s.mu.Lock()
	s.change()
	s.mu.Unlock()
	defer s.unlink(c)
	s.running.Go(func() { s.ping(c) })
	for {
		_ = ws.SetReadDeadline(time.Now().Add(2 * pingEvery))
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if ws.ReadJSON(&ack) != nil {
			return
		}
		s.mu.Lock()
		if done := s.sockets.acks[ack.ID]; done == nil || !c.inFlight[ack.ID] {
			s.sockets.faulty = append(s.sockets.faulty, "acknowledged the envelope "+ack.ID+", which this connection has not")
		} else {
			delete(c.inFlight, ack.ID)
			done()
		}
		s.mu.Unlock()
	}
}

// ping sends heartbeats. A connection whose client does not answer ends with its read deadline.
func (s *Server) ping(c *socket) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	c.ws.SetPongHandler(func(string) error { return c.ws.SetReadDeadline(time.Now().Add(2 * pingEvery)) })
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		if c.hangs.Load() {
			continue
		}
		if c.ws.WriteControl(websocket.PingMessage, []byte("ping"), time.Now().Add(time.Minute)) != nil {
			return
		}
	}
}

func (s *Server) unlink(c *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets.open = slices.DeleteFunc(s.sockets.open, func(o *socket) bool { return o == c })
	s.change()
}

// Sockets counts the connections that are open, and all that were opened so far.
func (s *Server) Sockets() (open, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets.open), s.sockets.opened
}

// Faulty lists what the app did wrong in Socket Mode.
func (s *Server) Faulty() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sockets.faulty)
}

// Disconnect tells the app to reconnect, for a reason, and ends the connections ten seconds later.
func (s *Server) Disconnect(reason string) {
	s.mu.Lock()
	open := slices.Clone(s.sockets.open)
	s.mu.Unlock()
	for _, c := range open {
		c.write(map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "fake"}})
		s.running.Go(func() {
			timer := time.NewTimer(closingTime)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-s.ctx.Done():
			}
			c.ws.Close()
		})
	}
}

// Break ends the connections without a word.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sockets.open {
		c.ws.Close()
	}
}

// Hang lets nothing more through the connections, as a network does that has lost them.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sockets.open {
		c.hangs.Store(true)
	}
	s.sockets.open = nil
}

// sendEnvelope makes one attempt to send a body by Socket Mode: by the oldest connection, which may be one that ends soon. It returns false if it is not
// acknowledged within the context.
func (s *Server) sendEnvelope(ctx context.Context, body []byte, retry int, reason string) bool {
	e := map[string]any{"type": "events_api", "payload": json.RawMessage(body), "accepts_response_payload": false, "retry_attempt": retry, "retry_reason": reason}
	if len(body) == 0 || body[0] != '{' {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			panic(err)
		}
		fields := map[string]string{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		e = map[string]any{"type": "slash_commands", "payload": fields, "accepts_response_payload": true}
		if form.Has("payload") {
			e = map[string]any{"type": "interactive", "payload": json.RawMessage(form.Get("payload")), "accepts_response_payload": true}
		}
	}
	acked := make(chan struct{})
	s.mu.Lock()
	if len(s.sockets.open) == 0 {
		s.mu.Unlock()
		return false
	}
	s.sockets.sent++
	id := fmt.Sprintf("envelope-%d", s.sockets.sent)
	e["envelope_id"] = id
	c := s.sockets.open[0]
	c.inFlight[id] = true
	s.sockets.acks[id] = sync.OnceFunc(func() { close(acked) })
	s.mu.Unlock()
	c.write(e)
	select {
	case <-acked:
		return true
	case <-ctx.Done():
		return false
	}
}
