package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/program"
)

// process is a server in a process of its own.
type process struct {
	*program.Process
	t    *testing.T
	dir  string
	base string
}

// patient is longer than a test may take: the deadline of the tests ends a wait for what does not come.
const patient = time.Hour

// startServer starts "lingserve serve" in an empty folder and waits until it says where it listens.
func startServer(t *testing.T, args ...string) *process {
	t.Helper()
	return startServerIn(t, t.TempDir(), args...)
}

func startServerIn(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return startServerWith(t, dir, nil, args...)
}

// startServerWith adds variables to the environment of the server.
func startServerWith(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	longtest.Only(t, "a server in a process of its own")
	return launchServer(t, dir, env, args...)
}

// launchServer starts a server in every form of the tests.
func launchServer(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	server, err := program.Start(t.Context(), "lingserve", dir, &program.Options{Args: args, Env: append(cleanEnvironment(), env...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Logf("stderr of the server:\n%s", server.Log)
		}
	})
	return &process{Process: server, t: t, dir: dir, base: server.URL}
}

// waitFor waits until a line of what it says matches.
func (p *process) waitFor(expr string) []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patient)
	defer cancel()
	m, err := p.Log.Find(ctx, regexp.MustCompile(expr))
	if err != nil {
		p.t.Fatalf("the server did not say %q: %v", expr, err)
	}
	return m
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit status.
func (p *process) wait() int {
	p.t.Helper()
	err := p.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return 0
}

// httpClient has connections of its own, so that what a test leaves open does not reach the next.
func httpClient(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patient}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := httpClient(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// openStream starts a run and reads its first line.
func openStream(t *testing.T, p *process, workflow string) (*http.Response, *bufio.Reader) {
	t.Helper()
	res, err := httpClient(t).Get(p.base + "/v1/runs?workflow=" + workflow + "&input=Why+is+the+sky+blue%3F&format=jsonl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	r := bufio.NewReader(res.Body)
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, `"event":"started"`) {
		t.Fatalf("first line is %q, %v", line, err)
	}
	return res, r
}

// readStream reads a stream to its end and says whether it ended cleanly and with which line.
func readStream(r *bufio.Reader) (last string, err error) {
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = line
	}
}

func TestServeSaysWhereItListensAndWhatToTry(t *testing.T) {
	p := startServer(t, "--demo-pace", "0")
	p.waitFor(`^  model +demo:demo$`)
	p.waitFor(`scripted`)
	p.waitFor(`^  workflows +chat, encyclopedia.* \(shipped\)$`)
	try := p.waitFor(`^  try +curl -N '(http://[^']+)'$`)[1]
	status, body := get(t, try)
	if status != http.StatusOK {
		t.Fatalf("what it says to try answers %d: %s", status, body)
	}
	all := strings.Split(strings.TrimSpace(body), "\n")
	for _, line := range all {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is no line of JSON Lines", line)
		}
	}
	if last := all[len(all)-1]; !strings.Contains(last, `"event":"finished","data":{"status":"completed"`) {
		t.Errorf("the last line is %s", last)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/v1/workflows": 200, "/v1/models": 200, "/openapi.yaml": 200, "/nothing": 404} {
		if status, body := get(t, p.base+path); status != want {
			t.Errorf("%s answers %d: %s", path, status, body)
		}
	}
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
}

func TestServeSaysWhichModelAnswersAndWhy(t *testing.T) {
	p := startServer(t, "--providers-deepseek-key", "sk-CANARY", "--providers-ollama-models", "llama3.2:3b", "--providers-azure-base-url", "https://a.invalid")
	p.waitFor(`^  workflows `)
	said := p.Log.String()
	for _, want := range []string{
		"  model      ollama:llama3.2:3b (since --providers-ollama-models is set)\n",
		"  providers  ollama, deepseek\n",
		"Azure OpenAI needs a key; set AZURE_OPENAI_API_KEY or providers.azure.key",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(said, "CANARY") || strings.Contains(said, "scripted") {
		t.Errorf("it says\n%s", said)
	}
	_, list := get(t, p.base+"/v1/models")
	for _, want := range []string{`"ollama:llama3.2:3b"`, `"deepseek:deepseek-flash"`} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not in the list: %s", want, list)
		}
	}
	if strings.Contains(list, "azure:") || strings.Contains(list, "openai:") {
		t.Errorf("the list has what cannot be used: %s", list)
	}
}

func TestServeWithTheLogAsJSONSaysNothingElse(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("lingserve", "serve", "--addr", "127.0.0.1:0", "--log-format", "json")
	cmd.Dir, cmd.Env = dir, cleanEnvironment()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patient, func() { cmd.Process.Kill() })
	defer stop.Stop()
	s := bufio.NewScanner(stderr)
	for s.Scan() {
		var line struct {
			Msg, URL, Model string
			Providers       []string
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Errorf("%q is not JSON", s.Text())
		}
		if line.Msg == "listening" {
			if line.Model != "demo:demo" || line.Providers == nil || !strings.HasPrefix(line.URL, "http://127.0.0.1:") {
				t.Errorf("got %s", s.Text())
			}
			cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// FT-21: what runs may end within the grace period; meanwhile the server is not ready and starts nothing new.
func TestAfterSIGTERMARunMayEnd(t *testing.T) {
	may := make(chan struct{})
	end := sync.OnceFunc(func() { close(may) })
	model := httptest.NewServer(&fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer {
		<-may
		return fakeproviders.Answer{Text: "It scatters."}
	}})
	t.Cleanup(model.Close)
	t.Cleanup(end)
	p := startServer(t, "--model", "openai:m", "--providers-openai-base-url", model.URL+"/v1", "--grace", "10m")
	_, r := openStream(t, p, "chat")
	p.signal(syscall.SIGTERM)
	p.waitFor(`msg=draining`)
	if status, _ := get(t, p.base+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d", status)
	}
	if status, body := get(t, p.base+"/v1/runs?workflow=chat&input=hello"); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("a new run answers %d: %s", status, body)
	}
	end()
	last, err := readStream(r)
	if err != nil || !strings.Contains(last, `"event":"finished","data":{"status":"completed"`) {
		t.Errorf("the stream ended with %q, %v", last, err)
	}
	if status := p.wait(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
}

// FT-21: a run that does not end within the grace period is broken off: no clean end, nothing that looks like one.
func TestAfterTheGracePeriodAStreamIsBroken(t *testing.T) {
	for _, format := range []string{"jsonl", "sse", "json"} {
		t.Run(format, func(t *testing.T) {
			p := startServer(t, "--demo-pace", "2", "--grace", "100ms")
			_, watched := openStream(t, p, "encyclopedia") // shows that a run is on its way
			got := make(chan error, 1)
			go func() {
				res, err := httpClient(t).Get(p.base + "/v1/runs?workflow=encyclopedia&input=Why%3F&format=" + format)
				if err != nil {
					got <- nil // broken before the headers: as good
					return
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				switch {
				case err == nil && res.StatusCode == http.StatusOK:
					got <- errors.New("it ended cleanly: " + string(text))
				case strings.Contains(string(text), "finished") || strings.Contains(string(text), "canceled"):
					got <- errors.New("it looks ended: " + string(text))
				default:
					got <- nil
				}
			}()
			p.signal(syscall.SIGTERM)
			last, err := readStream(watched)
			if err == nil || strings.Contains(last, `"event":"finished"`) || strings.Contains(last, `"event":"canceled"`) {
				t.Errorf("the watched stream ended with %q, %v", last, err)
			}
			if err := <-got; err != nil {
				t.Error(err)
			}
			if status := p.wait(); status != 0 {
				t.Errorf("the exit status is %d", status)
			}
		})
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	p := startServer(t, "--demo-pace", "2", "--grace", "10m")
	_, r := openStream(t, p, "encyclopedia")
	p.signal(syscall.SIGTERM)
	p.waitFor(`msg=draining`)
	p.signal(syscall.SIGINT)
	if last, err := readStream(r); err == nil {
		t.Errorf("the stream ended cleanly with %q", last)
	}
	if status := p.wait(); status != exitFailed {
		t.Errorf("the exit status is %d", status)
	}
	p.waitFor(`^lingserve: a second signal stopped the server at once`)
}

const helloWorkflow = "name: hello\nbots:\n  a: {message: hello, root: a}\n"

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// Renamed into place, so that nobody reads half a file.
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// FL-03: SIGHUP reads the workflows again; a broken file keeps the old one in force and is reported.
func TestSIGHUPReloadsTheWorkflows(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "workflows/hello.yaml", helloWorkflow)
	p := startServerIn(t, dir, "--demo-pace", "0")
	write(t, dir, "workflows/other.yaml", strings.Replace(helloWorkflow, "hello", "other", 1))
	p.signal(syscall.SIGHUP)
	p.waitFor(`msg="workflows reloaded"`)
	if status, _ := get(t, p.base+"/v1/workflows/other"); status != http.StatusOK {
		t.Errorf("the new workflow answers %d", status)
	}
	write(t, dir, "workflows/hello.yaml", "name: hello\nbots:\n  a: {mesage: hello}\n")
	p.signal(syscall.SIGHUP)
	p.waitFor(`workflow is invalid; keeping the previous one.*hello\.yaml:3:`)
	if status, _ := get(t, p.base+"/v1/workflows/hello"); status != http.StatusOK {
		t.Errorf("the old workflow answers %d", status)
	}
}

// FL-03: with --watch a changed file is enough.
func TestWatchReloadsTheWorkflows(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "workflows/hello.yaml", helloWorkflow)
	p := startServerIn(t, dir, "--watch", "--demo-pace", "0")
	write(t, dir, "workflows/other.yaml", strings.Replace(helloWorkflow, "hello", "other", 1))
	p.waitFor(`msg="workflows reloaded"`)
	if status, _ := get(t, p.base+"/v1/workflows/other"); status != http.StatusOK {
		t.Errorf("the new workflow answers %d", status)
	}
}

// DS-08: SIGHUP says which changed settings a running server does not take.
func TestSIGHUPNamesTheSettingsThatNeedARestart(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "key", "first-key-of-the-provider")
	const providers = "providers: {openai: {key: {file: key}, base_url: 'http://127.0.0.1:1/v1', models: [a]}}\nmodel: demo:fast\n"
	write(t, dir, "lingserve.yaml", providers)
	p := startServerIn(t, dir)
	write(t, dir, "key", "second-key-of-the-provider")
	write(t, dir, "lingserve.yaml", providers+"agents: {helper: {model: 'openai:a'}}\nlimit: {streams: 7}\n")
	p.signal(syscall.SIGHUP)
	p.waitFor(`msg="provider keys reloaded" providers=.*openai`)
	p.waitFor(`msg="changed settings need a restart" settings=.*agents\.helper.*limit\.streams`)
}
