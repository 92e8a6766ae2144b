package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/web/wire/openai"
)

// withoutKey is a provider that is known but not configured.
type withoutKey struct{}

func (withoutKey) Names() []string { return []string{"preset"} }
func (withoutKey) Model(string) (adapter.Model, error) {
	return nil, &adapter.Error{Code: adapter.CodeAuth, Message: "set a key"}
}

// modelList is an answer to GET /v1/models.
type modelList struct {
	Object string
	Data   []struct {
		ID, Object string
		OwnedBy    string `json:"owned_by"`
		Default    bool
	}
}

func TestModelsAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		want []string // "*" marks the default
	}{
		"what is configured": {func(*Options) {}, []string{"test:facts", "test:story*"}},
		"of a chain, the first, though it is not configured by name": {
			func(o *Options) { o.Models.Default = "test:other, test:facts" }, []string{"test:facts", "test:other*", "test:story"},
		},
		"what a workflow names, of providers that are configured": {
			func(o *Options) {
				w, err := flow.ParseSpec("a", []byte("name: a\nmodel: test:one\nbots: {b: {message: hi, root: b, model: [test:two, test:facts]}, c: {message: hi, root: c, model: 'azure:x'}}\n"), nil)
				if err != nil {
					panic(err)
				}
				o.Workflows.Register(w)
				o.Models.Register("azure", withoutKey{})
			}, []string{"test:facts", "test:one", "test:story*", "test:two"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := get[modelList](newBench(t, c.edit).serve(), "/v1/models")
			var ids []string
			for _, m := range list.Data {
				if m.OwnedBy == "agent" || m.OwnedBy == "workflow" { // which take a model's place for OpenAI's clients
					continue
				}
				if m.Default {
					m.ID += "*"
				}
				ids = append(ids, m.ID)
			}
			if diff := cmp.Diff(c.want, ids); diff != "" || list.Object != "list" || list.Data == nil {
				t.Errorf("%+v %s", list, diff)
			}
		})
	}
}

func TestAModelIsReadByItsName(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for name, owner := range map[string]string{
		"talk:talk": "talk", "test%3Astory": "test", "assistant": "agent", "chat": "workflow", "workflow/chat": "workflow", "agent/assistant": "agent",
	} {
		if got := get[openai.Model](a.bench, "/v1/models/"+name); got.ID != strings.ReplaceAll(name, "%3A", ":") || got.OwnedBy != owner {
			t.Errorf("%s: %+v", name, got)
		}
	}
	c, resp := a.completes(chatBody("no/such", "x", ""))
	if again := a.whole("GET", "/v1/models/no%2Fsuch", ""); again.Status != 404 || resp.StatusCode != 404 || *c.Error.Param != "model" || !strings.Contains(again.Body, *c.Error.Code) {
		t.Errorf("%d %+v", resp.StatusCode, again)
	}
}
