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

// buildWithClock builds a program whose wall clock signals set on and back by an hour, while its monotonic clock goes on: what happens when
// somebody sets the clock of a machine. The only change is in package time, so that everything is compiled anew.
func buildWithClock(t *testing.T) (path string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(root, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Skip("package time reads the clock in another way than this test knows")
	}
	server, err := filepath.Abs("../../cmd/server")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range map[string]string{
		filepath.Join(root, "time.go"): strings.Replace(string(text), reads, reads+"\tsec += Jump.Load()\n", 1),
		filepath.Join(root, "jump.go"): "package time\n\nimport \"sync/atomic\"\n\nvar Jump atomic.Int64\n",
		filepath.Join(server, "jump.go"): `package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	jumps := make(chan os.Signal, 1)
	signal.Notify(jumps, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for sig := range jumps {
			time.Jump.Add(map[os.Signal]int64{syscall.SIGUSR1: 3600, syscall.SIGUSR2: -3600}[sig])
		}
	}()
}
`,
	} {
		replace[file] = filepath.Join(dir, filepath.Base(filepath.Dir(file))+"."+filepath.Base(file))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	said, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(overlay, said, 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "lingserve")
	if err := program.Build(t.Context(), path, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return path
}

// FT-27: somebody sets the clock by an hour, on and back, while the server runs.
func TestClockThatIsSetWhileTheServerRunsChangesNothing(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("it compiles the standard library anew: only with -soak")
	}
	const retention, model = 8 * time.Second, "pace-60-10" // six seconds
	s := serve(t, serving{path: buildWithClock(t), args: []string{"--run-retention", retention.String(), "--http-keepalive", "200ms"}})
	var f fold
	connections := make(chan int, 1)
	go func() {
		n, err := s.follow(t.Context(), &f, sse, "/v1/runs", runOf(model, "going"), "going", nil)
		if err != nil {
			t.Error(err)
		}
		connections <- n
	}()
	eventually(t, "the stream has begun", func() bool { return s.model.Open() == 1 })
	keyed := func() *answer {
		return s.start("m", "keyed", "Accept: application/json", "Idempotency-Key: one")
	}
	first, ended := keyed(), s.start("m", "ended", "Accept: application/json")
	at := time.Now()
	for _, sig := range []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR2, syscall.SIGUSR1, syscall.SIGUSR1} {
		if err := s.process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if a := s.do("GET", "/v1/runs/"+ended.run, ""); time.Since(at) < retention && !completed(a, "m", "ended") {
			t.Errorf("a run that is to be kept: %v", a)
		}
		if a := keyed(); a.run != first.run || !completed(a, "m", "keyed") {
			t.Errorf("the start again: %v", a)
		}
		s.serves("new")
	}
	if n := <-connections; n != 1 {
		t.Errorf("the stream took %d connections", n)
	}
	f.check(t, docOf(model, "going"))
	eventually(t, "the run whose time is over is gone", func() bool { return s.do("GET", "/v1/runs/"+ended.run, "").status == 410 })
	if a := keyed(); a.run != first.run {
		t.Errorf("the start again: %v", a)
	}
	s.stop()
}
