// Command mcp shows that tool/mcp works with servers that others wrote: it drives the MCP project's own test server, over its standard
// input and output and over streamable HTTP, and compares what its tools say with what they should.
//
// It needs Node 20 and what npm install puts beside it; the README of bench/peers says more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tool/mcp"
)

func main() {
	dir := flag.String("dir", "bench/peers/mcp", "the folder of the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "mcp: %d of the checks failed\n", failed)
		os.Exit(1)
	}
}

// tools are what the server lists to a client that can do nothing for it.
const tools = "echo get-annotated-message get-env get-resource-links get-resource-reference get-structured-content get-sum " +
	"get-tiny-image gzip-file-as-resource simulate-research-query toggle-simulated-logging toggle-subscriber-updates " +
	"trigger-long-running-operation"

// checks are calls, and expressions that match the whole of the result.
var checks = []struct{ name, tool, arguments, want string }{
	{"text", "echo", `{"message":"天气 \"<b>\" \u0000 🙂"}`, `"Echo: 天气 \\"<b>\\" \\u0000 🙂"`},
	{"numbers", "get-sum", `{"a":1.5,"b":2}`, `"The sum of 1.5 and 2 is 3.5."`},
	{"an image between texts", "get-tiny-image", ``, `\[{"type":"text","text":"Here's the image you requested:\\nThe image above is the MCP logo."},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBOR[A-Za-z0-9+/=]+"}}\]`},
	{"structured content, which the text repeats", "get-structured-content", `{"location":"New York"}`, `{"temperature":33,"conditions":"Cloudy","humidity":82}`},
	{"annotated text and an image", "get-annotated-message", `{"messageType":"error","includeImage":true}`, `\[{"type":"text","text":"Error: Operation failed"},{"type":"image_url","image_url":{"url":"data:image/png;base64,[^"]+"}}\]`},
	{"links to resources", "get-resource-links", `{"count":2}`, `"[^"]+\\n\[a link to [^:]+: demo://resource/dynamic/blob/1\]\\n\[a link to [^:]+: demo://resource/dynamic/text/2\]"`},
	{"a text resource", "get-resource-reference", `{"resourceType":"Text","resourceId":7}`, `"Returning resource reference for Resource 7:\\nResource 7: This is a plaintext resource [^"]+"`},
	{"a resource that is no text", "get-resource-reference", `{"resourceType":"Blob","resourceId":7}`, `"Returning resource reference for Resource 7:\\n\[a file of type text/plain, [0-9]+ bytes, left out\]\\nYou can [^"]+"`},
	{"progress in between", "trigger-long-running-operation", `{"duration":0.5,"steps":5}`, `"Long running operation completed. Duration: 0.5 seconds, Steps: 5."`},
	{"arguments that do not fit", "get-sum", `{"a":"1"}`, `{"error":{"kind":"invalid_arguments","message":"invalid arguments: /a: expected a number, got a string; /b: this property is required"}}`},
	{"an error of the tool", "get-resource-reference", `{"resourceType":"Text","resourceId":-1}`, `{"error":{"kind":"failed","message":"Invalid resourceId[^"]*"}}`},
	{"a tool for clients of another kind", "simulate-research-query", `{"topic":"x"}`, `{"error":{"kind":"failed","message":".*requires task augmentation.*"}}`},
	{"a call that takes too long", "trigger-long-running-operation", `{"duration":60,"steps":1}`, `{"error":{"kind":"timeout","message":"the tool did not finish within 2s"}}`},
	{"and the next one", "echo", `{"message":"still here"}`, `"Echo: still here"`},
}

func run(ctx context.Context, dir string) (failed int, err error) {
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, err := os.Stat(script); err != nil {
		return 0, fmt.Errorf("the server is not installed: run npm install --prefix %s", dir)
	}
	url, stop, err := serve(ctx, script)
	if err != nil {
		return 0, err
	}
	defer stop()
	said := func(way, name string, wrong error) {
		if wrong == nil {
			fmt.Printf("ok   %s: %s\n", way, name)
		} else {
			failed++
			fmt.Printf("FAIL %s: %s: %v\n", way, name, wrong)
		}
	}
	for _, server := range []mcp.Server{
		{Name: "stdio", Command: "node", Args: []string{script, "stdio"}},
		{Name: "http", URL: url},
	} {
		server.Free, server.Timeout = []string{"*"}, 2*time.Second
		client, err := mcp.Start([]mcp.Server{server}, nil)
		if err != nil {
			return failed, err
		}
		said(server.Name, "it is ready", ready(ctx, client))
		said(server.Name, "its list of tools", list(client, server.Name))
		for _, c := range checks {
			said(server.Name, c.name, match(call(ctx, client, server.Name, c.tool, c.arguments), c.want))
		}
		if server.Command != "" {
			said(server.Name, "kill -9 in the middle of a call, and the next call", killed(ctx, client))
		}
		said(server.Name, "taking leave", client.Close())
	}
	return failed, nil
}

// serve starts the server on a free port.
func serve(ctx context.Context, script string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, "node", script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	return "http://127.0.0.1:" + port + "/mcp", func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}, nil
}

func ready(ctx context.Context, client *mcp.Client) error {
	for range 300 {
		if client.Status()[0].State == mcp.Ready {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("it is %s: %s", client.Status()[0].State, client.Status()[0].Reason)
}

func list(client *mcp.Client, server string) error {
	var names []string
	for _, t := range client.Tools() {
		names = append(names, strings.TrimPrefix(t.Name, "mcp."+server+"."))
	}
	if got := strings.Join(names, " "); got != tools {
		return fmt.Errorf("got %s", got)
	}
	return nil
}

func call(ctx context.Context, client *mcp.Client, server, name, arguments string) string {
	calls := []tool.Call{{ID: "1", Name: "mcp." + server + "." + name, Arguments: []byte(arguments)}}
	for _, result := range new(tool.Runner).Run(ctx, client.Tools(), calls) {
		return string(result.Value())
	}
	return "" // never: a call has a result
}

func match(got, want string) error {
	if !regexp.MustCompile("(?s)^" + want + "$").MatchString(got) {
		return fmt.Errorf("got %.300s", got)
	}
	return nil
}

// killed ends the server in the middle of a call.
func killed(ctx context.Context, client *mcp.Client) error {
	pids, err := children()
	if err != nil {
		return err
	}
	time.AfterFunc(500*time.Millisecond, func() {
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	got := call(ctx, client, "stdio", "trigger-long-running-operation", `{"duration":60,"steps":1}`)
	if err := match(got, `{"error":{"kind":"unavailable","message":".*the connection broke.*"}}`); err != nil {
		return err
	}
	for range 100 {
		if got = call(ctx, client, "stdio", "echo", `{"message":"back"}`); got == `"Echo: back"` {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("it did not come back: %s", got)
}

// children finds the server that tool/mcp started, by its arguments.
func children() (pids []int, err error) {
	out, err := exec.Command("ps", "-o", "pid=,args=", "--ppid", strconv.Itoa(os.Getpid())).Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if pid, args, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasSuffix(strings.TrimSpace(args), "index.js stdio") {
			if n, err := strconv.Atoi(pid); err == nil {
				pids = append(pids, n)
			}
		}
	}
	if len(pids) == 0 {
		return nil, errors.New("the server's process is not found")
	}
	return pids, nil
}
