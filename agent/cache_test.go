package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// MO-24: a server that caches what requests have in common from their beginning reads most of an agent's loop of eight steps from there, and
// gets the same key for all of it.
func TestAnAgentsLoopIsReadFromTheCache(t *testing.T) {
	var before []byte
	all, cached := 0, 0
	keys := map[string]bool{}
	server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		var q struct {
			Tools    json.RawMessage
			Messages []json.RawMessage
			Key      string `json:"prompt_cache_key"`
		}
		if err := json.Unmarshal(r.Body, &q); err != nil {
			panic(err)
		}
		keys[q.Key] = true
		prompt := bytes.Clone(q.Tools)
		for _, m := range q.Messages {
			prompt = append(append(prompt, '\n'), m...)
		}
		n := 0
		for n < len(prompt) && n < len(before) && prompt[n] == before[n] {
			n++
		}
		before = prompt
		all, cached = all+len(prompt), cached+n
		if r.Attempt == 8 {
			return fakeproviders.Answer{Text: "Done."}
		}
		return fakeproviders.Answer{Reasoning: "One more.", ToolCalls: []fakeproviders.ToolCall{{ID: fmt.Sprint("c", r.Attempt), Name: "echo", Arguments: `{"text":"` + fmt.Sprint(r.Attempt) + `"}`}}}
	}}
	defer server.Close()
	w := newWorld(t, nil, Options{Models: registryOf(t, server), Model: "openai:m", Tools: setOf(t, echoTool(t))})
	w.say("go")
	if server.Requests() != 8 || cached*100 < all*80 {
		t.Errorf("of %d bytes in %d requests %d are read from the cache", all, server.Requests(), cached)
	}
	if len(keys) != 1 || keys[""] {
		t.Errorf("the keys are %v", keys)
	}
}
