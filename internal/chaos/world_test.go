//go:build nightly && unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

// patience is how long a client waits for what must happen. It is long, since it only matters when something is wrong. While the only
// database is away nothing can happen, and behind that no replica is taken for dead before it could have beaten for a while: what a dead one
// has left waits so long.
const (
	patience = time.Hour
	revival  = 6 * time.Second // package cluster takes a replica for dead after 5 s
)

// setup says what a world is like.
type setup struct {
	replicas int // that share a database, unless there is one
	network  *fleet.Network
	args     []string
}

// world is a fleet, the models' server of its replicas, and what was seen of it all.
type world struct {
	t        testing.TB
	fleet    *fleet.Fleet
	database *postgrestest.Server // nil for a replica that is alone
	model    *model
	http     *http.Client
	local    bool // there is one replica, which has nobody to take over its runs
	began    time.Time

	mu     sync.Mutex
	wrong  []string
	counts map[string]int
	times  map[string][]time.Duration
	faults []string // that were made, with their times
	broken int      // how many were made

	databaseWas  time.Duration // away, or back for less than revival, up to
	databaseAway time.Time     // then; zero: it was never away
	databaseBack time.Time     // zero: it is away
}

const configuration = `
agents:
  assistant: {}
  careful: {ask_always: ["tape.*"]}
`

var workflows = map[string]string{
	"text.yaml": `
name: text
resume: false
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
`,
	"again.yaml": `
name: again
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
`,
}

// newWorld starts a fleet, which is ended with the test.
func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	path, err := binary.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := &world{
		t: t, model: newModel(), local: s.replicas == 1, counts: map[string]int{}, times: map[string][]time.Duration{},
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 16, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		}},
	}
	t.Cleanup(w.http.CloseIdleConnections)
	for name, text := range workflows {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "lingserve-chaos.config")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	host := "127.0.0.1"
	if s.network != nil {
		host = s.network.Host()
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	models := &http.Server{Handler: &w.model.Server, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = models.Serve(l) }) // until it is closed
	t.Cleanup(func() { _ = models.Close(); serving.Wait() })
	var database string
	if s.replicas > 1 {
		w.startDatabase(s.network)
		database = w.database.URL()
	}
	if w.fleet, err = fleet.New(fleet.Options{
		Program: path, Dir: dir, Database: database, Replicas: s.replicas, Network: s.network,
		Args: append([]string{
			"--workflows", dir, "--config", config, "--model", "openai:m", "--retries-attempts", "1", "--grace", "300ms",
			"--limit-requests", "0", "--limit-runs", "0", "--limit-streams-per-caller", "20000", "--log-access", "off",
		}, s.args...),
		Env: []string{"OPENAI_API_KEY=sk-chaos", "OPENAI_BASE_URL=http://" + l.Addr().String() + "/v1"},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.tell()
		}
		if err := w.fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.fleet.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.began = time.Now()
	return w
}

// startDatabase starts a PostgreSQL server, which is ended with the test. Without PostgreSQL the test is skipped.
func (w *world) startDatabase(network *fleet.Network) {
	w.t.Helper()
	var o postgrestest.Options
	if network == nil {
		address, err := fleet.Addresses(1)
		if err != nil {
			w.t.Fatal(err)
		}
		o.Listen = address[0]
	} else {
		host, enter, err := network.Add(database)
		if err != nil {
			w.t.Fatal(err)
		}
		o.Listen, o.By = host+":5432", enter
	}
	s, err := postgrestest.StartWith(o)
	if errors.Is(err, postgrestest.ErrMissing) {
		w.t.Skip(err)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.database = s
	w.t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			w.t.Error(err)
		}
	})
}

// tell says what has happened, where something is wrong.
func (w *world) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Logf("seed %d; the faults:\n%s", *seed, strings.Join(w.faults, "\n"))
	dir := w.t.ArtifactDir()
	for _, r := range w.fleet.Replicas {
		file := filepath.Join(dir, r.Name+".log")
		if err := os.WriteFile(file, []byte(r.Log()), 0o600); err == nil {
			w.t.Logf("the log of %s is %s", r.Name, file)
		}
	}
}

// fail notes what must not be.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%6.2fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	if w.wrong = append(w.wrong, line); *verbose {
		fmt.Println("WRONG", line)
	}
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) took(what string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times[what] = append(w.times[what], d)
}

// happened notes a fault.
func (w *world) happened(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken++
	line := fmt.Sprintf("%6.2fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	if w.faults = append(w.faults, line); *verbose {
		fmt.Println(line)
	}
}

// patient is ctx until a client has waited long enough, but for the time in which the database was away.
func (w *world) patient(ctx context.Context, why error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	began, away := time.Now(), w.away()
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		for left := patience; left > 0; left = patience - time.Since(began) + w.away() - away {
			pause(ctx, left)
			if ctx.Err() != nil {
				return
			}
		}
		cancel(why)
	}()
	return ctx, func() { cancel(nil); <-ended }
}

// outage notes that the database goes away, until back is called.
func (w *world) outage() (back func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.databaseWas = w.awayLocked()
	w.databaseAway, w.databaseBack = time.Now(), time.Time{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.databaseBack = time.Now()
	}
}

// away is how long the database was away in all.
func (w *world) away() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awayLocked()
}

func (w *world) awayLocked() time.Duration {
	now := time.Now()
	switch back := w.databaseBack.Add(revival); {
	case w.databaseAway.IsZero():
		return 0
	case !w.databaseBack.IsZero() && back.Before(now):
		now = back
	}
	return w.databaseWas + now.Sub(w.databaseAway)
}

// faultsSoFar is how many faults there were.
func (w *world) faultsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// check ends the test with what was wrong.
func (w *world) check() {
	w.t.Helper()
	for _, r := range w.fleet.Replicas {
		log := r.Log()
		for _, mistake := range []string{"panicked", "superfluous", "http: panic", "goroutine ", "DATA RACE", "sk-chaos"} {
			if i := strings.Index(log, mistake); i >= 0 {
				w.fail("the log of %s: %s", r.Name, log[max(0, i-200):min(len(log), i+600)])
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 30
	for _, wrong := range w.wrong[:min(len(w.wrong), most)] {
		w.t.Error(wrong)
	}
	if len(w.wrong) > most {
		w.t.Errorf("and %d more", len(w.wrong)-most)
	}
}

// table is a summary of what was seen.
func (w *world) table() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\n| event | count |\n|---|---|\n")
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", what, w.counts[what])
	}
	fmt.Fprintf(&b, "| **violations** | **%d** |\n\n| duration | count | p50 | p99 | longest |\n|---|---|---|---|---|\n", len(w.wrong))
	for _, what := range slices.Sorted(maps.Keys(w.times)) {
		all := slices.Sorted(slices.Values(w.times[what]))
		n := len(all)
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v |\n", what, n, short(all[n/2]), short(all[n*99/100]), short(all[n-1]))
	}
	return b.String()
}

func short(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// pause waits a moment, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
