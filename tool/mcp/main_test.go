package mcp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/lingserve/lingserve/tool"
)

// The test binary is also the program that the tests start, where this variable says which.
const role = "LINGSERVE_TEST_MCP"

func TestMain(m *testing.M) {
	if program := programs[os.Getenv(role)]; program != nil {
		program()
		os.Exit(0)
	}
	status := m.Run()
	if status == 0 {
		// What ends by itself gets the time it needs.
		for deadline := time.Now().Add(patience); ; {
			err := goleak.Find()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				fmt.Fprintln(os.Stderr, err)
				status = 1
				break
			}
		}
	}
	os.Exit(status)
}

// programs are what a server may be like.
var programs = map[string]func(){
	"good": func() { _ = newTestServer(context.Background()).Run(context.Background(), &sdk.StdioTransport{}) },
	"chatty": func() { // says things where only messages belong
		fmt.Print("Welcome to the server!\n[info] {not json}\n{\"neither\":\"message\"}\n[]\n\n\xff\xfe\n")
		_ = newTestServer(context.Background()).Run(context.Background(), &sdk.IOTransport{Reader: os.Stdin, Writer: chatty{}})
	},
	"crash": func() { fmt.Fprintln(os.Stderr, "cannot start: the key sk-secret is wrong"); os.Exit(3) },
	"mute":  func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	"deaf":  func() { select {} },
	"noise": func() {
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("nothing to see here\n", 1000)); err != nil {
				return
			}
		}
	},
	"endless": func() { // one line
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat(`{"jsonrpc":"2.0",`, 1000)); err != nil {
				return
			}
		}
	},
	"stubborn": func() { // does not leave when it should
		signal.Ignore(syscall.SIGTERM)
		_ = newTestServer(context.Background()).Run(context.Background(), &sdk.StdioTransport{})
		select {}
	},
	"flood":     func() { flooding(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) },
	"questions": func() { flooding(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`) },
	"stops": func() { // reading, when it has started
		transport := &sdk.IOTransport{Reader: os.Stdin, Writer: nopCloser{os.Stdout}}
		server := newTestServer(context.Background())
		sdk.AddTool(server, &sdk.Tool{Name: "stop"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {} // the signal may take a moment
		})
		_ = server.Run(context.Background(), transport)
	},
	"full": func() { // after the first call of echo it reads nothing any more
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			var ask struct {
				ID     json.RawMessage
				Method string
				Params struct{ Name string }
			}
			if json.Unmarshal(in.Bytes(), &ask) != nil || ask.ID == nil {
				continue
			}
			switch ask.Method + " " + ask.Params.Name {
			case "initialize ":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", ask.ID, welcome)
			case "tools/list ":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"pid","inputSchema":{"type":"object"}},{"name":"close","inputSchema":{"type":"object"}}]}}`+"\n", ask.ID)
			case "tools/call pid":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`+"\n", ask.ID, os.Getpid())
			case "tools/call close": // of its input, as one that ends does: what is written to it fails before its output ends
				os.Stdin.Close()
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", ask.ID)
				select {}
			case "tools/call echo":
				select {}
			}
		}
		select {} // a line was too long for the scanner: it is not read on, either
	},
}

// welcome is the result of the handshake.
const welcome = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}`

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// chatty writes a line of its own before each message.
type chatty struct{}

func (chatty) Write(p []byte) (int, error) {
	fmt.Print("[debug] sending\n")
	return os.Stdout.Write(p)
}

func (chatty) Close() error { return nil }

// flooding answers the handshake, and then writes the same message for ever.
func flooding(message string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && !strings.Contains(in.Text(), "tools/list") {
		if strings.Contains(in.Text(), `"initialize"`) {
			fmt.Println(`{"jsonrpc":"2.0","id":1,"result":` + welcome + `}`)
		}
	}
	out := bufio.NewWriter(os.Stdout)
	for i := 0; ; i++ {
		line := message
		if strings.Contains(line, "%d") {
			line = fmt.Sprintf(line, i)
		}
		if _, err := out.WriteString(line + "\n"); err != nil {
			return
		}
	}
}

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say"`
}

// newTestServer is a server as others write them. It may not outlive its life.
func newTestServer(life context.Context) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "says it again"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		return text(in.Text), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "sum", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		A int `json:"a"`
		B int `json:"b"`
	},
	) (*sdk.CallToolResult, struct {
		Sum int `json:"sum"`
	}, error,
	) {
		return nil, struct {
			Sum int `json:"sum"`
		}{in.A + in.B}, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "picture"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a"},
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte{1, 2, 3}},
			&sdk.TextContent{Text: "b"},
		}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("there is no such row")
	})
	sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-life.Done():
			return nil, nil, life.Err()
		}
	})
	meta := &sdk.Tool{Name: "meta", Annotations: &sdk.ToolAnnotations{IdempotentHint: true}}
	sdk.AddTool(server, meta, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		mine := map[string]any{}
		for name, value := range r.Params.Meta {
			if !strings.Contains(name, "progressToken") && !strings.HasPrefix(name, "io.modelcontextprotocol/") {
				mine[name] = value
			}
		}
		if len(mine) == 0 {
			return text("null"), nil, nil
		}
		list, err := json.Marshal(mine)
		return text(string(list)), nil, err
	})
	sdk.AddTool(server, &sdk.Tool{Name: "pid"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text(fmt.Sprint(os.Getpid())), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "huge"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return text(strings.Repeat("x", maxMessage)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "env"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		return text(os.Getenv(in.Text)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "spawn"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), role+"=deaf")
		child.Stdout = os.Stdout // it even holds our output
		if err := child.Start(); err != nil {
			return nil, nil, err
		}
		return text(fmt.Sprint(child.Process.Pid)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "grow"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(server, &sdk.Tool{Name: in.Text}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return text("grown"), nil, nil
		})
		server.RemoveTools("picture")
		return text("done"), nil, nil
	})
	return server
}

// program is a server that this test binary is, when it is started again.
func program(t *testing.T, which string) Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{role + "=" + which, "GORACE=atexit_sleep_ms=0"} // else the race detector keeps it for a second when it ends
	return Server{Name: "test", Command: exe, Env: env, Free: []string{"*"}}
}

// patience is how long a test waits for what must come. Nothing may depend on it: it only ends a test that hangs.
const patience = time.Hour

// patient are the times of a server that is waited for, however busy the machine is. Only what comes when a time is over is quick:
// pauses, and the end of a program that does not end by itself. A test of a limit shortens that one, of that server.
var patient = times{
	connect: patience, list: patience, ping: patience, listen: patience, write: patience,
	exit: 500 * time.Millisecond, leave: time.Second, again: patience, first: 10 * time.Millisecond, longest: 100 * time.Millisecond, stable: time.Minute,
}

// log keeps what is logged.
type log struct {
	mu sync.Mutex
	strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

// connect starts a client that is closed with the test.
func connect(t *testing.T, servers ...Server) (*Client, *log) {
	t.Helper()
	var l log
	for i := range servers {
		servers[i].times = cmp.Or(servers[i].times, patient)
	}
	c, err := Start(servers, &Options{
		Log:    slog.New(slog.NewTextHandler(&l, nil)),
		Redact: func(s string) string { return strings.ReplaceAll(s, "sk-secret", "…") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log: %s", l.String())
		}
	})
	return c, &l
}

// until waits for something that other processes bring about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ready waits until a server is.
func ready(t *testing.T, c *Client) {
	t.Helper()
	until(t, "the server is ready", func() bool { return c.Status()[0].State == Ready })
}

// ask makes one call, as an agent does.
func ask(ctx context.Context, c *Client, name, arguments string) tool.Result {
	return askWithin(ctx, patience, c, name, arguments)
}

// askWithin makes a call that may take no longer.
func askWithin(ctx context.Context, limit time.Duration, c *Client, name, arguments string) tool.Result {
	r := tool.Runner{Timeout: limit, Grace: patience}
	for _, result := range r.Run(ctx, c.Tools(), []tool.Call{{ID: "1", Name: name, Arguments: []byte(arguments)}}) {
		return result
	}
	panic("a call without a result")
}

// called waits until a call is on its way.
func called(t *testing.T, c *Client) {
	t.Helper()
	until(t, "a call runs", func() bool { return c.servers[0].calls.Load() > 0 })
}

// current is the connection that there is.
func current(c *Client) *connection {
	s := c.servers[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}
