package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/lingserve/lingserve/api"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
)

// A sample is a fenced code block of a guide.
type sample struct {
	page string // relative to the repository
	line int    // of the first line in the fence
	lang string // after the fence, such as yaml
	mark string // of the comment above it: see marks
	note string // of that comment: a reason, or a command
	text string

	exported []string // NAME=value, by its commands
}

func (s *sample) place(line int) string { return fmt.Sprintf("%s:%d", s.page, s.line+line) }

// marks are what a comment above a block may say, as <!-- sample: parsed: it needs a provider's key -->, and how many blocks of all guides may
// have such a comment. Each but serve needs a reason.
var marks = map[string]int{
	"before": 6,  // the command in the comment runs before those of the block
	"serve":  6,  // this configuration is that of the page's server
	"parsed": 14, // the commands are read and checked, but not run
	"other":  3,  // the YAML is another program's
}

var (
	fence      = regexp.MustCompile("^( *)(`{3,})([^`]*)$")
	markOf     = regexp.MustCompile(`^ *<!-- sample: (\w+)(?:: (.+))? -->$`)
	runID      = regexp.MustCompile(`\b[a-z2-7]{26}\b`)
	secretFile = regexp.MustCompile(`\{file: [^}]+\}`)
	fileName   = regexp.MustCompile(`^(?:#|//|<!--) ([\w./-]+\.\w+)(?: -->)?\n`)
	secretEnv  = regexp.MustCompile(`\{env: (\w+)\}`)
)

// samplesOf reads the fenced blocks of a page.
func samplesOf(t *testing.T, page string) (all []*sample) {
	t.Helper()
	var open *sample
	indent, ticks, above := "", "", ""
	for i, line := range strings.Split(readGuide(t, page), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open = &sample{page: page, line: i + 2, lang: strings.TrimSpace(m[3])}
			indent, ticks = m[1], m[2]
			if mark := markOf.FindStringSubmatch(above); mark != nil {
				open.mark, open.note = mark[1], mark[2]
				if _, ok := marks[open.mark]; !ok || open.mark != "serve" && mark[2] == "" {
					t.Errorf("%s:%d: want one of %v and a reason: %s", page, i, slices.Sorted(maps.Keys(marks)), above)
				}
			}
		case open != nil && m != nil && m[2] == ticks && m[3] == "":
			all = append(all, open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
		if strings.TrimSpace(line) != "" {
			above = line
		}
	}
	if open != nil {
		t.Errorf("%s: the block is not closed", open.place(0))
	}
	return all
}

// guidePages are the README and all pages below docs.
func guidePages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md"}
	root := os.DirFS(repository)
	err := fs.WalkDir(root, "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil || len(pages) < 25 {
		t.Fatalf("found only the pages %q: %v", pages, err)
	}
	return pages
}

// Every code block of the guides is checked by the rule of its language; commands run against a server with the demo model.
func TestEverySampleOfTheGuidesWorks(t *testing.T) {
	routes := contractRoutes(t)
	marked := map[string][]string{}
	for _, page := range guidePages(t) {
		all := samplesOf(t, page)
		for _, s := range all {
			marked[s.mark] = append(marked[s.mark], s.place(-1))
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			g := &guide{t: t, dir: t.TempDir(), routes: routes, ids: map[string]string{}}
			for _, s := range all {
				g.check(s)
			}
		})
	}
	for mark, most := range marks {
		if len(marked[mark]) > most {
			t.Errorf("%d blocks are marked %q, want at most %d: %q", len(marked[mark]), mark, most, marked[mark])
		}
	}
}

// A guide tries the samples of one page in their order, in one folder and with one server.
type guide struct {
	t      *testing.T
	dir    string
	routes []route
	server *process
	env    []string          // variables that the page's configuration names
	ids    map[string]string // the ids that the page shows → those of this server
	flow   string            // the text of the last workflow
	broken string            // the file of a workflow that shows mistakes, until a command has read it
}

func (g *guide) errorf(s *sample, line int, format string, args ...any) {
	g.t.Helper()
	g.t.Errorf("%s: %s", s.place(line), fmt.Sprintf(format, args...))
}

func (g *guide) check(s *sample) {
	if m := fileName.FindStringSubmatch(s.text); m != nil && filepath.IsLocal(m[1]) && s.lang != "go" {
		write(g.t, g.dir, m[1], s.text)
	}
	switch s.lang {
	case "yaml":
		g.yaml(s)
	case "json":
		for dec := json.NewDecoder(strings.NewReader(s.text)); ; {
			var v any
			if err := dec.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				g.errorf(s, 0, "%v", err)
				break
			}
		}
	case "jsonl":
		for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
			if line != "…" && !json.Valid([]byte(line)) {
				g.errorf(s, i, "not JSON: %s", line)
			}
		}
	case "sse":
		for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			cut := strings.HasSuffix(value, "…")
			if line != "" && line != "…" && !slices.Contains([]string{"id", "event", "data", "retry"}, name) || name == "data" && !cut && !json.Valid([]byte(value)) {
				g.errorf(s, i, "not a line of an event: %s", line)
			}
		}
	case "sh":
		g.before(s)
		g.shell(s, 0, s.text, "", false)
	case "console":
		g.before(s)
		g.console(s)
	case "go":
		g.golang(s)
	case "python":
		g.python(s)
	case "js", "jsx", "ts", "html": // tools/web reads them with esbuild
		g.paths(s)
	case "markdown":
		if !strings.HasPrefix(s.text, "---\nname: ") {
			g.errorf(s, 0, "want a skill")
		}
	case "caddyfile":
		if strings.Count(s.text, "{") != strings.Count(s.text, "}") || !strings.Contains(s.text, "reverse_proxy") {
			g.errorf(s, 0, "want a site of Caddy that is a reverse proxy")
		}
	case "text": // what programs print, and drawings
		for i, line := range strings.Split(s.text, "\n") {
			if regexp.MustCompile(`^(\$ |curl |lingserve (serve|run|keys|tape|models|channels|health) [^ ]*$)`).MatchString(line) {
				g.errorf(s, i, "a command belongs into a block of sh or console: %s", line)
			}
		}
	default:
		g.errorf(s, -1, "no rule for blocks of %q; want yaml, json, jsonl, sse, sh, console, go, python, js, jsx, ts, html, caddyfile, markdown or text", s.lang)
	}
}

// before runs the command that a comment has.
func (g *guide) before(s *sample) {
	if s.mark == "before" {
		g.shell(s, -1, s.note, "", false)
	}
}

// yaml reads a workflow, a part of one, or a configuration.
func (g *guide) yaml(s *sample) {
	var top map[string]any
	text := s.text
	part := strings.HasPrefix(text, "  ") // more bots for the workflow above
	if part {
		text = g.flow + text
	}
	if err := yaml.Unmarshal([]byte(text), &top); err != nil {
		g.errorf(s, 0, "%v", err)
		return
	}
	_, isFlow := top["bots"]
	if _, ok := top["events"]; ok && !isFlow {
		text, isFlow = "bots: {outline: {root: article}}\n"+text, true
	}
	switch {
	case s.mark == "other":
	case isFlow:
		name, _ := top["name"].(string)
		_, err := flow.ParseSpec(s.place(0), []byte(text), os.DirFS(g.dir).(fs.ReadFileFS))
		if (err != nil) != (name == "broken") {
			g.errorf(s, 0, "the workflow %q: %v", name, err)
			return
		}
		g.flow = text
		if name == "" {
			return
		}
		write(g.t, g.dir, "workflows/"+name+".yaml", text)
		g.stopServer() // the next command starts one that has it
		if err != nil {
			g.broken = filepath.Join(g.dir, "workflows", name+".yaml")
		}
	default:
		g.config(s, text)
	}
}

// config reads a configuration; the one that is marked is that of the page's server.
func (g *guide) config(s *sample, text string) {
	text = secretFile.ReplaceAllString(text, "{env: IN_A_FILE}")
	if strings.HasPrefix(text, "channels:") { // a part of a configuration that the page shows above
		text = "agents: {assistant: {}, clerk: {}}\n" + text
	}
	env := []string{"IN_A_FILE=sk-1"}
	for _, m := range secretEnv.FindAllStringSubmatch(text, -1) {
		value := "sk-1"
		if strings.HasPrefix(m[1], "HOOK") || strings.HasPrefix(m[1], "SHOP") {
			value = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
		}
		if m[1] == "DATABASE_URL" {
			value = "postgres://db.example.com/lingserve"
		}
		env = append(env, m[1]+"="+value)
	}
	dir := g.dir
	ours := s.mark == "serve" || strings.HasPrefix(text, "# lingserve.yaml\n")
	if !ours {
		dir = g.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	env = append(env, "LINGSERVE_CONFIG="+filepath.Join(dir, "lingserve.yaml"))
	c, err := config.Load(nil, env)
	if err != nil {
		g.errorf(s, 0, "%v", strings.ReplaceAll(err.Error(), filepath.Join(dir, "lingserve.yaml"), "lingserve.yaml"))
		return
	}
	if len(c.Warnings) > 0 && !strings.Contains(text, "base_url: https://dashscope-intl") { // whose keys are in the environment
		g.errorf(s, 0, "warnings: %q", c.Warnings)
	}
	if ours {
		g.env = append(g.env, env...)
		g.stopServer()
	}
}

func (g *guide) stopServer() {
	if g.server != nil {
		g.server.signal(os.Interrupt)
		g.server.wait()
		g.server = nil
	}
}

func (g *guide) base() string {
	if g.server == nil {
		for _, name := range []string{"data", "workspace"} {
			if err := os.MkdirAll(filepath.Join(g.dir, name), 0o700); err != nil {
				g.t.Fatal(err)
			}
		}
		g.server = launchServer(g.t, g.dir, g.env, "--demo-pace", "0", "--grace", "1s", "--addr", "127.0.0.1:0")
	}
	return g.server.base
}

// console tries commands and compares what they print.
func (g *guide) console(s *sample) {
	command, at, shown := "", 0, ""
	flush := func() {
		if command != "" {
			g.shell(s, at, command, shown, true)
		}
		command, shown = "", ""
	}
	lines := strings.Split(s.text, "\n")
	for i := 0; i < len(lines); i++ {
		line, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if command == "" && strings.TrimSpace(line) != "" && s.mark != "parsed" {
				g.errorf(s, i, "want a command behind \"$ \" first: %s", line)
				return
			}
			shown += line + "\n"
			continue
		}
		flush()
		for at = i; strings.HasSuffix(line, `\`) && i+1 < len(lines); i++ {
			line += "\n" + lines[i+1]
		}
		command = line
	}
	flush()
}

// shell tries commands of a POSIX shell as far as guides use them.
func (g *guide) shell(s *sample, at int, text, shown string, compare bool) {
	list, err := readShell(text)
	if err != nil {
		g.errorf(s, at, "%v", err)
		return
	}
	stdin := ""
	for i, c := range list {
		g.t.Helper()
		said := ""
		name := ""
		if len(c.words) > 0 {
			name = c.words[0]
		}
		switch name {
		case "": // assignments
		case "export":
			for _, w := range c.words[1:] {
				if strings.Contains(w, "=") {
					s.exported = append(s.exported, w)
				}
			}
			continue
		case "echo", "printf":
			said = strings.Join(c.words[1:], " ") + "\n"
		case "curl":
			said = g.curl(s, at+c.line, c, s.mark != "parsed", shown)
		case "jq":
			said = g.jq(s, at+c.line, c, stdin)
		case "make":
			g.make(s, at+c.line, c)
		default:
			said = g.program(s, at+c.line, c, stdin)
		}
		for _, w := range c.words {
			if path, ok := strings.CutPrefix(w, "deploy/"); ok {
				if _, err := os.Stat(filepath.Join(repository, "deploy", path)); err != nil {
					g.errorf(s, at+c.line, "%v", err)
				}
			}
		}
		stdin = ""
		if c.pipe {
			stdin = said
		}
		if c.to != "" && filepath.IsLocal(c.to) {
			write(g.t, g.dir, c.to, said)
		} else if compare && i == len(list)-1 && name != "make" && s.mark != "parsed" && strings.TrimSpace(shown) != "" {
			g.compare(s, at+c.line, shown, said)
		}
	}
}

// compare expects that a page shows what was said, and learns which run of this server a run of the page is.
func (g *guide) compare(s *sample, line int, shown, said string) {
	g.t.Helper()
	expectShown(g.t, s.place(line), shown, said)
	a, b := distinct(runID.FindAllString(shown, -1)), distinct(runID.FindAllString(said, -1))
	for i := range min(len(a), len(b)) {
		if i == 0 || len(a) == len(b) {
			g.ids[a[i]] = b[i]
		}
	}
}

func distinct(all []string) (once []string) {
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// programs are those that guides may use and this test does not run.
var programs = strings.Fields("./tools/fuzz.sh brew cat cd cp createdb createuser date docker git go install journalctl kubectl ls mkdir npm npx od ollama " +
	"openssl pg_dump python3 rm rsync sha256sum sleep sudo systemctl tar tee test touch umask")

// program checks a command that is not one of this test's, and lingserve's in any place of it.
func (g *guide) program(s *sample, line int, c *shellCommand, stdin string) string {
	name := c.words[0]
	for i, word := range c.words {
		if filepath.Base(word) != "lingserve" || i+1 == len(c.words) {
			continue
		}
		args := c.words[i+1:]
		switch {
		case i == 0 && s.mark != "parsed":
			return g.lingserve(s, line, c, args, stdin)
		case i == 0 || slices.Contains(commandNames(newRoot(streams{})), args[0]):
			g.understood(s, line, args)
			return ""
		}
	}
	if name != "lingserve" && !slices.Contains(programs, name) {
		g.errorf(s, line, "%q is a program that this test does not know", name)
	}
	if name == "mkdir" {
		for _, w := range c.words[1:] {
			if filepath.IsLocal(w) {
				if err := os.MkdirAll(filepath.Join(g.dir, w), 0o755); err != nil {
					g.errorf(s, line, "%v", err)
				}
			}
		}
	}
	return ""
}

// understood expects that lingserve knows the command, its actions and its flags. Nothing is run.
func (g *guide) understood(s *sample, line int, args []string) {
	g.t.Helper()
	var out, errs bytes.Buffer
	if status := command(append(slices.Clone(args), "--help"), strings.NewReader(""), &out, &errs); status != exitOK {
		g.errorf(s, line, "lingserve %s: %s", strings.Join(args, " "), errs.String())
	}
	if len(args) > 1 && slices.Contains([]string{"keys", "tape", "channels", "models"}, args[0]) && !strings.HasPrefix(args[1], "-") && !strings.Contains(out.String(), args[1]) {
		g.errorf(s, line, "lingserve help %s knows no %s", args[0], args[1])
	}
}

// uncertain is in commands that need a provider or another machine, or of which a page leaves a part out.
var uncertain = regexp.MustCompile(`…|\$|--model|--remote|check`)

// lingserve runs a command; serve only prints its settings. Each command must be understood, and succeed if nothing of it is uncertain and
// the page does not show its error.
func (g *guide) lingserve(s *sample, line int, c *shellCommand, args []string, stdin string) string {
	env, ok := g.environment(s, c, args[0] == "serve")
	if !ok || args[0] == "chat" && stdin == "" {
		g.understood(s, line, args)
		return ""
	}
	args = slices.Clone(args)
	switch args[0] {
	case "serve":
		args = append(args, "--print-config")
	case "run", "chat":
		args = append(args, "--demo-pace", "0")
	case "health":
		env = append(env, "LINGSERVE_ADDR="+strings.TrimPrefix(g.base(), "http://"))
	}
	for i, a := range args {
		if a == "http://127.0.0.1:8080" {
			args[i] = g.base()
		}
	}
	var out bytes.Buffer
	status, err := commandIn(g.dir, env, strings.NewReader(stdin), &out, &out, args...)
	if err != nil {
		g.t.Fatal(err)
	}
	sure := !uncertain.MatchString(strings.Join(append(args, c.assigned...), " ")) && !strings.Contains(s.text, "\nlingserve: ")
	if status == exitUsage || sure && status != exitOK {
		g.errorf(s, line, "lingserve %s: status %d: %s", strings.Join(args, " "), status, &out)
	}
	if g.broken != "" {
		if err := os.Remove(g.broken); err != nil {
			g.t.Error(err)
		}
		g.broken = ""
	}
	return out.String()
}

// environment returns the variables of a command, without providers' keys unless the command only prints them. It is not ok to run a command
// that would reach another machine.
func (g *guide) environment(s *sample, c *shellCommand, prints bool) (env []string, ok bool) {
	for _, kv := range slices.Concat(g.env, s.exported, c.assigned) {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case prints:
		case strings.Contains(value, "://"):
			return nil, false
		case isSetting(name) && !strings.HasPrefix(name, "LINGSERVE_"):
			continue
		}
		env = append(env, kv)
	}
	return env, true
}

func (g *guide) make(s *sample, line int, c *shellCommand) {
	for _, target := range c.words[1:] {
		if !strings.Contains(target, "=") && !strings.Contains(readGuide(g.t, "Makefile"), "\n"+target+":") {
			g.errorf(s, line, "the Makefile has no target %s", target)
		}
	}
}

func (g *guide) jq(s *sample, line int, c *shellCommand, in string) string {
	words := slices.DeleteFunc(slices.Clone(c.words[1:]), func(w string) bool { return w == "-e" })
	if len(words) == 2 {
		text, err := os.ReadFile(filepath.Join(g.dir, words[1]))
		if err != nil {
			g.errorf(s, line, "%v", err)
		}
		in, words = string(text), words[:1]
	}
	if len(words) != 1 || !regexp.MustCompile(`^(\.\w+)+$`).MatchString(words[0]) {
		g.errorf(s, line, "this test's jq knows only paths: %q", c.words)
		return ""
	}
	value := json.RawMessage(in)
	for _, key := range strings.Split(words[0], ".")[1:] {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(value, &o); err != nil {
			g.errorf(s, line, "%v: %s", err, in)
			return ""
		}
		value = o[key]
	}
	var out bytes.Buffer
	if err := json.Indent(&out, value, "", "  "); err != nil {
		g.errorf(s, line, "%v: %s", err, in)
	}
	return out.String()
}

// A route is a resource of the contract.
type route struct {
	path    *regexp.Regexp
	methods []string
}

func contractRoutes(t *testing.T) (all []route) {
	t.Helper()
	var contract struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(api.Contract, &contract); err != nil {
		t.Fatal(err)
	}
	for path, resource := range contract.Paths {
		expr := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		r := route{path: regexp.MustCompile("^" + expr + "$")}
		for method := range resource {
			r.methods = append(r.methods, strings.ToUpper(method))
		}
		all = append(all, r)
	}
	if len(all) < 30 {
		t.Fatalf("the contract has only %d paths", len(all))
	}
	for _, path := range []string{`/metrics`, `/cost`, `/debug/pprof/\w*`} { // of the admin listener
		all = append(all, route{regexp.MustCompile("^" + path + "$"), []string{http.MethodGet}})
	}
	return all
}

func (g *guide) route(method, path string) bool {
	return slices.ContainsFunc(g.routes, func(r route) bool { return r.path.MatchString(path) && slices.Contains(r.methods, method) })
}

// paths expects that each path that code names is one of the contract.
func (g *guide) paths(s *sample) {
	for i, line := range strings.Split(s.text, "\n") {
		for _, m := range regexp.MustCompile("[\"'`](?:http://127\\.0\\.0\\.1:8080)?(/v1/[^\"'`]*)").FindAllStringSubmatch(line, -1) {
			path, _, _ := strings.Cut(regexp.MustCompile(`\$\{.*?\}+\)?\}?`).ReplaceAllString(m[1], "x"), "?")
			if path == "/v1/" || path == "/v1" {
				continue
			}
			if !slices.ContainsFunc(g.routes, func(r route) bool { return r.path.MatchString(path) }) {
				g.errorf(s, i, "the API has no %s", path)
			}
		}
	}
}

// curl checks a request against the contract and sends it, unless the page leaves a part of it out. It returns the answer's body.
func (g *guide) curl(s *sample, line int, c *shellCommand, send bool, shown string) string {
	g.t.Helper()
	method, body, target, head, file := "", "", "", false, ""
	header := http.Header{}
	for args := c.words[1:]; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		value := func() string {
			if len(args) == 0 {
				g.errorf(s, line, "curl: %s needs a value", arg)
				return ""
			}
			v := args[0]
			args = args[1:]
			return v
		}
		switch arg {
		case "-N", "-s", "-sN", "-sS", "-f", "-fsS", "-O", "-sNf":
		case "-i", "-si":
			head = true
		case "-X":
			method = value()
		case "-o":
			file = value()
		case "-H":
			name, text, ok := strings.Cut(value(), ":")
			if !ok {
				g.errorf(s, line, "curl: not a header: %s", name)
			}
			header.Add(name, strings.TrimSpace(text))
		case "-d", "--json", "--data-binary":
			body = value()
			if from, ok := strings.CutPrefix(body, "@"); ok {
				text, err := os.ReadFile(filepath.Join(g.dir, from))
				body, send = string(text), send && err == nil
			} else if arg == "--json" || header.Get("Content-Type") == "application/json" {
				if !json.Valid([]byte(body)) && !strings.Contains(body, "$") {
					g.errorf(s, line, "curl: not JSON: %s", body)
				}
			}
			if arg == "--json" {
				header.Set("Content-Type", "application/json")
				header.Set("Accept", "application/json")
			}
			if method == "" {
				method = http.MethodPost
			}
		default:
			if strings.HasPrefix(arg, "-") || target != "" {
				g.errorf(s, line, "curl: this test does not know %s", arg)
			}
			target = arg
		}
	}
	if method == "" {
		method = http.MethodGet
	}
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil {
		g.errorf(s, line, "%v", err)
		return ""
	}
	switch u.Host {
	case "127.0.0.1:8080", "localhost:8080":
	case "127.0.0.1:9090":
		send = false
	default: // of another program
		if strings.HasSuffix(u.Host, "example.com") && !g.route(method, u.Path) {
			g.errorf(s, line, "the API has no %s %s", method, u.Path)
		}
		return ""
	}
	if !g.route(method, strings.ReplaceAll(u.Path, "…", "x")) {
		g.errorf(s, line, "the API has no %s %s", method, u.Path)
		return ""
	}
	all := strings.Join(c.words, " ")
	if !send || strings.Contains(all, "…") || strings.Contains(all, "$") {
		return ""
	}
	to := g.base() + u.RequestURI()
	for page, id := range g.ids {
		to = strings.ReplaceAll(to, page, id)
		for name := range header {
			header.Set(name, strings.ReplaceAll(header.Get(name), page, id))
		}
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		g.errorf(s, line, "%v", err)
		return ""
	}
	req.Header = header
	res, err := httpClient(g.t).Do(req)
	if err != nil {
		g.errorf(s, line, "%v", err)
		return ""
	}
	defer res.Body.Close()
	var answer []byte
	if waits := strings.Contains(shown, "approval_required"); waits { // the run ends only after the page's next command
		for in := bufio.NewReader(res.Body); err == nil && !bytes.Contains(answer, []byte("approval_required")); {
			var line []byte
			line, err = in.ReadBytes('\n')
			answer = append(answer, line...)
		}
	} else {
		answer, err = io.ReadAll(res.Body)
	}
	refused := strings.TrimSpace(shown) != "" || strings.Contains(s.text, fmt.Sprint(res.StatusCode)) // the page says so
	if err != nil || res.StatusCode >= 400 && !refused || bytes.Contains(answer, []byte(`"status":"failed"`)) && !strings.Contains(s.text, "failed") {
		g.errorf(s, line, "%s %s: %s: %v: %s", method, u.Path, res.Status, err, answer)
	}
	if file != "" && filepath.IsLocal(file) {
		write(g.t, g.dir, file, string(answer))
		return ""
	}
	if head {
		return fmt.Sprintf("HTTP/1.1 %s\n%s", res.Status, headLines(res, s.text)) + string(answer)
	}
	return string(answer)
}

// headLines are the header fields that the page shows.
func headLines(res *http.Response, shown string) (lines string) {
	for line := range strings.Lines(shown) {
		name, _, ok := strings.Cut(line, ": ")
		if value := res.Header.Get(name); ok && value != "" {
			lines += name + ": " + value + "\n"
		}
	}
	if strings.Contains(shown, "\n\n") {
		lines += "\n"
	}
	return lines
}

// golang parses a file, declarations or statements; a whole program must compile.
func (g *guide) golang(s *sample) {
	text := strings.ReplaceAll(s.text, "\t…", "\treturn nil")
	if strings.HasPrefix(text, "package ") || strings.Contains(text, "\npackage ") {
		file := filepath.Join(g.dir, "main.go")
		write(g.t, g.dir, "main.go", text)
		cmd := exec.CommandContext(g.t.Context(), "go", "vet", file)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			g.errorf(s, 0, "go vet: %v: %s", err, out)
		}
		g.paths(s)
		return
	}
	_, err := parser.ParseFile(token.NewFileSet(), s.place(0), "package x\n"+text, 0)
	if err != nil {
		_, err2 := parser.ParseFile(token.NewFileSet(), s.place(0), "package x\nfunc _() {\n"+text+"\n}", 0)
		if err2 != nil {
			g.errorf(s, 0, "neither declarations nor statements of Go: %v; %v", err, err2)
		}
	}
}

// python runs a program against the server, where there is Python.
func (g *guide) python(s *sample) {
	g.paths(s)
	path, err := exec.LookPath("python3")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(g.t.Context(), path, "-c", strings.ReplaceAll(s.text, "http://127.0.0.1:8080", g.base()))
	cmd.Dir = g.dir // other tests change and remove the folder of this process
	if out, err := cmd.CombinedOutput(); err != nil {
		g.errorf(s, 0, "python: %v: %s", err, out)
	}
}
