package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/internal/providers/providerstest"
)

// standIn is a model's server that knows one key, sk-right, and models that each do one thing. It speaks the formats of all
// providers.
func standIn() *fakeproviders.Server {
	return &fakeproviders.Server{Models: []string{"good", "thinks", "hangs"}, Script: func(r fakeproviders.Request) fakeproviders.Answer {
		var asked struct {
			MaxTokens int `json:"max_tokens"`
		}
		if err := json.Unmarshal(r.Body, &asked); err != nil {
			return fakeproviders.Answer{Status: http.StatusBadRequest}
		}
		switch {
		case r.Header.Get("Authorization") != "" && r.Header.Get("Authorization") != "Bearer sk-right":
			return fakeproviders.Answer{Status: http.StatusUnauthorized, Body: "the key sk-CANARY is wrong"}
		case r.Model == "7379462189365198898", r.Model == "script:8b":
			return fakeproviders.Answer{Text: strings.Repeat("Yes. ", 10_000), Pace: 100}
		case r.Model == "good" && asked.MaxTokens == 0:
			return fakeproviders.Answer{Text: "Yes", Finish: adapter.FinishLength}
		case r.Model == "able":
			return providerstest.Able(r)
		case r.Model == "plain" && len(r.Tools) > 0:
			return fakeproviders.Answer{Status: http.StatusBadRequest, Body: "plain does not support tools; the key was sk-CANARY0123"}
		case r.Model == "plain" && strings.Contains(string(r.Body), "image_url"):
			return fakeproviders.Answer{Status: http.StatusBadRequest, Body: "plain does not support image input"}
		case r.Model == "plain":
			return fakeproviders.Answer{Text: "I see."}
		case r.Model == "thinks":
			return fakeproviders.Answer{Reasoning: "Hm", Finish: adapter.FinishLength}
		case r.Model == "short":
			return fakeproviders.Answer{Text: "Yes, indeed"}
		case r.Model == "silent":
			return fakeproviders.Answer{Finish: adapter.FinishLength}
		case r.Model == "boundless" && asked.MaxTokens == 0:
			return fakeproviders.Answer{Text: "Yes"}
		case r.Model == "boundless", r.Model == "picky":
			return fakeproviders.Answer{Status: http.StatusBadRequest, Body: "max_tokens is too small"}
		case r.Model == "broke":
			return fakeproviders.Answer{Status: http.StatusPaymentRequired}
		case r.Model == "limited":
			return fakeproviders.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
		case r.Model == "cut":
			return fakeproviders.Answer{Finish: "-"}
		case r.Model == "hangs":
			return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Hang: true}}}
		}
		return fakeproviders.Answer{Status: http.StatusNotFound}
	}}
}

func TestModelScripts(t *testing.T) {
	scripts, err := filepath.Abs("testdata/models") // a command in this process changes the folder
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			s := standIn()
			served := httptest.NewServer(s)
			e.Defer(served.Close)
			e.Values[s] = s
			e.Setenv("UPSTREAM", served.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"call": inProcess,
			// nobody NAME puts an address at which nothing answers into the variable NAME.
			"nobody": func(ts *testscript.TestScript, neg bool, args []string) {
				ts.Setenv(args[0], "http://127.0.0.1:1") // a port that the system gives to nobody
			},
		},
	})
}

// fakeModel answers after a while.
type fakeModel struct {
	after time.Duration
	chunk adapter.Chunk
	err   error
	busy  *atomic.Int64
	most  *atomic.Int64
}

func (m fakeModel) Stream(ctx context.Context, _ adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		busy := m.busy.Add(1)
		defer m.busy.Add(-1)
		for most := m.most.Load(); busy > most && !m.most.CompareAndSwap(most, busy); most = m.most.Load() {
		}
		select {
		case <-time.After(m.after):
			yield(m.chunk, m.err)
		case <-ctx.Done():
			yield(adapter.Chunk{}, context.Cause(ctx))
		}
	}
}

// fakeProvider has fake models, named by how many seconds they take.
type fakeProvider struct {
	busy, most atomic.Int64
	names      []string
}

func (p *fakeProvider) Names() []string { return p.names }
func (p *fakeProvider) Model(name string) (adapter.Model, error) {
	after, err := time.ParseDuration(strings.TrimPrefix(name, "wrong-"))
	if err != nil {
		return nil, errors.New("there is no such model")
	}
	m := fakeModel{after: after, chunk: adapter.Chunk{Text: "Yes"}, busy: &p.busy, most: &p.most}
	if name[0] == 'w' {
		m.chunk, m.err = adapter.Chunk{}, &adapter.Error{Code: adapter.CodeRateLimited, Message: "too fast", Retryable: true}
	}
	return m, nil
}

// lister is a provider whose server says what it has.
type lister struct {
	fakeProvider
	has []string
	err error
}

func (l *lister) List(context.Context) ([]string, error) { return l.has, l.err }

// keyless is a provider that is not configured.
type keyless struct{}

func (keyless) Names() []string { return []string{"1s"} }
func (keyless) Model(string) (adapter.Model, error) {
	return nil, &adapter.Error{Code: adapter.CodeAuth, Message: "set NO_KEY"}
}

// bookOf has a fake provider with these models.
func bookOf(p *fakeProvider, names ...string) (*inventory, *bytes.Buffer, *bytes.Buffer) {
	p.names = names
	models := new(adapter.Registry)
	models.Register("fake", p)
	var out, errs bytes.Buffer
	return &inventory{Checker: providers.Checker{Models: models, Quick: true, Timeout: 30 * time.Second}, streams: streams{out: &out, err: &errs}}, &out, &errs
}

func TestACheckAsksFourAtATimeAndPrintsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeProvider
		i, out, _ := bookOf(&p, "9s", "1s", "2s", "8s", "3s", "wrong-4s", "5s")
		began := time.Now()
		if status := i.check(t.Context(), nil); status != exitStatus(exitFailed) {
			t.Errorf("status %v", status)
		}
		want := `ok    fake:1s        1.00s
ok    fake:2s        2.00s
ok    fake:3s        3.00s
ok    fake:5s        5.00s
ok    fake:8s        8.00s
ok    fake:9s        9.00s
fail  fake:wrong-4s  too fast
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
		if p.most.Load() != 4 {
			t.Errorf("%d at a time", p.most.Load())
		}
		// 1, 2, 3 and 5 begin at once; 8 follows 1, 9 follows 2, and the wrong one 3.
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestACheckBoundsTheTimeOfEachModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, out, _ := bookOf(new(fakeProvider), "1s", "2h", "3h", "4h", "5h", "6h")
		// The limits that runs have do not count.
		i.Models.Timeouts = adapter.Timeouts{FirstToken: time.Second, Total: time.Second}
		i.Timeout = 2 * time.Minute
		began := time.Now()
		_ = i.check(t.Context(), nil)
		if took := time.Since(began); took != 4*time.Minute {
			t.Errorf("it took %v", took)
		}
		if n := strings.Count(out.String(), "no answer within 2m0s\n"); n != 5 || !strings.HasPrefix(out.String(), "ok    fake:1s  1.00s\n") {
			t.Errorf("%s", out)
		}
	})
}

func TestAnInterruptedCheckEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeProvider
		i, out, errs := bookOf(&p, "1s", "2h", "3h", "4h", "5h", "6h", "7h")
		i.Timeout = 10 * time.Hour
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(errInterrupted) })
		began := time.Now()
		if err := i.check(ctx, nil); !errors.Is(err, context.Canceled) || time.Since(began) != 3*time.Second || p.busy.Load() != 0 {
			t.Errorf("%v after %v; %d go on", err, time.Since(began), p.busy.Load())
		}
		if out.String() != "ok    fake:1s  1.00s\n" || errs.Len() > 0 {
			t.Errorf("%s%s", out, errs)
		}
	})
}

func TestACheckAsksProvidersWithoutModelsForTheirList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, out, errs := bookOf(new(fakeProvider), "1s")
		i.Models.Register("bots", new(fakeProvider))
		i.Models.Register("gpu", &lister{has: []string{"qwen3:8b", "llama3.2", "phi4", "mistral"}})
		i.Models.Register("one", &lister{has: []string{"a\x1b[31m\nb"}})
		i.Models.Register("empty", &lister{})
		i.Models.Register("down", &lister{err: &adapter.Error{Code: adapter.CodeAuth, Message: "refused the key"}})
		i.Models.Register("named", &lister{err: errors.New("is not asked, since a workflow names a model")})
		i.Models.Register("azure", keyless{})
		i.Models.Register("moonshot", keyless{})
		i.named = []string{"named:1s, fake:1s", "azure:1s"}
		if status := i.check(t.Context(), nil); status != exitStatus(exitFailed) {
			t.Errorf("status %v", status)
		}
		want := `fail  azure:1s  set NO_KEY
ok    fake:1s   1.00s
ok    named:1s  1.00s
skip  bots:     no model is configured; list your models in providers.bots.models, or test one with "lingserve models check bots:NAME"
fail  down:     refused the key
ok    empty:    the provider has no models
ok    gpu:      4 models, e.g. llama3.2, mistral, phi4; list your models in providers.gpu.models
ok    one:      1 model, a[31m b; list your models in providers.one.models
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
		if errs.String() != "not configured: azure, moonshot (see docs/models.md)\n" {
			t.Errorf("%s", errs)
		}

		out.Reset()
		errs.Reset()
		if status := i.listRemote(t.Context(), nil); status != exitStatus(exitFailed) {
			t.Errorf("status %v", status)
		}
		if diff := cmp.Diff("gpu:llama3.2\ngpu:mistral\ngpu:phi4\ngpu:qwen3:8b\none:a[31m b\n", out.String()); diff != "" {
			t.Error(diff)
		}
		want = "lingserve: down: refused the key\nlingserve: named: the model failed\n" +
			"not configured: azure, moonshot (see docs/models.md)\n"
		if diff := cmp.Diff(want, errs.String()); diff != "" {
			t.Error(diff)
		}
	})
}

// MO-17: at a terminal, an error has the words of the model's server, without keys.
func TestATerminalReadsWhatAServerSaid(t *testing.T) {
	e := &adapter.Error{Code: adapter.CodeAuth, Message: "the server refused the key", Cause: errors.New(adapter.Redact("status 401:\nsk-CANARY0123 is not known"))}
	if got := reasonOf(&bot.Failure{Code: e.Code, Message: e.Message, Cause: e}); got != "the server refused the key (cause: status 401: sk-*** is not known)" {
		t.Error(got)
	}
	if got := reasonOf(errors.New("internal")); got != "" {
		t.Error(got)
	}
	e.Cause = errors.New("the server refused the key")
	if got := reasonOf(e); got != e.Message {
		t.Error(got)
	}
}
