package main

import (
	"bufio"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/client"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tube"
)

// lingserveRun makes "lingserve run" a process of its own in an empty folder.
func lingserveRun(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "lingserve", append([]string{"run"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = cleanEnvironment()
	return cmd
}

// begin starts the command and returns its output after the first line.
func begin(t *testing.T, cmd *exec.Cmd) (*bufio.Reader, io.Closer, *strings.Builder) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"event":"started"`) {
		cmd.Wait()
		t.Fatalf("the first line is %q, %v; stderr: %s", line, err, errs.String())
	}
	return r, out, &errs
}

func TestInterruptCancelsTheRun(t *testing.T) {
	t.Run("here", func(t *testing.T) {
		cmd := lingserveRun(t, "encyclopedia", "--input", "Why?", "--format", "jsonl", "--demo-pace", "2")
		r, _, errs := begin(t, cmd)
		cmd.Process.Signal(os.Interrupt)
		rest, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != exitInterrupted || errs.Len() > 0 {
			t.Errorf("exit status %d, stderr %q", cmd.ProcessState.ExitCode(), errs)
		}
		if !strings.HasSuffix(string(rest), `"event":"canceled","data":{"reason":"interrupted"}}`+"\n") {
			t.Errorf("the output ends with %q", rest)
		}
	})
	t.Run("on a server", func(t *testing.T) {
		p := startServer(t, "--demo-pace", "2")
		cmd := lingserveRun(t, "encyclopedia", "--input", "Why?", "--format", "jsonl", "--server", p.base)
		r, _, errs := begin(t, cmd)
		cmd.Process.Signal(os.Interrupt)
		rest, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != exitInterrupted || errs.Len() > 0 {
			t.Errorf("exit status %d, stderr %q", cmd.ProcessState.ExitCode(), errs)
		}
		if !strings.Contains(string(rest), `"event":"canceled"`) {
			t.Errorf("the output ends with %q", rest)
		}
	})
}

func TestAReaderThatLeavesEndsTheRunQuietly(t *testing.T) {
	for name, args := range map[string][]string{"here": {"--demo-pace", "200"}, "on a server": nil} {
		t.Run(name, func(t *testing.T) {
			if args == nil {
				args = []string{"--server", startServer(t, "--demo-pace", "200").base}
			}
			cmd := lingserveRun(t, append([]string{"encyclopedia", "--input", "Why?", "--format", "jsonl"}, args...)...)
			_, out, errs := begin(t, cmd)
			out.Close()
			cmd.Wait()
			if cmd.ProcessState.ExitCode() != exitOK || errs.Len() > 0 {
				t.Errorf("%v, stderr %q", cmd.ProcessState, errs)
			}
		})
	}
}

// SE-06: the key reaches the model's server and nobody else, also where that server repeats it.
func TestACompatibleServerIsAskedWithTheKeyWhichNobodyElseSees(t *testing.T) {
	var asked atomic.Value
	var status atomic.Int64
	status.Store(200)
	model := httptest.NewServer(&fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		asked.Store(r.Model + " " + r.Header.Get("Authorization"))
		return fakeproviders.Answer{Text: "hello", Status: int(status.Load()), Body: "wrong key: " + r.Header.Get("Authorization")}
	}})
	defer model.Close()
	run := func(args ...string) (out, errs string, code int) {
		cmd := lingserveRun(t, append([]string{"chat", "--input", "hi", "--log-level", "debug"}, args...)...)
		cmd.Env = append(cmd.Env, "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=sk-CANARY")
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
	out, errs, code := run("--format", "text")
	if out != "hello\n" || code != exitOK {
		t.Errorf("exit status %d, output %q, stderr %q", code, out, errs)
	}
	if got := asked.Load(); got != "gpt-4o-mini Bearer sk-CANARY" {
		t.Errorf("the server was asked for %q", got)
	}
	out, errs, _ = run("--format", "text", "--model", "openai:other")
	if got := asked.Load(); got != "other Bearer sk-CANARY" || out != "hello\n" {
		t.Errorf("the server was asked for %q; stderr %q", got, errs)
	}
	status.Store(401)
	out, errs, code = run("--format", "jsonl")
	if code != exitFailed || !strings.Contains(errs, "lingserve: the run failed: ") || !strings.Contains(out, "upstream_auth") {
		t.Errorf("exit status %d, output %q, stderr %q", code, out, errs)
	}
	if strings.Contains(out+errs, "CANARY") {
		t.Errorf("the key is shown:\n%s%s", out, errs)
	}
}

// DN-04: a pause before a retry is said on stderr where the output has no events.
func TestAPauseBeforeARetryIsSaidOnStderr(t *testing.T) {
	retrying := func(reason string) tube.Event {
		return tube.Event{Kind: tube.Named, Name: "retrying", Value: []byte(`{"bot":"out\u001bline","reason":"` + reason + `","seconds":18,"attempt":2,"of":3}`)}
	}
	for _, row := range []struct{ format, reason, want string }{
		{"text", "upstream_rate_limited", "lingserve: outline: upstream_rate_limited, next try in 18 s (2 of 3)\n"},
		{"json", "upstream_unavailable", "lingserve: outline: upstream_unavailable, next try in 18 s (2 of 3)\n"},
		{"jsonl", "upstream_rate_limited", ""},
	} {
		var stdout, stderr strings.Builder
		if err := newOutput(row.format, &stdout, &stderr, &remoteRun{Run: new(client.Run)}).event(retrying(row.reason)); err != nil {
			t.Fatal(err)
		}
		if stderr.String() != row.want {
			t.Errorf("%s: %q, expected %q", row.format, stderr.String(), row.want)
		}
	}
}
