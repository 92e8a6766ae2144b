package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheFileAddsMCPServers(t *testing.T) {
	c := mustLoad(t, `
mcp:
  files:
    command: npx
    args: ["-y", "a b", c]
    env: [FILES_TOKEN]
    timeout: 10s
  search: {url: https://search.example.com/mcp, authorization: {env: SEARCH}}
agents:
  clerk: {tools: [mcp.files.*]}
`, []string{"SEARCH=Bearer sesame"})
	want := []*MCPServer{
		{Name: "files", Command: "npx", Args: []string{"-y", "a b", "c"}, Env: []string{"FILES_TOKEN"}, Timeout: 10 * time.Second},
		{Name: "search", URL: "https://search.example.com/mcp", Authorization: "Bearer sesame", Timeout: time.Minute},
	}
	if diff := cmp.Diff(want, c.MCP); diff != "" {
		t.Error(diff)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "sesame") || !strings.Contains(b.String(), "\nmcp:\n  files:\n    command: npx") {
		t.Error(b.String())
	}
}

func TestAWrongMCPServerIsRefusedWithItsLine(t *testing.T) {
	for file, want := range map[string]string{
		"mcp: [a]":              "lingserve.yaml:1:6: mcp: expected settings, one per line, such as \"NAME: …\"",
		"mcp:\n  a_b: {url: x}": "lingserve.yaml:2:3: mcp.a_b: invalid name; expected at most 32 lower-case letters, digits and -",
		"mcp:\n  a:":            "lingserve.yaml:2:3: mcp.a: expected a command or a url",
		"mcp:\n  a: npx":        "lingserve.yaml:2:6: mcp.a: expected settings, one per line, such as \"command: …\"",
		"mcp:\n  a: {command: x, url: 'http://x'}":  "lingserve.yaml:2:3: mcp.a: command and url do not go together; remove one of them",
		"mcp:\n  a: {url: 'http://x', args: [y]}":   "lingserve.yaml:2:3: mcp.a: args and env need a command; add command, or remove them",
		"mcp:\n  a: {command: x, authorization: y}": "lingserve.yaml:2:3: mcp.a: authorization needs a url; add url, or remove it",
		"mcp:\n  a: {url: nowhere}":                 "lingserve.yaml:2:12: mcp.a.url: expected an http or https address, such as http://127.0.0.1:8000/v1",
		"mcp:\n  a: {comand: x, url: 'http://x'}":   "lingserve.yaml:2:7: mcp.a.comand: unknown setting; did you mean mcp.a.command?",
	} {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("lingserve.yaml", []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(nil, nil); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v\nwant\n%s", file, err, want)
		}
	}
}
