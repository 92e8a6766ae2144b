package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// reports of a small database. Their names are those that the tests of it are about.
var files = map[string]string{
	"index/db.json": `{"modified":"2026-11-22T00:00:00Z"}`,
	"index/modules.json": `[
		{"path":"example.com/a","vulns":[{"id":"GO-1","modified":"2026-01-01T00:00:00Z","fixed":"1.2.3"},{"id":"GO-2"},{"id":"GO-3"},{"id":"GO-4"},{"id":"GO-5"}]},
		{"path":"stdlib","vulns":[{"id":"GO-6"}]}]`,
	"ID/GO-1.json": `{"id":"GO-1","summary":"A symbol.","aliases":["CVE-1"],"affected":[{"package":{"name":"example.com/a","ecosystem":"Go"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"1.2.3"}]}],
		"ecosystem_specific":{"imports":[{"path":"example.com/a/p","symbols":["Decoder.Decode","Read"]}]}}]}`,
	"ID/GO-2.json": `{"id":"GO-2","summary":"Came back.","affected":[{"package":{"name":"example.com/a"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"1.0.0"},{"introduced":"1.1.0"},{"fixed":"1.4.0"}]}],
		"ecosystem_specific":{"imports":[{"path":"example.com/a/q"}]}}]}`,
	"ID/GO-3.json": `{"id":"GO-3","summary":"Withdrawn.","withdrawn":"2026-01-01T00:00:00Z","affected":[{"package":{"name":"example.com/a"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}]}]}`,
	"ID/GO-4.json": `{"id":"GO-4","summary":"Elsewhere.","affected":[{"package":{"name":"example.com/a"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"example.com/a/p","goos":["windows"]}]}},{"package":{"name":"example.com/b"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}]}]}`,
	"ID/GO-5.json": `{"id":"GO-5","summary":"The module.","affected":[{"package":{"name":"example.com/a"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"2.0.0-rc.1"}]}]}]}`,
	"ID/GO-6.json": `{"id":"GO-6","summary":"Go.","affected":[{"package":{"name":"stdlib"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"1.26.0-0"},{"fixed":"1.26.2"}]}],
		"ecosystem_specific":{"imports":[{"path":"net/http","symbols":["Server.Serve"]}]}}]}`,
}

// folder writes the database, below a folder of it.
func folder(t *testing.T, below string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, below, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zipped writes it as a zip.
func zipped(t *testing.T, below string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "vulndb.zip")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range files {
		w, err := z.Create(below + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAProgramIsLookedUp(t *testing.T) {
	for _, row := range []struct {
		name, version, goVersion, text string
		replaced                       *debug.Module
		found                          bool
		says                           []string // and no other ids
	}{
		{name: "the code is there", version: "v1.2.2", text: "\x00example.com/a/p.(*Decoder).Decode\x00", found: true, says: []string{"GO-1", "mended in 1.2.3", "CVE-1", "has example.com/a/p.(*Decoder).Decode", "GO-2", "GO-4", "none of it"}},
		{name: "a function is there", version: "v1.2.2", text: "\x00example.com/a/p.Read\x00", found: true, says: []string{"GO-1", "GO-2", "GO-4"}},
		{name: "the package is there, the code is not", version: "v1.2.2", text: "\x00example.com/a/p.Write\x00", says: []string{"GO-1", "GO-2", "GO-4"}},
		{name: "a package of another name is there", version: "v1.2.2", text: "\x00example.com/a/pq.Read\x00", says: []string{"GO-1", "GO-2", "GO-4"}},
		{name: "a version before a release", version: "v1.2.3-0.20260101000000-abcdefabcdef", text: "\x00example.com/a/p.Read\x00", found: true, says: []string{"GO-1", "GO-2", "GO-4"}},
		{name: "mended", version: "v1.2.3", text: "\x00example.com/a/p.Read\x00", says: []string{"GO-2", "GO-4"}},
		{name: "came back", version: "v1.3.9", text: "\x00example.com/a/q.Read\x00", found: true, says: []string{"GO-2", "mended in 1.4.0", "the package example.com/a/q", "GO-4"}},
		{name: "between", version: "v1.0.5", text: "", says: []string{"GO-1", "GO-4"}},
		{name: "the whole module", version: "v2.0.0+incompatible", text: "", found: true, says: []string{"GO-4", "GO-5", "no version mends it"}},
		{name: "before it came", version: "v2.0.0-beta.9", text: "", says: []string{"GO-4"}},
		{name: "another module", version: "v1.0.0", replaced: &debug.Module{Path: "example.com/c", Version: "v1.0.0"}},
		{name: "another version", version: "v1.0.0", replaced: &debug.Module{Path: "example.com/a", Version: "v1.2.4"}, says: []string{"GO-2", "GO-4"}},
		{name: "Go itself", version: "v9.0.0", goVersion: "go1.26.1", text: "\x00net/http.(*Server).Serve\x00", replaced: &debug.Module{Path: "example.com/c", Version: "v1.0.0"}, found: true, says: []string{"GO-6", "stdlib@1.26.1"}},
		{name: "Go before a release", goVersion: "go1.26rc2 X:nodwarf5", version: "v1", replaced: &debug.Module{Path: "c", Version: "v1"}, text: "net/http.(*Server).Serve", found: true, says: []string{"GO-6"}},
		{name: "Go, mended", version: "v9.0.0", goVersion: "go1.26.2-custom", text: "\x00net/http.(*Server).Serve\x00", replaced: &debug.Module{Path: "example.com/c", Version: "v1.0.0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, closeIt, err := open(folder(t, ""))
			if err != nil {
				t.Fatal(err)
			}
			defer closeIt()
			p := newProgram(&debug.BuildInfo{
				GoVersion: row.goVersion, Main: debug.Module{Path: "example.com/main", Version: "(devel)"},
				Deps:     []*debug.Module{{Path: "example.com/a", Version: row.version, Replace: row.replaced}},
				Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"}},
			}, []byte(row.text))
			var out bytes.Buffer
			found, err := p.check(d, &out)
			if err != nil || found != row.found {
				t.Errorf("found %v, %v:\n%s", found, err, &out)
			}
			for _, says := range row.says {
				if !strings.Contains(out.String(), says) {
					t.Errorf("it does not say %q:\n%s", says, &out)
				}
			}
			for i := range 6 {
				id := "GO-" + string(rune('1'+i))
				if strings.Contains(out.String(), id+" ") != strings.Contains(strings.Join(row.says, " ")+" ", id+" ") {
					t.Errorf("it says otherwise of %s:\n%s", id, &out)
				}
			}
		})
	}
}

// The program that runs this test is one that Go has built, with modules.
func TestARealProgramIsReadFromAnyDatabase(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]string{
		"a folder": folder(t, ""), "an address": "file://" + folder(t, ""), "a zip": zipped(t, ""), "a zip with a folder": zipped(t, "vulndb/"), "a folder with one": folder(t, "v1"),
	} {
		var out, complaint bytes.Buffer
		if status := run([]string{"-db", db, self}, &out, &complaint); status > 1 || !strings.Contains(out.String(), "2026-11-22") {
			t.Errorf("%s: %d\n%s%s", name, status, &out, &complaint)
		}
	}
}

func TestWhatCannotBeFoundOutIsSaid(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	broken := folder(t, "")
	if err := os.WriteFile(filepath.Join(broken, "index/modules.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args []string
		says string
	}{
		"nothing asked":      {nil, "usage"},
		"no program":         {[]string{"-db", "x"}, "usage"},
		"no database":        {[]string{"-db", filepath.Join(broken, "nothing"), self}, "docs/security.md"},
		"no folder or zip":   {[]string{"-db", filepath.Join(broken, "ID/GO-1.json"), self}, "neither a folder nor a zip"},
		"an empty folder":    {[]string{"-db", t.TempDir(), self}, "it has no index/modules.json"},
		"an index of others": {[]string{"-db", broken, self}, "modules.json"},
		"not a program":      {[]string{"-db", folder(t, ""), filepath.Join(broken, "ID/GO-1.json")}, "is no program that Go has built"},
	} {
		var out, complaint bytes.Buffer
		if status := run(row.args, &out, &complaint); status != 2 || !strings.Contains(complaint.String(), row.says) {
			t.Errorf("%s: %d %s%s", name, status, &out, &complaint)
		}
	}
}

// The order of https://semver.org, section 11, and of Go's pseudo-versions.
func TestVersionsAreOrdered(t *testing.T) {
	list := []string{
		"0.0.0", "v0.0.1", "0.9.9", "1.0.0-0", "1.0.0-0.20260101000000-abcdefabcdef", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1", "1.0.1-0.20260101000000-abcdefabcdef", "1.0.1", "1.2", "1.10.0", "v2.0.0+incompatible", "18446744073709551615.0.0",
	}
	for i, a := range list {
		for j, b := range list {
			if got := compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]string{{"1", "v1.0.0"}, {"1.2.3+a", "1.2.3+b"}, {"2.0.0", "v2.0.0+incompatible"}} {
		if compare(same[0], same[1]) != 0 {
			t.Errorf("%q differ", same)
		}
	}
}

// A version that nobody can order has all that was mended at some time: rather too much is said than too little.
func TestAVersionThatCannotBeReadCountsAsTheOldest(t *testing.T) {
	var r report
	if err := json.Unmarshal([]byte(files["ID/GO-1.json"]), &r); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"devel", "v1.x.0", "", "99999999999999999999.0.0"} {
		if in, fixed := r.Affected[0].has(version); !in || fixed != "1.2.3" {
			t.Errorf("%q: %v %q", version, in, fixed)
		}
	}
}
