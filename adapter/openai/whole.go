package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
	goopenai "github.com/sashabaranov/go-openai"
)

// maxWhole is how large an answer in one piece may be, in bytes.
const maxWhole = 16 << 20

// whole yields an answer in one piece, as servers send it that do not stream whatever they are asked for; and the error of one
// that reports it with status 200. White space before it is a heartbeat.
func (a *answer) whole() error {
	p := a.m.p
	body, err := io.ReadAll(io.LimitReader(a.res.Body, maxWhole+1))
	if err != nil {
		return p.Broken(a.ctx, err)
	}
	if len(body) > maxWhole {
		return p.notAnswer("a chat completion", errors.New("larger than allowed"), body)
	}
	a.events.init()
	if a.events.decode(string(body)) == errReported {
		return p.Failed(body)
	}
	var answer goopenai.ChatCompletionResponse
	if err := json.Unmarshal(body, &answer); err != nil {
		return p.notAnswer("a chat completion", err, body)
	}
	if len(answer.Choices) == 0 {
		return p.notAnswer("a chat completion", errors.New("no choices"), body)
	}
	said := answer.Choices[0]
	if said.FinishReason == "" || said.FinishReason == goopenai.FinishReasonNull {
		return p.Broken(a.ctx, nil)
	}
	text, reasoning := said.Message.Content, said.Message.ReasoningContent
	if text == "" {
		text = said.Message.Refusal
	}
	if text != "" || reasoning != "" {
		if !a.pass(adapter.Chunk{Text: text, Reasoning: reasoning}) {
			return errLeft
		}
	}
	for i, c := range said.Message.ToolCalls {
		if !a.pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}}) {
			return errLeft
		}
	}
	if u := answer.Usage; u.TotalTokens+u.PromptTokens+u.CompletionTokens > 0 {
		a.usage = &adapter.Usage{PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, TotalTokens: u.TotalTokens}
	}
	a.finish = finishReason(string(said.FinishReason))
	a.events.calls = make([]call, len(said.Message.ToolCalls))
	return a.end()
}

// notAnswer makes the error of an answer that is not what was expected.
func (p *provider) notAnswer(expected string, err error, body []byte) error {
	return &adapter.Error{
		Code: adapter.CodeProtocol, Status: http.StatusOK,
		Message: p.Name() + " answered with something that is not " + expected,
		Cause:   fmt.Errorf("%w: %s", err, p.Redact(body)),
	}
}
