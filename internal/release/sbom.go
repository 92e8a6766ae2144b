package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// bill is a software bill of materials in the form CycloneDX 1.6.
type bill struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp  string      `json:"timestamp"`
	Lifecycles []lifecycle `json:"lifecycles"`
	Component  component   `json:"component"`
}

type lifecycle struct {
	Phase string `json:"phase"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Scope      string     `json:"scope,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licensed `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type licensed struct {
	License license `json:"license"`
}

type license struct {
	ID   string `json:"id,omitempty"`   // of SPDX
	Name string `json:"name,omitempty"` // where it is none of those
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// newBill is the bill of a binary. The binary itself says which modules it has; parts, which were found by asking for the sources, must
// be the same.
func newBill(c commit, binary string, parts []part) (*bill, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	if err := same(info, parts); err != nil {
		return nil, err
	}
	sum, err := sumOf(binary)
	if err != nil {
		return nil, err
	}
	b := &bill{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial: "urn:uuid:" + uuidOf(sum),
		Metadata: metadata{
			Timestamp: c.date.Format(time.RFC3339), Lifecycles: []lifecycle{{"build"}},
			Component: component{
				Type: "application", Name: "lingserve", Version: c.version, PURL: "pkg:golang/" + own + "@" + c.version,
				Hashes:   []hash{{"SHA-256", hex.EncodeToString(sum)}},
				Licenses: []licensed{{license{ID: "Apache-2.0"}}},
			},
		},
	}
	app := &b.Metadata.Component
	app.Ref = app.PURL
	app.Properties = []property{{"lingserve:commit", c.commit}, {"lingserve:go", info.GoVersion}}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			app.Properties = append(app.Properties, property{"lingserve:" + s.Key, s.Value})
		}
	}
	all := dependency{Ref: app.Ref, DependsOn: []string{}}
	for _, p := range parts {
		k := component{Type: "library", Ref: p.purl, Name: p.name, Version: p.version, Scope: "required", PURL: p.purl}
		if p.hash != nil {
			k.Hashes = []hash{*p.hash}
		}
		if p.license != "" {
			k.Licenses = []licensed{{license{ID: p.license}}}
		} else {
			k.Licenses = []licensed{{license{Name: "see THIRD_PARTY_LICENSES.txt"}}}
		}
		b.Components = append(b.Components, k)
		all.DependsOn = append(all.DependsOn, p.purl)
	}
	b.Dependencies = append(b.Dependencies, all)
	for _, p := range parts {
		b.Dependencies = append(b.Dependencies, dependency{Ref: p.purl, DependsOn: append([]string{}, p.requires...)})
	}
	return b, nil
}

// same says whether the modules that a binary names are those of a list, in the same versions.
func same(info *buildinfo.BuildInfo, parts []part) error {
	var inBinary, listed []string
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		inBinary = append(inBinary, m.Path+"@"+m.Version)
	}
	for _, p := range parts {
		if strings.HasPrefix(p.purl, "pkg:golang/") && p.name != "std" {
			listed = append(listed, p.name+"@"+p.version)
		}
	}
	slices.Sort(inBinary)
	slices.Sort(listed)
	if !slices.Equal(inBinary, listed) {
		return fmt.Errorf("the binary has the modules %v, and its sources %v", inBinary, listed)
	}
	if info.GoVersion != runtime.Version() {
		return fmt.Errorf("the binary was built with %s, and this is %s", info.GoVersion, runtime.Version())
	}
	return nil
}

// uuidOf makes an identifier (RFC 9562, version 8) of a binary's sum, so that the same binary has the same bill.
func uuidOf(sum []byte) string {
	h := sha256.Sum256(append([]byte("bill of materials of "), sum...))
	u := h[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// runSBOM prints the bill of a binary that was built from the sources in a folder, with what else is needed to build it there.
func runSBOM(ctx context.Context, args []string, stdout io.Writer) error {
	set := flag.NewFlagSet("sbom", flag.ContinueOnError)
	dir := set.String("dir", ".", "`folder` of the sources that the binary was built from")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return fmt.Errorf("sbom: expected one binary, not %d", set.NArg())
	}
	info, err := buildinfo.ReadFile(set.Arg(0))
	if err != nil {
		return err
	}
	env := os.Environ()
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			env = append(env, s.Key+"="+s.Value)
		}
	}
	c, err := describe(ctx, *dir, "HEAD", "")
	if err != nil {
		return err
	}
	parts, err := partsOf(ctx, *dir, env)
	if err != nil {
		return err
	}
	b, err := newBill(c, set.Arg(0), parts)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}
