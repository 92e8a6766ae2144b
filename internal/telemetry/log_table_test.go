package telemetry_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "regenerate the table of log messages and keep its last column")

// line is a message of the log.
type line struct {
	message string
	levels  map[string]bool
	at      string // where it is written first
}

// through are functions that hand a message on to the log, as they are called: where the level and the message stand among their
// arguments. Without a level they log at the same each time.
var through = map[string]struct {
	level, message int
	always         string
}{
	"channel.p.log":           {1, 2, ""},
	"channel.o.tell":          {0, 1, ""},
	"channel.p.warn":          {-1, 2, "warn"},
	"channel.p.attempt":       {-1, 2, "warn"},
	"channel.p.attemptLogged": {-1, 1, "warn"},
	"telegram.trouble.warn":   {-1, 1, "warn"},
	"telegram.trouble.over":   {-1, 1, "info"},
	"turns.a.log":             {2, 3, ""},
	"turns.agent.log":         {2, 3, ""},
	"turn.t.log":              {1, 2, ""},
	"bot..Internal":           {-1, 2, "error"},
	"ling.bot.Internal":       {-1, 2, "error"},
}

// hands are the functions that do so: in them a message is no constant. SlogObserver says what the kernel of channels says.
var hands = map[string]bool{
	"channel.log": true, "channel.tell": true, "channel.warn": true, "channel.attempt": true, "channel.attemptLogged": true,
	"channel.Observe": true, "telegram.warn": true, "telegram.over": true, "turns.log": true, "turn.log": true, "bot.Internal": true,
}

// observed are messages that stand in no call: those of SlogObserver. Beside them it logs the warnings of the kernel.
var observed = map[string]string{
	"turn": "debug", "turn canceled": "info", "turn not answered": "info", "turn refused": "warn",
	"turn stage failed": "error", "message denied": "info",
}

// logging are the packages in internal that log for operators.
var logging = map[string]bool{"admin": true, "config": true, "https": true, "telemetry": true}

// collectLines finds what the program can log, in the files that are part of it.
func collectLines(t *testing.T) map[string]*line {
	t.Helper()
	root := "../.."
	lines := map[string]*line{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(name, ".") && path != root || name == "testdata" || name == "node_modules" || name == "bench" ||
			name == "examples" || name == "tools" || filepath.Dir(path) == filepath.Join(root, "internal") && !logging[name] || name == "adaptertest" || strings.HasSuffix(name, "test")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				readFunc(t, set, f.Name.Name, fn, lines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func readFunc(t *testing.T, set *token.FileSet, pkg string, fn *ast.FuncDecl, lines map[string]*line) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		level, message := logged(pkg, call)
		if message == nil {
			return true
		}
		at := set.Position(call.Pos())
		where := fmt.Sprintf("%s:%d", filepath.ToSlash(strings.TrimPrefix(at.Filename, filepath.FromSlash("../../"))), at.Line)
		lit, ok := message.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			if !hands[pkg+"."+fn.Name.Name] {
				t.Errorf("%s: the message of a log line is not a constant", where)
			}
			return true
		}
		text, _ := strconv.Unquote(lit.Value)
		l := lines[text]
		if l == nil {
			l = &line{message: text, levels: map[string]bool{}, at: where}
			lines[text] = l
		}
		l.levels[level] = true
		return true
	})
}

// logged returns the level and the message of a call that logs; no message where it does not.
func logged(pkg string, call *ast.CallExpr) (level string, message ast.Expr) {
	arg := func(i int) ast.Expr {
		if i < 0 || i >= len(call.Args) {
			return nil
		}
		return call.Args[i]
	}
	name, on := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		switch x := f.X.(type) {
		case *ast.Ident:
			on = x.Name
		case *ast.SelectorExpr:
			on = x.Sel.Name
		}
	}
	if strings.EqualFold(on, "log") {
		switch name {
		case "Debug", "Info", "Warn", "Error":
			return strings.ToLower(name), arg(0)
		case "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
			return strings.ToLower(strings.TrimSuffix(name, "Context")), arg(1)
		case "LogAttrs", "Log":
			return levelOf(arg(1)), arg(2)
		}
		return "", nil
	}
	if h, ok := through[pkg+"."+on+"."+name]; ok {
		if h.level < 0 {
			return h.always, arg(h.message)
		}
		return levelOf(arg(h.level)), arg(h.message)
	}
	return "", nil
}

func levelOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Level") {
		return strings.ToLower(strings.TrimPrefix(s.Sel.Name, "Level"))
	}
	return byCode
}

// The tables of what the program logs, one for each level, are between these lines of the guide. People write the last column.
const (
	guide      = "../../docs/operate/log.md"
	tableBegin = "<!-- log lines: written by go test ./internal/telemetry -run TestTheGuideHasEveryLineOfTheLog -update; write the last column by hand, or leave it out -->"
	tableEnd   = "<!-- end of log lines -->"
	byCode     = "by its code"
)

// order is that of levels in the table.
var order = []string{byCode, "error", "warn", "info", "debug"}

// headings are those of the levels' tables.
var headings = map[string]string{
	byCode: "The level follows the code", "error": "Errors", "warn": "Warnings", "info": "Info", "debug": "Debug",
}

// level returns the first of the levels that the message has.
func (l *line) level() string {
	for _, level := range order {
		if l.levels[level] {
			return level
		}
	}
	return ""
}

// The guide lists each message of the log. A new one gets a ? until a person says what to do, or removes the ? because the message says
// everything (FT, SE-06: an operator acts on what the log says).
func TestTheGuideHasEveryLineOfTheLog(t *testing.T) {
	lines := collectLines(t)
	for message, level := range observed {
		lines[message] = &line{message: message, levels: map[string]bool{level: true}, at: "channel/slog.go"}
	}
	if len(lines) < 100 {
		t.Fatalf("found only %d messages: the test does not see the log calls", len(lines))
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin+"\n")
	table, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table: %s", guide, tableBegin)
	}
	meanings := map[string]string{}
	for one := range strings.Lines(table) {
		message, meaning, _ := strings.Cut(strings.TrimSpace(one), " | ")
		meanings[message] = meaning
	}
	list := slices.SortedFunc(maps.Values(lines), func(a, b *line) int {
		return cmp.Or(slices.Index(order, a.level())-slices.Index(order, b.level()), cmp.Compare(a.message, b.message))
	})
	var b strings.Builder
	section := ""
	for _, l := range list {
		if l.level() != section {
			section = l.level()
			fmt.Fprintf(&b, "\n### %s\n\nmessage | what follows, what to do\n---|---\n", headings[section])
		}
		meaning, known := meanings[l.message]
		if !known || meaning == "?" {
			meaning = "?"
			t.Errorf("%s logs %q: replace the ? in %s with what to do, or remove it if the message says everything", l.at, l.message, guide)
		}
		row := l.message
		if meaning != "" {
			row += " | " + meaning
		}
		b.WriteString(row + "\n")
	}
	b.WriteString("\n")
	if table == b.String() {
		return
	}
	if *update {
		if err := os.WriteFile(guide, []byte(before+tableBegin+"\n"+b.String()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table in %s is not up to date: run go test ./internal/telemetry -run TestTheGuideHasEveryLineOfTheLog -update", guide)
	want := map[string]bool{}
	for one := range strings.Lines(b.String()) {
		want[one] = true
	}
	for one := range strings.Lines(table) {
		if !want[one] {
			t.Logf("too much or other: %s", one)
		}
		delete(want, one)
	}
	for one := range want {
		t.Logf("missing: %s", one)
	}
}
