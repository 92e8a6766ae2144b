package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// report is what a database says of one vulnerability, in the OSV format (https://ossf.github.io/osv-schema/) with what Go's database
// adds to it (https://go.dev/doc/security/vuln/database).
type report struct {
	ID        string     `json:"id"`
	Aliases   []string   `json:"aliases"`
	Summary   string     `json:"summary"`
	Withdrawn string     `json:"withdrawn"`
	Affected  []affected `json:"affected"`
}

type affected struct {
	Package struct {
		Name string `json:"name"` // of a module; "stdlib" and "toolchain" are Go's own
	} `json:"package"`
	Ranges []struct {
		Type   string `json:"type"`
		Events []struct {
			Introduced string `json:"introduced"`
			Fixed      string `json:"fixed"`
		} `json:"events"`
	} `json:"ranges"`
	Specific struct {
		Imports []struct {
			Path    string   `json:"path"`
			Symbols []string `json:"symbols"`
			GOOS    []string `json:"goos"`
			GOARCH  []string `json:"goarch"`
		} `json:"imports"`
	} `json:"ecosystem_specific"`
}

// has says whether a version is in one of the ranges, and which one mends it; "" where none does yet.
func (a *affected) has(version string) (in bool, fixed string) {
	for _, r := range a.Ranges {
		if r.Type != "SEMVER" {
			continue
		}
		since := false // the events are in order
		for _, e := range r.Events {
			switch {
			case e.Introduced == "0" || e.Introduced != "" && compare(version, e.Introduced) >= 0:
				since = true
			case e.Fixed != "" && since:
				if compare(version, e.Fixed) < 0 {
					return true, e.Fixed
				}
				since = false
			}
		}
		if since {
			return true, ""
		}
	}
	return false, ""
}

// database is one in the layout of https://vuln.go.dev, in a folder or in its zip.
type database struct {
	files   fs.FS
	root    string // below which the layout begins
	modules map[string][]string
	Changed string // when it was, as it says itself
}

// open opens a database. close frees it.
func open(name string) (_ *database, closeIt func() error, err error) {
	d := &database{root: ".", modules: map[string][]string{}}
	closeIt = func() error { return nil }
	name = strings.TrimPrefix(name, "file://")
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("there is no database at %s; docs/security.md says where to get one", name)
	}
	if info.IsDir() {
		d.files = os.DirFS(name)
	} else {
		z, err := zip.OpenReader(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s is neither a folder nor a zip: %w", name, err)
		}
		d.files, closeIt = z, z.Close
	}
	if err := d.index(); err != nil {
		_ = closeIt()
		return nil, nil, fmt.Errorf("%s is no database of vulnerabilities of Go: %w", name, err)
	}
	return d, closeIt, nil
}

// index reads what the database says of itself, and which reports there are of which module.
func (d *database) index() error {
	if _, err := fs.Stat(d.files, "index/modules.json"); err != nil {
		// A zip may have all of it in one folder.
		found, err := fs.Glob(d.files, "*/index/modules.json")
		if err != nil || len(found) != 1 {
			return errors.New("it has no index/modules.json")
		}
		d.root = path.Dir(path.Dir(found[0]))
	}
	var about struct{ Modified string }
	if err := d.read("index/db.json", &about); err != nil {
		return err
	}
	d.Changed = about.Modified
	var modules []struct {
		Path  string
		Vulns []struct{ ID string }
	}
	if err := d.read("index/modules.json", &modules); err != nil {
		return err
	}
	for _, m := range modules {
		for _, v := range m.Vulns {
			d.modules[m.Path] = append(d.modules[m.Path], v.ID)
		}
	}
	return nil
}

func (d *database) read(name string, into any) error {
	f, err := d.files.Open(path.Join(d.root, name))
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// reports are those of a module that count.
func (d *database) reports(module string) (list []report, err error) {
	for _, id := range d.modules[module] {
		var r report
		if path.Base(id) != id {
			return nil, fmt.Errorf("%q is no id of a report", id)
		}
		if err := d.read("ID/"+id+".json", &r); err != nil {
			return nil, err
		}
		if r.Withdrawn == "" {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b report) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// compare orders versions by https://semver.org, section 11, with or without the "v" of Go's. What cannot be read comes first: then a
// report counts rather than not.
func compare(a, b string) int {
	a, apre := split(a)
	b, bpre := split(b)
	switch {
	case !readable(a) && readable(b):
		return -1
	case readable(a) && !readable(b):
		return 1
	}
	if c := identifiers(a, b); c != 0 {
		return c
	}
	switch {
	case apre == bpre:
		return 0
	case apre == "": // a release comes behind what led to it
		return 1
	case bpre == "":
		return -1
	}
	return identifiers(apre, bpre)
}

// split leaves out what does not order versions, and takes what stands before a release apart.
func split(version string) (release, pre string) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	release, pre, _ = strings.Cut(version, "-")
	for strings.Count(release, ".") < 2 {
		release += ".0"
	}
	return release, pre
}

// readable says whether a release is numbers with dots between.
func readable(release string) bool {
	for n := range strings.SplitSeq(release, ".") {
		if _, err := strconv.ParseUint(n, 10, 64); err != nil {
			return false
		}
	}
	return true
}

// identifiers compares identifiers that are joined by dots: numbers as numbers, before all others; fewer before more.
func identifiers(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		if as[i] == bs[i] {
			continue
		}
		an, aerr := strconv.ParseUint(as[i], 10, 64)
		bn, berr := strconv.ParseUint(bs[i], 10, 64)
		switch {
		case aerr == nil && berr == nil && an != bn:
			if an < bn {
				return -1
			}
			return 1
		case aerr == nil && berr != nil:
			return -1
		case aerr != nil && berr == nil:
			return 1
		case aerr != nil:
			return strings.Compare(as[i], bs[i])
		}
	}
	return len(as) - len(bs)
}

// goVersion writes a version of Go, as "go1.26.1" or "go1.27rc1 X:nodwarf5", as the database does; "" where it is none.
func goVersion(text string) string {
	text, _, _ = strings.Cut(text, " ")
	text, ok := strings.CutPrefix(text, "go")
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, "-") // of who builds its own
	for _, mark := range []string{"rc", "beta"} {
		if release, n, ok := strings.Cut(text, mark); ok {
			return release + ".0-" + mark + "." + n
		}
	}
	return text
}
