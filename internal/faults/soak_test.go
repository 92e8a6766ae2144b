//go:build nightly && unix

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// What the model does with a run. All from cutOff on fail it.
const (
	well = iota
	slow
	limitedFirst
	brokenFirst
	cutOff
	cutAtOnce
	reports
	rubbish
	kinds
)

var wires = []struct {
	provider string
	wire     adaptertest.Wire
}{
	{"openai", adaptertest.OpenAI},
	{"coze", adaptertest.Coze},
	{"ollama", adaptertest.Ollama},
	{"anthropic", adaptertest.Anthropic},
	{"gemini", adaptertest.Gemini},
	{"responses", adaptertest.Responses},
	{"bedrock", adaptertest.Bedrock},
}

// plan is one run of the soak. All of it comes from its number, so that the model and the client know the same.
type plan struct {
	n    int
	by   int // of wires
	kind int
	text string // the model's document
	cuts []int  // where its text is cut into tokens
	at   int    // the token at which the model fails
}

func newPlan(n int) plan {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	p := plan{n: n, by: n % len(wires), kind: r.IntN(kinds)}
	if r.IntN(3) > 0 {
		p.kind = r.IntN(cutOff)
	}
	text, _ := json.Marshal(value(r, 4)) // of maps, lists, strings and numbers
	p.text = `{"n":` + strconv.Itoa(n) + `,"list":[` + string(text) + `]}`
	for i := 0; i < len(p.text); {
		for i = min(len(p.text), i+1+r.IntN(40)); i < len(p.text) && !utf8.RuneStart(p.text[i]); i++ {
		}
		p.cuts = append(p.cuts, i)
	}
	p.at = r.IntN(len(p.cuts))
	return p
}

// value draws a value of a document.
func value(r *rand.Rand, depth int) any {
	switch kind := r.IntN(8); {
	case depth > 0 && kind < 3:
		m := map[string]any{}
		for i := range 1 + r.IntN(6) {
			m[fmt.Sprintf("key/%d é", i)] = value(r, depth-1)
		}
		return m
	case depth > 0 && kind < 5:
		var list []any
		for range r.IntN(8) {
			list = append(list, value(r, depth-1))
		}
		return list
	case kind < 7:
		return strings.Repeat("Why is the \"sky\" blue?\n½ ☀ 🌈 ", r.IntN(12))
	default:
		return r.Float64() * 1e6
	}
}

// answer is what the model does at an attempt.
func (p plan) answer(attempt int) fakeproviders.Answer {
	w, cut := wires[p.by].wire, fakeproviders.Raw{Cut: true}
	switch {
	case p.kind == limitedFirst && attempt == 1:
		return fakeproviders.Answer{Status: 429, Header: http.Header{"Retry-After-Ms": {"5"}}, Body: "the key " + adaptertest.Key}
	case p.kind == brokenFirst && attempt == 1, p.kind == cutAtOnce:
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{cut}}
	}
	steps := []fakeproviders.Raw{{Bytes: w.Open}}
	from := 0
	for i, to := range p.cuts {
		if i == p.at {
			switch p.kind {
			case cutOff:
				return fakeproviders.Answer{Raw: append(steps, fakeproviders.Raw{Bytes: w.Text(p.text[from:to])}, cut)}
			case reports:
				return fakeproviders.Answer{Raw: append(steps, fakeproviders.Raw{Bytes: w.Error})}
			case rubbish:
				return fakeproviders.Answer{Raw: append(steps, fakeproviders.Raw{Bytes: strings.ReplaceAll(w.Text(adaptertest.Key), "{", "<")})}
			}
		}
		step := fakeproviders.Raw{Bytes: w.Text(p.text[from:to])}
		if p.kind == slow && i%8 == 0 {
			step.Wait = time.Millisecond
		}
		steps = append(steps, step)
		from = to
	}
	return fakeproviders.Answer{Raw: append(steps, fakeproviders.Raw{Bytes: w.Finish + w.Done})}
}

// soak is a server, and what has happened to it.
type soak struct {
	*server
	attempts                         sync.Map // at a run's model, by the run's number
	completed, failed, canceled, cut atomic.Int64
}

// Models of all providers fail in all ways, alone and at the end of chains, and clients lose their connection at any byte, come back, cancel,
// leave or do not read. Each run that is completed has the model's document, and nothing of it all is left.
func TestSoak(t *testing.T) {
	s := &soak{}
	config := "providers:\n"
	for _, w := range wires[1:] {
		base := "MODELS"
		if w.provider == "responses" {
			base += "/v1"
		}
		config += fmt.Sprintf("  %s: {key: %s, base_url: %q}\n", w.provider, adaptertest.Key, base)
	}
	config = strings.Replace(config, "bedrock: {", "bedrock: {region: us-east-1, ", 1)
	s.server = serve(t, serving{
		config: config,
		args: append([]string{
			"--http-keepalive", "5ms", "--http-write-timeout", "2s", "--run-max-log", "4KiB", "--run-key-retention", "1m", "--upstream-first-token", "0", "--upstream-idle", "0",
		}, brief...),
		script: func(r fakeproviders.Request) fakeproviders.Answer {
			if r.Model == "down" {
				return fakeproviders.Answer{Status: 401, Body: "the key " + adaptertest.Key}
			}
			n, err := strconv.Atoi(strings.TrimPrefix(lastMessage(r), "run "))
			if err != nil {
				return answerOf(r)
			}
			attempts, _ := s.attempts.LoadOrStore(n, new(atomic.Int64))
			return newPlan(n).answer(int(attempts.(*atomic.Int64).Add(1)))
		},
	})
	before := s.warm()
	runs := int64(200)
	until := time.Now().Add(*soakTime)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 12 {
		workers.Go(func() {
			for {
				n := next.Add(1)
				if *soakTime == 0 && n > runs || *soakTime > 0 && time.Now().After(until) || t.Failed() {
					return
				}
				s.client(newPlan(int(n)))
				s.attempts.Delete(int(n))
			}
		})
	}
	workers.Wait()
	eventually(t, "all models are left", func() bool { return s.model.Open() == 0 })
	after := s.settle(before, int(next.Load()), 1<<10)
	s.stop()
	if s.completed.Load() == 0 || s.failed.Load() == 0 || s.canceled.Load() == 0 || s.cut.Load() == 0 {
		t.Error("one of the kinds did not happen")
	}
	t.Logf("%d runs: %d completed, %d failed, %d canceled; %d connections cut; %v before, %v afterwards",
		next.Load()-12, s.completed.Load(), s.failed.Load(), s.canceled.Load(), s.cut.Load(), before, after)
}

// client starts a run and does something with it until it is over.
func (s *soak) client(p plan) {
	t := s.t
	r := rand.New(rand.NewPCG(uint64(p.n), 8))
	model := wires[p.by].provider + ":m"
	if p.n%3 == 0 { // at the end of a chain
		model = wires[r.IntN(len(wires))].provider + ":down," + model
	}
	body := fmt.Sprintf(`{"workflow":"json","input":"run %d","model":%q}`, p.n, model)
	key := "Idempotency-Key: " + strconv.Itoa(p.n)
	var state, doc, id string
	mayCancel := false
	switch r.IntN(10) {
	case 0: // for the document, twice at once
		second := make(chan *answer, 1)
		go func() { second <- s.do("POST", "/v1/runs", body, key, "Accept: application/json") }()
		a := s.do("POST", "/v1/runs", body, key, "Accept: application/json")
		if b := <-second; a.run != b.run || a.state != b.state || a.doc != b.doc {
			t.Errorf("run %d: %v and %v", p.n, a, b)
		}
		if state, doc, id = a.state, a.doc, a.run; a.status >= 400 {
			state, doc = "failed", "{}"
		}
	case 1: // canceled by another
		mayCancel = true
		id = s.do("POST", "/v1/runs", body, key, "Prefer: respond-async").run
		time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		s.do("POST", "/v1/runs/"+id+"/cancel", "")
		a := s.do("GET", "/v1/runs/"+id+"/events", "", "Accept: "+streams[r.IntN(2)])
		state, doc = a.state, a.doc
	case 2: // by leaving
		mayCancel = true
		resp, err := s.request(t.Context(), "POST", "/v1/runs?format=sse&on_disconnect=cancel", body, key)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.CopyN(io.Discard, resp.Body, r.Int64N(2000))
		resp.Body.Close()
		s.cut.Add(1)
		id = resp.Header.Get("X-Run-Id")
		eventually(t, "the run that was left has ended", func() bool {
			a := s.do("GET", "/v1/runs/"+id, "")
			state, doc = a.state, a.doc
			return state != "running"
		})
	case 3: // beside one who does not read
		c, err := s.tcp(post("/v1/runs", body, streams[r.IntN(2)], key))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fallthrough
	default: // over broken connections
		f, cuts := new(fold), r.IntN(6)
		_, err := s.follow(t.Context(), f, streams[r.IntN(2)], "/v1/runs", body, strconv.Itoa(p.n), func(in io.Reader) io.Reader {
			if cuts--; cuts < 0 {
				return in
			}
			s.cut.Add(1)
			return io.LimitReader(in, 1+r.Int64N(3000))
		})
		if err != nil || len(f.wrong) > 0 {
			t.Errorf("run %d: %v %q", p.n, err, f.wrong)
		}
		state, doc, id = f.state, f.json(), f.run
	}
	// However it was asked for, the server says the same of it now, unless it has expired.
	if a := s.do("GET", "/v1/runs/"+id, ""); a.status != 410 && (a.state != state || a.doc != doc) {
		t.Errorf("run %d: %s %s, and then %v", p.n, state, clip(doc), a)
	}
	switch {
	case state == "canceled" && mayCancel:
		s.canceled.Add(1)
	case state == "completed" && p.kind < cutOff:
		s.completed.Add(1)
		var got struct{ Doc any }
		var want any
		decode(doc, &got)
		decode(p.text, &want)
		if !reflect.DeepEqual(got.Doc, want) {
			t.Errorf("run %d: %s is not %s", p.n, clip(doc), clip(p.text))
		}
	case state == "failed" && p.kind >= cutOff:
		s.failed.Add(1)
	default:
		t.Errorf("run %d of kind %d at %s is %q: %s", p.n, p.kind, model, state, clip(doc))
	}
}
