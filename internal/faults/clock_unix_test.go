//go:build nightly && unix

package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/program"
)

// jumping is the server's program with a wall clock that signals set forth and back by an hour, while its monotonic clock goes on as
// it did: what a system's clock does that somebody sets. All that is changed is package time, where it looks at the wall.
func jumping(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("there is no go: %v", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(root, "time.go"))
	if err != nil {
		t.Skipf("the library's source is not there: %v", err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Skip("package time looks at the clock in another way than this test knows")
	}
	server, err := filepath.Abs("../../cmd/server")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for path, text := range map[string]string{
		filepath.Join(root, "time.go"): strings.Replace(string(text), reads, reads+"\tsec += Jump.Load()\n", 1),
		filepath.Join(root, "jump.go"): "package time\n\nimport \"sync/atomic\"\n\nvar Jump atomic.Int64\n",
		filepath.Join(server, "jump.go"): `package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	jumps := make(chan os.Signal, 1)
	signal.Notify(jumps, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for sig := range jumps {
			by := int64(3600)
			if sig == syscall.SIGUSR2 {
				by = -by
			}
			time.Jump.Add(by)
		}
	}()
}
`,
	} {
		file := filepath.Join(dir, strings.ReplaceAll(filepath.Base(filepath.Dir(path))+"."+filepath.Base(path), "/", "."))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = file
	}
	overlay := filepath.Join(dir, "overlay.json")
	said, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(overlay, said, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "lingserve")
	if err := program.Build(t.Context(), path, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return path
}

// FT-27: somebody sets the clock by an hour, forth and back, while the server runs. A stream goes on, what has ended is kept for as
// long as was promised and no longer, keys hold, and new runs are as before. Only with -soak: the whole library is built anew.
func TestSoakOfAClockThatIsSetWhileTheServerRuns(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("it takes -soak")
	}
	path := jumping(t)
	for _, row := range []struct {
		name string
		set  []os.Signal
	}{
		{"forth by an hour", []os.Signal{syscall.SIGUSR1}},
		{"back by an hour", []os.Signal{syscall.SIGUSR2}},
		{"forth and back, again and again", []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR2, syscall.SIGUSR1, syscall.SIGUSR1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			const kept = 8 * time.Second
			s := serve(t, serving{path: path, args: []string{"--run-retention", kept.String(), "--run-timeout", "5m", "--upstream-idle", "1m", "--http-keepalive", "200ms"}})
			const model = "pace-60-10" // six seconds
			type end struct {
				f           *fold
				connections int
				err         error
			}
			going := make(chan end, 1)
			go func() {
				f, n, err := s.follow(t.Context(), model, "going", "going")
				going <- end{f, n, err}
			}()
			eventually(t, "the stream has begun", func() bool { return s.model.Open() == 1 })
			ended, err := s.do("POST", "/v1/runs", runOf("m", "ended"), "Accept: application/json")
			if err != nil || ended.state != "completed" {
				t.Fatalf("%v, %v", ended, err)
			}
			at := time.Now()
			keyed, err := s.do("POST", "/v1/runs", runOf("m", "keyed"), "Accept: application/json", "Idempotency-Key: one")
			if err != nil || keyed.state != "completed" {
				t.Fatalf("%v, %v", keyed, err)
			}
			check := func() {
				t.Helper()
				s.alive()
				if a, err := s.do("GET", "/v1/runs/"+ended.run, ""); err != nil || time.Since(at) < kept && (a.status != 200 || a.doc != ended.doc) {
					t.Errorf("a run that is to be kept: %v, %v", a, err)
				}
				if a, err := s.do("POST", "/v1/runs", runOf("m", "keyed"), "Accept: application/json", "Idempotency-Key: one"); err != nil || a.run != keyed.run || a.doc != keyed.doc {
					t.Errorf("the start again: %v, %v", a, err)
				}
				s.served("m", "new")
			}
			for _, sig := range row.set {
				s.process.Signal(sig)
				time.Sleep(100 * time.Millisecond)
				check()
			}
			e := <-going
			if e.err != nil || e.connections != 1 || e.f.state != "completed" || e.f.json() != docOf(model, "going") {
				t.Errorf("the stream: %s %s over %d connections, %v", e.f.state, clip(e.f.json()), e.connections, e.err)
			}
			time.Sleep(time.Until(at.Add(kept + 7*time.Second))) // and a sweep
			if a, err := s.do("GET", "/v1/runs/"+ended.run, ""); err != nil || a.status != 410 {
				t.Errorf("a run whose time is over: %v, %v", a, err)
			}
			check()
			s.stop()
			saw(t, "FT-27", "the wall clock of a running server is set "+row.name, "a stream of 6 s goes on over one connection; ended runs are kept for as long as promised (%v) and no longer; keys hold; new runs complete", kept)
		})
	}
}
