package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/config"
)

// Help fits on a screen of 24 lines with 80 columns. Only "--all" may be longer; its lines have 80 columns, too.
const (
	helpLines   = 24
	helpColumns = 80
)

// manual is the help of a command, or of one of its actions.
type manual struct {
	name     string // such as "run", or "tape copy" for an action
	args     string // what follows the name
	summary  string // for the list of commands or actions
	about    string
	examples string
	common   []string // the flags to show without --all, by their long names
	more     string   // what only --all shows
}

// manuals has the help of all commands, in the order of the overview; the actions of a command follow it.
var manuals = []manual{
	{
		name: "serve", args: "[FLAGS]", summary: "serve workflows and agents over HTTP",
		about: `
Serves workflows and agents over HTTP until SIGTERM or Ctrl-C. Running work then
has a grace period to finish; a second signal stops the server at once. SIGHUP
reloads workflows, API keys, certificates and the access rules of channels.
`,
		common: []string{
			"addr", "workflows", "watch", "model", "data", "config", "auth-keys-file", "tls-cert", "tls-key", "admin-addr", "engine", "log-level",
			"print-config",
		},
	},
	{
		name: "run", args: "WORKFLOW [FLAGS]", summary: "run a workflow in this process or on a server",
		about: `
Runs a workflow and shows its result while it grows.
`,
		examples: `
lingserve run encyclopedia --input "Why is the sky blue?"
lingserve run encyclopedia -i question="Why?" -o json | jq .result
lingserve run chat -i '{"message": "Hello"}' --server http://127.0.0.1:8080
`,
		common: []string{"input", "format", "model", "option", "param", "server"},
		more: `
The format text writes to a file or a pipe only when a text is complete. The
exit status is 1 if the run fails, and 130 if Ctrl-C cancels it.
`,
	},
	{
		name: "chat", args: "[FLAGS]", summary: "talk with an agent in the terminal",
		about: `
Talks with an agent in the terminal and shows its answer while it grows. You can
add to a question while the agent answers. Ctrl-C cancels the answer, Ctrl-D or
,quit ends the chat, and ,help lists the commands. Without a terminal, each line
of standard input is a message. The exit status is 1 if an answer fails.
`,
		examples: `
lingserve chat --session holidays
echo "Why is the sky blue?" | lingserve chat
`,
		common: []string{"agent", "session", "model", "data"},
		more: `
The session is stored in the data folder, if there is one. A server may use the
folder at the same time. "lingserve tape show cli:main" shows the session.
`,
	},
	{
		name: "models", args: "[check [MODEL...]] [FLAGS]", summary: "list models, or check that they work",
		about: `
Lists the models of your configuration and of your workflows, with their prices
in dollars per million tokens. Built-in prices are estimates.
`,
		examples: `
lingserve models                         list the configured models
lingserve models --remote                list what the providers offer
lingserve models check                   test each model
lingserve models check ollama:llama3.2   test one model
`,
		common: []string{"remote", "quick", "timeout", "json"},
	},
	{
		name: "models check", args: "[MODEL...] [FLAGS]", summary: "test models, and say what works",
		about: `
Tests models: all listed ones, or those that you name. A test asks for one word
and measures the time to the first token. Then it tests a tool call, two
messages of the same role, JSON Schema output and an image. The tests use
a few tokens of your account. The results are:

  ok     the model works
  no     the model does not have this feature
  fail   the model should have this feature, but the test failed

The provider's message is below a failed test. The exit status is 1 if a model
does not answer.
`,
		examples: `
lingserve models check --quick
`,
		common: []string{"quick", "timeout", "json"},
	},
	{
		name: "channels", args: "[ACTION] [FLAGS]", summary: "list and check chat channels, pair people",
		about: `
Works with the configured chat channels. A server may use them at the same time.
Name an account of a channel as NAME@ACCOUNT.
`,
		common: []string{"json", "timeout", "config"},
	},
	{name: "channels list", summary: "list channels, their access policies and agents", common: []string{"json"}},
	{
		name: "channels check", args: "[NAME...]", summary: "check whether channels can start",
		about: `
Signs in to each channel's platform and checks the settings. It changes nothing
on the platform. The exit status is 1 if a channel cannot start.
`,
		common: []string{"json", "timeout"},
	},
	{
		name: "channels explain", args: "NAME [FILE]", summary: "explain how a channel treats an event",
		about: `
Reads an event as the platform sends it, from FILE or from standard input. Shows
whether the channel admits it, which agent answers, and which setting decides.
It sends and stores nothing.
`,
		common: []string{"json", "timeout"},
	},
	{
		name: "channels pair", args: "[approve CODE | remove NAME SENDER]", summary: "list, approve or remove paired people",
		about: `
Lists paired people and open pairing requests with their codes. "approve" pairs
the person with this code. "remove" removes a person or a request.
`,
		examples: `
lingserve channels pair
lingserve channels pair approve K7PM-2QXT
lingserve channels pair remove telegram 123456
`,
		common: []string{"json"},
	},
	{
		name: "keys", args: "ACTION [FLAGS]", summary: "create, list and check API keys",
		about: `
Creates, lists and checks API keys. A server stores only the digest of a key, so
a new key is shown once. A running server reloads its key file by itself.
`,
		common: []string{"file", "json"},
		more: `
An entry of a key file is NAME:KEY:ROLE, then optionally a space and
scopes=SCOPE+SCOPE, expires=TIME or revoked. KEY is what "lingserve keys new"
prints, or your own random text of at least 20 characters.
`,
	},
	{
		name: "keys new", args: "--name NAME [FLAGS]", summary: "create a key and print it once",
		about: `
Creates a key and prints it: the only time that you can see it. With --file, the
command adds the entry to this key file. Without --file, it prints the entry
below the key. To replace a key, create another one with the same name, and
delete the old entry when nothing uses it any more.
`,
		examples: `
lingserve keys new --name alice --file keys.txt
lingserve keys new --name ci --scopes workflows --expires 90d
`,
		common: []string{"name", "file", "role", "scopes", "expires", "json"},
	},
	{name: "keys list", summary: "list keys by their ids", common: []string{"file", "json"}},
	{
		name: "keys check", summary: "show the owner of a key from standard input",
		about: `
Reads a key from standard input and shows its owner, role and scopes. Without
a key, it only checks that the key file is valid.
`,
		common: []string{"file", "json"},
	},
	{
		name: "tape", args: "ACTION [FLAGS]", summary: "show, copy, export and delete sessions",
		about: `
Works with stored sessions. A server may use the same store.
`,
		common: []string{"data", "tape-store", "json", "limit", "yes"},
	},
	{name: "tape list", summary: "list sessions, the last used first", common: []string{"json", "limit"}},
	{
		name: "tape show", args: "SESSION", summary: "show a session's tape, one line per entry",
		about: `
Shows a session's tape, one line per entry. With --json it prints the same as
"lingserve tape export".
`,
		common: []string{"json", "limit"},
	},
	{
		name: "tape search", args: "SESSION WORDS", summary: "find entries that have all words",
		about: `
Finds the entries of a session that have all the words, newest first.
`,
		common: []string{"json", "limit"},
	},
	{name: "tape export", args: "SESSION", summary: "print a tape as JSON Lines"},
	{
		name: "tape import", args: "SESSION [FILE]", summary: "create a session from an export",
		about: `
Creates a session from an export, which it reads from FILE or standard input.
`,
	},
	{
		name: "tape copy", args: "FROM", summary: "copy all sessions from another store",
		about: `
Copies all sessions from the store FROM (file, postgres or nats) to the store of
the setting tape.store. It skips sessions that are there already, so you can
repeat the command after an interruption.
`,
		examples: `
lingserve tape copy file --tape-store postgres
`,
		common: []string{"tape-store", "tape-postgres-url", "nats", "data"},
	},
	{
		name: "tape delete", args: "SESSION --yes", summary: "delete a session and its forks",
		about: `
Deletes a session and its forks for ever.
`,
		common: []string{"yes"},
	},
	{
		name: "tape check", summary: "read all stored data and report damage",
		about: `
Reads all stored data and reports damage. It changes nothing. The exit status is
0 without damage, 1 with damage, and 2 if something is unreadable.
`,
		common: []string{"json"},
	},
	{
		name: "parse", args: "[FLAGS]", summary: "turn JSON text into events while it arrives",
		about: `
Reads JSON text from standard input and prints an event per line while the text
arrives. It repairs what models do to JSON: prose or fences around it, missing
quotes, commas or brackets, and a missing end. Prose before the document has the
uri $reasoning_context. The events are:

  {"uri":"a/0","delta":"Rayleigh "}   append to the string at this uri
  {"uri":"a/1","delta":{}}            create an object
  {"uri":"a","delta":[]}              set an array, number, true, false or null
`,
		common: []string{"root", "strict", "resolve", "final", "chunk"},
		more: `
The exit status is 1 for text that is not valid, and 2 for a wrong command line.
`,
	},
	{
		name: "health", args: "[FLAGS]", summary: "check a server's health",
		about: `
Checks the health of a server: the one at --url, or the one that your settings
start on this machine. The exit status is 0 if it is healthy, else 1. Use it as
a health check in containers that have no curl.
`,
		examples: `
lingserve health
lingserve health --ready --url https://agents.example.com
`,
		common: []string{"url", "ready", "timeout", "addr", "config"},
	},
	{
		name: "version", summary: "print the version",
		about: `
Prints the version, its commit and the Go version.
`,
	},
	{name: "help", args: "[COMMAND] [--all]", summary: "explain a command"},
}

// overviewGroups has the headings of the overview, each with its commands.
var overviewGroups = []struct {
	title string
	names []string
}{
	{"Run workflows and agents", []string{"serve", "run", "chat"}},
	{"Set up and maintain", []string{"models", "channels", "keys", "tape"}},
	{"Other commands", []string{"parse", "health", "version", "help"}},
}

// settingLines describes the settings that a short help shows, in one line each.
var settingLines = map[string]string{
	"addr":              "address to listen on (127.0.0.1:8080)",
	"workflows":         "folder of workflow files (./workflows)",
	"watch":             "reload workflows when their files change",
	"model":             "model to use, such as openai:gpt-4o-mini",
	"data":              "folder for data that survives a restart (./data)",
	"config":            "configuration file (lingserve.yaml)",
	"auth-keys-file":    "file of API keys; \"lingserve keys new\" creates them",
	"tls-cert":          "file with the server's certificate",
	"tls-key":           "file with the certificate's key",
	"admin-addr":        "address of a second listener for metrics and profiles",
	"engine":            "local, or nats or postgres for several replicas (local)",
	"log-level":         "debug, info, warn or error (info); -v is debug",
	"tape-store":        "store of the sessions: file, postgres or nats (file)",
	"tape-postgres-url": "address of the PostgreSQL database",
	"nats":              "addresses of the NATS servers",
}

// settingGroups are the titles of the settings, by the first part of their keys.
var settingGroups = map[string]string{
	"": "The server", "nats": "NATS (engine nats)", "postgres": "PostgreSQL (engine postgres)", "demo": "The demo model", "run": "Runs", "turn": "Messages of sessions",
	"tape": "Sessions", "http": "HTTP", "upstream": "Requests to models", "retries": "Retries", "log": "The log",
	"auth": "API keys and tokens", "limit": "Limits", "files": "Uploaded files", "admin": "Metrics and profiles", "traces": "Traces",
	"tls": "Certificates",
}

// manualOf returns the help of the action or command that the words name; nil if the first word is no command.
func manualOf(words ...string) *manual {
	for n := len(words); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		if i := slices.IndexFunc(manuals, func(m manual) bool { return m.name == name }); i >= 0 {
			return &manuals[i]
		}
	}
	return nil
}

// actions returns the manuals of a command's actions.
func (m *manual) actions() (list []manual) {
	for _, other := range manuals {
		if strings.HasPrefix(other.name, m.name+" ") {
			list = append(list, other)
		}
	}
	return list
}

// overview lists the commands, and with all also their actions.
func overview(w io.Writer, all bool) {
	fmt.Fprintln(w, "Lingserve is a server for streaming agents: you read results while they grow.")
	for _, group := range overviewGroups {
		fmt.Fprintf(w, "\n%s:\n", group.title)
		for _, name := range group.names {
			m := manualOf(name)
			fmt.Fprintf(w, "  %-18s %s\n", name, m.summary)
			if all {
				for _, action := range m.actions() {
					fmt.Fprintf(w, "    %-16s %s\n", action.name, action.summary)
				}
			}
		}
	}
	fmt.Fprint(w, `
Examples:
  lingserve serve
  lingserve run encyclopedia --input "Why is the sky blue?"

"lingserve help COMMAND" explains a command.
`)
}

// explain prints the help of a command, or of the action that is the first of the words behind it.
func explain(w io.Writer, set *flag.FlagSet, words []string, all bool) {
	m := manualOf(append([]string{set.Name()}, words...)...)
	fmt.Fprintf(w, "Usage: lingserve %s\n\n", strings.TrimSpace(m.name+" "+m.args))
	fmt.Fprintln(w, strings.Trim(cmp.Or(m.about, strings.ToUpper(m.summary[:1])+m.summary[1:]+"."), "\n"))
	if all && m.more != "" {
		fmt.Fprintf(w, "\n%s\n", strings.Trim(m.more, "\n"))
	}
	if m.examples != "" {
		fmt.Fprintln(w, "\nExamples:")
		for line := range strings.Lines(strings.TrimLeft(m.examples, "\n")) {
			fmt.Fprint(w, "  "+line)
		}
	}
	actions := m.actions()
	if len(actions) > 0 {
		fmt.Fprintln(w, "\nActions:")
	}
	var rows [][2]string
	for _, action := range actions {
		label, _, _ := strings.Cut(strings.TrimPrefix(action.name, m.name+" ")+" "+action.args, " [")
		rows = append(rows, [2]string{strings.TrimSpace(label), action.summary})
	}
	explainRows(w, rows)
	own, hasSettings := ownFlags(set)
	shown := m.common
	if all {
		shown = slices.DeleteFunc(slices.Clone(m.common), func(name string) bool { return !slices.Contains(own, name) })
		shown = append(shown, slices.DeleteFunc(own, func(name string) bool { return slices.Contains(m.common, name) })...)
	}
	complete := all || !hasSettings && len(shown) == len(own) && m.more == ""
	if len(shown) > 0 {
		title := "\nCommon flags:"
		if complete {
			title = "\nFlags:"
		}
		fmt.Fprintln(w, title)
		explainFlags(w, set, shown)
	}
	switch {
	case all && hasSettings:
		explainSettings(w)
	case all:
	case len(actions) > 0:
		fmt.Fprintf(w, "\n\"lingserve help %s ACTION\" explains an action; --all shows all flags.\n", m.name)
	case !complete:
		fmt.Fprintf(w, "\n\"lingserve help %s --all\" shows all flags.\n", m.name)
	}
}

// ownFlags returns the names of the flags that are no settings, and whether the command also takes the settings.
func ownFlags(set *flag.FlagSet) (names []string, hasSettings bool) {
	settings := map[string]bool{}
	for _, s := range config.Settings() {
		settings[s.Flag()] = true
	}
	hasSettings = set.Lookup("config") != nil
	set.VisitAll(func(f *flag.Flag) {
		if !hasSettings || !settings[f.Name] {
			names = append(names, f.Name)
		}
	})
	return names, hasSettings
}

// explainFlags prints flags in a table.
func explainFlags(w io.Writer, set *flag.FlagSet, names []string) {
	var rows [][2]string
	for _, name := range names {
		f := set.Lookup(name)
		value, text := flag.UnquoteUsage(f)
		if line := settingLines[name]; line != "" && set.Lookup("config") != nil {
			value, text = "", line
		}
		rows = append(rows, [2]string{flagLabel(name, value), text})
	}
	explainRows(w, rows)
}

// flagLabel returns a flag as people write it, with its short name and the name of its value.
func flagLabel(name, value string) string {
	label := "--" + name
	for short, long := range shortFlags {
		if long == name {
			label = "-" + short + ", " + label
		}
	}
	return strings.TrimSpace(label + " " + value)
}

// explainRows prints a table of two columns; long texts continue on the next line.
func explainRows(w io.Writer, rows [][2]string) {
	column := 0
	for _, row := range rows {
		if len(row[0]) <= 28 {
			column = max(column, len(row[0])+4)
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("  %-*s", column-2, row[0])
		if len(row[0]) > column-4 && row[1] != "" {
			fmt.Fprintln(w, "  "+row[0])
			line = strings.Repeat(" ", column)
		}
		start := true
		for word := range strings.FieldsSeq(row[1]) {
			if !start && len(line)+1+len(word) > helpColumns {
				fmt.Fprintln(w, line)
				line, start = strings.Repeat(" ", column), true
			}
			if !start {
				line += " "
			}
			line, start = line+word, false
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// explainSettings prints all settings, by their groups.
func explainSettings(w io.Writer) {
	fmt.Fprint(w, "\nSettings. Each is also a key of lingserve.yaml and an environment variable:\n"+
		"--run-retention is run.retention and LINGSERVE_RUN_RETENTION.\n")
	group := "-"
	var rows [][2]string
	for _, s := range config.Settings() {
		if strings.HasPrefix(s.Key, "providers.") {
			continue
		}
		first, _, dotted := strings.Cut(s.Key, ".")
		if !dotted && first != "engine" && first != "cluster" {
			first = ""
		}
		if title := cmp.Or(settingGroups[first], group); title != group {
			explainRows(w, rows)
			group, rows = title, nil
			fmt.Fprintf(w, "\n%s:\n", title)
		}
		text := s.Help
		if s.Default != "" && s.Default != "false" {
			text += " (" + s.Default + ")"
		}
		if s.Flag() == "log-level" {
			text += "; -v is debug"
		}
		rows = append(rows, [2]string{flagLabel(s.Flag(), ""), text})
	}
	explainRows(w, rows)
	fmt.Fprint(w, "\nProviders of models:\n"+
		"Each provider has these settings, such as --providers-deepseek-key. Variables\n"+
		"that other programs use too are in parentheses. docs/models.md explains them.\n\n")
	rows = nil
	for _, p := range config.Presets() {
		var has []string
		for _, s := range config.Settings() {
			if name, ok := strings.CutPrefix(s.Key, "providers."+p.Name+"."); ok {
				if len(s.Env) > 0 {
					name += " (" + strings.Join(s.Env, ", ") + ")"
				}
				has = append(has, name)
			}
		}
		rows = append(rows, [2]string{p.Name, strings.Join(has, ", ")})
	}
	explainRows(w, rows)
}
