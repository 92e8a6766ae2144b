package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// SE-10: a ticket of a single server is good once, also after the server was started again, with and without a data folder.
func TestATicketIsGoodOnASingleServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.txt")
	key, err := exec.Command("lingserve", "keys", "new", "--name", "ann", "--file", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"in the data folder": filepath.Join(dir, "data"), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			start := func() *process { return startServer(t, "--auth-keys-file", file, "--data", data) }
			p := start()
			issue := func() string {
				t.Helper()
				var ticket struct{ Ticket string }
				got := askOnce(t, "POST", p.base+"/v1/tickets", `{"path":"/v1/workflows"}`, "Authorization: Bearer "+strings.TrimSpace(string(key)))
				if err := json.Unmarshal([]byte(got.body), &ticket); err != nil || ticket.Ticket == "" {
					t.Fatalf("a ticket: %d %s", got.status, got.body)
				}
				return ticket.Ticket
			}
			redeem := func(ticket string, want int) {
				t.Helper()
				if got := askOnce(t, "GET", p.base+"/v1/workflows?ticket="+ticket, ""); got.status != want {
					t.Errorf("got %d %s, expected %d", got.status, got.body, want)
				}
			}
			used, waiting := issue(), issue()
			redeem(used, 200)
			redeem(used, 401)
			p.signal(syscall.SIGTERM)
			if status := p.wait(); status != exitOK {
				t.Fatalf("the server ended with %d", status)
			}
			p = start()
			redeem(used, 401)
			if data == "" {
				redeem(waiting, 401)
				waiting = issue()
			}
			redeem(waiting, 200)
			redeem(waiting, 401)
		})
	}
}

// CH-101, ST-28: a server takes in the pairs of an earlier version; the command beside it and after it sees and changes the same pairs.
func TestPairsOfAnEarlierVersionAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	channels := filepath.Join(dir, "data", "channels")
	if err := os.CopyFS(channels, os.DirFS("../../internal/before/testdata/8a17c0c")); err != nil {
		t.Fatal(err)
	}
	asks, err := filepath.Glob(filepath.Join(channels, "pairs", "request-*"))
	if err != nil || len(asks) != 1 {
		t.Fatal(asks, err)
	}
	if err := os.Remove(asks[0]); err != nil {
		t.Fatal(err)
	}
	p := startServerIn(t, dir, "--data", "data")
	if _, err := os.Stat(filepath.Join(channels, "pairs.before")); err != nil {
		t.Error(err)
	}
	pair := func(want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "lingserve", append(append([]string{"channels", "pair"}, args...), "--data", "data")...)
		cmd.Dir, cmd.Env = dir, cleanEnvironment()
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	pair("U1/é")
	pair("removed the pairing of 42 on telegram", "remove", "telegram", "42")
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != exitOK {
		t.Fatalf("the server ended with %d", status)
	}
	pair("U1/é")
	pair("removed the pairing of U1/é on slack@work", "remove", "slack@work", "U1/é")
	pair("there are no paired people")
}
