package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/lingserve/lingserve/config"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1   // what was asked for did not work
	exitUsage       = 2   // what was asked for does not exist
	exitInterrupted = 130 // 128 and the number of the signal, as shells have it
)

// subcommand is one thing that the program does.
type subcommand struct {
	name    string
	args    string // as help shows them
	summary string
	run     func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"serve", "[--addr HOST:PORT] [--workflows DIR] [SETTINGS]", "serve workflows over HTTP", serveCommand},
		{"run", "WORKFLOW [--input NAME=TEXT] [--format FORMAT] [--server URL]", "run a workflow, here or on a server", runCommand},
		{"chat", "[--agent NAME] [--session NAME]", "talk with an agent at the terminal", chatCommand},
		{"models", "[check [MODEL...]] [--remote] [--json] [--timeout TIME]", "list the models, or try them", modelsCommand},
		{"tape", "list | show | search | export | import | delete [SESSION] [--json]", "look into the sessions of a data folder", tapeCommand},
		{"keys", "new --name NAME | list | check [--file FILE] [--json]", "make API keys, and look at those that there are", keysCommand},
		{"channels", "[check | explain NAME [FILE] | pair [approve CODE | remove NAME SENDER]] [--json]", "look at the channels, try them, pair people", channelsCommand},
		{"parse", "[--root URI] [--strict] [--resolve | --final] [--chunk N]", "turn JSON text into events while it comes", parseCommand},
		{"health", "[--url URL] [--ready]", "check a server's health", healthCommand},
		{"version", "", "print the version", versionCommand},
		{"help", "[COMMAND]", "explain a command", helpCommand},
	}
}

func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		overview(stdout)
		return exitOK
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	var names []string
	for _, c := range subcommands() {
		if c.name == name {
			return c.run(args[1:], stdin, stdout, stderr)
		}
		names = append(names, c.name)
	}
	return usage(stderr, "", "unknown command %q%s", name, didYouMean(name, names, ""))
}

func overview(w io.Writer) {
	fmt.Fprint(w, `lingserve is a server for streaming agents: a workflow of bots goes in, a growing document comes out.

`)
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  lingserve %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
Begin with

  lingserve serve
  lingserve run encyclopedia --input "Why is the sky blue?"

"lingserve help COMMAND" has the details.
`)
}

func helpCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		overview(stdout)
		return exitOK
	}
	var names []string
	for _, c := range subcommands() {
		if c.name == args[0] && c.name != "help" {
			return c.run(append([]string{"--help"}, args[1:]...), strings.NewReader(""), stdout, stderr)
		}
		names = append(names, c.name)
	}
	if args[0] == "help" {
		overview(stdout)
		return exitOK
	}
	return usage(stderr, "help", "unknown command %q%s", args[0], didYouMean(args[0], names, ""))
}

// usage says in one line what is wrong with a command line.
func usage(stderr io.Writer, name, format string, args ...any) int {
	see := name
	if name == "help" {
		see = ""
	}
	fmt.Fprintf(stderr, "lingserve%s: %s; see lingserve help%s\n", space(name), fmt.Sprintf(format, args...), space(see))
	return exitUsage
}

// fail says what did not work; an error that joins several gets a line for each.
func fail(stderr io.Writer, err error) int {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "lingserve: %s\n", strings.TrimRight(line, "\n"))
	}
	return exitFailed
}

func space(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

func didYouMean(name string, known []string, prefix string) string {
	if near := config.Nearest(name, known); near != "" {
		return "; did you mean " + prefix + near + "?"
	}
	return ""
}

// shortFlags are the short names of flags, where a command has these.
var shortFlags = map[string]string{"i": "input", "m": "model", "o": "format", "v": "log-level"}

// parseFlags reads flags wherever they stand among the arguments, as --name value, --name=value or -name; "--" ends them.
// It is not flag.Parse, which stops at the first argument that is no flag and prints on its own. help is returned for --help.
func parseFlags(set *flag.FlagSet, args []string) (rest []string, help bool, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(rest, args...), help, nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "h" || name == "help" {
			_, _, _ = parseFlags(set, args) // --all may follow
			return nil, true, nil
		}
		f := set.Lookup(cmp.Or(shortFlags[name], name))
		if name == "v" && f != nil && !hasText { // as if --log-level debug was given
			text, hasText = "debug", true
		}
		if f == nil {
			var names []string
			set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
			return nil, false, fmt.Errorf("unknown flag %s%s", strings.TrimSuffix(arg, "="+text), didYouMean(name, names, "--"))
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if !hasText {
				text = "true"
			}
		} else if !hasText {
			if len(args) == 0 {
				return nil, false, fmt.Errorf("the flag --%s needs a value", f.Name)
			}
			text, args = args[0], args[1:]
		}
		if err := f.Value.Set(text); err != nil {
			return nil, false, fmt.Errorf("--%s: %w", f.Name, err)
		}
	}
	return rest, help, nil
}

// explain prints what a command takes: its own flags, then the settings.
func explain(w io.Writer, name, about string, own *flag.FlagSet) {
	for _, c := range subcommands() {
		if c.name == name {
			fmt.Fprintf(w, "lingserve %s %s\n\n%s\n", c.name, c.args, about)
		}
	}
	settings := map[string]bool{}
	for _, s := range config.Settings() {
		settings[s.Flag()] = true
	}
	all := own.Lookup("all")
	own.VisitAll(func(f *flag.Flag) {
		if settings[f.Name] || f == all {
			return
		}
		value, help := flag.UnquoteUsage(f)
		explainFlag(w, strings.TrimSpace(f.Name+" "+value), help)
	})
	switch {
	case name != "serve":
		if name != "tape" { // which asks no model
			explainFlag(w, "model MODEL", "MODEL that answers, such as openai:gpt-4o-mini; it goes before the workflow's own")
		}
		fmt.Fprint(w, "\nThe settings of \"lingserve help serve --all\" are flags here too, such as --workflows.\n")
	case all != nil && all.Value.String() == "true":
		explainSettings(w)
	default:
		explainCommonSettings(w)
	}
}

// explainFlag prints a flag with its help, in lines of at most 100 characters.
func explainFlag(w io.Writer, flag, help string) {
	const column, width = 28, 100
	for short, name := range shortFlags {
		if known, _, _ := strings.Cut(flag, " "); known == name {
			flag = name + strings.TrimPrefix(flag, known) + ", -" + short
			if short == "v" {
				help += "; -v is debug"
			}
		}
	}
	line := fmt.Sprintf("  --%-*s", column-4, flag)
	for word := range strings.FieldsSeq(help) {
		if len(line) > column && len(line)+1+len(word) > width {
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", column)
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

// commonSettings are those that most servers need, in few words: the help has to fit on a screen of 24 lines with 80 characters.
var commonSettings = [][2]string{
	{"addr", "address to listen on (127.0.0.1:8080)"},
	{"workflows", "folder of workflow files (./workflows and shipped ones)"},
	{"watch", "reload workflows when their files change"},
	{"model", "model of workflows that name none, as openai:gpt-4o-mini"},
	{"data", "folder for what must survive a restart (./data)"},
	{"config", "configuration file (lingserve.yaml)"},
	{"auth-keys-file", "file of API keys; \"lingserve keys new\" makes them"},
	{"tls-cert", "file with the server's certificate"},
	{"tls-key", "file with the certificate's key"},
	{"admin-addr", "address of a second listener with metrics and profiles"},
	{"engine", "nats, if several replicas serve together (local)"},
	{"log-level", "debug, info, warn or error (info); -v is debug"},
}

// groups are the titles of the settings, by the first part of their keys.
var groups = map[string]string{
	"": "The server", "nats": "NATS (engine nats)", "demo": "The demo model", "run": "Runs", "turn": "Messages of sessions",
	"tape": "Where sessions are kept", "http": "HTTP", "upstream": "Requests to models", "retries": "Retries", "log": "The log",
	"auth": "Keys and tokens of callers", "limit": "Limits", "files": "Uploaded files", "admin": "Metrics and profiles", "traces": "Traces",
	"tls": "Certificates",
}

func explainCommonSettings(w io.Writer) {
	fmt.Fprint(w, "\nThe most common settings; each is a key of lingserve.yaml and a variable, too:\n\n")
	for _, s := range commonSettings {
		fmt.Fprintf(w, "  --%-16s %s\n", s[0], s[1])
	}
	fmt.Fprint(w, "\n\"lingserve help serve --all\" shows all settings.\n")
}

func explainSettings(w io.Writer) {
	fmt.Fprint(w, "\nAll settings, each also an environment variable (--run-retention: LINGSERVE_RUN_RETENTION) and a key of\nlingserve.yaml.\n")
	group := "-"
	for _, s := range config.Settings() {
		if strings.HasPrefix(s.Key, "providers.") {
			continue
		}
		first, _, dotted := strings.Cut(s.Key, ".")
		if !dotted && first != "engine" && first != "cluster" {
			first = ""
		}
		if title := cmp.Or(groups[first], group); title != group {
			group = title
			fmt.Fprintf(w, "\n%s\n", title)
		}
		explainFlag(w, s.Flag(), s.Help+shown(s.Default))
	}
	fmt.Fprint(w, "\nProviders of models\n\n"+
		"Each has these settings (a flag is --providers-deepseek-key); variables of other programs that count, too, are in parentheses. A\n"+
		"configuration file can add more; docs/models.md explains them all.\n\n")
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
		fmt.Fprintf(w, "  %-26s %s\n", p.Name, strings.Join(has, ", "))
	}
}

func shown(text string) string {
	if text == "" || text == "false" {
		return ""
	}
	return " (" + text + ")"
}
