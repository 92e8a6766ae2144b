package mcp

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tool"
)

// transports are the two ways to the same server.
func transports(t *testing.T, test func(*testing.T, Server)) {
	t.Run("stdio", func(t *testing.T) { test(t, program(t, "good")) })
	t.Run("http", func(t *testing.T) { test(t, serveHTTP(t)) })
}

func TestToolsOfAServer(t *testing.T) { // AG-64, AG-65
	transports(t, func(t *testing.T, s Server) {
		c, _ := connect(t, s)
		ready(t, c)
		var names []string
		for _, tool := range c.Tools() {
			names = append(names, tool.Name)
		}
		want := []string{"mcp.test.echo", "mcp.test.env", "mcp.test.fail", "mcp.test.grow", "mcp.test.huge", "mcp.test.meta", "mcp.test.picture", "mcp.test.pid", "mcp.test.slow", "mcp.test.spawn", "mcp.test.sum"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		if got := c.Tools()[0]; got.Description != "says it again" ||
			string(got.Schema) != `{"additionalProperties":false,"properties":{"text":{"description":"what to say","type":"string"}},"required":["text"],"type":"object"}` {
			t.Errorf("got %q and %s", got.Description, got.Schema)
		}
		for _, row := range []struct{ name, tool, arguments, want string }{
			{"text", "mcp_test_echo", `{"text":"hello, 天气 <b>"}`, `"hello, 天气 <b>"`},
			{"structured content is JSON", "mcp.test.sum", `{"a":2,"b":3}`, `{"sum":5}`},
			{"text is joined, images are parts", "mcp.test.picture", ``, `[{"type":"text","text":"a\nb"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]`},
			{"isError is an error", "mcp.test.fail", ``, `{"error":{"kind":"failed","message":"there is no such row"}}`},
			{"arguments are held to the schema here", "mcp.test.echo", `{"txt":1}`, `{"error":{"kind":"invalid_arguments","message":"invalid arguments: /text: this property is required; /txt: unknown property"}}`},
		} {
			t.Run(row.name, func(t *testing.T) {
				if got := string(ask(t.Context(), c, row.tool, row.arguments).Value()); got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
			})
		}
	})
}

func TestChangedListsAreRead(t *testing.T) { // AG-65
	transports(t, func(t *testing.T, s Server) {
		c, _ := connect(t, s)
		ready(t, c)
		set, err := tool.NewSet()
		if err != nil {
			t.Fatal(err)
		}
		set.Attach(c)
		if got := ask(t.Context(), c, "mcp.test.grow", `{"text":"newest"}`); got.Text() != "done" {
			t.Fatal(got.Text())
		}
		until(t, "the new tool is there and the old one gone", func() bool {
			_, grown := set.Find("mcp_test_newest")
			_, there := set.Find("mcp_test_picture")
			return grown && !there
		})
		if got := ask(t.Context(), c, "mcp.test.newest", ``); got.Text() != "grown" {
			t.Error(got.Text())
		}
	})
}

func TestCallsOfAServerThatHangsTimeOut(t *testing.T) { // AG-25, AG-65
	transports(t, func(t *testing.T, s Server) {
		c, _ := connect(t, s)
		ready(t, c)
		connection := current(c)
		if got := askWithin(t.Context(), 100*time.Millisecond, c, "mcp.test.slow", ``); got.Err == nil || got.Err.Kind != tool.KindTimeout {
			t.Errorf("got %s", got.Text())
		}
		// The server answers everything else, so it stays.
		if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"still here"}`); got.Text() != "still here" {
			t.Errorf("got %s", got.Text())
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			called(t, c)
			cancel()
		})
		if got := ask(ctx, c, "mcp.test.slow", ``); got.Err == nil || got.Err.Kind != tool.KindInterrupted {
			t.Errorf("got %s", got.Text())
		}
		if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"still here"}`); got.Text() != "still here" || current(c) != connection {
			t.Errorf("got %s", got.Text())
		}
	})
}

func TestCallsTakeNoLongerThanConfigured(t *testing.T) { // AG-25
	s := program(t, "good")
	s.Timeout = 90 * time.Second
	c, _ := connect(t, s)
	ready(t, c)
	for _, tool := range c.Tools() {
		if tool.Timeout != s.Timeout {
			t.Errorf("%s may take %v", tool.Name, tool.Timeout)
		}
	}
}

func TestAnAnswerThatIsTooLargeIsAnError(t *testing.T) { // AG-65
	transports(t, func(t *testing.T, s Server) {
		c, _ := connect(t, s)
		ready(t, c)
		if got := ask(t.Context(), c, "mcp.test.huge", ``); got.Err == nil || got.Err.Kind != tool.KindUnavailable {
			t.Errorf("got %.200s", got.Text())
		}
		until(t, "the server is back", func() bool { return ask(t.Context(), c, "mcp.test.echo", `{"text":"back"}`).Text() == "back" })
	})
}

func TestToolsAskUnlessConfigured(t *testing.T) { // AG-40, AG-65
	for _, row := range []struct {
		name      string
		free      []string
		echo, sum tool.Approval
	}{
		{"all, whatever the server says of them", nil, tool.Always, tool.Always},
		{"but one", []string{"echo"}, tool.Never, tool.Always},
		{"none", []string{"*"}, tool.Never, tool.Never},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := program(t, "good")
			s.Free, s.Role = row.free, tool.Operator
			c, _ := connect(t, s)
			ready(t, c)
			for _, tool := range c.Tools() {
				want := map[string]approval{"mcp.test.echo": row.echo, "mcp.test.sum": row.sum}[tool.Name]
				if want != "" && tool.Approval != want || tool.Role.String() != "operator" {
					t.Errorf("%s asks %s, of the role %s", tool.Name, tool.Approval, tool.Role)
				}
			}
			got := ask(t.Context(), c, "mcp.test.sum", `{"a":1,"b":1}`)
			if denied := got.Err != nil && got.Err.Kind == tool.KindDenied; denied != (row.sum == tool.Always) {
				t.Errorf("got %s", got.Text())
			}
		})
	}
}

type approval = tool.Approval

func TestAProgramIsKilledInTheMiddleOfACall(t *testing.T) { // AG-65
	c, log := connect(t, program(t, "good"))
	ready(t, c)
	pid, err := strconv.Atoi(ask(t.Context(), c, "mcp.test.pid", ``).Text())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		called(t, c)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	got := ask(t.Context(), c, "mcp.test.slow", ``)
	if got.Err == nil || got.Err.Kind != tool.KindUnavailable || !strings.Contains(got.Err.Message, "its result is unknown") {
		t.Errorf("got %s", got.Text())
	}
	if len(c.Tools()) == 0 {
		t.Error("the tools are gone with the program")
	}
	until(t, "another program answers", func() bool {
		again, err := strconv.Atoi(ask(t.Context(), c, "mcp.test.pid", ``).Text())
		return err == nil && again != pid
	})
	if !strings.Contains(log.String(), "signal: killed") {
		t.Errorf("the log does not say how it ended: %s", log.String())
	}
}

// What is written to a program that has ended may fail before the end of its output is seen.
func TestAnEndThatAWriteNoticesIsLogged(t *testing.T) { // AG-65
	c, log := connect(t, program(t, "full"))
	ready(t, c)
	if got := ask(t.Context(), c, "mcp.test.close", ``); got.Err != nil {
		t.Fatal(got.Text())
	}
	if got := ask(t.Context(), c, "mcp.test.echo", ``); got.Err == nil || got.Err.Kind != tool.KindUnavailable {
		t.Errorf("got %s", got.Text())
	}
	until(t, "another program is ready", func() bool { return strings.Count(log.String(), "MCP server is ready") > 1 })
	if !strings.Contains(log.String(), "MCP program ended") {
		t.Errorf("the log does not say that it ended: %s", log.String())
	}
}

// alive says whether a process is there and runs.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return runtime.GOOS != "linux" && syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestClosingEndsTheProgramAndItsGroup(t *testing.T) { // AG-65
	for _, which := range []string{"good", "stubborn"} {
		t.Run(which, func(t *testing.T) {
			c, _ := connect(t, program(t, which))
			ready(t, c)
			var pids []int
			for _, name := range []string{"mcp.test.pid", "mcp.test.spawn"} {
				pid, err := strconv.Atoi(ask(t.Context(), c, name, ``).Text())
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			for _, pid := range pids {
				if !alive(pid) {
					t.Fatalf("%d does not run", pid)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, pid := range pids {
				until(t, "the process has ended", func() bool { return !alive(pid) })
			}
			if state := c.Status()[0].State; state != Closed {
				t.Errorf("it is %s", state)
			}
			if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"x"}`); got.Err == nil || got.Err.Kind != tool.KindUnavailable {
				t.Errorf("after closing: %s", got.Text())
			}
		})
	}
}

func TestWhatAProgramLeavesBehindIsEnded(t *testing.T) { // AG-65
	c, _ := connect(t, program(t, "good"))
	ready(t, c)
	parent, err := strconv.Atoi(ask(t.Context(), c, "mcp.test.pid", ``).Text())
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(ask(t.Context(), c, "mcp.test.spawn", ``).Text())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the child has ended too", func() bool { return !alive(child) })
	until(t, "there is another program", func() bool {
		pid, err := strconv.Atoi(ask(t.Context(), c, "mcp.test.pid", ``).Text())
		return err == nil && pid != parent
	})
}

func TestLinesThatAreNoMessagesAreSkipped(t *testing.T) { // AG-65
	c, _ := connect(t, program(t, "chatty"))
	ready(t, c)
	if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"through the noise"}`); got.Text() != "through the noise" {
		t.Error(got.Text())
	}
}

func TestNothingWaitsForAServer(t *testing.T) { // AG-65
	for name, s := range map[string]Server{"stdio": program(t, "deaf"), "http": over(t, http.HandlerFunc(hang))} {
		t.Run(name, func(t *testing.T) {
			s.times = patient
			s.times.connect = 100 * patience // who waits for it hangs
			c, _ := connect(t, s)
			if s := c.Status()[0]; s.State != Connecting || len(c.Tools()) != 0 {
				t.Errorf("it is %s, with %d tools", s.State, len(c.Tools()))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServersThatDoNotWorkTakeNothingDown(t *testing.T) { // AG-65
	longtest.Only(t, "many processes")
	const hasty = 300 * time.Millisecond // where there will be no answer anyway
	for _, row := range []struct {
		name, reason  string
		connect, list time.Duration
	}{
		{"crash", "the connection ended|it is unreachable", patience, patience},
		{"mute", "it did not answer in time", hasty, patience},
		{"deaf", "it did not answer in time", hasty, patience},
		{"noise", "it did not answer in time|it is unreachable", hasty, patience},
		{"endless", "it is unreachable", patience, patience},
		{"flood", "it did not answer in time|it is unreachable", patience, hasty},
		{"questions", "it did not answer in time|it is unreachable", patience, hasty},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := heap()
			bad, good := program(t, row.name), program(t, "good")
			bad.Name, bad.times = "bad", patient
			bad.times.connect, bad.times.list = row.connect, row.list
			c, log := connect(t, bad, good)
			until(t, "the good one is ready", func() bool { return c.Status()[1].State == Ready })
			until(t, "the bad one is away", func() bool { return c.Status()[0].State == Away })
			if got := ask(t.Context(), c, "mcp.test.echo", `{"text":"fine"}`); got.Text() != "fine" {
				t.Errorf("the good one is touched: %s", got.Text())
			}
			// It is tried again and again.
			until(t, "three attempts", func() bool { return strings.Count(log.String(), "MCP server is away") >= 3 })
			if reason := c.Status()[0].Reason; row.reason != "" && reason != "" && !strings.Contains(row.reason, reason) {
				t.Errorf("the reason is %q", reason)
			}
			if strings.Contains(log.String(), "sk-secret") {
				t.Error("the key is in the log")
			}
			if row.name == "crash" && !strings.Contains(log.String(), "cannot start: the key … is wrong") {
				t.Errorf("what it said is not in the log: %s", log.String())
			}
			if grown := heap() - before; grown > 256<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAServerThatStopsIsStartedAgain(t *testing.T) { // AG-65
	s := program(t, "stops")
	s.times = patient
	s.times.ping = 200 * time.Millisecond
	c, _ := connect(t, s)
	ready(t, c)
	pid := ask(t.Context(), c, "mcp.test.pid", ``).Text()
	if got := askWithin(t.Context(), 100*time.Millisecond, c, "mcp.test.stop", ``); got.Err == nil || got.Err.Kind != tool.KindTimeout {
		t.Errorf("got %s", got.Text())
	}
	until(t, "another program answers", func() bool {
		got := askWithin(t.Context(), time.Second, c, "mcp.test.pid", ``)
		return got.Err == nil && got.Text() != pid
	})
}

func TestAServerThatReadsNothingIsGivenUp(t *testing.T) { // AG-65
	s := program(t, "full")
	s.times = patient // it is the writing that fails, for a pipe holds no two of these calls
	s.times.write = 500 * time.Millisecond
	c, _ := connect(t, s)
	ready(t, c)
	pid := ask(t.Context(), c, "mcp.test.pid", ``).Text()
	var calls []tool.Call
	for range 8 {
		calls = append(calls, tool.Call{ID: "1", Name: "mcp.test.echo", Arguments: []byte(`{"text":"` + strings.Repeat("x", 128<<10) + `"}`)})
	}
	for _, result := range (&tool.Runner{Timeout: patience}).Run(t.Context(), c.Tools(), calls) {
		if result.Err == nil || result.Err.Kind != tool.KindUnavailable {
			t.Errorf("got %.100s", result.Text())
		}
	}
	until(t, "another program answers", func() bool {
		got := ask(t.Context(), c, "mcp.test.pid", ``)
		return got.Err == nil && got.Text() != pid
	})
}

func TestAProgramGetsNamedVariablesOnly(t *testing.T) { // AG-64
	t.Setenv("LINGSERVE_TEST_NAMED", "given")
	t.Setenv("LINGSERVE_TEST_OTHER", "secret")
	s := program(t, "good")
	s.Env = append(s.Env, "LINGSERVE_TEST_NAMED", "LINGSERVE_TEST_MISSING", "LINGSERVE_TEST_SET=a=b")
	c, _ := connect(t, s)
	ready(t, c)
	for name, want := range map[string]string{
		"LINGSERVE_TEST_NAMED": "given", "LINGSERVE_TEST_OTHER": "", "LINGSERVE_TEST_MISSING": "", "LINGSERVE_TEST_SET": "a=b", "PATH": os.Getenv("PATH"),
	} {
		if got := ask(t.Context(), c, "mcp.test.env", `{"text":"`+name+`"}`); got.Text() != want {
			t.Errorf("%s is %q, want %q", name, got.Text(), want)
		}
	}
}

func TestCallsBeforeTheConnectionAreErrors(t *testing.T) { // AG-65
	s := newServer(Server{Name: "x"}, Options{})
	_, err := s.call(t.Context(), "y", tool.Call{})
	if err == nil || err.Error() != "the server x of this tool is not available: it is not connected yet" {
		t.Error(err)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) { // AG-65
	for _, command := range []string{"lingserve-no-such-program", "/no/such/program"} {
		c, _ := connect(t, Server{Name: "gone", Command: command})
		until(t, "it is away", func() bool { return c.Status()[0].State == Away })
		if got := c.Status()[0].Reason; got != "its program is not installed" {
			t.Errorf("the reason is %q", got)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) { // AG-64
	for _, row := range []struct {
		servers []Server
		want    string
	}{
		{[]Server{{Name: "a"}}, "MCP server a: expected a command or a url"},
		{[]Server{{Name: "a", Command: "x", URL: "http://x"}}, "MCP server a: expected a command or a url, not both"},
		{[]Server{{Name: "a b", Command: "x"}}, `MCP server "a b": expected a name of at most 32 lower-case letters, digits and -`},
		{[]Server{{Name: "a_b", Command: "x"}}, `MCP server "a_b": expected a name of at most 32 lower-case letters, digits and -`},
		{[]Server{{Name: "", Command: "x"}}, `MCP server "": expected a name of at most 32 lower-case letters, digits and -`},
		{[]Server{{Name: "a", URL: "file:///etc"}}, "MCP server a: expected a url that begins with http:// or https://"},
		{[]Server{{Name: "a", Command: "x", Env: []string{"=b"}}}, "MCP server a: expected the name of a variable, or NAME=value, in env"},
		{[]Server{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}, "MCP server a: the name is already used"},
	} {
		if _, err := Start(row.servers, nil); err == nil || err.Error() != row.want {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
	c, err := Start(nil, nil)
	if err != nil || len(c.Tools()) != 0 || c.Close() != nil {
		t.Errorf("no servers: %v", err)
	}
}

// DV-05
func TestWaitEndsWithTheFirstAttempt(t *testing.T) {
	c, _ := connect(t, program(t, "good"))
	if missing := c.Wait(t.Context()); len(missing) > 0 || c.Status()[0].State != Ready || len(c.Tools()) == 0 {
		t.Errorf("missing %q: %+v", missing, c.Status())
	}
	mute, _ := connect(t, program(t, "mute"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if missing := mute.Wait(ended); len(missing) != 1 {
		t.Errorf("missing %q of a server that says nothing", missing)
	}
}

// DU-02, DU-03: a server is told which call it is, so that it can refuse a double, and says itself which calls may run twice.
func TestServersGetTheKeysOfCalls(t *testing.T) {
	transports(t, func(t *testing.T, s Server) {
		c, _ := connect(t, s)
		ready(t, c)
		for key, want := range map[string]string{"k1": `{"dev.lingserve/idempotency-key":"k1"}`, "": "null"} {
			for _, result := range new(tool.Runner).Run(t.Context(), c.Tools(), []tool.Call{{ID: "1", Name: "mcp.test.meta", Key: key}}) {
				if result.Text() != want {
					t.Errorf("%q: %s", key, result.Text())
				}
			}
		}
		var idempotent []string
		for _, tl := range c.Tools() {
			if tl.Idempotent {
				idempotent = append(idempotent, tl.Name)
			}
		}
		if diff := cmp.Diff([]string{"mcp.test.meta", "mcp.test.sum"}, idempotent); diff != "" {
			t.Error(diff)
		}
	})
}
