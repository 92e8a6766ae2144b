//go:build nightly

package faults

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// restrictEnv has this program restrict itself and become another: the words are the restrictions, the arguments the program.
const restrictEnv = "LINGSERVE_TEST_RESTRICT"

// Of prctl(2), since Linux 6.3: no memory becomes executable that was writable. systemd's MemoryDenyWriteExecute is that.
const (
	prSetMDWE           = 65
	prMDWERefuseGain    = 1
	restrictWriteExec   = "MemoryDenyWriteExecute"
	restrictUnavailable = 77
)

func restrictedChild() int {
	if strings.Contains(os.Getenv(restrictEnv), restrictWriteExec) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetMDWE, prMDWERefuseGain, 0, 0, 0, 0); errno != 0 {
			return restrictUnavailable
		}
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
	return 1
}

// nodeServer is an MCP server with one tool.
const nodeServer = `
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
	const { id, method, params } = JSON.parse(line);
	const results = {
		initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "node", version: "1" } }),
		"tools/list": () => ({ tools: [{ name: "hello", inputSchema: { type: "object" } }] }),
	};
	if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: (results[method] ?? (() => ({})))() }));
});
`

// DO-09: an MCP server in Node runs where the systemd unit restricts what memory may be.
func TestDO_09_AnMCPServerInNodeRunsUnderTheUnit(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	restricted := func(words string, argv ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], argv...)
		cmd.Env = append(os.Environ(), restrictEnv+"="+words)
		return cmd
	}
	if err := restricted(restrictWriteExec, node, "-e", "0").Run(); err == nil {
		t.Log("this node needs no memory that is written and executed")
	} else if code := err.(*exec.ExitError).ExitCode(); code == restrictUnavailable {
		t.Skip("this system cannot restrict memory")
	}
	unit, err := os.ReadFile("../../deploy/systemd/lingserve.service")
	if err != nil {
		t.Fatal(err)
	}
	words := "none"
	if regexp.MustCompile(`(?m)^` + restrictWriteExec + `=(yes|true|1|on)$`).Match(unit) {
		words = restrictWriteExec
	}
	script := filepath.Join(t.TempDir(), "server.js")
	if err := os.WriteFile(script, []byte(nodeServer), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, serving{
		by: []string{os.Args[0]}, env: []string{restrictEnv + "=" + words},
		config: fmt.Sprintf("agents:\n  assistant: {}\nmcp:\n  js: {command: %q, args: [%q]}\n", node, script),
	})
	if _, err := s.log.Find(t.Context(), regexp.MustCompile(`"msg":"(MCP server is (?:ready|away))","server":"js"`)); err != nil {
		t.Fatal(err)
	}
	a, err := s.do("POST", "/v1/runs", `{"agent":"assistant","input":",tools"}`, "Accept: application/json")
	if err != nil || !strings.Contains(string(a.body), "mcp.js.hello") {
		t.Errorf("the agent does not have the tool: %v, %v", err, a)
	}
}

// DO-09: the manifests have probes ask the admin port, which answers while clients hold all connections of the other one, and
// without a key.
func TestDO_09_ProbesAreAnsweredAtTheAdminPort(t *testing.T) {
	t.Parallel()
	s := serve(t, serving{args: []string{"--limit-connections", "8"}})
	for range 40 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		for _, path := range []string{"/healthz", "/readyz"} {
			resp, err := http.Get("http://" + s.admin + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", path, resp.Status)
			}
		}
	}
}
