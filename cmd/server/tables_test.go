package main

import (
	"encoding/json"
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
