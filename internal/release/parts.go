package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// part is something of others that is in the binary: a module, Go's library, or a package of the page at /.
type part struct {
	name     string
	version  string
	purl     string
	hash     *hash
	license  string // SPDX; "" where the texts are none that are known
	texts    []text // its licences and notices
	requires []string
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type text struct{ name, body string }

// own is the module of the binary.
const own = "github.com/lingserve/lingserve"

// partsOf lists the parts of the binary that the sources in a folder build in an environment. Each has the text of a licence; one that
// has none is an error, since nobody may give it away then.
func partsOf(ctx context.Context, src string, env []string) ([]part, error) {
	listed, err := output(ctx, src, env, "go", "list", "-deps", "-json=ImportPath,Imports,Standard,Module", command)
	if err != nil {
		return nil, err
	}
	type pkg struct {
		ImportPath string
		Imports    []string
		Standard   bool
		Module     *struct{ Path, Version, Dir, Sum string }
	}
	modules := map[string]*part{}
	of := map[string]string{} // the module of a package
	var packages []pkg
	for dec := json.NewDecoder(strings.NewReader(listed)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("what go list says: %w", err)
		}
		packages = append(packages, p)
		switch {
		case p.Standard || p.Module == nil:
			of[p.ImportPath] = "std"
		default:
			of[p.ImportPath] = p.Module.Path
			if p.Module.Path == own || modules[p.Module.Path] != nil {
				continue
			}
			m := &part{name: p.Module.Path, version: p.Module.Version, purl: "pkg:golang/" + p.Module.Path + "@" + p.Module.Version, hash: goHash(p.Module.Sum)}
			if err := m.readLicenses(os.DirFS(p.Module.Dir)); err != nil {
				return nil, err
			}
			modules[m.name] = m
		}
	}
	for _, p := range packages {
		m := modules[of[p.ImportPath]]
		for _, imported := range p.Imports {
			if other := modules[of[imported]]; m != nil && other != nil && other != m && !slices.Contains(m.requires, other.purl) {
				m.requires = append(m.requires, other.purl)
			}
		}
	}
	var parts []part
	for _, m := range modules {
		slices.Sort(m.requires)
		parts = append(parts, *m)
	}
	std, err := library(ctx, src, env)
	if err != nil {
		return nil, err
	}
	parts = append(parts, std)
	page, err := pageParts(src)
	if err != nil {
		return nil, err
	}
	parts = append(parts, page...)
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.purl, b.purl) })
	return parts, nil
}

// library is Go's own.
func library(ctx context.Context, src string, env []string) (part, error) {
	root, err := output(ctx, src, env, "go", "env", "GOROOT")
	if err != nil {
		return part{}, err
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	p := part{name: "std", version: version, purl: "pkg:golang/std@" + version}
	return p, p.readLicenses(os.DirFS(strings.TrimSpace(root)))
}

// isLicense are the files that say under what terms code is given, and whom to name.
var isLicense = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// readLicenses reads those in a module's folder.
func (p *part) readLicenses(files fs.FS) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !isLicense.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		body, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return err
		}
		p.texts = append(p.texts, text{e.Name(), string(bytes.TrimSpace(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))))})
		if id := licenseOf(string(body)); id != "" && p.license == "" {
			p.license = id
		}
	}
	if len(p.texts) == 0 {
		return fmt.Errorf("%s %s has no licence in its folder", p.name, p.version)
	}
	return nil
}

// licenseOf tells a usual licence by what stands in no other.
func licenseOf(body string) string {
	words := strings.Join(strings.Fields(strings.ToLower(body)), " ")
	has := func(all ...string) bool {
		return !slices.ContainsFunc(all, func(part string) bool { return !strings.Contains(words, part) })
	}
	switch {
	case has("apache license", "version 2.0, january 2004"):
		return "Apache-2.0"
	case has("mozilla public license", "2.0"):
		return "MPL-2.0"
	case has("permission is hereby granted, free of charge", "the above copyright notice and this permission notice"):
		return "MIT"
	case has("redistribution and use in source and binary forms", "neither the name"):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission to use, copy, modify, and/or distribute this software for any purpose"):
		return "ISC"
	}
	return ""
}

// goHash is the sum of a module as go.sum has it, which is a SHA-256 over the names and sums of its files.
func goHash(sum string) *hash {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	return decoded("SHA-256", encoded, ok)
}

func decoded(alg, encoded string, ok bool) *hash {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) == 0 {
		return nil
	}
	return &hash{alg, hex.EncodeToString(raw)}
}

// pageParts are the packages that the page at / is made with: the build writes their licences beside it, and npm's lock has the rest.
func pageParts(src string) ([]part, error) {
	folder := filepath.Join(src, "web", "playground")
	body, err := os.ReadFile(filepath.Join(folder, "dist", "assets", "notices.txt"))
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(lock, &locked); err != nil {
		return nil, err
	}
	var parts []part
	for _, section := range strings.Split("\n"+string(body), "\n== ")[1:] {
		head, body, _ := strings.Cut(section, "\n")
		m := regexp.MustCompile(`^(\S+) (\S+), (\S+)$`).FindStringSubmatch(head)
		if m == nil {
			return nil, fmt.Errorf("the page's notices have the heading %q; expected a name, a version and a licence", head)
		}
		p := part{name: m[1], version: m[2], license: m[3], texts: []text{{"LICENSE", strings.TrimSpace(body)}}}
		p.purl = "pkg:npm/" + strings.Replace(p.name, "@", "%40", 1) + "@" + p.version
		found := locked.Packages["node_modules/"+p.name]
		if found.Version != p.version {
			return nil, fmt.Errorf("the page has %s %s in it, and its lock %q", p.name, p.version, found.Version)
		}
		integrity, ok := strings.CutPrefix(found.Integrity, "sha512-")
		p.hash = decoded("SHA-512", integrity, ok)
		parts = append(parts, p)
	}
	return parts, nil
}

// notices are the licences of all parts, as those who give the binary away must give them, too.
func notices(parts []part) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Lingserve is given under the licence in LICENSE. The binary has the following of others in it.\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "\n\n%s\n%s %s\n%s\n", strings.Repeat("=", 100), p.name, p.version, cmp.Or(p.license, "see below"))
		for _, t := range p.texts {
			fmt.Fprintf(&b, "\n%s %s\n\n%s\n", strings.Repeat("-", 8), t.name, t.body)
		}
	}
	return b.Bytes()
}
