package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
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

	"github.com/goccy/go-yaml"

	"github.com/lingserve/lingserve/api"
	"github.com/lingserve/lingserve/config"
	"github.com/lingserve/lingserve/flow"
)

// A sample is a fenced code block of a guide.
type sample struct {
	page string // relative to the repository
	line int    // of the first line in the fence
	lang string // after the fence, such as yaml
	mark string // of the comment above it: see marks
	note string // of that comment: a reason, or a command
	text string
	env  map[string]string // what its commands export
}

func (s *sample) place(line int) string { return fmt.Sprintf("%s:%d", s.page, s.line+line) }

// marks are what a comment above a block may say, as <!-- sample: parsed: it needs a provider's key -->, and how many blocks of all guides may
// have such a comment. Each but serve needs a reason.
var marks = map[string]int{
	"before":    12, // the command in the comment runs before those of the block
	"serve":     12, // this configuration is that of the page's server
	"parsed":    16, // the commands are read and checked, but not run
	"other":     4,  // the YAML is another program's
	"unchecked": 3,  // nothing is checked
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
	root := os.DirFS(filepath.Join("..", ".."))
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
			d := &deskOfPage{t: t, dir: t.TempDir(), routes: routes, ids: map[string]string{}, page: page}
			for _, s := range all {
				d.check(s)
			}
		})
	}
	for mark, most := range marks {
		if len(marked[mark]) > most {
			t.Errorf("%d blocks are marked %q, want at most %d: %q", len(marked[mark]), mark, most, marked[mark])
		}
	}
}

// deskOfPage tries the samples of one page in their order, in one folder and with one server.
type deskOfPage struct {
	t      *testing.T
	page   string
	dir    string
	routes []route
	server *process
	env    []string          // what the page's configuration and its commands set
	ids    map[string]string // the ids of runs that the page shows → those of this server
	last   string            // the name of the last workflow
	text   string            // its text
	keys   bool              // the server's configuration has keys
}

func (d *deskOfPage) errorf(s *sample, line int, format string, args ...any) {
	d.t.Helper()
	d.t.Errorf("%s: %s", s.place(line), fmt.Sprintf(format, args...))
}

func (d *deskOfPage) check(s *sample) {
	if s.mark == "unchecked" {
		return
	}
	if m := fileName.FindStringSubmatch(s.text); m != nil && filepath.IsLocal(m[1]) && s.lang != "go" {
		write(d.t, d.dir, m[1], s.text)
	}
	switch s.lang {
	case "yaml":
		d.yaml(s)
	case "json":
		for dec := json.NewDecoder(strings.NewReader(s.text)); ; {
			var v any
			if err := dec.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				d.errorf(s, 0, "%v", err)
				break
			}
		}
	case "jsonl":
		for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
			if line != "…" && !json.Valid([]byte(line)) {
				d.errorf(s, i, "not JSON: %s", line)
			}
		}
	case "sse":
		for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			cut := strings.HasSuffix(value, "…")
			if line != "" && line != "…" && !slices.Contains([]string{"id", "event", "data", "retry"}, name) || name == "data" && !cut && !json.Valid([]byte(value)) {
				d.errorf(s, i, "not a line of an event: %s", line)
			}
		}
	case "sh":
		d.before(s)
		d.shell(s, 0, s.text, "", false)
	case "console":
		d.before(s)
		d.console(s)
	case "go":
		d.golang(s)
	case "python":
		d.python(s)
	case "js", "jsx", "ts", "html": // web/build reads them with esbuild
		d.paths(s)
	case "markdown":
		if !strings.HasPrefix(s.text, "---\nname: ") {
			d.errorf(s, 0, "want a skill")
		}
	case "caddyfile":
		if strings.Count(s.text, "{") != strings.Count(s.text, "}") || !strings.Contains(s.text, "reverse_proxy") {
			d.errorf(s, 0, "want a site of Caddy that is a reverse proxy")
		}
	case "text": // what programs print, and drawings
		for i, line := range strings.Split(s.text, "\n") {
			if regexp.MustCompile(`^(\$ |curl |lingserve (serve|run|keys|tape|models|channels|health) [^ ]*$)`).MatchString(line) {
				d.errorf(s, i, "a command belongs into a block of sh or console: %s", line)
			}
		}
	default:
		d.errorf(s, -1, "no rule for blocks of %q; want yaml, json, jsonl, sse, sh, console, go, python, js, jsx, ts, html, caddyfile, markdown or text", s.lang)
	}
}

// before runs the command that a comment has.
func (d *deskOfPage) before(s *sample) {
	if s.mark == "before" {
		d.shell(s, -1, s.note, "", false)
	}
}

// yaml reads a workflow, a part of one, or a configuration.
func (d *deskOfPage) yaml(s *sample) {
	var top map[string]any
	text := s.text
	part := strings.HasPrefix(text, "  ") // more bots for the workflow above
	if part {
		text = d.text + text
	}
	if err := yaml.Unmarshal([]byte(text), &top); err != nil {
		d.errorf(s, 0, "%v", err)
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
		_, err := flow.ParseSpec(s.place(0), []byte(text), os.DirFS(d.dir).(fs.ReadFileFS))
		if (err != nil) != (name == "broken") {
			d.errorf(s, 0, "the workflow %q: %v", name, err)
			return
		}
		d.text = text
		if name != "" {
			d.last = name
			write(d.t, d.dir, "workflows/"+name+".yaml", text)
			d.stopServer() // the next command starts one that has it
		}
	default:
		d.config(s, text)
	}
}

// config reads a configuration; the one that is marked is that of the page's server.
func (d *deskOfPage) config(s *sample, text string) {
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
		env = append(env, m[1]+"="+value)
	}
	dir := d.dir
	ours := s.mark == "serve" || strings.HasPrefix(text, "# lingserve.yaml\n")
	if !ours {
		dir = d.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	set, f := flag.NewFlagSet("guide", flag.ContinueOnError), config.Flags{}
	f.Bind(set)
	if _, _, err := parseFlags(set, []string{"--config", filepath.Join(dir, "lingserve.yaml")}); err != nil {
		d.t.Fatal(err)
	}
	c, err := config.Load(&f, env)
	if err != nil {
		d.errorf(s, 0, "%v", strings.ReplaceAll(err.Error(), filepath.Join(dir, "lingserve.yaml"), "lingserve.yaml"))
		return
	}
	if len(c.Warnings) > 0 && !strings.Contains(text, "base_url: https://dashscope-intl") { // whose keys are in the environment
		d.errorf(s, 0, "warnings: %q", c.Warnings)
	}
	if ours {
		d.env = append(d.env, env...)
		d.keys = strings.Contains(text, "keys_file")
		d.stopServer()
	}
}

func (d *deskOfPage) stopServer() {
	if d.server != nil {
		d.server.signal(os.Interrupt)
		d.server.wait()
		d.server = nil
	}
}

func (d *deskOfPage) base() string {
	if d.server == nil {
		for _, name := range []string{"data", "workspace"} {
			if err := os.MkdirAll(filepath.Join(d.dir, name), 0o700); err != nil {
				d.t.Fatal(err)
			}
		}
		if d.keys {
			if _, err := os.Stat(filepath.Join(d.dir, "keys.txt")); err != nil {
				d.t.Fatalf("%s: the server's configuration has keys, and no command has made any", d.page)
			}
		}
		d.server = startServerWith(d.t, d.dir, d.env, "--demo-pace", "0", "--grace", "1s", "--addr", "127.0.0.1:0")
	}
	return d.server.base
}

// console tries commands and compares what they print.
func (d *deskOfPage) console(s *sample) {
	command, at, shown := "", 0, ""
	flush := func() {
		if command != "" {
			d.shell(s, at, command, shown, true)
		}
		command, shown = "", ""
	}
	lines := strings.Split(s.text, "\n")
	for i := 0; i < len(lines); i++ {
		line, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if command == "" && strings.TrimSpace(line) != "" && s.mark != "parsed" {
				d.errorf(s, i, "want a command behind \"$ \" first: %s", line)
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
func (d *deskOfPage) shell(s *sample, at int, text, shown string, compare bool) {
	if s.env == nil {
		s.env = map[string]string{}
	}
	list, err := readShell(text)
	if err != nil {
		d.errorf(s, at, "%v", err)
		return
	}
	stdin := ""
	for i, c := range list {
		d.t.Helper()
		said := ""
		name := ""
		if len(c.words) > 0 {
			name = c.words[0]
		}
		switch name {
		case "": // assignments
		case "export":
			for _, w := range c.words[1:] {
				if key, value, ok := strings.Cut(w, "="); ok {
					s.env[key] = value
				}
			}
			continue
		case "echo", "printf":
			said = strings.Join(c.words[1:], " ") + "\n"
		case "curl":
			said = d.curl(s, at+c.line, c, s.mark != "parsed", shown)
		case "jq":
			said = d.jq(s, at+c.line, c, stdin)
		case "make":
			d.make(s, at+c.line, c)
		default:
			said = d.program(s, at+c.line, c, stdin)
		}
		for _, w := range c.words {
			if path, ok := strings.CutPrefix(w, "deploy/"); ok {
				if _, err := os.Stat(filepath.Join("..", "..", "deploy", path)); err != nil {
					d.errorf(s, at+c.line, "%v", err)
				}
			}
		}
		stdin = ""
		if c.pipe {
			stdin = said
		}
		if c.to != "" && filepath.IsLocal(c.to) {
			write(d.t, d.dir, c.to, said)
		} else if compare && i == len(list)-1 && name != "make" && s.mark != "parsed" && strings.TrimSpace(shown) != "" {
			d.compare(s, at+c.line, shown, said)
		}
	}
}

// compare expects that a page shows what was said, and learns which run of this server a run of the page is.
func (d *deskOfPage) compare(s *sample, line int, shown, said string) {
	d.t.Helper()
	ok := false
	name := fmt.Sprintf("%s: ", s.place(line))
	mark := d.t.Failed()
	expectShown(d.t, name, shown, said)
	ok = mark || !d.t.Failed()
	a, b := distinct(runID.FindAllString(shown, -1)), distinct(runID.FindAllString(said, -1))
	for i := range min(len(a), len(b)) {
		if ok && (i == 0 || len(a) == len(b)) {
			d.ids[a[i]] = b[i]
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

// program checks a command that is not one of this test's, and lingserve's in any place of it.
func (d *deskOfPage) program(s *sample, line int, c *shellCommand, stdin string) string {
	known := "tar cd sha256sum sudo install systemctl journalctl docker kubectl go createuser createdb cp npm npx cat mkdir ollama openssl date rm rsync pg_dump brew tee umask touch sleep ls git test python3 ./tools/fuzz.sh"
	name := c.words[0]
	for i, word := range c.words {
		if filepath.Base(word) != "lingserve" || i+1 == len(c.words) {
			continue
		}
		args := c.words[i+1:]
		switch {
		case i == 0 && s.mark != "parsed":
			return d.lingserve(s, line, c, args, stdin)
		case i == 0 || slices.ContainsFunc(subcommands(), func(c subcommand) bool { return c.name == args[0] }):
			d.understood(s, line, args)
			return ""
		}
	}
	switch {
	case name == "lingserve" || slices.Contains(strings.Fields(known), name):
	default:
		d.errorf(s, line, "%q is a program that this test does not know", name)
	}
	switch name {
	case "mkdir":
		for _, w := range c.words[1:] {
			if filepath.IsLocal(w) {
				if err := os.MkdirAll(filepath.Join(d.dir, w), 0o755); err != nil {
					d.errorf(s, line, "%v", err)
				}
			}
		}
	case "cat":
		if c.here != "" {
			return c.here
		}
	}
	return ""
}

// understood expects that lingserve knows the command, its actions and its flags. Nothing is run.
func (d *deskOfPage) understood(s *sample, line int, args []string) {
	d.t.Helper()
	var out, errs bytes.Buffer
	if status := command(append(slices.Clone(args), "--help"), strings.NewReader(""), &out, &errs); status != exitOK {
		d.errorf(s, line, "lingserve %s: %s", strings.Join(args, " "), errs.String())
	}
	for _, action := range args[1:] {
		if strings.HasPrefix(action, "-") {
			break
		}
		if slices.Contains([]string{"keys", "tape", "channels", "models"}, args[0]) && !strings.Contains(out.String(), action) {
			d.errorf(s, line, "lingserve help %s knows no %s", args[0], action)
		}
		break
	}
}

// lingserve runs a command. It must be understood; without a provider and a part that the page leaves out it must succeed.
func (d *deskOfPage) lingserve(s *sample, line int, c *shellCommand, args []string, stdin string) string {
	all := strings.Join(append(slices.Clone(c.assigned), args...), " ")
	run := append(slices.Clone(c.assigned), d.env...)
	for key, value := range s.env {
		run = append(run, key+"="+value)
		if args[0] != "serve" && strings.Contains(value, "://") { // of a database or a provider
			d.understood(s, line, args)
			return ""
		}
	}
	sure := !regexp.MustCompile(`…|\$|--model|--remote|check|\bdb\.|\.json$`).MatchString(all)
	switch args[0] {
	case "serve":
		args = append(slices.Clone(args), "--print-config")
	case "chat":
		if stdin == "" {
			d.understood(s, line, args)
			return ""
		}
		args = append(slices.Clone(args), "--demo-pace", "0")
	case "run":
		args = append(slices.Clone(args), "--demo-pace", "0")
	case "health":
		d.base()
	}
	if d.server != nil {
		run = append(run, "LINGSERVE_ADDR="+strings.TrimPrefix(d.server.base, "http://"))
		if args[0] == "serve" {
			run = run[:len(run)-1]
		}
	}
	for i, a := range args {
		if strings.Contains(a, "127.0.0.1:8080") && args[0] != "serve" {
			args[i] = strings.ReplaceAll(a, "http://127.0.0.1:8080", d.base())
		}
	}
	for i, kv := range run { // a provider's key must not reach a provider
		if name, _, _ := strings.Cut(kv, "="); args[0] != "serve" && isSetting(name) && !strings.HasPrefix(name, "LINGSERVE_") {
			run[i] = "NONE=1"
		}
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lingserve", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = d.dir, append(cleanEnvironment(), run...), strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	status := cmd.ProcessState.ExitCode()
	wrong := d.last == "broken" || strings.Contains(s.text, "\nlingserve: ") // which the page shows
	if status == exitUsage || sure && !wrong && err != nil {
		d.errorf(s, line, "lingserve %s: %v: %s", strings.Join(args, " "), err, out)
	}
	if d.last == "broken" {
		d.last = ""
		if err := os.Remove(filepath.Join(d.dir, "workflows", "broken.yaml")); err != nil {
			d.t.Error(err)
		}
	}
	return string(out)
}

func (d *deskOfPage) make(s *sample, line int, c *shellCommand) {
	for _, target := range c.words[1:] {
		if !strings.Contains(target, "=") && !strings.Contains(readGuide(d.t, "Makefile"), "\n"+target+":") {
			d.errorf(s, line, "the Makefile has no target %s", target)
		}
	}
}

func (d *deskOfPage) jq(s *sample, line int, c *shellCommand, in string) string {
	words := slices.DeleteFunc(slices.Clone(c.words[1:]), func(w string) bool { return w == "-e" })
	if len(words) == 2 {
		text, err := os.ReadFile(filepath.Join(d.dir, words[1]))
		if err != nil {
			d.errorf(s, line, "%v", err)
		}
		in, words = string(text), words[:1]
	}
	if len(words) != 1 || !regexp.MustCompile(`^(\.\w+)+$`).MatchString(words[0]) {
		d.errorf(s, line, "this test's jq knows only paths: %q", c.words)
		return ""
	}
	value := json.RawMessage(in)
	for _, key := range strings.Split(words[0], ".")[1:] {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(value, &o); err != nil {
			d.errorf(s, line, "%v: %s", err, in)
			return ""
		}
		value = o[key]
	}
	var out bytes.Buffer
	if err := json.Indent(&out, value, "", "  "); err != nil {
		d.errorf(s, line, "%v: %s", err, in)
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

func (d *deskOfPage) route(method, path string) bool {
	return slices.ContainsFunc(d.routes, func(r route) bool { return r.path.MatchString(path) && slices.Contains(r.methods, method) })
}

// paths expects that each path that code names is one of the contract.
func (d *deskOfPage) paths(s *sample) {
	for i, line := range strings.Split(s.text, "\n") {
		for _, m := range regexp.MustCompile("[\"'`](?:http://127\\.0\\.0\\.1:8080)?(/v1/[^\"'`]*)").FindAllStringSubmatch(line, -1) {
			path, _, _ := strings.Cut(regexp.MustCompile(`\$\{.*?\}+\)?\}?`).ReplaceAllString(m[1], "x"), "?")
			if path == "/v1/" || path == "/v1" {
				continue
			}
			if !slices.ContainsFunc(d.routes, func(r route) bool { return r.path.MatchString(path) }) {
				d.errorf(s, i, "the API has no %s", path)
			}
		}
	}
}

// curl checks a request against the contract and sends it, unless the page leaves a part of it out. It returns the answer's body.
func (d *deskOfPage) curl(s *sample, line int, c *shellCommand, send bool, shown string) string {
	d.t.Helper()
	method, body, target, head, to := "", "", "", false, ""
	header := http.Header{}
	for args := c.words[1:]; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		value := func() string {
			if len(args) == 0 {
				d.errorf(s, line, "curl: %s needs a value", arg)
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
			to = value()
		case "-H":
			name, text, ok := strings.Cut(value(), ":")
			if !ok {
				d.errorf(s, line, "curl: not a header: %s", name)
			}
			header.Add(name, strings.TrimSpace(text))
		case "-d", "--json", "--data-binary":
			body = value()
			if file, ok := strings.CutPrefix(body, "@"); ok {
				text, err := os.ReadFile(filepath.Join(d.dir, file))
				body, send = string(text), send && err == nil
			} else if arg == "--json" || header.Get("Content-Type") == "application/json" {
				if !json.Valid([]byte(body)) && !strings.Contains(body, "$") {
					d.errorf(s, line, "curl: not JSON: %s", body)
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
				d.errorf(s, line, "curl: this test does not know %s", arg)
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
		d.errorf(s, line, "%v", err)
		return ""
	}
	switch u.Host {
	case "127.0.0.1:8080", "localhost:8080":
	case "127.0.0.1:9090":
		send = false
	default: // of another program
		if strings.HasSuffix(u.Host, "example.com") && !d.route(method, u.Path) {
			d.errorf(s, line, "the API has no %s %s", method, u.Path)
		}
		return ""
	}
	if !d.route(method, strings.ReplaceAll(u.Path, "…", "x")) {
		d.errorf(s, line, "the API has no %s %s", method, u.Path)
		return ""
	}
	all := strings.Join(c.words, " ")
	if !send || strings.Contains(all, "…") || strings.Contains(all, "$") {
		return ""
	}
	to0 := d.base() + u.RequestURI()
	for page, id := range d.ids {
		to0 = strings.ReplaceAll(to0, page, id)
		for name := range header {
			header.Set(name, strings.ReplaceAll(header.Get(name), page, id))
		}
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, to0, strings.NewReader(body))
	if err != nil {
		d.errorf(s, line, "%v", err)
		return ""
	}
	req.Header = header
	res, err := client(d.t).Do(req)
	if err != nil {
		d.errorf(s, line, "%v", err)
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
		d.errorf(s, line, "%s %s: %s: %v: %s", method, u.Path, res.Status, err, answer)
	}
	if to != "" && filepath.IsLocal(to) {
		write(d.t, d.dir, to, string(answer))
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
func (d *deskOfPage) golang(s *sample) {
	text := strings.ReplaceAll(s.text, "\t…", "\treturn nil")
	if strings.HasPrefix(text, "package ") || strings.Contains(text, "\npackage ") {
		file := filepath.Join(d.dir, "main.go")
		write(d.t, d.dir, "main.go", text)
		cmd := exec.CommandContext(d.t.Context(), "go", "vet", file)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			d.errorf(s, 0, "go vet: %v: %s", err, out)
		}
		d.paths(s)
		return
	}
	_, err := parser.ParseFile(token.NewFileSet(), s.place(0), "package x\n"+text, 0)
	if err != nil {
		_, err2 := parser.ParseFile(token.NewFileSet(), s.place(0), "package x\nfunc _() {\n"+text+"\n}", 0)
		if err2 != nil {
			d.errorf(s, 0, "neither declarations nor statements of Go: %v; %v", err, err2)
		}
	}
}

// python runs a program against the server, where there is Python.
func (d *deskOfPage) python(s *sample) {
	d.paths(s)
	path, err := exec.LookPath("python3")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(d.t.Context(), path, "-c", strings.ReplaceAll(s.text, "http://127.0.0.1:8080", d.base()))
	if out, err := cmd.CombinedOutput(); err != nil {
		d.errorf(s, 0, "python: %v: %s", err, out)
	}
}

// A shellCommand is a simple command.
type shellCommand struct {
	line     int      // in its text
	assigned []string // NAME=value before the command
	words    []string
	pipe     bool   // its output is the next one's input
	to       string // file that its output goes to
	here     string
}

// readShell splits a text into simple commands: quotes, comments, continued lines, pipes, && and output to a file. Variables stay as they are.
func readShell(text string) (list []*shellCommand, err error) {
	c := &shellCommand{}
	line := 0
	word, has, toFile := "", false, false
	endWord := func() {
		if !has {
			return
		}
		switch {
		case toFile:
			c.to, toFile = word, false
		case len(c.words) == 0 && regexp.MustCompile(`^[A-Za-z_]\w*=`).MatchString(word):
			c.assigned = append(c.assigned, word)
		default:
			c.words = append(c.words, word)
		}
		word, has = "", false
	}
	end := func(pipe bool) {
		endWord()
		c.pipe = pipe
		if len(c.words)+len(c.assigned) > 0 {
			list = append(list, c)
		}
		c = &shellCommand{line: line}
	}
	r := []rune(text)
	for i := 0; i < len(r); i++ {
		switch ch := r[i]; {
		case ch == '\n':
			line++
			end(false)
			c.line = line
		case ch == ' ' || ch == '\t':
			endWord()
		case ch == '#' && !has:
			for i+1 < len(r) && r[i+1] != '\n' {
				i++
			}
		case ch == '\\' && i+1 < len(r):
			i++
			if r[i] == '\n' {
				line++
			} else {
				word, has = word+string(r[i]), true
			}
		case ch == '\'' || ch == '"':
			has = true
			start := line
			for i++; ; i++ {
				if i == len(r) {
					return nil, fmt.Errorf("the quote of line %d is not closed", start+1)
				}
				if r[i] == ch {
					break
				}
				if ch == '"' && r[i] == '\\' && i+1 < len(r) && strings.ContainsRune("\"\\$`\n", r[i+1]) {
					i++
				}
				if r[i] == '\n' {
					line++
				}
				word += string(r[i])
			}
		case ch == '$' && i+1 < len(r) && (r[i+1] == '(' || r[i+1] == '{'):
			open, shut := r[i+1], map[rune]rune{'(': ')', '{': '}'}[r[i+1]]
			has = true
			for depth := 0; ; i++ {
				if i == len(r) {
					return nil, errors.New("a $( or ${ is not closed")
				}
				word += string(r[i])
				if r[i] == open {
					depth++
				} else if r[i] == shut {
					if depth--; depth == 0 {
						break
					}
				}
			}
		case ch == '&' && i+1 < len(r) && r[i+1] == '&':
			i++
			end(false)
		case ch == '|':
			end(true)
		case ch == ';' || ch == '&':
			end(false)
		case ch == '>':
			if i+1 < len(r) && r[i+1] == '>' {
				i++
			}
			if word == "2" {
				word, has = "", false
			}
			endWord()
			toFile = true
		case ch == '<':
			return nil, errors.New("this test does not know < in commands")
		default:
			word, has = word+string(ch), true
		}
	}
	end(false)
	return list, nil
}
