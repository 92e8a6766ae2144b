package adapter

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAModelIsFoundByProviderAndName(t *testing.T) {
	a, colon, dflt := newFake([]step{{chunk: text("a")}}), newFake([]step{{chunk: text("colon")}}), newFake([]step{{chunk: text("default")}})
	r := &Registry{Default: "demo:"}
	r.Register("openai", provider{"gpt": a, "llama3:8b": colon})
	r.Register("demo", provider{"": dflt})
	for name, want := range map[string]string{
		"openai:gpt": "a", "openai:llama3:8b": "colon", "": "default", "demo:": "default", "  openai:gpt ": "a", "openai:gpt,demo:": "a",
	} {
		m, err := r.Model(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, err := collect(m.Stream(t.Context(), Request{})); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if diff := cmp.Diff([]string{"demo:", "openai:gpt", "openai:llama3:8b"}, r.Names()); diff != "" {
		t.Error(diff)
	}
}

// keyless is a provider that is known but not configured.
type keyless struct{ names []string }

func (keyless) Model(string) (Model, error) {
	return nil, &Error{Code: CodeAuth, Message: "set a key"}
}
func (k keyless) Names() []string { return k.names }

func TestWhatCanBeUsedIsListedOnceAndSorted(t *testing.T) {
	m := newFake([]step{{chunk: text("a")}})
	for name, c := range map[string]struct {
		dflt  string
		named []string
		want  []string
	}{
		"what is configured":              {"", nil, []string{"gpu:llama3:8b", "openai:b"}},
		"and the default":                 {"openai:a", nil, []string{"gpu:llama3:8b", "openai:a", "openai:b"}},
		"a default that is listed":        {"openai:b", nil, []string{"gpu:llama3:8b", "openai:b"}},
		"and what is named":               {"", []string{"openai:a", "openai:a"}, []string{"gpu:llama3:8b", "openai:a", "openai:b"}},
		"chains taken apart":              {"openai:b, openai:a", []string{"gpu:x,openai:a"}, []string{"gpu:llama3:8b", "gpu:x", "openai:a", "openai:b"}},
		"without what has no key":         {"azure:a", []string{"azure:b,openai:a"}, []string{"gpu:llama3:8b", "openai:a", "openai:b"}},
		"without what a provider has not": {"", []string{"openai:nope", "nobody:x", "plain", "", "a,,b"}, []string{"gpu:llama3:8b", "openai:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Registry{Default: c.dflt}
			r.Register("openai", listed{provider{"a": m, "b": m}, []string{"b"}})
			r.Register("gpu", listed{provider{"llama3:8b": m, "x": m}, []string{"llama3:8b", "llama3:8b"}})
			r.Register("azure", keyless{[]string{"preset"}})
			if diff := cmp.Diff(c.want, r.Usable(c.named...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// listed is a provider that lists other names than it has.
type listed struct {
	provider
	names []string
}

func (l listed) Names() []string { return l.names }

func TestAModelOfAProviderWithoutAKeyIsNoFaultOfTheCaller(t *testing.T) {
	r := new(Registry)
	r.Register("azure", keyless{})
	_, err := r.Model("azure:gpt")
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeAuth || e.Message != `the model "azure:gpt": set a key` {
		t.Errorf("got %#v", err)
	}
}

func TestProvidersAreKnownByPrefixAndByWhetherTheyAreConfigured(t *testing.T) {
	r := new(Registry)
	r.Register("openai", provider{})
	r.Register("azure", keyless{})
	if diff := cmp.Diff([]string{"azure", "openai"}, r.Providers()); diff != "" {
		t.Error(diff)
	}
	for prefix, want := range map[string][2]bool{"openai": {true, true}, "azure": {true, false}, "nobody": {false, false}} {
		if got := [2]bool{r.Provider(prefix) != nil, r.Configured(prefix)}; got != want {
			t.Errorf("%s: there and configured: %v, want %v", prefix, got, want)
		}
	}
}

func TestAnUnknownModelIsAnErrorThatNamesWhatIsKnown(t *testing.T) {
	r := &Registry{}
	r.Register("openai", provider{})
	r.Register("demo", provider{"m": newFake(nil)})
	for name, says := range map[string][]string{
		"":              {"the request names no model", "no default", "demo, openai"},
		"gpt-4o":        {`"gpt-4o" has no provider`, `expected PROVIDER:NAME`, "demo, openai"},
		"claude:x":      {`"claude:x" has an unknown provider`, "demo, openai"},
		":x":            {"has no provider"},
		"demo:m,":       {`"" has no provider`},
		"demo:m,nope:x": {`"nope:x"`},
		"openai:x":      {`"openai:x"`, "no such model"},
	} {
		_, err := r.Model(name)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != CodeInvalid {
			t.Errorf("%q: %v", name, err)
			continue
		}
		for _, s := range says {
			if !strings.Contains(e.Message, s) {
				t.Errorf("%q: %q does not say %q", name, e.Message, s)
			}
		}
	}
	if _, err := new(Registry).Model("x:y"); err == nil || !strings.Contains(err.Error(), "with one of the providers none") {
		t.Errorf("%v", err)
	}
}

func TestRegisteringAWrongPrefixPanics(t *testing.T) {
	for _, prefix := range []string{"", "a:b", "a,b", "a b", "taken"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken", prefix)
				}
			}()
			var r Registry
			r.Register("taken", provider{})
			r.Register(prefix, provider{})
		}()
	}
}
