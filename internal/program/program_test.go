package program

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

var binary Binary

func TestMain(m *testing.M) {
	code := m.Run()
	if err := binary.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func path(t *testing.T) string {
	t.Helper()
	longtest.Only(t, "the program is built")
	path, err := binary.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABinaryIsBuiltOnceAndGoneWhenItIsClosed(t *testing.T) {
	longtest.Only(t, "the program is built")
	var b Binary
	first, err := b.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Path(t.Context())
	if err != nil || second != first {
		t.Fatalf("the second time it is %s (%v), the first time it was %s", second, err, first)
	}
	if after, err := os.Stat(second); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was built again (%v)", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(first)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	if path, err := b.Path(t.Context()); err == nil {
		t.Errorf("after its end it is at %q", path)
	}
}

func TestAGivenBinaryIsNotBuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("own", nil, 0o700); err != nil {
		t.Fatal(err)
	}
	b := Binary{Given: "own"}
	got, err := b.Path(t.Context())
	if err != nil || !filepath.IsAbs(got) || filepath.Base(got) != "own" {
		t.Errorf("it is at %q: %v", got, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("own"); err != nil {
		t.Errorf("what was given is gone: %v", err)
	}
	if _, err := (&Binary{Given: "none"}).Path(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that is not there is an error: %v", err)
	}
}

func TestAServerTakesRequestsWhenItHasStartedAndNoneWhenItHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		end  func(*Process) error
		well bool
	}{
		"stopped, with a log for people":   {nil, (*Process).Stop, true},
		"stopped, with a log for machines": {[]string{"--log-format", "json"}, (*Process).Stop, true},
		"killed":                           {nil, func(p *Process) error { p.Kill(); return p.Wait() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LINGSERVE_DATA", filepath.Join(t.TempDir(), "foreign"))
			dir := t.TempDir()
			p, err := Start(t.Context(), path(t), dir, &Options{Args: test.args, Env: []string{"LINGSERVE_DEMO_PACE=0"}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			if !p.Alive() {
				t.Error("it is not alive")
			}
			resp, err := http.Get(p.URL + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("it answers %s", resp.Status)
			}
			if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
				t.Errorf("it has been configured by the environment of this process: %v", err)
			}
			if err := test.end(p); (err == nil) != test.well {
				t.Errorf("it ended with %v", err)
			}
			if p.Alive() {
				t.Error("it is alive")
			}
			if c, err := net.Dial("tcp", p.Addr()); err == nil {
				c.Close()
				t.Error("somebody listens")
			}
			if err := p.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("a signal afterwards: %v", err)
			}
		})
	}
}

func TestAServerThatDoesNotStartIsAnErrorWithWhatItHasSaid(t *testing.T) {
	p, err := Start(t.Context(), path(t), t.TempDir(), &Options{Args: []string{"--no-such-setting"}})
	if err == nil {
		p.Kill()
		t.Fatal("it has started")
	}
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v", err)
	}
	if _, err := Start(t.Context(), filepath.Join(t.TempDir(), "none"), t.TempDir(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a program: %v", err)
	}
}

func TestTheEnvironmentHasNoSetting(t *testing.T) {
	for _, name := range []string{"LINGSERVE_ADDR", "OPENAI_API_KEY", "HTTP_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		t.Setenv(name, "CANARY")
	}
	env := Environment("/somewhere")
	if strings.Contains(strings.Join(env, " "), "CANARY") {
		t.Errorf("got %q", env)
	}
	if !slices.Contains(env, "HOME=/somewhere") || !slices.Contains(env, "PATH="+os.Getenv("PATH")) {
		t.Errorf("got %q", env)
	}
}
