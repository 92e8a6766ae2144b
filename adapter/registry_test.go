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

func TestAnUnknownModelIsAnErrorThatNamesWhatIsKnown(t *testing.T) {
	r := &Registry{}
	r.Register("openai", provider{})
	r.Register("demo", provider{"m": newFake(nil)})
	for name, says := range map[string][]string{
		"":              {"no model is named", "no default", "demo, openai"},
		"gpt-4o":        {`"gpt-4o" names no provider`, `expected "provider:name"`, "demo, openai"},
		"claude:x":      {`"claude:x" is of an unknown provider`, "demo, openai"},
		":x":            {"names no provider"},
		"demo:m,":       {`"" names no provider`},
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
	if _, err := new(Registry).Model("x:y"); err == nil || !strings.Contains(err.Error(), "known providers: none") {
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
