package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
)

// helpOf runs a command line that prints help.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems strings.Builder
	if status := command(args, nil, &out, &problems); status != exitOK || problems.Len() > 0 {
		t.Fatalf("lingserve %s: status %d: %s", strings.Join(args, " "), status, problems.String())
	}
	return out.String()
}

// Every help text fits on a screen; --all is longer, but not wider. --help and -h print the same as "lingserve help".
func TestHelpFitsOnAScreen(t *testing.T) {
	fits := func(args []string, all bool) {
		text := helpOf(t, args...)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > helpLines && !all {
			t.Errorf("lingserve %s has %d lines:\n%s", strings.Join(args, " "), len(lines), text)
		}
		for _, line := range lines {
			if len([]rune(line)) > helpColumns || strings.TrimRight(line, " ") != line {
				t.Errorf("lingserve %s has a line of %d columns: %q", strings.Join(args, " "), len([]rune(line)), line)
			}
		}
	}
	fits(nil, false)
	fits([]string{"help", "--all"}, true)
	for _, m := range manuals {
		words := strings.Fields(m.name)
		short := append([]string{"help"}, words...)
		fits(short, false)
		fits(append(short, "--all"), true)
		for _, flag := range []string{"--help", "-h", "-help"} {
			if got := helpOf(t, append(words, flag)...); got != helpOf(t, short...) {
				t.Errorf("lingserve %s %s prints\n%s", m.name, flag, got)
			}
		}
		if got := helpOf(t, append(words, "--help", "--all")...); got != helpOf(t, append(short, "--all")...) {
			t.Errorf("lingserve %s --help --all prints\n%s", m.name, got)
		}
		if m.name != "help" && !strings.HasPrefix(helpOf(t, short...), "Usage: lingserve "+m.name) {
			t.Errorf("lingserve help %s is the help of another command", m.name)
		}
	}
}

// Every flag that a command declares is in its help with --all, once.
func TestHelpWithAllShowsEveryFlag(t *testing.T) {
	for command, flags := range declaredFlags(t) {
		help := "\n" + helpOf(t, "help", command, "--all")
		for _, name := range flags {
			shown := 0
			for line := range strings.Lines(help) {
				for _, word := range strings.Fields(line)[:min(2, len(strings.Fields(line)))] {
					if strings.HasPrefix(line, "  -") && word == "--"+name {
						shown++
					}
				}
			}
			if shown != 1 {
				t.Errorf("lingserve help %s --all shows --%s %d times", command, name, shown)
			}
		}
		for _, m := range manuals {
			first, _, _ := strings.Cut(m.name, " ")
			for _, name := range m.common {
				if first == command && !slices.Contains(flags, name) {
					t.Errorf("the help of %s shows --%s, which it does not have", m.name, name)
				}
			}
		}
	}
}

// declaredFlags reads from the sources which flags each command declares, the settings among them.
func declaredFlags(t *testing.T) map[string][]string {
	flags := map[string][]string{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			command, ok := strings.CutSuffix(f.Name.Name, "Command")
			if !ok || command == "help" {
				continue
			}
			flags[command] = nil
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "newFlags" {
					for _, s := range config.Settings() {
						if !strings.HasPrefix(s.Key, "providers.") {
							flags[command] = append(flags[command], s.Flag())
						}
					}
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, _ := method.X.(*ast.Ident)
				switch {
				case of == nil:
				case of.Name == "set" && len(call.Args) > 2:
					for _, arg := range call.Args[:2] {
						if text, ok := arg.(*ast.BasicLit); ok {
							name, _ := strconv.Unquote(text.Value)
							flags[command] = append(flags[command], name)
							break
						}
					}
				}
				return true
			})
		}
	}
	if len(flags) != len(subcommands())-1 || len(flags["run"]) < 80 || len(flags["keys"]) != 6 {
		t.Fatalf("the sources declare %v", flags)
	}
	return flags
}

// DW-16: --all has every setting below the title of its group.
func TestTheHelpOfServeHasGroups(t *testing.T) {
	all := helpOf(t, "help", "serve", "--all")
	for _, s := range config.Settings() {
		if first, _, dotted := strings.Cut(s.Key, "."); dotted && first != "providers" && settingGroups[first] == "" {
			t.Errorf("the settings of %s have no title", first)
		}
	}
	for _, title := range settingGroups {
		if strings.Count(all, "\n\n"+title+":\n") != 1 {
			t.Errorf("--all does not show the title %q once", title)
		}
	}
	for name := range settingLines {
		if !strings.Contains(all, "--"+name) {
			t.Errorf("there is no setting --%s", name)
		}
	}
}

// A wrong command line is one line on stderr, with the nearest name and the help that explains more.
func TestAWrongCommandLineIsOneLine(t *testing.T) {
	for line, want := range map[string]string{
		"serv":                `lingserve: unknown command "serv"; did you mean serve? See lingserve help`,
		"nothing":             `lingserve: unknown command "nothing"; see lingserve help`,
		"help rnu":            `lingserve help: unknown command "rnu"; did you mean run? See lingserve help`,
		"help tape coppy":     `lingserve help tape: unknown action "coppy"; did you mean copy? See lingserve help tape`,
		"help run --al":       `lingserve help: unknown flag --al; did you mean --all? See lingserve help`,
		"help --nope":         `lingserve help: unknown flag --nope; see lingserve help`,
		"run x --fromat=json": `lingserve run: unknown flag --fromat; did you mean --format? See lingserve help run`,
		"serve --adr :80":     `lingserve serve: unknown flag --adr; did you mean --addr? See lingserve help serve`,
		"serve --engine postgres": `lingserve serve: --engine is no setting any more; sessions and runs are in one database: set database (--database) ` +
			`to sqlite:FILE, postgres://user:password@host:5432/database (which replicas share), or memory; see lingserve help serve`,
		"version --x":                 `lingserve version: unknown flag --x; see lingserve help version`,
		"version x":                   `lingserve version: unexpected argument "x"; see lingserve help version`,
		"run x --server":              `lingserve run: --server needs a value; see lingserve help run`,
		"health --timeout soon":       `lingserve health: --timeout: "soon" is no duration; expected one such as 30s or 5m; see lingserve help health`,
		"tape list --limit many":      `lingserve tape: --limit: "many" is no number; expected one such as 20; see lingserve help tape`,
		"parse --strict=perhaps":      `lingserve parse: --strict: "perhaps" is invalid; expected true or false; see lingserve help parse`,
		"channels par":                `lingserve channels: unknown action "par"; did you mean pair? See lingserve help channels`,
		"keys new --nam x":            `lingserve keys: unknown flag --nam; did you mean --name? See lingserve help keys`,
		"models check --qick":         `lingserve models: unknown flag --qick; did you mean --quick? See lingserve help models`,
		"chat --sesion a --agnet b x": `lingserve chat: unknown flag --sesion; did you mean --session? See lingserve help chat`,
	} {
		var out, problems strings.Builder
		if status := command(strings.Fields(line), nil, &out, &problems); status != exitUsage || out.Len() > 0 || problems.String() != want+"\n" {
			t.Errorf("lingserve %s: status %d, %q\ngot  %s\nwant %s", line, status, out.String(), problems.String(), want)
		}
	}
}
