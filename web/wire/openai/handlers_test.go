package openai

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

func TestErrorsHaveOpenAIsTypesAndStatuses(t *testing.T) {
	for code, want := range map[string]string{
		wire.CodeInvalid: "400 invalid_request_error", wire.CodeUnauthorized: "401 authentication_error", wire.CodeForbidden: "403 permission_error",
		wire.CodeNotFound: "404 invalid_request_error", wire.CodeGone: "410 invalid_request_error", wire.CodeConflict: "409 invalid_request_error",
		wire.CodeTooLarge: "413 invalid_request_error", bot.CodeLimitReached: "422 invalid_request_error", wire.CodeRateLimited: "429 rate_limit_error", adapter.CodeBudget: "402 invalid_request_error",
		adapter.CodeAuth: "424 server_error", adapter.CodeRateLimited: "429 rate_limit_error", adapter.CodeUnavailable: "502 server_error",
		adapter.CodeTimeout: "504 server_error", adapter.CodeProtocol: "502 server_error", wire.CodeOutput: "424 server_error", wire.CodeRefused: "424 server_error",
		wire.CodeOverloaded: "503 server_error", wire.CodeDraining: "503 server_error", wire.CodeInternal: "500 server_error", wire.CodeCrashed: "424 server_error",
	} {
		e := errorOf(wire.NewProblem(code, "x"))
		if got := fmt.Sprint(e.Status, " ", e.Type()); got != want || e.Code != code {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
		delete(statusesOfTest, code)
	}
	if len(statusesOfTest) > 0 {
		t.Errorf("not looked at: %v", statusesOfTest)
	}
}

// statusesOfTest are all codes that a problem may have.
var statusesOfTest = func() map[string]bool {
	all := map[string]bool{}
	for code := range wire.Statuses {
		all[code] = true
	}
	return all
}()

func TestAStreamWaitsForTheBotsThatAWorkflowNames(t *testing.T) {
	dir := t.TempDir()
	text := "name: a\nbots:\n  outline: {message: hi, root: article}\n" +
		"  section: {on: article/sections/*/title, message: hi, root: \"article/sections/{{ event.match.0 }}/body\", format: text}\n" +
		"  parts: {on: article/parts/*, message: hi, root: \"parts/p{{ event.match.0 }}\"}\n" +
		"  mender: {on: {error: outline}, message: hi, root: article/mended}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	workflows, err := flow.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := Handlers{Server: wire.New(wire.Options{Options: run.Options{Workflows: workflows}})}
	want := Shape{Roots: []string{"article", "article/sections/*/body", "parts/*"}}
	if d := cmp.Diff(want, h.shapeOf(&run.Request{Subject: run.Subject{Workflow: "a"}})); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		ask  run.Request
		text bool
	}{{run.Request{Subject: run.Subject{Agent: "x"}}, true}, {run.Request{Completion: &run.Completion{}}, true}, {run.Request{Completion: &run.Completion{JSON: true}}, false}, {run.Request{Subject: run.Subject{Workflow: "gone"}}, false}} {
		if got := h.shapeOf(&c.ask); got.Text != c.text || got.Roots != nil {
			t.Errorf("%+v: %+v", c.ask, got)
		}
	}
}

func TestAnAnswerThatIsCutOffEndsForItsLength(t *testing.T) {
	cut := run.Result{Status: run.StatusCompleted, Truncated: true}
	if end := endOf(nil, cut); end.Finish != Length || end.Err != nil {
		t.Errorf("%+v", end)
	}
}
