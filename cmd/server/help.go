package main

import (
	"cmp"
	_ "embed"
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

//go:embed help.txt
var helpText string

// manuals has the help of all commands, in the order of the overview; the actions of a command follow it.
var manuals = readManuals(helpText)

// readManuals reads help.txt. A manual begins with a line "=== name :: args :: summary", and its sections with lines such as "--- examples".
func readManuals(text string) (list []manual) {
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "=== "), "\n=== ") {
		head, about, _ := strings.Cut(entry, "\n")
		parts := strings.Split(head, " :: ")
		m := manual{name: parts[0], args: parts[1], summary: parts[2]}
		sections := map[string]string{}
		for section := range strings.SplitSeq("about\n"+about, "--- ") {
			name, text, _ := strings.Cut(section, "\n")
			sections[name] = strings.Trim(text, "\n")
		}
		m.about, m.examples, m.more, m.common = sections["about"], sections["examples"], sections["more"], strings.Fields(sections["flags"])
		list = append(list, m)
	}
	return list
}

// overviewGroups has the headings of the overview, each with its commands.
var overviewGroups = []struct {
	title string
	names []string
}{
	{"Run workflows and agents", []string{"serve", "run", "chat"}},
	{"Set up and maintain", []string{"models", "channels", "keys", "tape", "db"}},
	{"Other commands", []string{"parse", "health", "version"}},
}

// settingLines describes the settings that a short help shows, in one line each.
var settingLines = map[string]string{
	"addr":           "address to listen on (127.0.0.1:8080)",
	"workflows":      "folder of workflow files (./workflows)",
	"watch":          "reload workflows when their files change",
	"model":          "model to use, such as openai:gpt-4o-mini",
	"data":           "folder for data that survives a restart (./data)",
	"config":         "configuration file (lingserve.yaml)",
	"auth-keys-file": "file of API keys; \"lingserve keys new\" creates them",
	"tls-cert":       "file with the server's certificate",
	"tls-key":        "file with the certificate's key",
	"admin-addr":     "address of a second listener for metrics and profiles",
	"database":       "sqlite:FILE, postgres://… or memory (sqlite:data/lingserve.db)",
	"log-level":      "debug, info, warn or error (info); -v is debug",
}

// settingGroups are the titles of the settings, by the first part of their keys.
var settingGroups = map[string]string{
	"": "The server", "demo": "The demo model", "run": "Runs", "turn": "Messages of sessions", "sessions": "Sessions",
	"http": "HTTP", "upstream": "Requests to models", "retries": "Retries", "log": "The log",
	"auth": "API keys and tokens", "limit": "Limits", "files": "Uploaded files", "admin": "Metrics and profiles", "traces": "Traces",
	"tls": "Certificates", "models": "Models of requests",
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
	fmt.Fprintln(w, cmp.Or(m.about, strings.ToUpper(m.summary[:1])+m.summary[1:]+"."))
	if all && m.more != "" {
		fmt.Fprintf(w, "\n%s\n", m.more)
	}
	if m.examples != "" {
		fmt.Fprintln(w, "\nExamples:")
		for line := range strings.SplitSeq(m.examples, "\n") {
			fmt.Fprintln(w, "  "+line)
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
		if !dotted && first != "engine" {
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
