package faketelegram

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// press is a press of a button that the bot is told of.
type press struct {
	at       time.Time
	answers  []string
	answered bool
}

// pressLife is how long a press can be answered.
const pressLife = 10 * time.Minute

// keyboard reads what is to stand below a message. It takes inline keyboards whose buttons tell the bot of themselves; members that the
// platform does not know are refused, so that a slip is seen.
func (r *request) keyboard() (*Keyboard, *refusal) {
	text := r.params["reply_markup"]
	if text == "" {
		return nil, nil
	}
	k := new(Keyboard)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(k) != nil {
		return nil, bad("can't parse reply keyboard markup JSON object")
	}
	n := 0
	for _, row := range k.Rows {
		for _, b := range row {
			switch n++; {
			case strings.TrimSpace(b.Text) == "":
				return nil, bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
			case b.Data == "" || len(b.Data) > 64:
				return nil, bad("BUTTON_DATA_INVALID")
			}
		}
	}
	if n > 100 {
		return nil, bad("REPLY_MARKUP_TOO_LONG")
	}
	if n == 0 {
		return nil, nil
	}
	return k, nil
}

func (s *Server) editMessageReplyMarkup(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, refused := s.find(r.params["chat_id"], true)
	if refused != nil {
		return nil, refused
	}
	k, refused := r.keyboard()
	if refused != nil {
		return nil, refused
	}
	m := c.message(int(number(r.params["message_id"])))
	switch {
	case m == nil:
		return nil, bad("message to edit not found")
	case m.From == nil || m.From.ID != s.me.ID:
		return nil, bad("message can't be edited")
	case k == nil && m.Keyboard == nil:
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a " +
			"current content and reply markup of the message")
	}
	m.Keyboard, r.call.Message = k, m.ID
	s.change()
	return *m, nil
}

func (s *Server) answerCallbackQuery(r *request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presses[r.params["callback_query_id"]]
	switch {
	case p == nil || time.Since(p.at) > pressLife:
		return nil, bad("query is too old and response timeout expired or query ID is invalid")
	case units(r.params["text"]) > 200:
		return nil, bad("MESSAGE_TOO_LONG")
	}
	p.answered = true
	p.answers = append(p.answers, r.params["text"])
	s.change()
	return true, nil
}

// Press lets somebody press the button with a text below a message, and returns the id of the press; "" where there is no such button, or
// the bot has not asked for presses.
func (s *Server) Press(chat int64, message int, from *User, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.chats[chat].message(message)
	if m == nil || m.Keyboard == nil {
		return ""
	}
	for _, row := range m.Keyboard.Rows {
		if i := slices.IndexFunc(row, func(b Button) bool { return b.Text == text }); i >= 0 {
			return s.press(m, from, row[i].Data)
		}
	}
	return ""
}

// PressData tells the bot of a press with any data, as of a message of which a client still shows the buttons.
func (s *Server) PressData(chat int64, message int, from *User, data string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.press(s.chats[chat].message(message), from, data)
}

// press tells the bot of a press. The lock is held.
func (s *Server) press(m *Message, from *User, data string) string {
	id := fmt.Sprintf("%d", 4_000_000+len(s.presses))
	short := *m
	if s.enqueue("callback_query", Press{ID: id, From: from, Message: &short, Instance: "-1", Data: data}) == 0 {
		return ""
	}
	s.presses[id] = &press{at: time.Now()}
	return id
}

// Answers are the texts that a press was answered with; answered is false while the client shows that it waits.
func (s *Server) Answers(press string) (texts []string, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presses[press]
	if p == nil {
		return nil, false
	}
	return slices.Clone(p.answers), p.answered
}
