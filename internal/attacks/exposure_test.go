//go:build nightly

package attacks

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// administration are paths at which servers tell of themselves, or let themselves be steered, to those who look.
var administration = []string{
	"/debug", "/debug/", "/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine", "/debug/pprof/profile", "/debug/pprof/cmdline",
	"/debug/pprof/symbol", "/debug/pprof/trace", "/debug/vars", "/debug/requests", "/debug/events", "/pprof", "/pprof/heap", "/metrics", "/metrics/",
	"/v1/metrics", "/v1/debug/pprof", "/prometheus", "/vars", "/expvar", "/admin", "/admin/", "/v1/admin", "/v1/config", "/config", "/env", "/actuator",
	"/actuator/heapdump", "/actuator/env", "/server-status", "/status", "/info", "/version", "/trace", "/logs", "/log", "/console", "/shutdown", "/quit",
	"/reload", "/-/reload", "/-/quit", "/.env", "/.git/config", "/.git/HEAD", "/lingserve.yaml", "/data/", "/data/runs", "/data/tapes", "/workflows/text.yaml",
	"/workspace/AGENTS.md", "/swagger.json", "/graphql", "/api/", "/v1/keys", "/v1/users", "/v2/", "/assets", "/assets/", "/node_modules/", "/src/main.ts",
	"/index.html.map", "/%64ebug/pprof/", "//debug/pprof/", "/v1/../debug/pprof/", "/v1/%2e%2e/metrics", "/./metrics", "/METRICS", "/Debug/Pprof/", "/metrics;a=b",
	"/metrics%00", "/metrics%20", "/debug%2fpprof%2f",
}

// SE-22: the public port has the routes of its contract, and tells nothing else.
func TestThePublicPortHasNoAdministration(t *testing.T) { // SE-22
	v := server(t)
	for _, path := range administration {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "TRACE", "DEBUG"} {
			got := v.do(t, method, path, "", "X-Original-URL: /debug/pprof/", "X-Forwarded-Prefix: /debug")
			if got.status != 404 && got.status != 405 {
				t.Errorf("%s %s: %d %s", method, path, got.status, clip(got.body))
			}
			if got.header.Get("Server") != "" || got.header.Get("X-Powered-By") != "" {
				t.Errorf("%s %s: it says what it is: %v", method, path, got.header)
			}
		}
	}
	// What the contract lists is all that there is, and none of it is of this kind.
	paths := regexp.MustCompile(`(?m)^  (/\S*):`).FindAllStringSubmatch(v.do(t, "GET", "/openapi.yaml", "").body, -1)
	if len(paths) < 20 {
		t.Fatalf("the contract has %d paths", len(paths))
	}
	for _, path := range paths {
		if slices.Contains(administration, path[1]) || regexp.MustCompile(`(?i)debug|pprof|metric|admin|config|vars|env`).MatchString(path[1]) {
			t.Errorf("the contract has %s", path[1])
		}
	}
	// Whether it is ready anybody may know, and no more than that.
	for _, path := range []string{"/healthz", "/readyz"} {
		var members map[string]any
		got := v.do(t, "GET", path, "")
		if err := json.Unmarshal([]byte(got.body), &members); err != nil {
			t.Errorf("%s: %v: %s", path, err, got.body)
		}
		for name := range members {
			if !slices.Contains([]string{"status", "version", "channels", "uptime", "reason", "reasons"}, name) {
				t.Errorf("%s tells %s", path, name)
			}
		}
	}
}

// SE-22: what some package registers with net/http's own mux is served by nobody: no listener of ours has it, and what would
// register there by being imported is imported where the admin listener is alone, or not at all.
func TestNobodyServesTheDefaultMux(t *testing.T) { // SE-22
	root := "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"node_modules", "testdata", "bench", "tools"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if !bytes.Contains(text, []byte(`"net/http`)) && !bytes.Contains(text, []byte(`"expvar"`)) && !bytes.Contains(text, []byte(`/trace"`)) {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil // somebody is at work on it; the compiler will say
		}
		at := func(n ast.Node) string { return set.Position(n.Pos()).String() }
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			if name == "expvar" || name == "net/http/pprof" && i.Name != nil && i.Name.Name == "_" || name == "golang.org/x/net/trace" {
				t.Errorf("%s: %s registers with the default mux", at(i), name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "http" {
					switch n.Sel.Name {
					case "DefaultServeMux", "Handle", "HandleFunc", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS":
						t.Errorf("%s: http.%s", at(n), n.Sel.Name)
					}
				}
			case *ast.CompositeLit:
				sel, ok := n.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Server" {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "http" {
					return true
				}
				has := slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					if !ok {
						return false
					}
					name, ok := kv.Key.(*ast.Ident)
					return ok && name.Name == "Handler"
				})
				if !has {
					t.Errorf("%s: a server without a handler has the default mux", at(n))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}
