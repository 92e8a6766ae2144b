package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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
	sources := hashes(t, "src/*.*", "src/*/*.*", "src/*/*/*.*", "package-lock.json", "tsconfig.json", "../client/src/*.ts", "../../tools/web/playground.go", "../../tools/web/go.mod")
	if diff := cmp.Diff(want.Sources, sources); diff != "" {
		t.Errorf("dist was made of other sources; run make playground (-made of +here):\n%s", diff)
	}
	if diff := cmp.Diff(want.Dist, hashes(t, "dist/*.html", "dist/assets/*")); diff != "" {
		t.Errorf("dist was changed by hand; run make playground (-made +here):\n%s", diff)
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

func TestAllThatThePageLoadsIsBelow150Kilobytes(t *testing.T) {
	total := 0
	for path, f := range files() {
		if strings.HasSuffix(path, ".txt") {
			continue // is loaded by who wants to read it
		}
		if packed := f.packed(); packed != nil {
			total += len(packed)
		} else {
			total += len(f.plain)
		}
	}
	if total >= 150_000 {
		t.Errorf("gzipped it is %d bytes, expected less than 150000", total)
	}
	t.Logf("%d bytes gzipped", total)
}

func get(method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	Serve(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageLoadsOnlyWhatIsHere(t *testing.T) {
	page := body(t, get("GET", "/"))
	loaded := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(loaded) < 4 {
		t.Fatalf("it loads %v; expected scripts, a style sheet and an icon", loaded)
	}
	for _, m := range loaded {
		if !Has(m[1]) {
			t.Errorf("%s is not here", m[1])
		}
	}
	for _, forbidden := range []string{"<style", " style=", " on", "javascript:"} {
		if strings.Contains(strings.ToLower(page), forbidden) && forbidden != " on" {
			t.Errorf("the page has %q, which its policy forbids", forbidden)
		}
	}
	if regexp.MustCompile(`\son[a-z]+=`).MatchString(page) {
		t.Error("the page has a handler in an attribute, which its policy forbids")
	}
	for _, script := range regexp.MustCompile(`<script([^>]*)>`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(script[1], "src=") {
			t.Error("the page has an inline script, which its policy forbids")
		}
	}
}

func TestNoStyleSheetLoadsAnything(t *testing.T) {
	for path, f := range files() {
		if !strings.HasSuffix(path, ".css") {
			continue
		}
		for _, m := range regexp.MustCompile(`url\(([^)]*)\)|@import`).FindAllStringSubmatch(string(f.plain), -1) {
			if !strings.HasPrefix(strings.Trim(m[1], `"'`), "data:") {
				t.Errorf("%s has %s", path, m[0])
			}
		}
	}
}

func TestThePolicyIsStrict(t *testing.T) {
	h := get("GET", "/").Header
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Type": "text/html; charset=utf-8",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, expected %q", name, got, want)
		}
	}
	csp := h.Get("Content-Security-Policy")
	for _, part := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "form-action 'none'",
		"frame-ancestors 'none'", "require-trusted-types-for 'script'",
	} {
		if !strings.Contains(csp, part) {
			t.Errorf("the policy lacks %s: %s", part, csp)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") {
		t.Error(csp)
	}
}

func TestThePageIsAskedForAnewAndItsFilesAreKept(t *testing.T) {
	for path := range files() {
		resp := get("GET", path)
		want := forGood
		if path == "/" || path == "/assets/notices.txt" {
			want = anew
		}
		if got := resp.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control is %q, expected %q", path, got, want)
		}
		if resp.Header.Get("Content-Type") == "" {
			t.Errorf("%s has no media type", path)
		}
		tag := resp.Header.Get("ETag")
		for name, header := range map[string]string{
			"the tag": tag, "a strong one": strings.TrimPrefix(tag, "W/"), "one of several": `"x", ` + tag, "any": "*",
		} {
			if resp := get("GET", path, "If-None-Match: "+header); resp.StatusCode != 304 || body(t, resp) != "" {
				t.Errorf("%s: with %s it is %d", path, name, resp.StatusCode)
			}
		}
		if resp := get("GET", path, `If-None-Match: "other"`); resp.StatusCode != 200 {
			t.Errorf("%s: with another tag it is %d", path, resp.StatusCode)
		}
	}
}

func TestItIsCompressedForThoseWhoTakeIt(t *testing.T) {
	plain := body(t, get("GET", "/"))
	for header, want := range map[string]bool{
		"gzip": true, "gzip, deflate, br, zstd": true, "br;q=1.0, GZIP;q=0.5": true, "*": true, "gzip;q=zero": true,
		"": false, "br": false, "x-gzip": false, "gzip;q=0": false, "gzip; q=0.000, *": false, "*;q=0": false, "identity": false,
	} {
		resp := get("GET", "/", "Accept-Encoding: "+header)
		got := body(t, resp)
		if packed := resp.Header.Get("Content-Encoding") == "gzip"; packed != want {
			t.Errorf("%q: compressed %t, expected %t", header, packed, want)
		} else if packed {
			r, err := gzip.NewReader(strings.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if got != plain {
			t.Errorf("%q: it is another page", header)
		}
		if resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: Vary is %q", header, resp.Header.Get("Vary"))
		}
	}
}

func TestHeadHasTheHeadersOfGet(t *testing.T) {
	a, b := get("GET", "/", "Accept-Encoding: gzip"), get("HEAD", "/", "Accept-Encoding: gzip")
	if diff := cmp.Diff(a.Header, b.Header); diff != "" {
		t.Error(diff)
	}
	if text := body(t, b); text != "" {
		t.Errorf("it has a body of %d bytes", len(text))
	}
}

func TestNothingElseIsHere(t *testing.T) {
	for _, path := range []string{"/assets/", "/assets", "/index.html", "/dist/index.html", "/assets/../playground.go", "/manifest.json", "/assets/x.js"} {
		if Has(path) || get("GET", path).StatusCode != 404 {
			t.Errorf("%s is here", path)
		}
	}
}

func TestTheNoticesHaveTheLicencesOfWhatIsBundled(t *testing.T) {
	notices := body(t, get("GET", "/assets/notices.txt"))
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Dependencies, DevDependencies map[string]string
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	for name, version := range p.Dependencies {
		if !strings.Contains(notices, "== "+name+" "+version+",") {
			t.Errorf("the licence of %s %s is not there", name, version)
		}
	}
	for _, all := range []map[string]string{p.Dependencies, p.DevDependencies} {
		for name, version := range all {
			if strings.Trim(version, "0123456789.") != "" {
				t.Errorf("%s is not pinned: %s", name, version)
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
