//go:build nightly && unix

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What comes back after a restart, and how it asks.
var comers = []struct {
	name   string
	media  string
	keyed  bool
	again  bool // the workflow is run again
	agent  bool
	get    bool
	attach bool // comes back at the run's own events
}{
	{name: "an EventSource", media: "text/event-stream", get: true},
	{name: "an EventSource of a workflow that is run again", media: "text/event-stream", get: true, again: true},
	{name: "a POST", media: "text/event-stream"},
	{name: "a POST with a key", media: "text/event-stream", keyed: true},
	{name: "a POST with a key, of a workflow that is run again", media: "text/event-stream", keyed: true, again: true},
	{name: "JSON Lines", media: "application/x-ndjson", attach: true},
	{name: "JSON Lines with a key", media: "application/x-ndjson", keyed: true},
	{name: "JSON Lines of a workflow that is run again", media: "application/x-ndjson", again: true, attach: true},
	{name: "an agent", media: "text/event-stream", agent: true},
	{name: "an agent's JSON Lines with a key", media: "application/x-ndjson", agent: true, keyed: true},
}

// FT-21, FT-23, FT-28, FT-29, FT-32: many clients follow runs when the program is killed, or told to go before they have ended. All
// come back to the next one with the last id that they have seen. Each ends with a document: the whole one, or as much as the server
// has of it, and is then told so; or it is told that the run is gone, which was so young that nothing of it was written.
func TestSoakOfClientsThatComeBackAfterARestart(t *testing.T) {
	dir := t.TempDir()
	again := strings.Replace(string(workflows["text.yaml"].Data), "name: text", "name: anew\nrestart: true", 1)
	for name, text := range map[string]string{"text.yaml": string(workflows["text.yaml"].Data), "anew.yaml": again} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const model = "pace-40-80"
	n, rounds := size(40, 200), size(2, 30)
	args := []string{"--workflows", dir, "--model", "openai:" + model, "--grace", "50ms"}
	random := rand.New(rand.NewPCG(7, uint64(rounds)))
	var current atomic.Pointer[server]
	data := t.TempDir()
	s := serve(t, serving{data: data, args: args})
	whole, cut, gone := 0, 0, 0
	// And more rounds where all runs had ended before the moment came.
	for round := 0; round < rounds || cut == 0 && round < 10*rounds; round++ {
		current.Store(s)
		killed := round%2 == 0
		ctx, done := context.WithTimeout(t.Context(), patience)
		var clients sync.WaitGroup
		var began atomic.Int64
		var mu sync.Mutex
		tell := func(format string, args ...any) {
			t.Helper()
			t.Errorf("round %d (killed: %v): %s", round, killed, fmt.Sprintf(format, args...))
		}
		for i := range n {
			c := comers[i%len(comers)]
			input := fmt.Sprintf("q%d.%d", round, i)
			clients.Go(func() {
				f, err := comeBack(ctx, &current, i, round, model, input, func() { began.Add(1) })
				if err != nil {
					tell("%s: %v", c.name, err)
					return
				}
				want := docOf(model, input)
				if c.agent {
					want = quoted(textOf(model, input))
				}
				for _, w := range f.wrong {
					tell("%s: %s", c.name, w)
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case f.state == "completed":
					whole++
					if f.json() != want {
						tell("%s: completed with %s", c.name, clip(f.json()))
					}
				case f.state != "interrupted":
					tell("%s: %s %+v", c.name, f.state, f.errors)
				case len(f.errors) > 0 && f.errors[len(f.errors)-1].Code == "gone":
					gone++
					if c.again {
						tell("%s: gone", c.name)
					}
				case c.again:
					tell("%s: was not run again: %+v", c.name, f.errors)
				default:
					cut++
					if killed && len(f.errors) == 0 {
						tell("%s: nobody says why it was interrupted", c.name)
					}
					a, err := current.Load().do("GET", "/v1/runs/"+f.run, "")
					if err != nil || a.status != 200 || a.state != "interrupted" || a.doc != f.json() {
						tell("%s: the client has %s, and the server %v, %v", c.name, clip(f.json()), a, err)
					}
					if have := strings.TrimRight(f.json(), `"}`); !strings.HasPrefix(want, have) && f.json() != "{}" {
						tell("%s: has %s", c.name, clip(f.json()))
					}
				}
			})
		}
		// Some have not begun yet, some are in the middle, and some may have ended.
		for want := int64(random.IntN(n + 1)); began.Load() < want; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond) // the moment is what is random here
		if killed {
			s.kill()
		} else if err := s.process.Stop(); err != nil {
			tell("the server has ended with %v: %s", err, clip(s.log.String()))
		}
		s = serve(t, serving{data: data, args: args})
		current.Store(s)
		clients.Wait()
		done()
		if t.Failed() {
			t.FailNow()
		}
	}
	s.stop()
	if cut == 0 || whole == 0 {
		t.Errorf("%d whole, %d cut off: nothing was in the middle", whole, cut)
	}
	saw(t, "FT-21, FT-23, FT-32", fmt.Sprintf("%d clients follow runs when the program is killed, or told to go (%d times)", n, rounds),
		"all come back: %d have the whole document (those of workflows that are run again, all), %d as much as was written and are told so, %d are told that their run is gone", whole, cut, gone)
}

// comeBack follows one run over as many connections and servers as it takes.
func comeBack(ctx context.Context, current *atomic.Pointer[server], i, round int, model, input string, began func()) (*fold, error) {
	c := comers[i%len(comers)]
	f := new(fold)
	for connection := 0; f.state == ""; connection++ {
		if ctx.Err() != nil {
			return f, fmt.Errorf("no end after %d connections: %w, at %s", connection, ctx.Err(), f.last)
		}
		header := []string{"Accept: " + c.media}
		if c.keyed {
			header = append(header, fmt.Sprintf("Idempotency-Key: %d.%d", round, i))
		}
		if f.last != "" {
			header = append(header, "Last-Event-ID: "+f.last)
		}
		workflow := "text"
		if c.again {
			workflow = "anew"
		}
		method, path, body := "POST", "/v1/runs", fmt.Sprintf(`{"workflow":%q,"input":%q}`, workflow, input)
		switch {
		case c.attach && f.run != "":
			method, path, body = "GET", "/v1/runs/"+f.run+"/events", ""
		case c.get:
			method, path, body = "GET", "/v1/runs?workflow="+workflow+"&input="+url.QueryEscape(input), ""
		case c.agent:
			body = fmt.Sprintf(`{"agent":"assistant","session":%q,"input":%q}`, input, input)
		}
		resp, err := current.Load().request(ctx, method, path, body, header...)
		if err != nil {
			time.Sleep(20 * time.Millisecond) // nobody is there at the moment
			continue
		}
		if resp.StatusCode == 503 && resp.Header.Get("Retry-After") != "" {
			resp.Body.Close()
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if resp.StatusCode != 200 {
			a := readAnswer(resp)
			resp.Body.Close()
			return f, fmt.Errorf("with the id %q: %v", f.last, a)
		}
		for events := newEventReader(c.media, resp.Body); ; {
			e, err := events.next()
			if err != nil {
				break
			}
			if e.name == "started" && f.run == "" {
				began()
			}
			f.take(e)
		}
		f.cut()
		resp.Body.Close()
	}
	return f, nil
}

func quoted(text string) string {
	q, _ := json.Marshal(text)
	return string(q)
}
