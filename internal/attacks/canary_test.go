//go:build nightly

package attacks

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/internal/program"
)

// Keys of callers.
const (
	userKey  = "CANARYuser0123456789abcdef"
	adminKey = "CANARYadmin0123456789abcdef"
	wrongKey = "CANARYwrong0123456789abcdef"
)

// SE-06: every secret of the configuration is a canary, everything that can fail does, and none of them is found in anything that
// leaves the server: answers, the log, metrics, profiles, traces, files, what it prints of itself, and what it leaves when it is killed.
func TestNoSecretLeavesTheServer(t *testing.T) {
	var spans text
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		spans.Write(b.Bytes())
	}))
	defer collector.Close()
	s := setup{
		config: func(config string) string {
			return strings.Replace(config, "addr: 127.0.0.1:0\n", "addr: 127.0.0.1:0\nadmin: {addr: 127.0.0.1:0}\nlimit: {requests: 0, failures: 0}\n", 1)
		},
		env: []string{
			"LINGSERVE_API_KEYS=user:" + userKey + ":user,root:" + adminKey + ":admin",
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS=authorization=CANARYotel", "OTEL_BSP_SCHEDULE_DELAY=20",
		},
		args: []string{"--log-level", "debug"},
	}
	v := start(t, t.TempDir(), s)
	defer func() {
		v.closed = true
		v.Kill()
		for _, stop := range v.stops {
			stop()
		}
	}()
	// All of them are canaries, so that one of a setting that is new is looked for, too.
	t.Chdir(v.folder)
	c, err := config.Load(nil, s.env)
	if err != nil {
		t.Fatal(err)
	}
	if all := c.Secrets(); len(all) < 21 {
		t.Errorf("there are %d secrets: %q", len(all), all)
	}
	for _, secret := range c.Secrets() {
		if !strings.Contains(secret, canary) {
			t.Errorf("the secret %q is none that is looked for", secret)
		}
	}

	user := "Authorization: Bearer " + userKey
	// A model's server that fails in every way, with all that it was sent in what it says.
	echo := func(status int, media string) func(fakeproviders.Request) fakeproviders.Answer {
		return func(r fakeproviders.Request) fakeproviders.Answer {
			said := fmt.Sprint(r.Header)
			body := `{"error":{"message":` + quoted("Incorrect API key provided: "+said) + `,"type":` + quoted(said) + `,"code":"invalid_api_key","param":` + quoted(said) + `}}`
			if media == "text/html" {
				body = "<html><body><h1>" + said + "</h1>" + strings.Repeat(said, 100)
			}
			return fakeproviders.Answer{Status: status, Body: body, Header: http.Header{"Content-Type": {media}, "X-Request-Id": {said}, "Retry-After": {"0"}}}
		}
	}
	inside := func(format string) func(fakeproviders.Request) fakeproviders.Answer {
		return func(r fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: fmt.Sprintf(format, strings.Trim(quoted(fmt.Sprint(r.Header)), `"`))}}}
		}
	}
	faults := map[string]func(fakeproviders.Request) fakeproviders.Answer{
		"garbage": inside("data: {%s\n\n"), "an error in the stream": inside(`data: {"error":{"message":"%s"}}` + "\n\n"),
		"an event that is none": inside("%s\n\n"), "a line without an end": inside("data: %s"),
		"a cut": func(fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Cut: true}}}
		},
	}
	for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
		faults[fmt.Sprint(status)] = echo(status, "application/json")
		faults[fmt.Sprint(status, " in HTML")] = echo(status, "text/html")
	}
	for _, provider := range []string{"openai", "azure", "coze", "ollama", "deepseek", "qwen", "moonshot", "openrouter", "own"} {
		for name, fault := range faults {
			word := v.answer(fault)
			got := v.do(t, "POST", "/v1/runs", `{"workflow":"text","input":"`+word+`","model":"`+provider+`:m"}`, user, "Accept: text/event-stream")
			if got.status != 200 && got.status < 500 {
				t.Errorf("%s, %s: %d %s", provider, name, got.status, got.body)
			}
		}
	}
	// Callers with keys that are wrong, in all the places where some put them.
	for _, key := range []string{wrongKey, userKey} {
		for _, row := range [][]string{
			{"/v1/runs?key=" + key},
			{"/v1/runs?access_token=" + key},
			{"/v1/runs?ticket=" + key},
			{"/v1/runs?api_key=" + key},
			{"/" + key},
			{"/v1/sessions/" + key},
			{"/v1/models", "Authorization: Basic " + key},
			{"/v1/models", "Authorization: " + key},
			{"/v1/models", "Authorization: Bearer " + key + ", Bearer " + key},
			{"/v1/models", "X-Api-Key: " + key},
			{"/v1/models", "Cookie: key=" + key},
			{"/v1/models", "Authorization: Bearer " + key + "x"},
		} {
			if key == wrongKey && len(row) == 1 && !strings.Contains(row[0], "?") {
				continue // a path that is not there, and nobody's secret
			}
			// What a caller shows may be in the answer to that caller, and nowhere else.
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL+row[0], http.NoBody)
			if len(row) > 1 {
				name, value, _ := strings.Cut(row[1], ": ")
				req.Header.Set(name, value)
			}
			resp, err := v.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	}
	// Channels whose platforms fail, and tools that do.
	v.telegram.Fail(faketelegram.Fault{Code: 403, Description: telegramToken}, faketelegram.Fault{Code: 500, Body: telegramToken}, faketelegram.Fault{Cut: 1})
	v.slack.Fail(fakeslack.Fault{Status: 500, Body: slackToken}, fakeslack.Fault{Error: "invalid_auth " + slackToken})
	v.feishu.Fail(fakefeishu.Fault{Code: 99991663, Times: 2})
	v.back.Then(fakecallback.Step{Status: 400, Body: callbackSecret}, fakecallback.Step{Cut: true})
	for _, p := range platforms {
		var called sync.Once
		word := v.answer(func(fakeproviders.Request) (a fakeproviders.Answer) {
			a.Text = "blue"
			called.Do(func() {
				a.ToolCalls = []fakeproviders.ToolCall{{ID: "call_1", Name: "mcp_red_page", Arguments: `{"name":1}`}}
			})
			return a
		})
		h, body := p.message(t, v, word, word)
		if got := v.send(t, p.channel, h, body); got.status != p.status {
			t.Errorf("%s: %d %s", p.channel, got.status, got.body)
		}
		v.send(t, p.channel, http.Header{}, body)
		v.eventually(t, "the model is asked", func() bool { return strings.Contains(v.requests.String(), word) })
	}

	// What admins see.
	m := regexp.MustCompile(`"admin listener is open","addr":"([^"]+)"`).FindStringSubmatch(v.Log.String())
	if m == nil {
		t.Fatal("there is no admin listener")
	}
	at := "http://" + m[1]
	for _, path := range []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1",
		"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/mutex?debug=1", "/debug/pprof/block?debug=1", "/debug/pprof/threadcreate?debug=1",
		"/debug/pprof/profile?seconds=1", "/debug/pprof/heap", "/healthz", "/readyz", "/debug/vars", "/nothing",
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, http.NoBody)
		req.Header.Set("Authorization", "Bearer "+adminKey)
		resp, err := v.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		resp.Body.Close()
		if path == "/metrics" && (resp.StatusCode != 200 || b.Len() < 1000) {
			t.Errorf("%s: %d, %d bytes", path, resp.StatusCode, b.Len())
		}
		clean(t, path, b.Bytes())
	}
	v.eventually(t, "spans are told", func() bool { return len(spans.String()) > 1000 })
	clean(t, "a trace", []byte(spans.String()))

	// What it prints of itself.
	for _, args := range [][]string{{"serve", "--print-config"}, {"models"}, {"channels", "check"}, {"keys", "list"}, {"serve", "--addr", "127.0.0.1:1", "--config", "nothing.yaml"}} {
		cmd := exec.Command(binaryPath(t), args...)
		cmd.Dir, cmd.Env = v.folder, append(program.Environment(v.folder), s.env...)
		out, _ := cmd.CombinedOutput()
		clean(t, strings.Join(args, " "), out)
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", v.Pid())); err == nil {
		clean(t, "the command line", line)
	}

	// What it leaves, having been told to die with everything that it has.
	if runtime.GOOS != "windows" {
		_ = v.Signal(syscall.SIGQUIT)
		<-v.Ended()
	}
	clean(t, "the log", []byte(v.Log.String()))
	clean(t, "an answer", []byte(v.seen.String()))
	err = filepath.WalkDir(v.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "lingserve.yaml" || d.Name() == "secret.txt" {
			return err
		}
		b, err := os.ReadFile(path)
		clean(t, path, b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// clean says whether there is no secret in what was found somewhere.
func clean(t *testing.T, where string, b []byte) {
	t.Helper()
	if i := bytes.Index(b, []byte(canary)); i >= 0 {
		t.Errorf("a secret is in %s: %q", where, around(string(b), i))
	}
}
