package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

// asked is an answer of a server.
type asked struct {
	status int
	header http.Header
	body   string
}

func askOnce(t *testing.T, method, url, body string, header ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(text)}
}

// eventually asks until the answer is good.
func eventually(t *testing.T, url string, good func(asked) bool) asked {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(20 * time.Millisecond) {
		got := askOnce(t, "GET", url, "")
		if good(got) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%s still answers %d: %s", url, got.status, got.body)
		}
	}
}

// CL-10, CL-01: replicas share what is said; while the database is away none is ready and nothing new begins, and when it is back all goes on.
func TestReplicasOfOneDatabase(t *testing.T) {
	s := postgrestest.Run(t)
	workspace := t.TempDir()
	start := func() *process {
		return startServer(t, "--database", s.URL()+"&search_path=two", "--workspace", workspace, "--admin-addr", "127.0.0.1:0")
	}
	a, b := start(), start()
	admin := a.waitFor(`admin listener is open.*addr=(127\.0\.0\.1:\d+)`)
	if got := askOnce(t, "POST", a.base+"/v1/runs?format=json", `{"agent":"assistant","session":"s-1","input":"hello"}`); got.status != 200 {
		t.Fatalf("a run: %d %s", got.status, got.body)
	}
	// CL-05, CL-09: the run that one has begun is found at the other, by its id and by its key.
	const keyed = `{"workflow":"chat","input":"hello"}`
	first := askOnce(t, "POST", a.base+"/v1/runs?format=json", keyed, "Idempotency-Key: k-1")
	again := askOnce(t, "POST", b.base+"/v1/runs?format=json", keyed, "Idempotency-Key: k-1")
	id := first.header.Get("X-Run-Id")
	if first.status != 200 || again.status != 200 || id == "" || again.header.Get("X-Run-Id") != id || again.header.Get("Idempotency-Replayed") != "true" || again.body != first.body {
		t.Errorf("once more at the other: %d %v %s\nat first: %d %s", again.status, again.header, again.body, first.status, first.body)
	}
	if got := askOnce(t, "GET", b.base+"/v1/runs/"+id, ""); got.status != 200 {
		t.Errorf("the run at the other: %d %s", got.status, got.body)
	}
	if got := askOnce(t, "GET", b.base+"/v1/sessions", ""); !strings.Contains(got.body, `"s-1"`) {
		t.Errorf("the other replica has the sessions %s", got.body)
	}
	var ticket struct{ Ticket string }
	got := askOnce(t, "POST", a.base+"/v1/tickets", `{"path":"/v1/sessions"}`)
	if err := json.Unmarshal([]byte(got.body), &ticket); err != nil || ticket.Ticket == "" {
		t.Errorf("a ticket: %d %s", got.status, got.body)
	}
	if got := eventually(t, "http://"+admin[1]+"/metrics", func(got asked) bool { return strings.Contains(got.body, "lingserve_replicas 2") }); !strings.Contains(got.body, "lingserve_database_up 1") {
		t.Error("the metrics say it is away")
	}

	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{a, b} {
		got := eventually(t, p.base+"/readyz", func(got asked) bool { return got.status == 503 })
		if !strings.Contains(got.body, `"database":"away"`) || got.header.Get("Retry-After") == "" {
			t.Errorf("/readyz: %v %s", got.header, got.body)
		}
		if got := askOnce(t, "GET", p.base+"/healthz", ""); got.status != 200 {
			t.Errorf("/healthz: %d", got.status)
		}
		if got := askOnce(t, "POST", p.base+"/v1/runs?format=json", `{"workflow":"chat","input":"hello"}`); got.status != 503 || !strings.Contains(got.body, `"overloaded"`) {
			t.Errorf("a new run: %d %s", got.status, got.body)
		}
	}
	eventually(t, "http://"+admin[1]+"/metrics", func(got asked) bool { return strings.Contains(got.body, "lingserve_database_up 0") })
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{a, b} {
		eventually(t, p.base+"/readyz", func(got asked) bool { return got.status == 200 })
		if got := askOnce(t, "POST", p.base+"/v1/runs?format=json", `{"agent":"assistant","session":"s-2","input":"hello"}`); got.status != 200 {
			t.Errorf("a run when they are back: %d %s", got.status, got.body)
		}
	}
}

// CL-01: a database that cannot be reached stops the start with a sentence that says so.
func TestADatabaseThatCannotBeReached(t *testing.T) {
	s := postgrestest.Run(t)
	log := slog.New(slog.DiscardHandler)
	open := func(environ ...string) error {
		t.Helper()
		c, err := config.Load(nil, append(environ, "LINGSERVE_CONFIG="))
		if err != nil {
			t.Fatal(err)
		}
		d, err := openDatabase(c, log)
		if err != nil {
			return err
		}
		e, err := joinReplicas(t.Context(), c, d, log)
		e.close(log)
		return errors.Join(err, d.Close())
	}
	if err := open("LINGSERVE_DATABASE=" + s.URL()); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	err := open("LINGSERVE_DATABASE=" + s.URL())
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "database (environment LINGSERVE_DATABASE): cannot use postgres://") ||
		!strings.Contains(err.Error(), "connect: ") {
		t.Errorf("without the database: %v", err)
	}
}
