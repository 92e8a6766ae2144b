package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/coze"
	"github.com/lingserve/lingserve/adapter/ollama"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// links are models of three providers, each of which speaks a format of its own; one stand-in is the server of all.
const links = "openai:a, coze:b, ollama:c"

// registry has the three providers, at a server whose script is asked for the answer by the model's name, and counts what each
// was asked.
func registry(t *testing.T, limits adapter.Timeouts, script map[string]func(attempt int) fakeproviders.Answer) (*adapter.Registry, func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]int{}
	up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		mu.Lock()
		asked[r.Model]++
		n := asked[r.Model]
		mu.Unlock()
		if script[r.Model] == nil {
			return fakeproviders.Answer{Text: "from " + r.Model}
		}
		return script[r.Model](n)
	}}
	t.Cleanup(func() {
		synctest.Wait()
		if up.Open() != 0 {
			t.Errorf("%d requests are still open", up.Open())
		}
		up.Close()
	})
	models := &adapter.Registry{Timeouts: limits}
	register := func(name string, p adapter.Provider, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := p.(io.Closer); ok {
			t.Cleanup(func() { c.Close() })
		}
		models.Register(name, p)
	}
	p, err := openai.New(openai.Options{BaseURL: "http://" + host + "/v1", Key: Key, Transport: up.Transport()})
	register("openai", p, err)
	p, err = coze.New(coze.Options{BaseURL: "http://" + host, Key: Key, Transport: up.Transport()}, "")
	register("coze", p, err)
	p, err = ollama.New(ollama.Options{BaseURL: "http://" + host, Key: Key, Transport: up.Transport()})
	register("ollama", p, err)
	return models, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(asked)
	}
}

// AD-06: a chain over providers of every format asks each as often as it may help, the next one while nothing was passed on, and
// says which has answered, or of each why it has not.
func TestAChainGoesAcrossProviders(t *testing.T) {
	refuse := func(status int) func(int) fakeproviders.Answer {
		return func(int) fakeproviders.Answer { return fakeproviders.Answer{Status: status} }
	}
	// Something comes first: a connection that ends before the header is tried again by net/http itself, if it was used before.
	breaks := func(int) fakeproviders.Answer {
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: "\n"}, {Cut: true}}}
	}
	hangs := func(int) fakeproviders.Answer { return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Hang: true}}} }
	says := func(w Wire) func(int) fakeproviders.Answer {
		return func(int) fakeproviders.Answer {
			return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: w.Open + w.Error}}}
		}
	}
	endless := func(int) fakeproviders.Answer {
		return fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}
	}
	cutOff := func(int) fakeproviders.Answer { return fakeproviders.Answer{Text: "half an answer", Finish: "-"} }
	for _, row := range []struct {
		name   string
		chain  string
		script map[string]func(int) fakeproviders.Answer
		limits adapter.Timeouts
		cancel time.Duration
		model  string // that answers
		text   string
		code   string
		says   []string
		asked  map[string]int
	}{
		{
			name: "the first answers", chain: links,
			model: "openai:a", text: "from a", asked: map[string]int{"a": 1},
		},
		{
			name: "a wrong key is not tried again", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": refuse(401)},
			model: "coze:b", text: "from b", asked: map[string]int{"a": 1, "b": 1},
		},
		{
			name: "what may pass is tried three times, at each", chain: links,
			script: map[string]func(int) fakeproviders.Answer{"a": refuse(503), "b": breaks},
			model:  "ollama:c", text: "from c", asked: map[string]int{"a": 3, "b": 3, "c": 1},
		},
		{
			name: "a retry that helps", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": func(attempt int) fakeproviders.Answer {
				if attempt < 3 {
					return fakeproviders.Answer{Status: 429}
				}
				return fakeproviders.Answer{Text: "from a"}
			}},
			model: "openai:a", text: "from a", asked: map[string]int{"a": 3},
		},
		{
			name: "one that does not begin", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": hangs, "b": hangs},
			limits: adapter.Timeouts{FirstToken: 5 * time.Second},
			model:  "ollama:c", text: "from c", asked: map[string]int{"a": 1, "b": 1, "c": 1},
		},
		{
			name: "one that asks to wait for an hour is not waited for", chain: links,
			script: map[string]func(int) fakeproviders.Answer{"a": func(int) fakeproviders.Answer { return limited("3600") }},
			model:  "coze:b", text: "from b", asked: map[string]int{"a": 1, "b": 1},
		},
		{
			name: "errors that come with status 200, as each provider reports them", chain: "ollama:c, coze:b, openai:a, ollama:d",
			script: map[string]func(int) fakeproviders.Answer{"c": says(Ollama), "b": says(Coze), "a": says(OpenAI)},
			model:  "ollama:d", text: "from d", asked: map[string]int{"c": 3, "b": 3, "a": 3, "d": 1},
		},
		{
			name: "not after half an answer: openai", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": cutOff},
			model: "openai:a", text: "half an answer", code: adapter.CodeProtocol, says: []string{"cut off"}, asked: map[string]int{"a": 1},
		},
		{
			name: "not after half an answer: coze", chain: "coze:b, openai:a", script: map[string]func(int) fakeproviders.Answer{"b": cutOff},
			model: "coze:b", text: "half an answer", code: adapter.CodeProtocol, says: []string{"cut off"}, asked: map[string]int{"b": 1},
		},
		{
			name: "not after half an answer: ollama", chain: "ollama:c, openai:a", script: map[string]func(int) fakeproviders.Answer{"c": cutOff},
			model: "ollama:c", text: "half an answer", code: adapter.CodeProtocol, says: []string{"cut off"}, asked: map[string]int{"c": 1},
		},
		{
			name: "not after the run was canceled", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": refuse(401), "b": hangs},
			cancel: time.Second, says: []string{"the run was canceled"}, asked: map[string]int{"a": 1, "b": 1},
		},
		{
			name: "not after the run was canceled in the middle", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": endless},
			cancel: 150 * time.Millisecond, model: "openai:a", text: "wordword", says: []string{"the run was canceled"}, asked: map[string]int{"a": 1},
		},
		{
			name: "none answers", chain: links, script: map[string]func(int) fakeproviders.Answer{"a": refuse(401), "b": refuse(503), "c": refuse(404)},
			code: adapter.CodeUnavailable,
			says: []string{
				"none of the 3 models answered: openai:a: ", "check OPENAI_API_KEY; coze:b: ", "; ollama:c: ",
			},
			asked: map[string]int{"a": 1, "b": 3, "c": 1},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				models, asked := registry(t, row.limits, row.script)
				m, err := models.Model(row.chain)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, func() { cancel(errors.New("the run was canceled")) })
				}
				got := hear(t, ctx, m.Stream(ctx, question()), nil)
				if got.Text != row.text || got.Model != row.model {
					t.Errorf("%s: %q", got.Model, got.Text)
				}
				if diff := cmp.Diff(row.asked, asked()); diff != "" {
					t.Error(diff)
				}
				if (got.err == nil) != (row.code == "" && row.says == nil) {
					t.Fatal(got.err)
				}
				if e, ok := errors.AsType[*adapter.Error](got.err); row.code != "" && (!ok || e.Code != row.code) {
					t.Errorf("%+v", got.err)
				}
				for _, says := range row.says {
					if !strings.Contains(got.err.Error(), says) {
						t.Errorf("%q does not say %q", got.err, says)
					}
				}
			})
		})
	}
}

// AD-06: in whatever order they stand and whichever of them fail, by whatever: the first that can answer does.
func TestTheFirstOfAChainThatCanAnswerDoes(t *testing.T) {
	failures := []func(int) fakeproviders.Answer{
		func(int) fakeproviders.Answer { return fakeproviders.Answer{Status: 401} },
		func(int) fakeproviders.Answer { return fakeproviders.Answer{Status: 500, Body: "<html>" + Key} },
		func(int) fakeproviders.Answer { return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Cut: true}}} },
		func(int) fakeproviders.Answer { return fakeproviders.Answer{Finish: "-"} },
		func(int) fakeproviders.Answer {
			return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: "<html>" + Key}}}
		},
	}
	orders := [][]string{
		{"openai:a", "coze:b", "ollama:c"},
		{"openai:a", "ollama:c", "coze:b"},
		{"coze:b", "openai:a", "ollama:c"},
		{"coze:b", "ollama:c", "openai:a"},
		{"ollama:c", "openai:a", "coze:b"},
		{"ollama:c", "coze:b", "openai:a"},
	}
	for i, order := range orders {
		for fails := range 8 {
			t.Run(fmt.Sprintf("%s, of which fail %03b", strings.Join(order, " "), fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					script := map[string]func(int) fakeproviders.Answer{}
					want := ""
					for j, name := range order {
						_, model, _ := strings.Cut(name, ":")
						if fails>>j&1 == 1 {
							script[model] = failures[(i+fails+j)%len(failures)]
						} else if want == "" {
							want = name
						}
					}
					models, asked := registry(t, adapter.Timeouts{}, script)
					m, err := models.Model(strings.Join(order, ","))
					if err != nil {
						t.Fatal(err)
					}
					got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
					if got.Model != want || (got.err == nil) != (want != "") {
						t.Errorf("%q answered, %v", got.Model, got.err)
					}
					last := slices.Index(order, want)
					for j, name := range order {
						_, model, _ := strings.Cut(name, ":")
						if n := asked()[model]; (n > 0) != (last < 0 || j <= last) {
							t.Errorf("%s was asked %d times", name, n)
						}
						if want == "" && !strings.Contains(got.err.Error(), name+": ") {
							t.Errorf("%q does not say why %s has not answered", got.err, name)
						}
					}
				})
			})
		}
	}
}
