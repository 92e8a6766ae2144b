package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// This is the one test of "make test" that uses the real program as people do: it starts a server, runs a workflow, talks to an agent, kills
// the server in the middle of a stream, starts it again on the same data, resumes, and talks on. The other tests of processes are nightly.
func TestServerKeepsItsDataWhenKilled(t *testing.T) {
	dir := t.TempDir()
	server := launchServer(t, dir, nil, "--addr", "127.0.0.1:0", "--demo-pace", "0")

	completed := startRun(t, server, `{"workflow":"encyclopedia","input":"Why is the sky blue?"}`)
	if completed.Status != "completed" || !strings.Contains(string(completed.Result), `"title"`) {
		t.Fatalf("the run is %+v", completed)
	}
	if first := startRun(t, server, `{"agent":"assistant","session":"s-1","input":"My number is 4711."}`); first.Status != "completed" {
		t.Fatalf("the message is %+v", first)
	}
	server.Kill()
	_ = server.Wait()

	// A slow model leaves time to kill the server while it streams.
	server = launchServer(t, dir, nil, "--addr", "127.0.0.1:0", "--demo-pace", "8")
	res, stream := openStream(t, server, "encyclopedia")
	cutOff := res.Header.Get("X-Run-Id")
	for tokens := 0; tokens < 4; { // half a second: what is written first is on the disk a quarter of a second later
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"delta":"`) {
			tokens++
		}
	}
	server.Kill()
	_ = server.Wait()

	server = launchServer(t, dir, nil, "--addr", "127.0.0.1:0", "--demo-pace", "0")
	if status, body := get(t, server.base+"/v1/runs/"+completed.Run); status != http.StatusOK || !strings.Contains(body, string(completed.Result)) {
		t.Errorf("the completed run: %d %s", status, body)
	}
	if status, body := get(t, server.base+"/v1/runs/"+cutOff+"/events?format=jsonl"); status != http.StatusOK ||
		!strings.Contains(body, `"event":"restarted"`) || !strings.Contains(body, `{"status":"completed"}`) {
		t.Errorf("the run that was cut off: %d %s", status, body)
	}
	if second := startRun(t, server, `{"agent":"assistant","session":"s-1","input":"Hello again."}`); second.Status != "completed" {
		t.Errorf("the next message is %+v", second)
	}
	if status, body := get(t, server.base+"/v1/sessions/s-1/tape"); status != http.StatusOK || !strings.Contains(body, "4711") || !strings.Contains(body, "Hello again.") {
		t.Errorf("the session: %d %s", status, body)
	}

	chat := exec.CommandContext(t.Context(), "lingserve", "chat", "--demo-pace", "0", "--data", t.TempDir())
	chat.Dir, chat.Env, chat.Stdin = t.TempDir(), cleanEnvironment(), strings.NewReader("Hello\n")
	if out, err := chat.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) == 0 {
		t.Errorf("chat: %v: %s", err, out)
	}
}

// finishedRun is the document that a run ends with.
type finishedRun struct {
	Run    string          `json:"run"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
}

// startRun starts a run and waits for its document.
func startRun(t *testing.T, p *process, body string) (run finishedRun) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.base+"/v1/runs", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&run); err != nil {
		t.Fatal(err)
	}
	return run
}
