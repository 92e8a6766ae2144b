package web

import (
	"encoding/json"
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

// listed asks for the list of models; "*" marks the default.
func (b *bench) listed() (ids []string) {
	b.t.Helper()
	resp := b.do("GET", "/v1/models", "")
	defer resp.Body.Close()
	var list struct {
		Object string
		Data   []struct {
			ID, Object string
			OwnedBy    string `json:"owned_by"`
			Created    int64
			Default    *bool
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		b.t.Fatal(err)
	}
	if list.Object != "list" || list.Data == nil {
		b.t.Errorf("not a list: %+v", list)
	}
	for _, m := range list.Data {
		if m.OwnedBy == "agent" || m.OwnedBy == "workflow" { // which take a model's place for OpenAI's clients
			continue
		}
		if m.Object != "model" || m.OwnedBy+":" != m.ID[:len(m.OwnedBy)+1] || m.Created == 0 {
			b.t.Errorf("%+v", m)
		}
		if m.Default != nil {
			if !*m.Default {
				b.t.Errorf("%+v says that it is not the default", m)
			}
			m.ID += "*"
		}
		ids = append(ids, m.ID)
	}
	return ids
}

func TestModelsAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		want []string
	}{
		"what is configured": {func(*Options) {}, []string{"test:facts", "test:story*"}},
		"a default that is not configured by name": {
			func(o *Options) { o.Models.Default = "test:other" }, []string{"test:facts", "test:other*", "test:story"},
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
		"of a chain, the first": {
			func(o *Options) { o.Models.Default = "test:other, test:facts" }, []string{"test:facts", "test:other*", "test:story"},
		},
		"nothing at all": {
			func(o *Options) {
				o.Models = new(adapter.Registry)
				o.Models.Register("azure", withoutKey{})
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.edit).serve()
			if diff := cmp.Diff(c.want, b.listed()); diff != "" {
				t.Error(diff)
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
	resp := a.do("GET", "/v1/models/no%2Fsuch", "")
	var c completed
	if err := json.Unmarshal([]byte(text(t, resp)), &c); err != nil || resp.StatusCode != 404 || *c.Error.Code != "model_not_found" || *c.Error.Param != "model" {
		t.Errorf("%d %+v", resp.StatusCode, c.Error)
	}
}
