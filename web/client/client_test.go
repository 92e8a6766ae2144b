// Package client_test holds what is committed of the npm package to its sources. The bundles are made by esbuild, which is a
// module of its own (tools/web): here, where it would be a heavy dependency, they are known by their hashes, and the build's own
// test makes them again and compares.
package client_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsCommittedWasMadeOfTheseSources(t *testing.T) {
	var want struct{ Sources, Dist map[string]string }
	text, err := os.ReadFile("dist/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Sources, hashes(t, "src/*.ts", "tsconfig.json", "../../tools/web/client.go", "../../tools/web/go.mod")); diff != "" {
		t.Errorf("dist was made of other sources; run make client (-made of +here):\n%s", diff)
	}
	if diff := cmp.Diff(want.Dist, hashes(t, "dist/*.js", "dist/*.d.ts", "dist/cjs/*")); diff != "" {
		t.Errorf("dist was changed by hand; run make client (-made +here):\n%s", diff)
	}
}

func hashes(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no such file (%v)", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			all[filepath.ToSlash(name)] = hex.EncodeToString(sum[:])
		}
	}
	return all
}

func TestTheClientStaysBelowSixKilobytes(t *testing.T) {
	text, err := os.ReadFile("dist/client.min.js")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() >= 6000 {
		t.Errorf("minified and gzipped it is %d bytes, expected less than 6000", packed.Len())
	}
}

func TestThePackageHasNoDependenciesAndItsLockNamesNoHost(t *testing.T) {
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Dependencies    map[string]string
		DevDependencies map[string]string
		Exports         map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Dependencies) > 0 {
		t.Errorf("it depends on %v; whoever installs it would, too", p.Dependencies)
	}
	for name, version := range p.DevDependencies {
		if strings.Trim(version, "0123456789.") != "" {
			t.Errorf("%s is not pinned: %s", name, version)
		}
	}
	for entry, at := range p.Exports {
		for _, file := range regexp.MustCompile(`\./[^"]+`).FindAllString(string(at), -1) {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("export %s: %v", entry, err)
			}
		}
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error(`package-lock.json names registries; run npm install with omit-lockfile-registry-resolved=true`)
	}
}

// DP-01: what npm shows of the package leads somewhere, and the package has its licence in it.
func TestThePackageIsReadyToPublish(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if read("LICENSE") != read("../../LICENSE") {
		t.Error("LICENSE is not the one of the repository; copy it")
	}
	module := strings.TrimPrefix(strings.SplitN(read("../../go.mod"), "\n", 2)[0], "module ")
	var p struct {
		Homepage   string
		Bugs       struct{ URL string }
		Repository struct{ URL, Directory string }
		Main       string
		Types      string
		Versions   map[string]map[string][]string `json:"typesVersions"`
	}
	if err := json.Unmarshal([]byte(read("package.json")), &p); err != nil {
		t.Fatal(err)
	}
	if p.Repository.URL != "git+https://"+module+".git" || p.Repository.Directory != "web/client" || p.Bugs.URL != "https://"+module+"/issues" {
		t.Errorf("repository %v, bugs %v; expected those of %s", p.Repository, p.Bugs, module)
	}
	// Resolvers that do not know exports read these.
	for _, file := range []string{p.Main, p.Types, p.Versions["*"]["react"][0], p.Versions["*"]["vue"][0]} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	// npm shows the README at an address of its own, where a relative link leads nowhere.
	blob := "https://" + module + "/blob/main/"
	for _, link := range append(regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(read("README.md"), -1), []string{"", p.Homepage}) {
		file, anchor, _ := strings.Cut(link[1], "#")
		if file == "" {
			continue
		}
		path, ok := strings.CutPrefix(file, blob)
		if !ok {
			t.Errorf("%s: expected a link below %s", link[1], blob)
			continue
		}
		heading := regexp.MustCompile(`(?im)^#+ ` + strings.ReplaceAll(regexp.QuoteMeta(anchor), "-", "[- ]"))
		if text := read("../../" + path); anchor != "" && !heading.MatchString(text) {
			t.Errorf("%s: %s has no such heading", link[1], path)
		}
	}
}
