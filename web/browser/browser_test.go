// Package browser_test holds the browser's tests, which Node runs (make browser), to what can be known without it.
package browser_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// packages reads what a package.json asks for while developing.
func packages(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ DevDependencies map[string]string }
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p.DevDependencies
}

func TestPackagesArePinnedAndTheirLockNamesNoHost(t *testing.T) {
	for name, version := range packages(t, "package.json") {
		_, alias, _ := strings.Cut(version, "npm:")
		if i := strings.LastIndexByte(alias, '@'); i >= 0 {
			version = alias[i+1:]
		}
		if strings.Trim(version, "0123456789.") != "" {
			t.Errorf("%s is not pinned: %s", name, version)
		}
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("package-lock.json names registries; run npm install in this folder, whose .npmrc leaves them out")
	}
}

// What pages are bundled with here is what the client was made for and with.
func TestFrameworksAndBundlerAreThoseOfTheClient(t *testing.T) {
	here, client := packages(t, "package.json"), packages(t, filepath.Join("..", "client", "package.json"))
	for _, name := range []string{"react", "react-dom", "vue"} {
		if here[name] != client[name] {
			t.Errorf("%s is %s, that of the client %s", name, here[name], client[name])
		}
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "tools", "web", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(module), "github.com/evanw/esbuild v"+here["esbuild"]) {
		t.Errorf("esbuild is %s, and another version in tools/web/go.mod", here["esbuild"])
	}
}

func TestNoTestWaitsForTimeToPass(t *testing.T) {
	names, err := filepath.Glob("*.js")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no tests (%v)", err)
	}
	sleep := regexp.MustCompile(`waitForTimeout|networkidle|timers/promises|setTimeout\((resolve|r|done)\b`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := sleep.Find(text); found != nil {
			t.Errorf("%s: %s: wait for what is to happen, not for time", name, found)
		}
	}
}
