//go:build nightly

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// FT-12, bad input: a line of 100 MiB ends the bot, not the server, whose memory does not grow with it.
func TestALineWithoutEndIsCutOff(t *testing.T) {
	block := bytes_(strings.Repeat("x", 1<<20))
	for _, w := range providers {
		head, _, _ := strings.Cut(w.Text(strings.Repeat("HERE", 2<<20)), "HERE") // Bedrock's says how long it is
		p := start(t, setup{by: w, script: always(raw(append([]fakeproviders.Raw{bytes_(w.begin("bl") + head)}, times(100, block)...)...))})
		for i, framing := range w.framings() {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := p.ask(framing, run("text"))
			runtime.ReadMemStats(&after)
			if a.status != 200 || a.state != "failed" || a.doc != `{"answer":"bl"}` || a.code() != "upstream_protocol" || !strings.Contains(a.says(), "larger than allowed") {
				t.Errorf("%s: %v", w.name, a)
			}
			// All that was ever allocated, by both ends: buffers of 4 MiB that are grown by doubling, and not 100 MiB.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 48<<20 {
				t.Errorf("%s, %s: %d MiB were allocated", w.name, framing, grown>>20)
			}
			p.canceledAtCoze(w, i+1)
			p.idle()
			if left := p.model.Canceled(); left == 0 {
				t.Error("the model's server was read to its end")
			}
		}
		p.close()
	}
}

// FT-15: wherever the model's server cuts, between bytes or between tokens, nothing that is sent has half a character in it.
func TestCharactersThatAreCutAreWhole(t *testing.T) {
	const text = `{"é":"½ ☀ 🌈 \ud83c\udf08 \u00e9 \\ \" x","n":-1.5e3}`
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	for _, w := range providers {
		t.Run(w.name, func(t *testing.T) { charactersThatAreCut(t, w, text, want) })
	}
}

func charactersThatAreCut(t *testing.T, w *provider, text string, want any) {
	var sent atomic.Pointer[fakeproviders.Answer]
	p := start(t, setup{by: w, script: func(fakeproviders.Request) fakeproviders.Answer { return *sent.Load() }})
	check := func(t *testing.T, a fakeproviders.Answer) {
		t.Helper()
		sent.Store(&a)
		got := p.ask(streams[p.model.Requests()%2], run("json"))
		var doc struct{ Doc any }
		if err := json.Unmarshal([]byte(got.doc), &doc); err != nil || fmt.Sprint(doc.Doc) != fmt.Sprint(want) || got.state != "completed" {
			t.Errorf("%v: %v", err, got)
		}
		for _, e := range got.events {
			if strings.ContainsRune(e.delta, '\uFFFD') || !json.Valid([]byte(e.delta)) && e.name == "" {
				t.Errorf("half a character in %+v", e)
			}
		}
	}
	t.Run("between bytes", func(t *testing.T) {
		whole := w.begin(text) + w.end()
		for i := strings.Index(whole, "½") - 8; i < strings.Index(whole, "-1.5"); i++ {
			check(t, raw(bytes_(whole[:i]), bytes_(whole[i:])))
		}
	})
	t.Run("between tokens", func(t *testing.T) {
		// A provider cuts between the characters of the text, and so in the middle of an escape.
		var cuts []int
		for i := range text {
			cuts = append(cuts, i)
		}
		for _, i := range cuts[1:] {
			check(t, fakeproviders.Answer{Tokens: []string{text[:i], text[i:]}})
		}
	})
	t.Run("between the halves of an escaped pair", func(t *testing.T) {
		// The token itself is half a pair, as some providers send it.
		escaped := func(raw string) fakeproviders.Raw { return bytes_(w.inside(raw)) }
		check(t, raw(
			bytes_(w.Open),
			escaped(`{\"é\":\"½ ☀ \ud83c`),
			escaped(`\udf08 \\ud83c`),
			bytes_(w.Text(`\udf08 \u00e9 \\ \" x","n":-1.5e3}`)+w.end())))
	})
}

// FT-09: whatever is left of an answer after all sorts of accidents, the run ends in one way that each client is told, and what it
// has made is a document.
func TestAnswersThatWereDamagedEndTheirRuns(t *testing.T) {
	for _, w := range providers {
		t.Run(w.name, func(t *testing.T) {
			good := w.begin(`{"list":["½ ☀ 🌈",`) + w.Ping + w.Text(` {"a":1}, -1.5e3],`) + w.Text(` "b":"blue"}`)
			bad := good + strings.ReplaceAll(w.Error, canary, "nothing") + w.end() // a damaged key is none, and would be found
			seed := uint64(0)
			p := start(t, setup{by: w, retries: adapter.Retries{Attempts: 1}, limits: adapter.Timeouts{Total: patience}, script: func(fakeproviders.Request) fakeproviders.Answer {
				return raw(bytes_(string(adaptertest.Damaged(seed, []byte(good+w.end()), []byte(bad)))))
			}})
			completed, failed := 0, 0
			for ; seed < 60; seed++ {
				a := p.ask(framings[seed%3], run("json"))
				var f fold
				for _, e := range a.events {
					f.take(e)
				}
				f.check(t)
				last := p.do("GET", "/v1/runs/"+a.run, "")
				switch {
				case a.broken != nil || a.problem == nil && (a.status != 200 || a.state != last.state || a.doc != last.doc) || !json.Valid([]byte(last.doc)):
					t.Errorf("seed %d: %v, and then %v", seed, a, last)
				case last.state == "completed":
					completed++
				case last.state == "failed" && a.code() != "" && a.code() != "internal" && a.says() != "":
					failed++
				default:
					t.Errorf("seed %d: %v", seed, a)
				}
			}
			p.idle()
			if completed == 0 || failed == 0 {
				t.Errorf("%d completed, %d failed", completed, failed)
			}
		})
	}
}

// FT-16: a model's server that closes its connections between requests costs no run, even where nothing is tried again.
func TestConnectionsThatDieBetweenRequestsCostNothing(t *testing.T) {
	p := start(t, setup{
		script:  always(fakeproviders.Answer{Text: "blue"}),
		retries: adapter.Retries{Attempts: 1},
		server: func(s *http.Server) {
			count := s.ConnState
			s.ConnState = func(c net.Conn, state http.ConnState) {
				count(c, state)
				if state == http.StateIdle {
					time.AfterFunc(300*time.Microsecond, func() { c.Close() })
				}
			}
		},
	})
	for i := range 300 {
		body := `{"workflow":"text","input":"question","model":"` + providers[i/3%len(providers)].model("m") + `"}`
		if a := p.ask(framings[i%3], body); a.state != "completed" || a.doc != `{"answer":"blue"}` {
			t.Fatalf("run %d: %v", i, a)
		}
	}
}

// FT-17: a model's server that answers before it has read the request does not cost the answer.
func TestAnAnswerThatComesBeforeTheRequestIsReadIsTaken(t *testing.T) {
	for _, w := range providers {
		t.Run(w.name, func(t *testing.T) { answerBeforeTheRequest(t, w) })
	}
}

func answerBeforeTheRequest(t *testing.T, by *provider) {
	p := start(t, setup{
		by:      by,
		retries: adapter.Retries{Attempts: 1},
		handler: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", by.ContentType)
				http.NewResponseController(w).EnableFullDuplex()
				io.WriteString(w, by.begin("blue")+by.end())
				http.NewResponseController(w).Flush()
				io.Copy(io.Discard, r.Body)
			})
		},
	})
	body := `{"workflow":"text","input":"` + strings.Repeat("why? ", 20_000) + `"}`
	for i := range 6 {
		if a := p.ask(framings[i%3], body); a.state != "completed" || a.doc != `{"answer":"blue"}` {
			t.Fatalf("run %d: %v", i, a)
		}
	}
}

// bad input: what a running server is asked wrongly. Nothing of it reaches the model, and the server is well after it.
func TestWhatIsAskedWronglyIsRefusedWithTheReason(t *testing.T) {
	p := start(t, setup{script: always(fakeproviders.Answer{Text: "blue"})})
	for _, row := range []struct {
		name, body string
		status     int
		code, says string
		pointer    string
	}{
		{"a body that is not JSON", `{"workflow":"text",`, 400, "invalid_request", "the body is", ""},
		{"no body", ``, 400, "invalid_request", "", ""},
		{"a body that is too large", `{"workflow":"text","input":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "too_large", "larger than 1048576 bytes", ""},
		{"an unknown member", `{"workflow":"text","input":"q","sped":1}`, 400, "invalid_request", "sped", "/sped"},
		{"a member of the wrong type", `{"workflow":"text","input":"q","options":{"temperature":"hot"}}`, 400, "invalid_request", "", "/options/temperature"},
		{"a million brackets", strings.Repeat("[", 1_000_000), 400, "invalid_request", "", ""},
		{"an unknown workflow", `{"workflow":"textt","input":"q"}`, 404, "not_found", "expected one of", ""},
		{"an unknown provider", `{"workflow":"text","input":"q","model":"other:m"}`, 400, "invalid_request", "one of the providers anthropic, azure, bedrock, coze, gemini, ollama, openai, responses, vertex", "/model"},
		{"an input that breaks the schema", `{"workflow":"text","input":{"q":"why","n":0}}`, 400, "invalid_request", "", "/input/n"},
		{"an input without what is required", `{"workflow":"text","input":{}}`, 400, "invalid_request", "", "/input/q"},
		{"an input with more than there is", `{"workflow":"text","input":{"q":"why","m":0}}`, 400, "invalid_request", "", "/input/m"},
	} {
		for _, framing := range framings {
			t.Run(row.name+"/"+framing, func(t *testing.T) {
				a := p.ask(framing, row.body)
				if a.status != row.status || a.problem == nil || a.problem.Code != row.code || !strings.Contains(a.problem.Detail, row.says) {
					t.Fatalf("want %d %s: %v", row.status, row.code, a)
				}
				if row.pointer != "" && (len(a.problem.Errors) != 1 || a.problem.Errors[0].Pointer != row.pointer) {
					t.Errorf("want %s: %v", row.pointer, a)
				}
			})
		}
	}
	if n := p.model.Requests(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	if a := p.ask("application/json", run("text")); a.status != 200 || a.doc != `{"answer":"blue"}` {
		t.Errorf("after all that: %v", a)
	}
}

// read the stream of a request that is left to the test.
func (p *product) open(ctx context.Context, method, path, body string, header ...string) (*http.Response, *eventReader) {
	p.t.Helper()
	resp, err := p.request(ctx, method, path, body, header...)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	if resp.StatusCode != 200 {
		p.t.Fatalf("%s %s: %v", method, path, p.read(resp))
	}
	return resp, newEventReader(resp.Header.Get("Content-Type"), resp.Body)
}
