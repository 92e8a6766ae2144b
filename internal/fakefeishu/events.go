package fakefeishu

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// Said is what somebody writes.
type Said struct {
	ID       string // "" is a new one
	Chat     string
	From     string // open_id
	Type     string // "" is text
	Text     string // of a text
	Content  any    // of other types
	Mentions []Mention
	Parent   string // the message that it replies to
	Root     string
	Thread   string
	Sender   string // sender_type; "" is user
}

// Mention is somebody whom a message names: with its key in the text.
type Mention struct{ Key, ID, Name string }

// MentionBot is a mention of the bot by the first key.
func MentionBot() []Mention { return []Mention{{"@_user_1", BotID, "Ling"}} }

// Post is one delivery of an event, and its answer.
type Post struct {
	At     time.Time
	Event  string
	Status int // 0 is no answer in time
	Body   string
}

// Say puts a message in a chat and returns its event, which is not delivered yet.
func (s *Server) Say(m Said) (event map[string]any, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[m.Chat]
	if c == nil {
		panic("fakefeishu: there is no chat " + m.Chat)
	}
	if m.Type == "" {
		m.Type, m.Content = "text", map[string]string{"text": m.Text}
	}
	if m.Sender == "" {
		m.Sender = "user"
	}
	content, err := json.Marshal(m.Content)
	if err != nil {
		panic(err)
	}
	if m.ID == "" {
		m.ID = s.id("om")
	}
	at := time.Now()
	stands := &Message{
		ID: m.ID, Chat: m.Chat, From: m.From, Type: m.Type, Content: string(content), Text: m.Text, Parent: m.Parent, Root: m.Root,
		Thread: m.Thread, At: at,
	}
	if before := s.messages[m.ID]; before != nil {
		at = before.At
		*before = *stands
		before.At = at
	} else {
		s.messages[m.ID] = stands
		c.messages = append(c.messages, stands)
	}
	body := map[string]any{
		"message_id": m.ID, "create_time": fmt.Sprint(at.UnixMilli()), "update_time": fmt.Sprint(at.UnixMilli()), "chat_id": m.Chat,
		"chat_type": c.kind, "message_type": m.Type, "content": string(content), "user_agent": "test",
	}
	for name, value := range map[string]string{"parent_id": m.Parent, "root_id": m.Root, "thread_id": m.Thread} {
		if value != "" {
			body[name] = value
		}
	}
	var list []any
	for _, x := range m.Mentions {
		list = append(list, map[string]any{
			"key": x.Key, "name": x.Name, "tenant_key": "tenant",
			"id": map[string]string{"open_id": x.ID, "union_id": "on_" + x.ID, "user_id": ""},
		})
	}
	if list != nil {
		body["mentions"] = list
	}
	return s.event("im.message.receive_v1", map[string]any{
		"sender": map[string]any{
			"sender_id":   map[string]string{"open_id": m.From, "union_id": "on_" + m.From, "user_id": ""},
			"sender_type": m.Sender, "tenant_key": "tenant",
		},
		"message": body,
	}), m.ID
}

// Event makes any other event.
func (s *Server) Event(kind string, body map[string]any) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.event(kind, body)
}

func (s *Server) event(kind string, body map[string]any) map[string]any {
	return map[string]any{
		"schema": "2.0",
		"header": map[string]any{
			"event_id": s.id("ev"), "event_type": kind, "create_time": fmt.Sprint(time.Now().UnixMilli()), "token": s.o.Token,
			"app_id": s.o.AppID, "tenant_key": "tenant",
		},
		"event": body,
	}
}

// Challenge is the question for the address.
func (s *Server) Challenge(text string) map[string]any {
	return map[string]any{"challenge": text, "token": s.o.Token, "type": "url_verification"}
}

// Request is an event as the platform posts it now. What is not signed is the question for the address.
func (s *Server) Request(ctx context.Context, event map[string]any) *http.Request {
	plain, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(map[string]string{"encrypt": Encrypt(s.o.Key, plain)})
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	url := s.o.URL
	s.mu.Unlock()
	if url == "" {
		url = "http://door.test/"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if _, question := event["challenge"]; !question {
		Sign(r, s.o.Key, body, time.Now())
	}
	return r
}

// Sign puts the signature of a body into the headers of a request.
func Sign(r *http.Request, key string, body []byte, at time.Time) {
	timestamp, nonce := fmt.Sprint(at.Unix()), rand.Text()
	sum := sha256.Sum256([]byte(timestamp + nonce + key + string(body)))
	r.Header.Set("X-Lark-Request-Timestamp", timestamp)
	r.Header.Set("X-Lark-Request-Nonce", nonce)
	r.Header.Set("X-Lark-Signature", hex.EncodeToString(sum[:]))
}

// Encrypt encrypts as the platform does.
func Encrypt(key string, plain []byte) string {
	sum := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		panic(err)
	}
	n := aes.BlockSize - len(plain)%aes.BlockSize
	padded := append(bytes.Clone(plain), bytes.Repeat([]byte{byte(n)}, n)...)
	out := make([]byte, aes.BlockSize+len(padded))
	rand.Read(out[:aes.BlockSize])
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], padded)
	return base64.StdEncoding.EncodeToString(out)
}

// patience is how long the platform waits for an answer, and again are its pauses before it posts an event once more.
var (
	patience = 3 * time.Second
	again    = []time.Duration{15 * time.Second, 5 * time.Minute, time.Hour, 6 * time.Hour}
)

// Deliver posts an event until it is answered as it should be, beside the caller.
func (s *Server) Deliver(event map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.running.Go(func() {
		for i := 0; ; i++ {
			if s.Post(s.ctx, event).Status == http.StatusOK || i == len(again) {
				return
			}
			if backoff.Sleep(s.ctx, again[i]) != nil {
				return
			}
		}
	})
}

// Post posts an event once.
func (s *Server) Post(ctx context.Context, event map[string]any) Post {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.mu.Lock()
	door := s.o.Door
	s.mu.Unlock()
	r := s.Request(ctx, event)
	p := Post{At: time.Now()}
	if h, ok := event["header"].(map[string]any); ok {
		p.Event, _ = h["event_id"].(string)
	}
	if door != nil {
		rec := newRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			door.ServeHTTP(rec, r)
		}()
		<-done // a door looks at the context
		if ctx.Err() == nil {
			p.Status, p.Body = rec.status, rec.body.String()
		}
	} else if res, err := s.o.Deliver.Do(r); err == nil {
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		res.Body.Close()
		if err == nil {
			p.Status, p.Body = res.StatusCode, string(body)
		}
	}
	s.mu.Lock()
	s.posts = append(s.posts, p)
	s.change()
	s.mu.Unlock()
	return p
}

// Posts are all deliveries so far.
func (s *Server) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Post(nil), s.posts...)
}
