// Package client_test holds what is committed of the npm package to its sources. The bundles are made by esbuild, which is a
// module of its own (web/build): here, where it would be a heavy dependency, they are known by their hashes, and the build's own
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
	if diff := cmp.Diff(want.Sources, hashes(t, "src/*.ts", "tsconfig.json", "../build/client.go", "../build/go.mod")); diff != "" {
		t.Errorf("dist was made of other sources; run make client (-made of +here):\n%s", diff)
	}
	if diff := cmp.Diff(want.Dist, hashes(t, "dist/*.js", "dist/*.d.ts")); diff != "" {
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
		Exports         map[string]struct{ Types, Default string }
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
		for _, file := range []string{at.Types, at.Default} {
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
