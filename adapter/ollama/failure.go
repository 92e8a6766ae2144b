package ollama

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// explainRefusal improves the error of an answer with another status than 200.
func (m *model) explainRefusal(e *adapter.Error, r *wire.Refusal) {
	m.explain(e, wire.ReadReport(r.Body).Message)
	if strings.Contains(string(r.Body), "signin_url") {
		e.Message = "the model runs in Ollama's cloud: sign in with `ollama signin` on Ollama's machine"
	}
}

// failed makes the error of a line that reports one.
func (m *model) failed(line []byte) *adapter.Error {
	e := m.Failed(line)
	m.explain(e, wire.ReadReport(line).Message)
	return e
}

// explain says what is known of the failures that Ollama tells only by its words. The sentences are ours.
func (m *model) explain(e *adapter.Error, said string) {
	said = strings.ToLower(said)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
	}
	set := func(code, message string, retryable bool) {
		e.Code, e.Message, e.Retryable = code, message, retryable
	}
	switch {
	case e.ContextLength || says("context length", "context size", "context window", "prompt too long"):
		set(adapter.CodeInvalid, "the request is too long for the model: shorten the prompt or the history, or raise the model's num_ctx", false)
		e.ContextLength = true
	case says("model") && says("not found"):
		set(adapter.CodeProtocol, "the model "+m.name+" is not pulled: run `ollama pull "+m.name+"`", false)
	case e.Status == http.StatusNotFound:
		e.Message = m.Name() + " does not know the address: check the base URL, which is Ollama's own here, without /v1"
	case says("does not support tools"):
		set(adapter.CodeInvalid, "the model "+m.name+" does not support tools: choose another one, or remove the tools", false)
	case says("does not support thinking", "think value"):
		set(adapter.CodeInvalid, "the model "+m.name+" does not support this kind of thinking: remove the option, or choose another model", false)
	case says("does not support vision", "data required for image input", "does not support image", "only supports one image"):
		set(adapter.CodeInvalid, "the model "+m.name+" does not support these images: choose another one, or remove them", false)
	case says("does not support chat", "does not support completion"):
		set(adapter.CodeInvalid, "the model "+m.name+" cannot chat: choose another", false)
	case says("system memory", "out of memory", "insufficient memory", "unable to allocate", "failed to allocate", "cudamalloc failed"):
		// What takes the memory now will most likely take it a moment later.
		set(adapter.CodeUnavailable, "Ollama has not enough memory for the model "+m.name+": choose a smaller one, or free some", false)
	case says("maximum pending requests", "server busy", "overloaded"):
		set(adapter.CodeUnavailable, m.Name()+" has too many waiting requests: retry later", true)
	case says("invalid format", "failed to parse grammar", "invalid json schema"):
		set(adapter.CodeProtocol, m.Name()+" does not support the JSON Schema: simplify it, or request any JSON", false)
	case says("unable to load model", "error loading model", "failed to load model", "unsupported model", "newer version of ollama"):
		set(adapter.CodeUnavailable, m.Name()+" cannot load the model "+m.name+": pull it again, or update Ollama", false)
	case says("runner", "unexpectedly stopped", "exit status", "signal:"):
		set(adapter.CodeUnavailable, m.Name()+" stopped during its work on the model "+m.name+": try again", true)
	}
}
