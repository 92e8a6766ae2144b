// Command aisdk lets the AI SDK's chats of versions 5, 6 and 7 talk to the server as it is built from this tree, and says what they have
// understood that they should not have, or have not.
//
// It needs Node 20 and what npm install puts beside it; README.md says more.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bench/peers/play"
	"github.com/lingserve/lingserve/jsonuri"
)

func main() {
	play.Main(play.Program{Name: "aisdk", Run: run})
}

func run(ctx context.Context, s *play.Stage, only string) (failed int, err error) {
	for version := 5; version <= 7; version++ {
		client := fmt.Sprint("ai", version)
		for _, c := range checks {
			line := client + "  " + c.name
			if c.since > version || !strings.Contains(line, only) {
				continue
			}
			n, err := s.Play(ctx, line, "chat.mjs", func(g *play.Game) {
				g.Loud = c.loud
				c.play(&game{Game: g, version: version, id: client + "/" + c.name})
			}, client)
			if err != nil {
				return failed, err
			}
			failed += n
		}
	}
	return failed, nil
}

// seen is what a client has understood.
type seen struct {
	play.Seen

	Status   string    `json:"status"`
	Statuses []string  `json:"statuses"`
	Failed   string    `json:"failed"` // what the chat's error says
	Code     int       `json:"code"`
	Messages []message `json:"messages"`
	Data     []part    `json:"data"`  // given to onData
	Calls    int       `json:"calls"` // of onToolCall
	Finish   struct {
		IsAbort, IsDisconnect, IsError bool
		FinishReason                   string
	} `json:"finish"`
	Requests []string `json:"requests"`
	Answers  []string `json:"answers"`
	Got      struct {
		ID       string          `json:"id"`
		Messages json.RawMessage `json:"messages"`
	} `json:"got"`

	Object struct {
		Status            int
		Run, Text, Broken string
		Value             json.RawMessage
		Pieces            int
	} `json:"object"`
}

// message is a UIMessage of the client.
type message struct {
	ID       string `json:"id"`
	Role     string `json:"role"`
	Parts    []part `json:"parts"`
	Metadata struct {
		Run, Session, Agent, Workflow, Status string
		Usage                                 map[string]struct {
			Total int `json:"total_tokens"`
		}
	} `json:"metadata"`
}

type part struct {
	Type      string              `json:"type"`
	Text      string              `json:"text"`
	State     string              `json:"state"`
	ID        string              `json:"id"`
	Data      json.RawMessage     `json:"data"`
	Transient bool                `json:"transient"`
	ToolName  string              `json:"toolName"`
	Input     json.RawMessage     `json:"input"`
	Output    json.RawMessage     `json:"output"`
	ErrorText string              `json:"errorText"`
	Approval  struct{ ID string } `json:"approval"`
	Provider  struct {
		Lingserve struct{ URI string } `json:"lingserve"`
	} `json:"providerMetadata"`
}

// text is what the text parts say.
func (m message) text(kind string) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == kind {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// answer is the last message, the assistant's.
func (s *seen) answer() message {
	if n := len(s.Messages); n > 0 && s.Messages[n-1].Role == "assistant" {
		return s.Messages[n-1]
	}
	return message{}
}

// tools are the tool parts of the answer, as one reads them.
func (s *seen) tools() (list []string) {
	for _, p := range s.answer().Parts {
		if p.Type == "dynamic-tool" {
			list = append(list, strings.TrimSpace(fmt.Sprint(p.ToolName, " ", p.State, " ", p.ErrorText)))
		}
	}
	return list
}

// document is what the answer's parts fold to, as the guide says.
func (s *seen) document() (string, error) {
	var doc jsonuri.Document
	for _, p := range s.answer().Parts {
		switch p.Type {
		case "text":
			quoted, _ := json.Marshal(p.Text)
			if err := doc.Append([]byte(p.Provider.Lingserve.URI), quoted[1:len(quoted)-1]); err != nil {
				return "", err
			}
		case "data-ling":
			if err := doc.Set([]byte(p.ID), p.Data); err != nil {
				return "", err
			}
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

// deltas is what the deltas fold to that onData got.
func (s *seen) deltas() (string, error) {
	var doc jsonuri.Document
	for _, p := range s.Data {
		if p.Type != "data-delta" {
			continue
		}
		var d struct {
			URI   string
			Delta json.RawMessage
		}
		err := json.Unmarshal(p.Data, &d)
		switch {
		case err != nil:
		case d.Delta[0] == '"':
			err = doc.Append([]byte(d.URI), d.Delta[1:len(d.Delta)-1])
		default:
			err = doc.Set([]byte(d.URI), d.Delta)
		}
		if err != nil {
			return "", err
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

// game is a check that is played in a chat of its own.
type game struct {
	*play.Game
	version int
	id      string // of the chat
}

type job = play.Job

// do lets the client do something and returns what it has then.
func (g *game) do(what string, more job) *seen {
	got := new(seen)
	g.Do(what, &got.Seen, got, job{"id": g.id}, more)
	return got
}

// open opens the chat at a path below /v1/ui.
func (g *game) open(path string, more ...job) {
	j := job{"path": "/v1/ui/" + path}
	for _, m := range more {
		for name, value := range m {
			j[name] = value
		}
	}
	g.do("open", j)
}

func (g *game) send(text string) *seen { return g.do("send", job{"text": text}) }

// check is something that a client does.
type check struct {
	name  string
	since int  // the first version that can
	loud  bool // it complains
	play  func(*game)
}

// complete says what is wrong with an answer that should be complete.
func (g *game) complete(s *seen, text string) {
	g.Is("status", "ready", s.Status)
	g.Is("error", "", s.Failed)
	g.Is("finish reason", "stop", s.Finish.FinishReason)
	g.Is("text", text, s.answer().text("text"))
	for _, p := range s.answer().Parts {
		if (p.Type == "text" || p.Type == "reasoning") && p.State != "done" {
			g.Fail("a part is %s", p.State)
		}
	}
}

// one says what is wrong where there should be one question and one answer.
func (g *game) one(s *seen) {
	var roles []string
	for _, m := range s.Messages {
		roles = append(roles, m.Role)
	}
	g.Is("messages", []string{"user", "assistant"}, roles)
}

// withKind are the data parts of a type.
func withKind(list []part, kind string) []part {
	return slices.DeleteFunc(slices.Clone(list), func(p part) bool { return p.Type != kind })
}
