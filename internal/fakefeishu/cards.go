package fakefeishu

import (
	"encoding/json"
	"html"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// element is one of a card of version 2.0, of the kinds that the platform has and that stand here: markdown, div, column_set, column, button.
type element struct {
	Tag       string            `json:"tag"`
	Content   string            `json:"content"`
	Text      *cardText         `json:"text"`
	Type      string            `json:"type"`
	Width     string            `json:"width"`
	Columns   []json.RawMessage `json:"columns"`
	Elements  []json.RawMessage `json:"elements"`
	Behaviors []behavior        `json:"behaviors"`

	inside []element
}

type cardText struct {
	Tag     string `json:"tag"`
	Content string `json:"content"`
}

type behavior struct {
	Type  string         `json:"type"`
	Value map[string]any `json:"value"`
}

// members are those that each kind may have.
var members = map[string][]string{
	"markdown": {"tag", "content"}, "div": {"tag", "text"}, "column_set": {"tag", "columns"}, "column": {"tag", "width", "elements"},
	"button": {"tag", "text", "type", "behaviors"},
}

// readElement reads an element of the body of a card; ok is false for one that the platform does not take.
func readElement(raw json.RawMessage) (e element, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(raw, &e) != nil {
		return e, false
	}
	for name := range all {
		if !slices.Contains(members[e.Tag], name) {
			return e, false
		}
	}
	plain := e.Text != nil && e.Text.Tag == "plain_text" && e.Text.Content != ""
	switch e.Tag {
	case "markdown":
		return e, e.Content != ""
	case "div":
		return e, plain
	case "button":
		ok = plain && utf8.RuneCountInString(e.Text.Content) <= 100 && slices.Contains([]string{"default", "primary", "danger"}, e.Type) &&
			len(e.Behaviors) == 1 && e.Behaviors[0].Type == "callback" && len(e.Behaviors[0].Value) > 0
		return e, ok
	case "column_set", "column":
		list, want := e.Columns, "column"
		if e.Tag == "column" {
			list, want = e.Elements, ""
			if e.Width != "auto" && e.Width != "weighted" {
				return e, false
			}
		}
		for _, raw := range list {
			inner, ok := readElement(raw)
			if !ok || (inner.Tag == "column") != (want == "column") {
				return e, false
			}
			e.inside = append(e.inside, inner)
		}
		return e, len(e.inside) > 0
	}
	return e, false
}

// seen is what people see of an element: labels of buttons stand in brackets.
func (e *element) seen() string {
	switch e.Tag {
	case "markdown":
		return html.UnescapeString(e.Content)
	case "div":
		return e.Text.Content
	case "button":
		return "[" + e.Text.Content + "]"
	}
	var b strings.Builder
	for _, i := range e.inside {
		b.WriteString(i.seen())
	}
	return b.String()
}

// find is the button with a label, nil where there is none.
func (e *element) find(label string) *element {
	if e.Tag == "button" && e.Text.Content == label {
		return e
	}
	for i := range e.inside {
		if b := e.inside[i].find(label); b != nil {
			return b
		}
	}
	return nil
}

// Press is the event of somebody who presses the button with a label; nil where there is none. The card is as it stands now, or as the client
// of whoever presses still shows it.
func (s *Server) Press(m Message, label, from string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var card struct {
		Body struct {
			Elements []json.RawMessage `json:"elements"`
		} `json:"body"`
	}
	_ = json.Unmarshal([]byte(m.Content), &card)
	for _, raw := range card.Body.Elements {
		e, _ := readElement(raw)
		if b := e.find(label); b != nil {
			return s.event("card.action.trigger", map[string]any{
				"operator": map[string]any{"tenant_key": "tenant", "user_id": "", "open_id": from, "union_id": "on_" + from},
				"token":    "c-fake-card-token", "action": map[string]any{"value": b.Behaviors[0].Value, "tag": "button"}, "host": "im_message",
				"context": map[string]any{"open_message_id": m.ID, "open_chat_id": m.Chat},
			})
		}
	}
	return nil
}

// Reaction is one at a message.
type Reaction struct{ ID, From, Emoji string }

// Reactions are those at a message.
func (s *Server) Reactions(message string) []Reaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages[message].Reactions)
}

// Put makes a message known as it is, of which the app is not told.
func (s *Server) Put(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[m.ID] = &m
	s.chats[m.Chat].messages = append(s.chats[m.Chat].messages, &m)
}

// emojis are some of those that the platform knows.
var emojis = []string{"Typing", "OK", "THUMBSUP", "DONE", "SMILE"}

// react adds a reaction of the app, lists those of a kind, or removes one. The lock is held.
func (s *Server) react(call *Call, r *http.Request, ids []string) reply {
	m := s.messages[ids[0]]
	if m == nil || m.Recalled {
		return no(231003, "The message is not found")
	}
	shape := func(one Reaction) map[string]any {
		kind := "user"
		if one.From == s.o.AppID {
			kind = "app"
		}
		return map[string]any{
			"reaction_id": one.ID, "operator": map[string]string{"operator_id": one.From, "operator_type": kind}, "action_time": "1626086391570",
			"reaction_type": map[string]string{"emoji_type": one.Emoji},
		}
	}
	switch call.Name {
	case "react":
		kind, _ := call.Body["reaction_type"].(map[string]any)
		emoji, _ := kind["emoji_type"].(string)
		if !slices.Contains(emojis, emoji) {
			return no(231001, "reaction type is invalid")
		}
		one := Reaction{s.id("re"), s.o.AppID, emoji}
		m.Reactions = append(m.Reactions, one)
		call.Message = m.ID
		return reply{data: shape(one)}
	case "reactions":
		var items []any
		for _, one := range m.Reactions {
			if kind := r.URL.Query().Get("reaction_type"); kind == "" || kind == one.Emoji {
				items = append(items, shape(one))
			}
		}
		return reply{data: map[string]any{"items": items, "has_more": false, "page_token": ""}}
	}
	i := slices.IndexFunc(m.Reactions, func(one Reaction) bool { return one.ID == ids[1] && one.From == s.o.AppID })
	if i < 0 {
		return no(231010, "The reaction is not found")
	}
	one := m.Reactions[i]
	m.Reactions = slices.Delete(m.Reactions, i, i+1)
	call.Message = m.ID
	return reply{data: shape(one)}
}
