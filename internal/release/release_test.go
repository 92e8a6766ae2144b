package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
)

// small is a module that is released like ours and is built in a moment.
var small = map[string]string{
	"go.mod":                                 "module " + own + "\n\ngo 1.26.0\n",
	"cmd/server/main.go":                     "package main\n\nvar releaseVersion, releaseCommit, releaseDate string\n\nfunc main() { println(releaseVersion, releaseCommit, releaseDate) }\n",
	"LICENSE":                                "ours\n",
	"README.md":                              "read me\n",
	"CHANGELOG.md":                           "changes\n",
	"deploy/lingserve.yaml":                  "addr: :1\n",
	"deploy/deploy_test.go":                  "package deploy\n",
	"docs/operate.md":                        "docs\n",
	"workflows/chat.yaml":                    "name: chat\n",
	"workflows/workflows.go":                 "package workflows\n",
	"web/playground/dist/assets/notices.txt": "It has these in it.\n\n\n== @preact/x 1.2.3, MIT\n\nPermission\n\n\n== y 4.5.6, ISC\n\nAlso\n",
	"web/playground/package-lock.json":       `{"packages":{"node_modules/@preact/x":{"version":"1.2.3","integrity":"sha512-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="},"node_modules/y":{"version":"4.5.6"}}}`,
}

// repository commits files into a repository of its own, at a fixed time.
func repository(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "."},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "all"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	return dir
}

// contents reads an archive: the text of each file, with its mode before it.
func contents(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	add := func(name string, mode fs.FileMode, date time.Time, r io.Reader) {
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !date.Equal(want) {
			t.Errorf("%s is of %v, want the commit's time", name, date)
		}
		all[name] = fmt.Sprintf("%o %s", mode.Perm(), body)
	}
	if strings.HasSuffix(name, ".zip") {
		zr, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range zr.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), f.Modified, r)
		}
		return all
	}
	zr, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if zr.Name != "" || !zr.ModTime.IsZero() {
		t.Errorf("the archive says where and when it was made: %q %v", zr.Name, zr.ModTime)
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s belongs to %d %q", h.Name, h.Uid, h.Uname)
		}
		add(h.Name, fs.FileMode(h.Mode), h.ModTime, tr)
	}
}

func TestTheSameCommitGivesTheSameBytes(t *testing.T) {
	longtest.Only(t, "two releases are built")
	target := runtime.GOOS + "/" + runtime.GOARCH
	release := func(dir string) (out string) {
		t.Helper()
		out = t.TempDir()
		t.Chdir(dir)
		if err := run(t.Context(), []string{"-out", out, "-version", "v1.2.3", "-targets", target}, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out
	}
	dir := repository(t, small)
	first := release(dir)
	// Elsewhere, with another work tree.
	other := repository(t, small)
	for name, text := range map[string]string{"README.md": "changed", "new.txt": "new"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := release(other)
	sumsOf := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if diff := cmp.Diff(sumsOf(first), sumsOf(second)); diff != "" || strings.Count(sumsOf(first), "\n") != 2 {
		t.Errorf("the sums of two releases:\n%s%s", sumsOf(first), diff)
	}
	for line := range strings.Lines(sumsOf(first)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got, err := sumOf(filepath.Join(first, name)); err != nil || fmt.Sprintf("%x", got) != sum {
			t.Errorf("%s: %x, %v", line, got, err)
		}
	}

	root := fmt.Sprintf("lingserve_v1.2.3_%s_%s", runtime.GOOS, runtime.GOARCH)
	ext := ".tar.gz"
	if runtime.GOOS == "windows" {
		ext = ".zip"
	}
	files := contents(t, filepath.Join(first, root+ext))
	for name, want := range map[string]string{
		"LICENSE": "644 ours\n", "README.md": "644 read me\n", "lingserve.yaml.example": "644 addr: :1\n", "deploy/lingserve.yaml": "644 addr: :1\n",
		"docs/operate.md": "644 docs\n", "workflows/chat.yaml": "644 name: chat\n", "CHANGELOG.md": "644 changes\n",
	} {
		if got := files[root+"/"+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name := range files {
		if strings.HasSuffix(name, ".go") {
			t.Errorf("%s is given out", name)
		}
	}
	for _, want := range []string{"@preact/x 1.2.3\nMIT\n", "y 4.5.6\nISC\n", "std " + strings.TrimPrefix(runtime.Version(), "go") + "\nBSD-3-Clause\n"} {
		if !strings.Contains(files[root+"/THIRD_PARTY_LICENSES.txt"], want) {
			t.Errorf("the licences lack %q", want)
		}
	}
	outside, err := os.ReadFile(filepath.Join(first, root+".cdx.json"))
	if err != nil || "644 "+string(outside) != files[root+"/sbom.cdx.json"] {
		t.Errorf("the bill beside the archive is another one, %v", err)
	}
	checkBill(t, outside)

	// The binary knows what it is, and says nothing of where it was made.
	name := "lingserve"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	mode, binary, _ := strings.Cut(files[root+"/"+name], " ")
	if mode != "755" || strings.Contains(binary, dir) || strings.Contains(binary, os.TempDir()+"/lingserve-release") {
		t.Errorf("the binary's mode is %s, or it says where it was made", mode)
	}
	c, err := describe(t.Context(), dir, "HEAD", "")
	if err != nil {
		t.Fatal(err)
	}
	binPath := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(binPath, []byte(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(binPath).CombinedOutput()
	if want := "v1.2.3 " + c.commit + " 2026-01-02T03:04:05Z\n"; err != nil || string(said) != want {
		t.Errorf("it says %q, %v, want %q", said, err, want)
	}
}

func TestAReleaseTakesAwayAnEarlierOneAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lingserve_v1_linux_amd64.tar.gz", "SHA256SUMS"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := empty(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(dir); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("%v", err)
	}
}

func TestACommitIsNamedAsGoNamesIt(t *testing.T) {
	dir := repository(t, map[string]string{"x": "y"})
	c, err := describe(t.Context(), dir, "HEAD", "")
	if err != nil || !regexp.MustCompile(`^v0\.0\.0-20260102030405-[0-9a-f]{12}$`).MatchString(c.version) {
		t.Errorf("%+v, %v", c, err)
	}
	if out, err := exec.Command("git", "-C", dir, "tag", "v1.2.3").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c, err = describe(t.Context(), dir, "HEAD", ""); err != nil || c.version != "v1.2.3" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err = describe(t.Context(), dir, "none", ""); err == nil {
		t.Error("there is a commit none")
	}
}

func TestAnArchiveForWindowsIsAZip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.zip")
	files := []file{{name: "b/lingserve.exe", text: []byte("MZ"), mode: 0o755}, {name: "a.txt", text: []byte("text")}}
	if err := writeZip(name, "root", files, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"root/a.txt": "644 text", "root/b/lingserve.exe": "755 MZ"}
	if diff := cmp.Diff(want, contents(t, name)); diff != "" {
		t.Error(diff)
	}
}

func TestLicencesAreTold(t *testing.T) {
	read := func(files fstest.MapFS) part {
		t.Helper()
		p := part{name: "x", version: "v1"}
		if err := p.readLicenses(files); err != nil {
			t.Fatal(err)
		}
		return p
	}
	mit := &fstest.MapFile{Data: []byte("Permission is hereby granted, free of\r\n charge, to any.\nThe above copyright notice and this permission notice shall be")}
	if p := read(fstest.MapFS{"LICENSE.md": mit, "NOTICE": {Data: []byte("by us")}, "license.go": {Data: []byte("package x")}, "main.go": mit}); p.license != "MIT" || len(p.texts) != 2 {
		t.Errorf("%+v", p)
	}
	if p := read(fstest.MapFS{"COPYING": {Data: []byte("Do what you like, but on Mondays.")}}); p.license != "" || len(p.texts) != 1 {
		t.Errorf("%+v", p)
	}
	p := part{name: "x", version: "v1"}
	if err := p.readLicenses(fstest.MapFS{"main.go": mit}); err == nil || err.Error() != "x v1 has no licence in its folder" {
		t.Errorf("what has no licence: %v", err)
	}
	for text, want := range map[string]string{
		"Apache License\nVersion 2.0, January 2004":                                                                    "Apache-2.0",
		"Redistribution and use in source and binary forms … Neither the name of":                                      "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without":                                           "BSD-2-Clause",
		"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is here": "ISC",
		"Mozilla Public License Version 2.0":                                                                           "MPL-2.0",
	} {
		if got := licenseOf(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The server's own bill, of the binary that "make build" makes.
func TestTheServersPartsAreAllInItsBill(t *testing.T) {
	longtest.Only(t, "a release is built")
	if testing.Short() {
		t.Skip("it links the server")
	}
	root := filepath.Join("..", "..")
	binary := filepath.Join(t.TempDir(), "lingserve")
	if _, err := output(t.Context(), root, nil, "go", "build", "-o", binary, command); err != nil {
		t.Fatal(err)
	}
	parts, err := partsOf(t.Context(), root, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	c := commit{"v1.2.3", strings.Repeat("0123456789", 4), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b, err := newBill(c, binary, parts)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	checkBill(t, text)
	for _, want := range []string{"github.com/go-chi/chi/v5", "golang.org/x/crypto", "std", "preact"} {
		i := slices.IndexFunc(b.Components, func(k component) bool { return k.Name == want })
		if i < 0 {
			t.Errorf("%s is missing", want)
		} else if k := b.Components[i]; want != "std" && len(k.Hashes) != 1 {
			t.Errorf("%s has no sum", want)
		}
	}
	for _, k := range b.Components {
		if k.Licenses[0].License.ID == "" {
			t.Errorf("%s has a licence that nobody has looked at: %v", k.Name, k.Licenses)
		}
	}
	if _, err := newBill(c, binary, parts[1:]); err == nil || !strings.Contains(err.Error(), "and its sources") {
		t.Errorf("a part that is not in the list: %v", err)
	}
}

// checkBill holds a bill to what CycloneDX 1.6 asks for, and to references that lead somewhere.
func checkBill(t *testing.T, text []byte) {
	t.Helper()
	var b bill
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Version < 1 {
		t.Errorf("it is %s %s, version %d", b.Format, b.Spec, b.Version)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString(b.Serial) {
		t.Errorf("its number is %s", b.Serial)
	}
	if _, err := time.Parse(time.RFC3339, b.Metadata.Timestamp); err != nil {
		t.Error(err)
	}
	refs := map[string]bool{}
	for _, k := range append([]component{b.Metadata.Component}, b.Components...) {
		if k.Type == "" || k.Name == "" || k.Version == "" || refs[k.Ref] || k.Ref == "" {
			t.Errorf("a part: %+v", k)
		}
		refs[k.Ref] = true
		if !regexp.MustCompile(`^pkg:(golang|npm)/[A-Za-z0-9._~%/-]+@[A-Za-z0-9.+-]+$`).MatchString(k.PURL) {
			t.Errorf("%s is called %s", k.Name, k.PURL)
		}
		for _, h := range k.Hashes {
			if !regexp.MustCompile(`^([0-9a-f]{64}|[0-9a-f]{128})$`).MatchString(h.Content) || h.Alg != "SHA-256" && h.Alg != "SHA-512" {
				t.Errorf("%s has the sum %+v", k.Name, h)
			}
		}
		for _, l := range k.Licenses {
			if (l.License.ID == "") == (l.License.Name == "") {
				t.Errorf("%s has the licence %+v", k.Name, l)
			}
		}
	}
	of := map[string]bool{}
	for _, d := range b.Dependencies {
		if !refs[d.Ref] || of[d.Ref] {
			t.Errorf("dependencies of %s", d.Ref)
		}
		of[d.Ref] = true
		for _, on := range d.DependsOn {
			if !refs[on] {
				t.Errorf("%s depends on %s, which is not there", d.Ref, on)
			}
		}
	}
	if len(of) != len(refs) {
		t.Errorf("%d parts, %d with dependencies", len(refs), len(of))
	}
}
