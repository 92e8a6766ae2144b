// Command agui lets the client of AG-UI talk to the server as it is built from this tree, and says what it has understood that it should
// not have, or has not.
//
// It needs Node 20 and what npm install puts beside it; README.md says more.
package main

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/lingserve/lingserve/bench/peers/play"
)

func main() {
	play.Main(play.Program{Name: "agui", Workflows: documents, Answer: answer, Run: run})
}

// documents are workflows whose bots write what they are told to.
var documents = map[string]string{
	"document.yaml": `
name: document
model: openai:gpt-script
input: {type: object, required: [text], properties: {text: {type: string}}}
bots:
  writer: {message: "{{ input.text }}"}
`,
	"below.yaml": `
name: below
model: openai:gpt-script
input: {type: object, required: [left, right], properties: {left: {type: string}, right: {type: string}}}
bots:
  left: {message: "{{ input.left }}", root: a/b}
  right: {message: "{{ input.right }}", root: c}
  words: {message: "slow", root: words, format: text}
`,
}

func run(ctx context.Context, s *play.Stage, only string) (failed int, err error) {
	for _, c := range checks {
		if !strings.Contains(c.name, only) {
			continue
		}
		n, err := s.Play(ctx, c.name, "agent.mjs", func(g *play.Game) {
			c.play(&game{Game: g, thread: strings.ReplaceAll(c.name, " ", "-")})
		})
		if err != nil {
			return failed, err
		}
		failed += n
	}
	return failed, nil
}

// game is a check that is played in a thread of its own.
type game struct {
	*play.Game
	thread string
}

type job = play.Job

// check is one thing that is to be so.
type check struct {
	name string
	play func(g *game)
}

// do lets the client do something and returns what it has then.
func (g *game) do(what string, more job) *seen {
	got := new(seen)
	g.Do(what, &got.Seen, got, job{"thread": g.thread}, more)
	return got
}

// say says something to what stands at a path, in the check's thread.
func (g *game) say(path, text string, more ...job) *seen {
	j := job{"text": text}
	for _, m := range more {
		maps.Copy(j, m)
	}
	g.do("open", job{"path": path})
	return g.do("run", j)
}

// seen is what a client has understood.
type seen struct {
	play.Seen

	Run      string   `json:"run"`
	Answers  []int    `json:"answers"`
	Events   []string `json:"events"` // their types; of several in a row, one
	Notes    []note   `json:"notes"`
	Outcome  string   `json:"outcome"`
	Result   string   `json:"result"`
	State    string   `json:"state"`
	Failed   *failure `json:"failed"`   // what a RUN_ERROR says
	Rejected *failure `json:"rejected"` // what the run was rejected with
	Usage    []struct {
		Provider, Model           string
		InputTokens, OutputTokens int
	} `json:"usage"`
	Messages   []message `json:"messages"`
	Interrupts []struct {
		ID, Reason, Message, ToolCallID, ExpiresAt string
		ResponseSchema                             map[string]any
	} `json:"interrupts"`
	Parts []seen `json:"parts"`
}

type note struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type failure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Status  int    `json:"status"`
}

type message struct {
	ID         string `json:"id"`
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"toolCallId"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
}

// said are the messages as one reads them.
func (s *seen) said() (list []string) {
	for _, m := range s.Messages {
		var line strings.Builder
		line.WriteString(m.Role + ": " + m.Content)
		for _, c := range m.ToolCalls {
			line.WriteString(" " + c.Function.Name + c.Function.Arguments)
		}
		list = append(list, line.String())
	}
	return list
}
