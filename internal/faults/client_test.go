//go:build nightly

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/web"
)

// told is a model's server that says what it is told, one piece after the other, to whoever asks.
type told struct {
	by     *provider
	pieces chan string // closed at the end
	came   chan struct{}
	left   chan time.Time // a client has gone away before the end
}

func newTold() *told { return newToldBy(openAI) }

func newToldBy(w *provider) *told {
	return &told{by: w, pieces: make(chan string), came: make(chan struct{}, 100), left: make(chan time.Time, 100)}
}

func (m *told) handler(standIn http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			standIn.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body) // or nobody would notice that the client goes away
		w.Header().Set("Content-Type", m.by.ContentType)
		io.WriteString(w, m.by.Open)
		http.NewResponseController(w).Flush()
		m.came <- struct{}{}
		for {
			select {
			case text, ok := <-m.pieces:
				if !ok {
					return
				}
				io.WriteString(w, text)
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				m.left <- time.Now()
				return
			}
		}
	})
}

// say gives the pieces out and waits until they are taken.
func (m *told) say(t testing.TB, pieces ...string) {
	t.Helper()
	for _, text := range pieces {
		select {
		case m.pieces <- text:
		case <-time.After(patience):
			t.Fatal("nobody listens to the model")
		}
	}
}

// wait waits for something on a channel.
func wait[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
	return v
}

// dial asks over a connection of its own, whose end is the test's to decide.
func (p *product) dial(path, framing, body string, header ...string) *net.TCPConn {
	p.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", path, framing, len(body),
		strings.Join(append(header, ""), "\r\n"), body)
	return c.(*net.TCPConn)
}

// later asks for something whose answer comes in its own time.
func (p *product) later(method, path string, header ...string) <-chan *answer {
	answers := make(chan *answer, 1)
	p.clients.Go(func() {
		resp, err := p.request(context.Background(), method, path, "", header...)
		if err != nil {
			p.t.Errorf("%s %s: %v", method, path, err)
			return
		}
		answers <- p.read(resp)
	})
	return answers
}

// within is how soon a run whose client has gone away must have left the model (FT-18).
const within = 100 * time.Millisecond

// FT-18: a client that wanted so takes its run with it, and the model's server is told at once.
func TestAClientThatLeavesCancelsItsRunWhereItSaidSo(t *testing.T) {
	for _, w := range providers {
		for _, framing := range framings {
			for name, leave := range map[string]func(*net.TCPConn) error{
				"with FIN": func(c *net.TCPConn) error { return c.Close() },
				"with RST": func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
			} {
				t.Run(w.name+"/"+name+"/"+framing, func(t *testing.T) {
					const times = 5
					m := newToldBy(w)
					p := start(t, setup{handler: m.handler, by: w})
					var took []time.Duration
					for range times {
						c := p.dial("/v1/runs?on_disconnect=cancel", framing, run("text"))
						wait(t, "the model is asked", m.came)
						m.say(t, w.Text("blue"))
						if framing != "application/json" {
							hear(t, c, `"blue"`)
						}
						if err := leave(c); err != nil {
							t.Fatal(err)
						}
						began := time.Now()
						took = append(took, wait(t, "the model is left", m.left).Sub(began))
					}
					// One of five may have met a busy machine; most must be soon.
					slices.Sort(took)
					longtest.Within(t, "until most models were left", took[len(took)/2], within)
					// Only those who have heard something know that the product has, and so that it knows which chat it is.
					if framing != "application/json" {
						p.canceledAtCoze(w, times)
					}
					p.idle()
				})
			}
		}
	}
}

// hear reads an answer until it has the words.
func hear(t testing.TB, c net.Conn, words string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var said []byte
	for buf := make([]byte, 4<<10); !strings.Contains(string(said), words); {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("%v before %s: %q", err, words, said)
		}
		said = append(said, buf[:n]...)
	}
}

// canceledAtCoze waits until Coze has been asked to cancel so many chats; no other provider is asked such a thing.
func (p *product) canceledAtCoze(w *provider, n int) {
	p.t.Helper()
	if w != cozeBot {
		n = 0
	}
	p.eventually(fmt.Sprintf("%d chats are canceled", n), func() bool { return p.model.Cancels() >= n })
	if got := p.model.Cancels(); got != n {
		p.t.Errorf("%d chats were canceled, not %d", got, n)
	}
}

// FT-18: without that the run goes on, and can be attached to; nobody but the client who left notices.
func TestAClientThatLeavesFindsItsRunAgain(t *testing.T) {
	for _, framing := range framings {
		t.Run(framing, func(t *testing.T) {
			m := newTold()
			p := start(t, setup{handler: m.handler})
			c := p.dial("/v1/runs", framing, run("text"), "Idempotency-Key: one")
			wait(t, "the model is asked", m.came)
			m.say(t, piece("bl"))
			id := p.do("POST", "/v1/runs", run("text"), "Idempotency-Key: one", "Prefer: respond-async").run
			p.eventually("what the model has said is there", func() bool { return p.do("GET", "/v1/runs/"+id, "").doc == `{"answer":"bl"}` })
			c.SetLinger(0)
			c.Close()
			p.eventually("the server has noticed", func() bool { return p.fromClients.busy() == 0 })
			// The run is as alive as before, and those who come now see all of it.
			if a := p.do("GET", "/v1/runs/"+id, ""); a.state != "running" || a.doc != `{"answer":"bl"}` {
				t.Errorf("%v", a)
			}
			again := p.later("GET", "/v1/runs/"+id+"/events", "Accept: "+framing)
			m.say(t, piece("ue"), end)
			close(m.pieces)
			if a := wait(t, "the answer", again); a.state != "completed" || a.doc != `{"answer":"blue"}` || a.broken != nil {
				t.Errorf("%v", a)
			}
			if len(m.left) > 0 {
				t.Error("the model was left")
			}
		})
	}
}

// FT-18, FT-34: a run that ends before its model does leaves it at once, whatever the reason.
func TestARunThatEndsEarlyLeavesItsModel(t *testing.T) {
	panicking := flow.Func("panicking", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
		b, err := m.CreateBot("writer", "doc", nil)
		if err != nil {
			return err
		}
		b.Listen(bot.Listener{String: func(bot.StringValue) { panic("ouch") }})
		return b.Chat(bot.Message{Text: "question"})
	})
	failing := flow.Func("failing", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
		b, err := m.CreateBot("writer", "doc", nil)
		if err != nil {
			return err
		}
		if err := b.Chat(bot.Message{Text: "question"}); err != nil {
			return err
		}
		panic("the workflow itself: ouch")
	})
	for _, row := range []struct {
		name, body string
		says       []string
		cancel     bool
		goesOn     bool // the model may finish
		state      string
		code       string
	}{
		{name: "a bot's error", body: run("json"), says: []string{`{"a":` + strings.Repeat("[", 600)}, state: "failed", code: "output_invalid"},
		{name: "a panic in a callback", body: `{"workflow":"panicking"}`, says: []string{`{"a":"b","c":`}, state: "failed", code: "internal"},
		{name: "a panic of the workflow", body: `{"workflow":"failing"}`, says: []string{`{"a":"b"}`}, goesOn: true, state: "failed", code: "internal"},
		{name: "canceled", body: run("json"), says: []string{`{"a":"b","c":`}, cancel: true, state: "canceled"},
		{name: "canceled before the first token", body: run("json"), cancel: true, state: "canceled"},
	} {
		for i, framing := range slices.Repeat(framings, len(providers)) {
			w := providers[i/len(framings)]
			t.Run(row.name+"/"+w.name+"/"+framing, func(t *testing.T) {
				m := newToldBy(w)
				p := start(t, setup{handler: m.handler, more: []flow.Workflow{panicking, failing}, by: w})
				// The run is started by one client and followed by another, so that its id is known in each framing.
				started := p.do("POST", "/v1/runs", row.body, "Prefer: respond-async")
				if started.status != 202 {
					t.Fatalf("%v", started)
				}
				answers := p.later("GET", "/v1/runs/"+started.run+"/events", "Accept: "+framing)
				wait(t, "the model is asked", m.came)
				for _, text := range row.says {
					m.say(t, w.Text(text))
				}
				if row.cancel && len(row.says) > 0 { // and that it has come in, since it says there which chat it is
					p.eventually("the text is there", func() bool { return p.do("GET", "/v1/runs/"+started.run, "").doc == `{"doc":{"a":"b"}}` })
				}
				began := time.Now()
				if row.cancel {
					if a := p.do("POST", "/v1/runs/"+started.run+"/cancel", ""); a.status != 202 {
						t.Errorf("%v", a)
					}
				}
				chats := 1
				if row.goesOn {
					chats = 0
					m.say(t, w.end())
					close(m.pieces)
				} else {
					longtest.Within(t, "until the model was left", wait(t, "the model is left", m.left).Sub(began), 10*within)
				}
				a := wait(t, "the answer", answers)
				if a.state != row.state || a.code() != row.code {
					if a.problem == nil || a.problem.Code != row.code || a.problem.Status != 500 {
						t.Errorf("want %s %s: %v", row.state, row.code, a)
					}
				}
				if seen := strings.ReplaceAll(p.seen.String(), started.run, ""); strings.Contains(seen, "ouch") || strings.Contains(seen, "goroutine") || strings.Contains(seen, ".go:") {
					t.Errorf("the panic is shown: %s", clip(seen))
				}
				if len(row.says) > 0 {
					p.canceledAtCoze(w, chats)
				}
				p.idle()
				if a := p.do("POST", "/v1/runs/"+started.run+"/cancel", ""); a.status != 409 || a.code() != "conflict" {
					t.Errorf("canceled again: %v", a)
				}
			})
		}
	}
}

// FT-19, bad input: a client that stops reading is dropped by its write's deadline; the run and another reader do not notice,
// and the client can come back and go on where it was.
func TestAClientThatStopsReadingIsDropped(t *testing.T) {
	for _, framing := range streams {
		t.Run(framing, func(t *testing.T) {
			// More than sockets hold, less than the log does.
			body := strings.Repeat("Why is the sky blue? ", 75_000)
			m := newTold()
			p := start(t, setup{handler: m.handler, web: func(o *web.Options) { o.WriteTimeout = 300 * time.Millisecond; o.Data = t.TempDir() }})
			stuck := p.dial("/v1/runs", framing, run("text"))
			wait(t, "the model is asked", m.came)
			stuck.SetReadBuffer(8 << 10)
			m.say(t, piece("First "))
			// What it reads is the header and the first events, with the id to go on from.
			var head []byte
			for buf := make([]byte, 256); !strings.Contains(string(head), "First "); {
				n, err := stuck.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				head = append(head, buf[:n]...)
			}
			_, after, _ := strings.Cut(string(head), "X-Run-Id: ")
			id, _, _ := strings.Cut(after, "\r\n")

			// The other one takes each piece before the next is said, so that it is never late, however slow the machine is.
			resp, events := p.open(t.Context(), "GET", "/v1/runs/"+id+"/events", "", "Accept: "+framing)
			defer resp.Body.Close()
			var other fold
			heard := 0 // bytes of the text
			hear := func() bool {
				e, err := events.next()
				if err != nil {
					return false
				}
				if other.take(e); e.name == "" && e.uri == "answer" {
					var text string
					json.Unmarshal([]byte(e.delta), &text)
					heard += len(text)
				}
				return true
			}
			said := len("First ")
			for part := range slices.Chunk([]byte(body), 64<<10) {
				m.say(t, piece(string(part)))
				for said += len(part); heard < said; {
					if !hear() {
						t.Fatalf("the other reader has %d bytes of %d", heard, said)
					}
				}
			}
			m.say(t, end)
			close(m.pieces)
			for hear() {
			}
			want := `{"answer":"First ` + body + `"}`
			if other.check(t); other.state != "completed" || other.json() != want {
				t.Errorf("the other reader: %s %s", other.state, clip(other.json()))
			}
			// Dropped without its reading on.
			p.eventually("the client that does not read is dropped", func() bool { return p.fromClients.busy() == 0 })
			p.idle()

			// It comes back.
			last := id + ":1" // "started" is 0, the first delta 1
			a := p.do("GET", "/v1/runs/"+id+"/events", "", "Accept: "+framing, "Last-Event-ID: "+last)
			var f fold
			f.last, f.run, f.n = last, id, 1
			f.apply(event{uri: "answer", delta: `"First "`})
			for _, e := range a.events {
				f.take(e)
			}
			if f.check(t); f.state != "completed" || f.json() != want {
				t.Errorf("after coming back: %s", clip(a.String()))
			}
		})
	}
}

// FT-28: the same start, again, is the same run, in each framing and whatever became of it; another request is refused.
func TestARepeatedStartIsTheSameRun(t *testing.T) {
	for _, framing := range framings {
		t.Run(framing, func(t *testing.T) {
			data := t.TempDir()
			var fail atomic.Bool
			s := setup{
				script: func(fakeproviders.Request) fakeproviders.Answer {
					if fail.Load() {
						return raw(bytes_(piece("bl")), cut)
					}
					return fakeproviders.Answer{Text: "blue", Delay: 50 * time.Millisecond}
				},
				web: func(o *web.Options) { o.Data = data },
			}
			p := start(t, s)
			key := "Idempotency-Key: one"
			answers := make([]*answer, 8)
			var together sync.WaitGroup
			for i := range answers {
				together.Go(func() { answers[i] = p.ask(framing, run("text"), key) })
			}
			together.Wait()
			answers = append(answers, p.ask(framing, run("text"), key), p.ask("application/json", run("text"), key))
			for _, a := range answers {
				if a.status != 200 || a.state != "completed" || a.doc != `{"answer":"blue"}` || a.run != answers[0].run {
					t.Errorf("%v", a)
				}
			}
			if a := p.ask(framing, `{"workflow":"text","input":"another"}`, key); a.status != 422 || a.code() != "invalid_request" {
				t.Errorf("another body: %v", a)
			}
			if n := p.model.Requests(); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}

			// A failure is the result, too; a refusal is none.
			fail.Store(true)
			failed := p.ask(framing, run("text"), "Idempotency-Key: two")
			fail.Store(false)
			if again := p.ask(framing, run("text"), "Idempotency-Key: two"); again.state != "failed" || again.run != failed.run || again.doc != failed.doc || again.doc != `{"answer":"bl"}` {
				t.Errorf("a failure again: %v", again)
			}
			if a := p.ask(framing, `{"workflow":"nothing","input":"q"}`, "Idempotency-Key: three"); a.status != 404 {
				t.Errorf("%v", a)
			}
			if a := p.ask(framing, run("text"), "Idempotency-Key: three"); a.state != "completed" {
				t.Errorf("after a refusal: %v", a)
			}

			// After a restart.
			p.close()
			p = start(t, s)
			if a := p.ask(framing, run("text"), key); a.run != answers[0].run || a.doc != `{"answer":"blue"}` || a.state != "completed" {
				t.Errorf("after a restart: %v", a)
			}
			if a := p.ask(framing, run("text"), "Idempotency-Key: two"); a.run != failed.run || a.state != "failed" || a.doc != failed.doc {
				t.Errorf("a failure after a restart: %v", a)
			}
			if a := p.ask(framing, `{"workflow":"text","input":"another"}`, key); a.status != 422 {
				t.Errorf("another body after a restart: %v", a)
			}
			if n := p.model.Requests(); n != 0 {
				t.Errorf("the model was asked %d times after the restart", n)
			}
		})
	}
}

// FT-29: an id to go on from is good, or the answer says what is wrong with it; never a gap, never a duplicate.
func TestAnIDToGoOnFromIsGoodOrSaidToBeBad(t *testing.T) {
	for _, framing := range streams {
		t.Run(framing, func(t *testing.T) {
			text := strings.Repeat("Why is the sky blue? ", 1000)
			p := start(t, setup{
				script: always(fakeproviders.Answer{Text: text}),
				web:    func(o *web.Options) { o.MaxLog = 8 << 10 }, // of which most is forgotten
			})
			accept := "Accept: " + framing
			a := p.ask(framing, run("text"))
			other := p.ask(framing, run("text"))
			want := `{"answer":"` + text + `"}`
			if a.doc != want || a.state != "completed" {
				t.Fatalf("%v", a)
			}
			events := "/v1/runs/" + a.run + "/events"
			last := a.events[len(a.events)-1].id

			// Too old: a snapshot, and the rest.
			back := p.do("GET", events, "", accept, "Last-Event-ID: "+a.run+":0")
			if back.status != 200 || back.doc != want || back.state != "completed" || back.events[0].id == a.run+":1" {
				t.Errorf("too old: %v", back)
			}
			var f fold
			for _, e := range back.events {
				f.take(e)
			}
			f.check(t)
			// Everything was delivered: nothing more, and no new run.
			for _, path := range []string{events, "/v1/runs"} {
				method, body := "GET", ""
				if path == "/v1/runs" {
					method, body = "POST", run("text")
				}
				if a := p.do(method, path, body, accept, "Last-Event-ID: "+last); a.status != 204 || len(a.body) > 0 {
					t.Errorf("everything was delivered: %v", a)
				}
			}
			// Of another run, in the future, rubbish.
			for name, bad := range map[string]struct{ path, id, says string }{
				"another run":     {events, other.run + ":1", "another run"},
				"the future":      {events, a.run + ":1000000", "has had"},
				"the next":        {"/v1/runs", last[:len(last)-1] + "999999", "has had"},
				"rubbish":         {events, "rubbish", "not an event id"},
				"no number":       {events, a.run + ":one", "expected a whole number"},
				"negative":        {events, a.run + ":-1", "expected a whole number"},
				"a path":          {"/v1/runs", "../../etc/passwd:1", "expected a run's id"},
				"far too long":    {events, strings.Repeat("x", 4000), "too long"},
				"other text":      {events, "ä:1", "expected a run's id"},
				"too large":       {events, a.run + ":99999999999999999999", "id"},
				"only a run":      {events, a.run, "not an event id"},
				"only the number": {events, ":1", "expected a run's id"},
			} {
				method, body := "GET", ""
				if bad.path == "/v1/runs" {
					method, body = "POST", run("text")
				}
				if got := p.do(method, bad.path, body, accept, "Last-Event-ID: "+bad.id); got.status != 400 || got.code() != "invalid_request" || !strings.Contains(got.says(), bad.says) {
					t.Errorf("%s: %v", name, got)
				}
			}
			// NUL comes through a query only: no client can send it in a header.
			if got := p.do("GET", events+"?last_event_id="+a.run+"%00:1", "", accept); got.status != 400 || got.code() != "invalid_request" {
				t.Errorf("NUL: %v", got)
			}
			// Unknown: told so once, and then to stop.
			unknown := strings.Repeat("a", 26)
			gone := p.do("POST", "/v1/runs", run("text"), accept, "Last-Event-ID: "+unknown+":5")
			if gone.status != 200 || gone.code() != "gone" || gone.state != "interrupted" || len(gone.events) != 2 {
				t.Fatalf("gone: %v", gone)
			}
			if a := p.do("POST", "/v1/runs", run("text"), accept, "Last-Event-ID: "+gone.events[1].id); a.status != 204 {
				t.Errorf("after gone: %v", a)
			}
			if n := p.model.Requests(); n != 2 {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

// FT-30: several clients on one run, of which some come late, some leave and come back while their first connection lives, see
// the same events in the same order.
func TestAllClientsOfARunSeeTheSame(t *testing.T) {
	m := newTold()
	p := start(t, setup{handler: m.handler})
	started := p.do("POST", "/v1/runs", run("json"), "Prefer: respond-async")
	wait(t, "the model is asked", m.came)
	path := "/v1/runs/" + started.run + "/events"
	var readers sync.WaitGroup
	seen := make([][]event, 12)
	follow := func(i int) {
		framing := streams[i%2]
		resp, events := p.open(t.Context(), "GET", path, "", "Accept: "+framing)
		readers.Go(func() {
			defer resp.Body.Close()
			for {
				e, err := events.next()
				if err != nil {
					return
				}
				seen[i] = append(seen[i], e)
				if i%3 == 2 && len(seen[i]) == 4 {
					// Again from here, while the first connection stays open.
					second, more := p.open(t.Context(), "GET", path, "", "Accept: "+framing, "Last-Event-ID: "+e.id)
					defer second.Body.Close()
					events = more
				}
			}
		})
	}
	const parts = 40
	m.say(t, piece(`{"list":["`))
	for i := range parts {
		if i%4 == 0 && i/4 < len(seen)-2 {
			follow(i / 4)
		}
		m.say(t, piece(fmt.Sprintf(`part %d","`, i)))
	}
	m.say(t, piece(`"]}`), end)
	close(m.pieces)
	follow(len(seen) - 2) // after the end, or about
	p.eventually("the run ends", func() bool { return p.do("GET", "/v1/runs/"+started.run, "").state == "completed" })
	follow(len(seen) - 1)
	readers.Wait()
	for i := range seen {
		if diff := cmp.Diff(seen[0], seen[i], cmp.AllowUnexported(event{})); diff != "" || len(seen[0]) < parts {
			t.Errorf("client %d of %d events: %s", i, len(seen[0]), diff)
		}
	}
	if last := seen[0][len(seen[0])-1]; last.name != "finished" {
		t.Errorf("the last is %+v", last)
	}
	if !json.Valid([]byte(p.do("GET", "/v1/runs/"+started.run, "").doc)) {
		t.Error("no document")
	}
}

// Whoever asks for a run again and again must not be told that it is complete while the end of its document is missing.
func TestADocumentThatIsSaidToBeCompleteIsWhole(t *testing.T) {
	p := start(t, setup{script: always(fakeproviders.Answer{Text: strings.Repeat("blue ", 400)})})
	want := `{"answer":"` + strings.Repeat("blue ", 400) + `"}`
	for range 40 {
		id := p.do("POST", "/v1/runs", run("text"), "Prefer: respond-async").run
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for {
					a := p.do("GET", "/v1/runs/"+id, "")
					if a.state == "running" && strings.HasPrefix(want, strings.TrimSuffix(a.doc, `"}`)) || a.doc == "{}" && a.state == "running" {
						continue
					}
					if a.state != "completed" || a.doc != want {
						t.Errorf("%v", a)
					}
					return
				}
			})
		}
		clients.Wait()
	}
}
