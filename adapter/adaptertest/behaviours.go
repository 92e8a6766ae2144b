package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// behaviour is what a reader sees of a script. It runs in a bubble, with the time limits and retries around the model.
type behaviour struct {
	name     string
	skip     bool
	script   func(fakeproviders.Request) fakeproviders.Answer
	limits   adapter.Timeouts
	leave    int           // leave the loop after so many chunks
	cancel   time.Duration // cancel the context after so long
	text     string
	code     string // of the error
	says     string
	took     time.Duration
	within   time.Duration // instead of took: no longer than this
	requests int
	canceled int
}

func behaviours(w Wire) []behaviour {
	raw := func(steps ...fakeproviders.Raw) func(fakeproviders.Request) fakeproviders.Answer {
		return always(fakeproviders.Answer{Raw: steps})
	}
	bytes := func(b ...string) fakeproviders.Raw { return fakeproviders.Raw{Bytes: strings.Join(b, "")} }
	hang, cut := fakeproviders.Raw{Hang: true}, fakeproviders.Raw{Cut: true}
	thenWorks := func(before ...fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
		return func(r fakeproviders.Request) fakeproviders.Answer {
			return append(before, fakeproviders.Answer{Text: "ok"})[min(r.Attempt-1, len(before))]
		}
	}
	return []behaviour{
		{
			name:   "an answer in tokens comes token by token",
			script: always(fakeproviders.Answer{Text: "Hello, world", Pace: 10}),
			text:   "Hello, world", took: 300 * time.Millisecond, requests: 1,
		},
		{
			name:   "leaving the loop cancels the request (AD-01)",
			script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}),
			leave:  3, text: "wordwordword", took: 200 * time.Millisecond, requests: 1, canceled: 1,
		},
		{
			name:   "leaving at the first chunk cancels the request (AD-01)",
			script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}),
			leave:  1, text: "word", requests: 1, canceled: 1,
		},
		{
			name:   "ending the context cancels the request (AD-01)",
			script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10}),
			cancel: 250 * time.Millisecond, text: "wordwordword", says: "the run was canceled", took: 250 * time.Millisecond, requests: 1, canceled: 1,
		},
		{
			name:   "ending the context before the answer begins (AD-01)",
			script: always(fakeproviders.Answer{Delay: time.Hour}),
			cancel: time.Second, says: "the run was canceled", took: time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "ending the context between the opening and the first token (AD-01)",
			script: raw(bytes(w.Open), hang), cancel: time.Second, says: "the run was canceled", took: time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "ending the context while waiting to ask again (AD-06)",
			script: always(fakeproviders.Answer{Status: 429, Header: http.Header{"Retry-After": {"15"}}}),
			cancel: time.Second, says: "the run was canceled", took: time.Second, requests: 1,
		},
		{
			name:   "no answer at all (AD-07, FT-03)",
			script: raw(hang), limits: adapter.Timeouts{FirstToken: 5 * time.Second},
			code: adapter.CodeTimeout, says: "sent no token within 5s", took: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "an opening is no token (AD-07)",
			script: raw(bytes(w.Open), hang), limits: adapter.Timeouts{FirstToken: 5 * time.Second, Idle: time.Second},
			code: adapter.CodeTimeout, says: "sent no token within 5s", took: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "a stall in the middle (AD-07, FT-04)",
			script: raw(bytes(w.Open, w.Text("a")), hang), limits: adapter.Timeouts{Idle: 5 * time.Second},
			text: "a", code: adapter.CodeTimeout, says: "stopped during its answer", took: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name: "a stall in the middle of an event (AD-07, FT-04)",
			script: raw(bytes(w.Open, w.Text("a")), fakeproviders.Raw{Wait: 3 * time.Second, Bytes: half(w.Text("b"))},
				hang),
			limits: adapter.Timeouts{Idle: 5 * time.Second},
			text:   "a", code: adapter.CodeTimeout, says: "stopped during its answer", took: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name: "a stall with pings and empty events (AD-07, FT-04, FT-05)",
			script: raw(append([]fakeproviders.Raw{bytes(w.Open, w.Text("a"))},
				repeat(100, fakeproviders.Raw{Wait: time.Second, Bytes: w.Ping + w.Text("")})...)...),
			limits: adapter.Timeouts{Idle: 5500 * time.Millisecond},
			text:   "a", code: adapter.CodeTimeout, says: "stopped during its answer", took: 5500 * time.Millisecond, requests: 1, canceled: 1,
		},
		{
			name: "pings before the first token are no tokens (AD-07, FT-05)", skip: w.Ping == "",
			script: raw(append([]fakeproviders.Raw{bytes(w.Open)}, repeat(100, fakeproviders.Raw{Wait: time.Second, Bytes: w.Ping})...)...),
			limits: adapter.Timeouts{FirstToken: 30500 * time.Millisecond},
			code:   adapter.CodeTimeout, says: "sent no token", took: 30500 * time.Millisecond, requests: 1, canceled: 1,
		},
		{
			name: "hundreds of pings are nothing (FT-05)", skip: w.Ping == "",
			script: raw(bytes(strings.Repeat(w.Ping, 1000), w.Open, strings.Repeat(w.Ping, 1000), w.Text("a"), strings.Repeat(w.Ping, 1000), w.Finish, w.Done)),
			text:   "a", requests: 1,
		},
		{
			name: "reasoning is an answer too (AD-07)", skip: w.Reasoning == nil,
			script: func(fakeproviders.Request) fakeproviders.Answer {
				return fakeproviders.Answer{Raw: []fakeproviders.Raw{bytes(w.Open, w.Reasoning("so")), hang}}
			},
			limits: adapter.Timeouts{FirstToken: time.Minute, Idle: 5 * time.Second},
			code:   adapter.CodeTimeout, says: "stopped during its answer", took: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "an answer that does not end (AD-07)",
			script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 1}),
			limits: adapter.Timeouts{Total: 2500 * time.Millisecond},
			text:   "wordwordword", code: adapter.CodeTimeout, says: "did not finish its answer within 2.5s", took: 2500 * time.Millisecond, requests: 1, canceled: 1,
		},
		{
			name:   "limits the rate twice and then works (AD-06, FT-01)",
			script: thenWorks(limited("2"), limited("2")),
			text:   "ok", within: 5 * time.Second, requests: 3,
		},
		{
			name:   "fails, breaks the connection, and then works (AD-06, FT-02, FT-07)",
			script: thenWorks(fakeproviders.Answer{Status: 500, Body: "<html>"}, fakeproviders.Answer{Raw: []fakeproviders.Raw{cut}}),
			text:   "ok", within: time.Minute, requests: 3,
		},
		{
			name: "breaks the connection twice between the opening and the first token (AD-06, FT-07)", skip: w.Open == "",
			script: thenWorks(fakeproviders.Answer{Raw: []fakeproviders.Raw{bytes(w.Open), cut}}, fakeproviders.Answer{Raw: []fakeproviders.Raw{bytes(w.Open), cut}}),
			text:   "ok", within: time.Minute, requests: 3,
		},
		{
			name:   "never works (AD-06)",
			script: always(fakeproviders.Answer{Status: 503}),
			code:   adapter.CodeUnavailable, within: time.Minute, requests: 3,
		},
		{
			name:   "refuses the key: not again (AD-06)",
			script: always(fakeproviders.Answer{Status: 401}),
			code:   adapter.CodeAuth, requests: 1,
		},
		{
			name:   "does not understand the request: not again (AD-06)",
			script: always(fakeproviders.Answer{Status: 400}),
			code:   adapter.CodeProtocol, requests: 1,
		},
		{
			name:   "asks to wait for longer than we do (AD-06)",
			script: always(limited("3600")),
			code:   adapter.CodeRateLimited, requests: 1,
		},
		{
			name:   "breaks off after the first token: not again (AD-06, FT-06)",
			script: raw(bytes(w.Open, w.Text("a")), cut),
			text:   "a", code: adapter.CodeProtocol, says: "cut off", requests: 1,
		},
		{
			name:   "ends after the first token as if nothing was missing (FT-06)",
			script: raw(bytes(w.Open, w.Text("a"))),
			text:   "a", code: adapter.CodeProtocol, says: "cut off", requests: 1,
		},
		{
			name:   "reports an error in mid-stream: not again (AD-06, FT-10)",
			script: raw(bytes(w.Open, w.Text("a"), w.Error), hang),
			text:   "a", code: w.ErrorCode, within: time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "reports an error in mid-stream and goes on: nothing after it (FT-10)",
			script: raw(bytes(w.Open, w.Text("a"), w.Error, w.Text("b"), w.Finish, w.Done)),
			text:   "a", code: w.ErrorCode, within: time.Second, requests: 1,
		},
		{
			name:   "sends something else than its format (FT-09)",
			script: raw(bytes(w.Open, w.Text("a"), strings.ReplaceAll(w.Text(Key), "{", "<")), hang),
			text:   "a", code: adapter.CodeProtocol, within: time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "cuts a character between two events (FT-15)",
			script: raw(bytes(w.Open, w.within("a\xf0\x9f"), w.within("\x99\x82b"), w.Text("c"), w.Finish, w.Done)),
			text:   "a🙂bc", within: time.Second, requests: 1,
		},
		{
			name:   "cuts a pair of surrogates between two events (FT-15)",
			script: raw(bytes(w.Open, w.within(`a\ud83d`), w.within(`\ude42b`), w.Text("c"), w.Finish, w.Done)),
			text:   "a🙂bc", within: time.Second, requests: 1,
		},
		{
			name:   "never sends the rest of a character (FT-15)",
			script: raw(bytes(w.Open, w.Text("a"), w.within("\xf0\x9f"), w.Finish, w.Done)),
			text:   "a\uFFFD", within: time.Second, requests: 1,
		},
		{
			name:   "finishes, and never ends the stream",
			script: raw(bytes(w.Open, w.Text("a"), w.Finish), hang),
			text:   "a", within: 5 * time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "marks the end, and never ends the stream",
			script: raw(bytes(w.Open, w.Text("a"), w.Finish, w.Done), hang),
			text:   "a", within: time.Second, requests: 1, canceled: 1,
		},
		{
			name:   "says more after the end",
			script: raw(bytes(w.Open, w.Text("a"), w.Finish, w.Done, w.Text("b"), w.Finish, w.Done)),
			text:   "a", within: time.Second, requests: 1,
		},
		{
			name:   "breaks the connection after the finish: nothing is missing",
			script: raw(bytes(w.Open, w.Text("a"), w.Finish), cut),
			text:   "a", within: time.Second, requests: 1,
		},
	}
}

// within writes an event with bytes as they are where its text would be.
func (w *Wire) within(raw string) string {
	if w.Inside != nil {
		return w.Inside(raw)
	}
	return strings.Replace(w.Text("HERE"), "HERE", raw, 1)
}

// half is the first half of an event.
func half(event string) string { return event[:len(event)/2] }

// limited is the answer of a server that limits the rate.
func limited(after string) fakeproviders.Answer {
	return fakeproviders.Answer{Status: 429, Header: http.Header{"Retry-After": {after}}}
}

func testBehaviours(t *testing.T, s Subject) {
	for _, row := range behaviours(s.Wire) {
		t.Run(row.name, func(t *testing.T) {
			if row.skip {
				t.Skip("the wire has no such thing")
			}
			synctest.Test(t, func(t *testing.T) { row.run(t, s) })
		})
	}
}

func (row *behaviour) run(t *testing.T, s Subject) {
	up := &fakeproviders.Server{Script: row.script}
	defer up.Close()
	m := guarded(t, s.Prefix, s.Model, s.provider(t, up), &adapter.Registry{Timeouts: row.limits})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if row.cancel > 0 {
		time.AfterFunc(row.cancel, func() { cancel(errors.New("the run was canceled")) })
	}
	began := time.Now()
	got := hear(t, ctx, m.Stream(ctx, question()), func(h heard) bool { return row.leave == 0 || h.chunks < row.leave })
	took := time.Since(began)
	// Nothing at the server may take a moment longer than the stream.
	synctest.Wait()
	if up.Open() != 0 || up.Canceled() != row.canceled || up.Requests() != row.requests {
		t.Errorf("open %d, canceled %d, requests %d: expected 0, %d, %d", up.Open(), up.Canceled(), up.Requests(), row.canceled, row.requests)
	}
	if got.Text != row.text {
		t.Errorf("text %q", got.Text)
	}
	if got.chunks > 0 && got.Model != s.Prefix+":"+s.Model {
		t.Errorf("the first chunk has the model %q", got.Model)
	}
	// A provider may be told that its answer is not wanted any more, and that may take a moment.
	if row.within == 0 && took != row.took || row.within > 0 && took > row.within {
		t.Errorf("took %v", took)
	}
	e, _ := errors.AsType[*adapter.Error](got.err)
	switch {
	case row.code == "" && row.says == "":
		if got.err != nil || row.leave == 0 && got.Finish != adapter.FinishStop {
			t.Errorf("%v, finish %q", got.err, got.Finish)
		}
	case row.code == "":
		if got.err == nil || got.err.Error() != row.says {
			t.Errorf("error %v", got.err)
		}
	case e == nil || e.Code != row.code || !strings.Contains(e.Message, row.says):
		t.Errorf("error %v", got.err)
	}
	if row.code != "" && got.Finish != "" {
		t.Errorf("both a finish and an error")
	}
}

// testSlowReader reads an answer with an hour's rest after each chunk.
func testSlowReader(t *testing.T, s Subject) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: "onceuponatime...", Pace: 1})}
		defer up.Close()
		m := guarded(t, s.Prefix, s.Model, s.provider(t, up), &adapter.Registry{
			Timeouts: adapter.Timeouts{FirstToken: 2 * time.Second, Idle: 2 * time.Second, Total: 6 * time.Second},
		})
		got := hear(t, t.Context(), m.Stream(t.Context(), question()), func(heard) bool {
			time.Sleep(time.Hour)
			return true
		})
		if got.err != nil || got.Text != "onceuponatime..." {
			t.Errorf("%q %v", got.Text, got.err)
		}
	})
}
