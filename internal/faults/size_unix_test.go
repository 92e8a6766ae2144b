//go:build nightly && unix

package faults

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// DO-10: build tags leave the engines out, with all that they are made of.
func TestDO_10_BuildTagsLeaveTheEnginesOut(t *testing.T) {
	t.Parallel()
	for tags, want := range map[string]struct{ nats, postgres bool }{
		"":                  {true, true},
		"nonats":            {false, true},
		"nopostgres":        {true, false},
		"nonats,nopostgres": {},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, "../../cmd/server").Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := string(out)
		if strings.Contains(deps, "github.com/nats-io/") != want.nats || strings.Contains(deps, "github.com/jackc/pgx/") != want.postgres {
			t.Errorf("with the tags %q it has NATS: %v, PostgreSQL: %v", tags, strings.Contains(deps, "github.com/nats-io/"), strings.Contains(deps, "github.com/jackc/pgx/"))
		}
	}
}

// DO-10: a binary without an engine says so where its settings ask for it, and serves where they do not. To link it takes a while, so
// only "make soak" does.
func TestSoakOfABinaryWithoutEngines(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("links a program of its own: with -soak")
	}
	small := filepath.Join(t.TempDir(), "lingserve")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "nonats,nopostgres", "-o", small, "../../cmd/server").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for says, env := range map[string][]string{
		"without NATS (build tag nonats)":           {"LINGSERVE_ENGINE=nats", "LINGSERVE_NATS_SERVERS=nats://127.0.0.1:1"},
		"without PostgreSQL (build tag nopostgres)": {"LINGSERVE_TAPE_STORE=postgres", "LINGSERVE_TAPE_POSTGRES_URL=postgres://x@127.0.0.1:1/x"},
	} {
		cmd := exec.CommandContext(t.Context(), small, "serve", "--addr", "127.0.0.1:0", "--model", "demo:demo", "--data", t.TempDir())
		cmd.Dir, cmd.Env = t.TempDir(), env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("it does not say %q: %v, %s", says, err, out)
		}
	}
	s := serve(t, serving{path: small})
	s.served("m", "word 1")
}
