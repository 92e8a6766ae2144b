package openai

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Head is the part that all of an answer has in common.
type Head struct {
	ID      string // of the run: the completion's id is made of it
	Model   string // as the request names it
	Created int64  // seconds
}

// Reasons for which an answer ends, as clients know them.
const (
	Stop          = "stop"
	Length        = "length"
	ContentFilter = "content_filter"
)

// End is how an answer ends: with a reason, or an error.
type End struct {
	Finish string
	Err    *Error
	Usage  adapter.Usage // of all inferences
}

// heading are the first members of a completion, and of each chunk.
type heading struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

func (h Head) of(object string) heading {
	return heading{"chatcmpl-" + h.ID, object, h.Created, h.Model}
}

type completion struct {
	heading
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index    int       `json:"index"`
	Message  message   `json:"message"`
	Logprobs *struct{} `json:"logprobs"`
	Finish   string    `json:"finish_reason"`
}

// message has the reasoning twice, because clients look for either name.
type message struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"` // a string
	Refusal          *string         `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	Reasoning        string          `json:"reasoning,omitempty"`
	Annotations      []annotation    `json:"annotations,omitempty"`
}

type usage struct {
	Prompt            int                `json:"prompt_tokens"`
	Completion        int                `json:"completion_tokens"`
	Total             int                `json:"total_tokens"`
	PromptDetails     *promptDetails     `json:"prompt_tokens_details,omitempty"`
	CompletionDetails *completionDetails `json:"completion_tokens_details,omitempty"`
	Cost              float64            `json:"cost,omitempty"` // in dollars, as OpenRouter sends it
}

type promptDetails struct {
	Cached     int `json:"cached_tokens,omitempty"`
	CacheWrite int `json:"cache_write_tokens,omitempty"`
}

type completionDetails struct {
	Reasoning int `json:"reasoning_tokens,omitempty"`
}

func usageOf(u adapter.Usage) usage {
	v := usage{Prompt: u.PromptTokens, Completion: u.CompletionTokens, Total: u.TotalTokens, Cost: float64(u.Cost) / 1e6}
	if v.Total == 0 {
		v.Total = v.Prompt + v.Completion
	}
	if d := (promptDetails{u.CachedTokens, u.CacheWriteTokens}); d != (promptDetails{}) {
		v.PromptDetails = &d
	}
	if u.ReasoningTokens > 0 {
		v.CompletionDetails = &completionDetails{u.ReasoningTokens}
	}
	return v
}

// Completion returns a complete answer. Its content is the document of the run: the string that it is, or its JSON text. reserved are the
// run's reserved values.
func Completion(h Head, document, reserved []byte, end End) []byte {
	if len(document) == 0 || document[0] != '"' {
		document = rawjson.MustMarshal(string(document))
	}
	reasoning := Reasoning(reserved)
	m := message{Role: "assistant", Content: document, ReasoningContent: reasoning, Reasoning: reasoning, Annotations: annotations(reserved)}
	c := completion{h.of("chat.completion"), []choice{{Message: m, Finish: end.Finish}}, usageOf(end.Usage)}
	return append(rawjson.MustMarshal(c), '\n')
}
