// Package aisdktest folds a UI message stream to the message that the AI SDK's clients make of it, for tests. It is at least as
// strict as they are: what ends a stream in one of them is an error here.
package aisdktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
)

// Message is what a client has of an answer.
type Message struct {
	Version int // of the client's SDK

	ID        string
	Metadata  map[string]any
	Parts     []*Part
	Finish    string // the reason
	Error     string
	Aborted   bool
	Done      bool   // [DONE] has come
	Transient []Part // the data parts that are only handed on

	Chunks int
	Bytes  int

	texts map[string]*Part // that are open, by kind and id
	step  bool
}

// Part is a part of a message. Which members are set depends on the type.
type Part struct {
	Type     string
	ID       string // of data
	Text     string
	Open     bool   // of text and reasoning
	URI      string // of text and reasoning: the place in the document
	Data     json.RawMessage
	Call     string // of a tool
	Tool     string
	State    string
	Input    json.RawMessage
	Output   json.RawMessage
	Approval string // the id of the question
	Approved *bool
}

// member says what a chunk's member must be: s a string, b a boolean, v any value; ? it may be left out.
var chunks = map[string]string{
	"start": "messageId s? messageMetadata v?", "finish": "finishReason s? messageMetadata v?", "message-metadata": "messageMetadata v",
	"start-step": "", "finish-step": "", "abort": "reason s?", "error": "errorText s",
	"text-start": "id s providerMetadata v?", "text-delta": "id s delta s", "text-end": "id s",
	"reasoning-start": "id s providerMetadata v?", "reasoning-delta": "id s delta s", "reasoning-end": "id s",
	"tool-input-available":  "toolCallId s toolName s input v providerExecuted b? dynamic b?",
	"tool-output-available": "toolCallId s output v providerExecuted b? dynamic b?",
	"tool-output-error":     "toolCallId s errorText s providerExecuted b? dynamic b?",
	"data-":                 "id s? data v transient b?",
}

// Of later versions.
var (
	chunks6 = map[string]string{"tool-approval-request": "approvalId s toolCallId s", "tool-output-denied": "toolCallId s"}
	chunks7 = map[string]string{"tool-approval-response": "approvalId s approved b reason s?"}
)

var finishReasons = []string{"stop", "length", "content-filter", "tool-calls", "error", "other"}

// Write takes bytes of a stream that hold whole frames; comments are passed over.
func (m *Message) Write(stream []byte) error {
	m.Bytes += len(stream)
	if bytes.ContainsRune(stream, '\r') {
		return errors.New("there is a carriage return")
	}
	for frame := range strings.SplitSeq(string(stream), "\n\n") {
		for strings.HasPrefix(frame, ":\n") {
			frame = frame[2:]
		}
		if frame == "" {
			continue
		}
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(data, "\n") {
			return fmt.Errorf("a frame that is not one line of data: %.200q", frame)
		}
		if m.Done {
			return fmt.Errorf("a chunk behind the end: %s", data)
		}
		if data == "[DONE]" {
			m.Done = true
			continue
		}
		if err := m.take(data); err != nil {
			return fmt.Errorf("%w in %.300s", err, data)
		}
	}
	return nil
}

// Continue is the next request's stream, which goes on with the same message.
func (m *Message) Continue() { m.Done, m.Finish, m.texts, m.step = false, "", nil, false }

func (m *Message) take(data string) error {
	m.Chunks++
	var c map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return err
	}
	text := func(name string) (s string) {
		_ = json.Unmarshal(c[name], &s)
		return s
	}
	kind := text("type")
	if err := m.fits(kind, c); err != nil {
		return err
	}
	if m.Error != "" {
		return errors.New("a chunk behind an error")
	}
	if m.Chunks == 1 && kind != "start" {
		return errors.New("the stream begins with something else than start")
	}
	if m.texts == nil {
		m.texts = map[string]*Part{}
	}
	if family, is := strings.CutPrefix(kind, "data-"); is {
		return m.data(family, text("id"), c)
	}
	switch kind {
	case "start":
		m.ID = text("messageId")
		m.merge(c["messageMetadata"])
	case "finish", "message-metadata":
		if kind == "finish" {
			m.Finish = text("finishReason")
		}
		m.merge(c["messageMetadata"])
		if m.step || len(m.texts) > 0 {
			return errors.New("a step or a part is open at the end")
		}
	case "error":
		m.Error = text("errorText")
	case "abort":
		m.Aborted = true
	case "start-step":
		if m.step {
			return errors.New("the step before is open")
		}
		m.step = true
		m.Parts = append(m.Parts, &Part{Type: "step-start"})
	case "finish-step":
		if !m.step || len(m.texts) > 0 {
			return fmt.Errorf("no step is open, or %d of its parts", len(m.texts))
		}
		m.step = false
	case "text-start", "reasoning-start":
		kind = strings.TrimSuffix(kind, "-start")
		key := kind + text("id")
		if m.texts[key] != nil || !m.step {
			return errors.New("the part is open, or no step is")
		}
		p := &Part{Type: kind, Open: true}
		var ours struct{ Lingserve struct{ URI string } }
		if raw := c["providerMetadata"]; raw != nil && json.Unmarshal(raw, &ours) != nil {
			return errors.New("metadata of another kind")
		}
		p.URI = ours.Lingserve.URI
		m.texts[key] = p
		m.Parts = append(m.Parts, p)
	case "text-delta", "reasoning-delta":
		p := m.texts[strings.TrimSuffix(kind, "-delta")+text("id")]
		if p == nil {
			return errors.New("no such part is open")
		}
		p.Text += text("delta")
	case "text-end", "reasoning-end":
		key := strings.TrimSuffix(kind, "-end") + text("id")
		if m.texts[key] == nil {
			return errors.New("no such part is open")
		}
		m.texts[key].Open = false
		delete(m.texts, key)
	default:
		return m.tool(kind, text, c)
	}
	return nil
}

func (m *Message) tool(kind string, text func(string) string, c map[string]json.RawMessage) error {
	by := func(is func(p *Part) bool) *Part {
		for _, p := range slices.Backward(m.Parts) {
			if p.Type == "dynamic-tool" && is(p) {
				return p
			}
		}
		return nil
	}
	p := by(func(p *Part) bool { return p.Call == text("toolCallId") })
	if kind == "tool-input-available" {
		if string(c["dynamic"]) != "true" || string(c["providerExecuted"]) != "true" {
			return errors.New("the client would run it itself")
		}
		if p == nil {
			if !m.step {
				return errors.New("no step is open")
			}
			p = &Part{Type: "dynamic-tool", Call: text("toolCallId")}
			m.Parts = append(m.Parts, p)
		}
		p.Tool, p.Input, p.State = text("toolName"), c["input"], "input-available"
		return nil
	}
	if kind == "tool-approval-response" {
		p = by(func(p *Part) bool { return p.Approval == text("approvalId") && p.Approval != "" })
	}
	if p == nil {
		return errors.New("there is no such call")
	}
	switch kind {
	case "tool-output-available":
		p.State, p.Output = "output-available", c["output"]
	case "tool-output-error":
		p.State, p.Text = "output-error", text("errorText")
	case "tool-output-denied":
		p.State = "output-denied"
	case "tool-approval-request":
		p.State, p.Approval = "approval-requested", text("approvalId")
	case "tool-approval-response":
		approved := string(c["approved"]) == "true"
		p.State, p.Approved = "approval-responded", &approved
	}
	return nil
}

func (m *Message) data(family, id string, c map[string]json.RawMessage) error {
	p := Part{Type: "data-" + family, ID: id, Data: c["data"]}
	if string(c["transient"]) == "true" {
		m.Transient = append(m.Transient, p)
		return nil
	}
	if c["id"] == nil {
		return errors.New("a part that stays and has no id")
	}
	for _, old := range m.Parts {
		if old.Type == p.Type && old.ID == id {
			old.Data = p.Data
			return nil
		}
	}
	m.Parts = append(m.Parts, &p)
	return nil
}

// fits holds a chunk to what its type has.
func (m *Message) fits(kind string, c map[string]json.RawMessage) error {
	known := kind
	if strings.HasPrefix(kind, "data-") {
		known = "data-"
	}
	members, ok := chunks[known]
	if !ok && m.Version >= 6 {
		members, ok = chunks6[known]
	}
	if !ok && m.Version >= 7 {
		members, ok = chunks7[known]
	}
	if !ok {
		return fmt.Errorf("version %d knows no chunk %q", m.Version, kind)
	}
	words := strings.Fields(members)
	seen := 1
	for i := 0; i < len(words); i += 2 {
		value, there := c[words[i]]
		what, optional := strings.CutSuffix(words[i+1], "?")
		switch {
		case !there && optional:
			continue
		case !there:
			return fmt.Errorf("no %s", words[i])
		case what == "s" && value[0] != '"', what == "b" && value[0] != 't' && value[0] != 'f', what == "v" && optional && value[0] == 'n':
			return fmt.Errorf("%s is %.40s", words[i], value)
		}
		seen++
	}
	if seen != len(c) {
		return fmt.Errorf("%d members, expected %d", len(c), seen)
	}
	if reason := c["finishReason"]; reason != nil && !slices.Contains(finishReasons, strings.Trim(string(reason), `"`)) {
		return fmt.Errorf("finish reason %s", reason)
	}
	return nil
}

func (m *Message) merge(metadata json.RawMessage) {
	var more map[string]any
	if json.Unmarshal(metadata, &more) != nil {
		return
	}
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	for name, value := range more {
		m.Metadata[name] = value
	}
}

// Text is what all text parts say, joined.
func (m *Message) Text() string { return m.joined("text") }

// Reasoning is what all reasoning parts say, joined.
func (m *Message) Reasoning() string { return m.joined("reasoning") }

func (m *Message) joined(kind string) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == kind {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Document is the run's document as the parts have it: the texts, each at its place, and what there is as data in place of them.
func (m *Message) Document() (string, error) {
	var doc jsonuri.Document
	if err := m.addTexts(&doc, true); err != nil {
		return "", err
	}
	for _, p := range m.Parts {
		if p.Type != "data-ling" {
			continue
		}
		if p.ID == "" { // in place of all
			var whole jsonuri.Document
			err := whole.Set(nil, p.Data)
			return string(whole.AppendJSON(nil)), err
		}
		doc.Delete(p.ID)
		if err := doc.Set([]byte(p.ID), p.Data); err != nil {
			return "", err
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

// Deltas is the run's document as the texts and the deltas have it.
func (m *Message) Deltas() (string, error) {
	var doc jsonuri.Document
	// A text whose place has become data is as the deltas say.
	if err := m.addTexts(&doc, false); err != nil {
		return "", err
	}
	for _, p := range m.Transient {
		if p.Type != "data-delta" {
			continue
		}
		var d struct {
			URI   string
			Delta json.RawMessage
		}
		if err := json.Unmarshal(p.Data, &d); err != nil {
			return "", err
		}
		if d.Delta == nil {
			continue // it is done
		}
		var err error
		if d.Delta[0] == '"' {
			err = doc.Append([]byte(d.URI), d.Delta[1:len(d.Delta)-1])
		} else {
			err = doc.Set([]byte(d.URI), d.Delta)
		}
		if err != nil {
			return "", err
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

func (m *Message) addTexts(doc *jsonuri.Document, all bool) error {
	data := map[string]bool{}
	for _, p := range m.Parts {
		if p.Type == "data-ling" {
			data[p.ID] = true
		}
	}
	for _, p := range m.Parts {
		if p.Type != "text" || data[""] || !all && data[p.URI] {
			continue
		}
		quoted, err := json.Marshal(p.Text)
		if err != nil {
			return err
		}
		if err := doc.Append([]byte(p.URI), quoted[1:len(quoted)-1]); err != nil {
			return err
		}
	}
	return nil
}
