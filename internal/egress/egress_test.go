package egress_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// DA-08, SE-22: only package egress decides about proxies, and no listener serves the handlers that packages register with net/http.
func TestSourceUsesNoGlobalOfNetHTTP(t *testing.T) {
	const root = "../.."
	clients := regexp.MustCompile(`http\.(ProxyFromEnvironment|DefaultTransport|DefaultClient|Get|Post|PostForm|Head)\b|\bnew\(http\.Client\)|http\.Client\{(}|Timeout|CheckRedirect|Jar)`)
	servers := regexp.MustCompile(`http\.(DefaultServeMux|Handle|HandleFunc|ListenAndServe|ListenAndServeTLS|Serve|ServeTLS)\(|"expvar"|"golang\.org/x/net/trace"|_ "net/http/pprof"|http\.Server\{}`)
	server := regexp.MustCompile(`http\.Server\{[^}]+`)
	skipped := []string{"node_modules", "testdata", "bench", "tools", "examples"}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (slices.Contains(skipped, name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "fake")) {
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
		if filepath.Base(path) != "egress.go" {
			for _, found := range clients.FindAll(text, -1) {
				t.Errorf("%s has %s; use internal/egress", path, found)
			}
		}
		for _, found := range servers.FindAll(text, -1) {
			t.Errorf("%s has %s, which serves or fills the global mux", path, found)
		}
		for _, found := range server.FindAllString(string(text), -1) {
			if !strings.Contains(found, "Handler:") {
				t.Errorf("%s has %s without a handler, which serves the global mux", path, found)
			}
		}
		return nil
	})
	if err != nil || files < 200 {
		t.Errorf("%d files, %v", files, err)
	}
}
