package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// CH-103, CH-104, CH-150, CH-152
func TestTheConfigurationSaysWhoMayTalkByTheAPI(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("channels:\n  web:\n    dm: {policy: disabled}\n")
	p := startServerIn(t, dir, "--database", "memory")
	say := func(body string) (int, string) {
		t.Helper()
		resp, err := httpClient(t).Post(p.base+"/v1/runs", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, body := range []string{
		`{"agent":"assistant","input":",help"}`,
		`{"workflow":"chat","session":"s","input":"hello"}`,
	} {
		if status, text := say(body); status != http.StatusForbidden || strings.Contains(text, "dm") || strings.Contains(text, "channels") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	p.waitFor(`message denied.*channel=web.*reason=dm_disabled setting=channels\.web\.dm\.policy`)
	if status, text := say(`{"workflow":"chat","input":"hello"}`); status != http.StatusOK {
		t.Errorf("a run without a session: %d %s", status, text)
	}
	write("channels:\n  web:\n    commands: {mode: authorizers}\n")
	p.signal(syscall.SIGHUP)
	p.waitFor(`channel settings reloaded`)
	if status, text := say(`{"agent":"assistant","input":",help"}`); status != http.StatusForbidden {
		t.Errorf("a command: %d %s", status, text)
	}
	if status, text := say(`{"agent":"assistant","input":"hello"}`); status != http.StatusOK {
		t.Errorf("a text: %d %s", status, text)
	}
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("the server ended with %d", status)
	}
}
