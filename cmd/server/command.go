package main

import (
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
		{"health", "[--url URL] [--ready]", "ask a server whether it is well", healthCommand},
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
	case "-version", "--version":
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
			return c.run([]string{"--help"}, strings.NewReader(""), stdout, stderr)
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
	fmt.Fprintf(stderr, "lingserve%s: %s; see lingserve help%s\n", space(name), fmt.Sprintf(format, args...), space(name))
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
			return nil, true, nil
		}
		f := set.Lookup(name)
		if f == nil {
			var names []string
			set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
			return nil, false, fmt.Errorf("unknown flag --%s%s", name, didYouMean(name, names, "--"))
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if !hasText {
				text = "true"
			}
		} else if !hasText {
			if len(args) == 0 {
				return nil, false, fmt.Errorf("the flag --%s needs a value", name)
			}
			text, args = args[0], args[1:]
		}
		if err := f.Value.Set(text); err != nil {
			return nil, false, fmt.Errorf("--%s: %w", name, err)
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
	own.VisitAll(func(f *flag.Flag) {
		if settings[f.Name] {
			return
		}
		value, help := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  --%-24s %s\n", strings.TrimSpace(f.Name+" "+value), help)
	})
	if name != "serve" {
		if name != "tape" { // which asks no model
			fmt.Fprintf(w, "  --%-24s %s\n", "model MODEL", "MODEL that answers, such as openai:gpt-4o-mini; it goes before the workflow's own")
		}
		fmt.Fprint(w, "\nThe settings of \"lingserve help serve\" are flags here too, such as --workflows.\n")
		return
	}
	fmt.Fprint(w, "\nSettings, each also an environment variable (--run-retention: LINGSERVE_RUN_RETENTION) and a key of lingserve.yaml:\n\n")
	for _, s := range config.Settings() {
		if !strings.HasPrefix(s.Key, "providers.") {
			fmt.Fprintf(w, "  --%-24s %s%s\n", s.Flag(), s.Help, shown(s.Default))
		}
	}
	fmt.Fprint(w, "\nProviders of models, with the settings that each has (a flag is --providers-deepseek-key) and the variables of other\n"+
		"programs that count, too. A configuration file can add more; docs/models.md explains them all.\n\n")
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
