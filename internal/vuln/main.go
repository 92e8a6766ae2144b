// Vuln looks up in a database of known vulnerabilities what a program is made of. It needs no network, and takes the database of
// https://vuln.go.dev as a folder or as its zip:
//
//	go run ./internal/vuln -db vulndb.zip bin/lingserve
//
// For each report that is about the version of a module in the program, or of Go itself, it says what is wrong, which version mends
// it, and whether the program has the code in question. Its status is 1 if it has, 2 if it could not be found out.
//
// It is for machines that reach nothing; where something can be reached, govulncheck follows the calls as well.
package main

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("vuln", flag.ContinueOnError)
	set.SetOutput(stderr)
	db := set.String("db", "", "the database: a folder, a zip or a file: address")
	set.Usage = func() {
		fmt.Fprintln(stderr, "usage: vuln -db DATABASE PROGRAM")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return 2
	}
	if *db == "" || set.NArg() != 1 {
		set.Usage()
		return 2
	}
	found, err := check(*db, set.Arg(0), stdout)
	if err != nil {
		fmt.Fprintln(stderr, "vuln:", err)
		return 2
	}
	if found {
		return 1
	}
	return 0
}

// program is what can be known of one from its file.
type program struct {
	modules      []module
	goos, goarch string
	text         []byte // all of the file
}

type module struct{ path, version string }

// openProgram reads a program that Go has built.
func openProgram(name string) (*program, error) {
	info, err := buildinfo.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s is no program that Go has built: %w", name, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return newProgram(info, text), nil
}

func newProgram(info *buildinfo.BuildInfo, text []byte) *program {
	p := &program{text: text}
	if v := goVersion(info.GoVersion); v != "" {
		p.modules = append(p.modules, module{"stdlib", v})
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			p.modules = append(p.modules, module{m.Path, m.Version})
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			p.goos = s.Value
		case "GOARCH":
			p.goarch = s.Value
		}
	}
	return p
}

// has says how much of what a report is about the program has: "" is nothing. The names of all functions stand in a program, also of
// those that were inlined and in one without its symbols; another text that looks like such a name only makes a report count that
// would not need to.
func (p *program) has(a *affected) string {
	if len(a.Specific.Imports) == 0 {
		return "the module"
	}
	how := ""
	for _, i := range a.Specific.Imports {
		if len(i.GOOS) > 0 && p.goos != "" && !slices.Contains(i.GOOS, p.goos) ||
			len(i.GOARCH) > 0 && p.goarch != "" && !slices.Contains(i.GOARCH, p.goarch) || !bytes.Contains(p.text, []byte(i.Path+".")) {
			continue
		}
		if len(i.Symbols) == 0 {
			how = "the package " + i.Path
			continue
		}
		for _, symbol := range i.Symbols {
			for _, name := range spellings(i.Path, symbol) {
				if bytes.Contains(p.text, []byte(name)) {
					return name
				}
			}
		}
	}
	return how
}

// spellings are the names that a symbol of a report, as Decode or Decoder.Decode, may have in a program.
func spellings(pkg, symbol string) []string {
	names := []string{pkg + "." + symbol}
	if t, method, ok := strings.Cut(symbol, "."); ok {
		names = append(names, pkg+".(*"+t+")."+method)
	}
	return names
}

// check writes what the database knows of a program. found says that the program has some of it.
func check(db, name string, out io.Writer) (found bool, err error) {
	d, closeIt, err := open(db)
	if err != nil {
		return false, err
	}
	defer closeIt()
	p, err := openProgram(name)
	if err != nil {
		return false, err
	}
	return p.check(d, out)
}

func (p *program) check(d *database, out io.Writer) (found bool, err error) {
	count := 0
	for _, m := range p.modules {
		reports, err := d.reports(m.path)
		if err != nil {
			return false, err
		}
		for _, r := range reports {
			for _, a := range r.Affected {
				if a.Package.Name != m.path {
					continue
				}
				in, fixed := a.has(m.version)
				if !in {
					continue
				}
				count++
				how := p.has(&a)
				mended := "no version mends it yet"
				if fixed != "" {
					mended = "mended in " + fixed
				}
				switch how {
				case "":
					how = "the program has none of it"
				default:
					how = "the program has " + how
					found = true
				}
				fmt.Fprintf(out, "%s %s@%s: %s; %s\n    %s %s\n", r.ID, m.path, m.version, mended, how, r.Summary, strings.Join(r.Aliases, " "))
			}
		}
	}
	fmt.Fprintf(out, "%d modules, %d reports are about them; the database is of %s\n", len(p.modules), count, d.Changed)
	return found, nil
}
