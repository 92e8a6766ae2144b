package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// series is the value of a series of a server's metrics; false where it is not there.
func series(text, name string) (float64, bool) {
	m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + " (.+)$").FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil
}

// SE-06, SE-22: a real server, from outside.
func TestAServersWorkIsInItsMetrics(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "workflows"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "workflows", "ask.yaml"), []byte("bots:\n  answer:\n    prompt: \"{{ input.question }}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startServerIn(t, dir, "--admin-addr", "127.0.0.1:0", "--demo-pace", "0", "--inline-workflows", "--log-access", "all")
	base := "http://" + p.waitFor(`admin listener is open" addr=(\S+)`)[1]
	c := httpClient(t)
	get := func(url string) (int, string) {
		resp, err := c.Get(url)
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
	post := func(body string) {
		resp, err := c.Post(p.base+"/v1/runs", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	post(`{"workflow":"ask","input":{"question":"canary-said"}}`)
	post(`{"workflow":"ask","model":"demo:canary-model","input":{"question":"?"}}`)
	post(`{"workflow":{"name":"canary-inline","bots":{"canary-bot":{"prompt":"?"}}}}`)
	post(`{"agent":"assistant","session":"canary-session","input":"canary-said"}`)
	post(`{"workflow":"canary-nothing"}`)
	get(p.base + "/v1/sessions/canary-session")
	get(p.base + "/canary-path")
	if status, text := get(p.base + "/metrics"); status != 404 || !strings.Contains(text, "admin.addr") || strings.Contains(text, base[len("http://"):]) {
		t.Errorf("at the public door: %d: %s", status, text)
	}
	wanted := map[string]float64{
		`lingserve_runs_started_total{kind="workflow",name="ask"}`:                             1,
		`lingserve_runs_started_total{kind="workflow",name="other"}`:                           1,
		`lingserve_runs_started_total{kind="agent",name="assistant"}`:                          1,
		`lingserve_runs_ended_total{code="",kind="agent",name="assistant",status="completed"}`: 1,
		`lingserve_run_first_delta_seconds_count{kind="agent",name="assistant"}`:               1,
		`lingserve_upstream_requests_total{model="demo",outcome="ok",provider="demo"}`:         2,
		`lingserve_tokens_total{direction="output",model="demo",provider="demo"}`:              1,
		`lingserve_streams_ended_total{end="complete",kind="json"}`:                            1,
		`lingserve_http_requests_total{method="GET",route="/v1/sessions/{id}",status="2xx"}`:   1,
		`lingserve_http_requests_total{method="GET",route="other",status="4xx"}`:               1,
		`lingserve_tape_appends_total{outcome="ok"}`:                                           1,
		`lingserve_channel_turns_total{channel="web",outcome="visible",reason=""}`:             1,
		`lingserve_ended_runs`:    1,
		`lingserve_turns_running`: 0,
		`go_goroutines`:           1,
	}
	// An answer is counted a moment after its client has it.
	var text string
	for deadline := time.Now().Add(patient); len(wanted) > 0 && time.Now().Before(deadline); {
		var status int
		if status, text = get(base + "/metrics"); status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
		for name, least := range wanted {
			if got, ok := series(text, name); ok && got >= least {
				delete(wanted, name)
			}
		}
	}
	for name := range wanted {
		got, ok := series(text, name)
		t.Errorf("%s is %v (there: %v)", name, got, ok)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "canary") {
			t.Error(line)
		}
	}
	p.waitFor(`msg=request method=GET path=/v1/sessions/\{id\} status=200`)
}
