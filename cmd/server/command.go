package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1   // what was asked for did not work
	exitUsage       = 2   // what was asked for does not exist
	exitInterrupted = 130 // 128 and the number of the signal, as shells have it
)

// subcommand is one thing that the program does; manuals has its help.
type subcommand struct {
	name string
	run  func(args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"serve", serveCommand},
		{"run", runCommand},
		{"chat", chatCommand},
		{"models", modelsCommand},
		{"channels", channelsCommand},
		{"keys", keysCommand},
		{"tape", tapeCommand},
		{"db", dbCommand},
		{"parse", parseCommand},
		{"health", healthCommand},
		{"version", versionCommand},
		{"help", helpCommand},
	}
}

func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		overview(stdout, false)
		return exitOK
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	for _, c := range subcommands() {
		if c.name == name {
			return c.run(args[1:], stdin, stdout, stderr)
		}
	}
	return usage(stderr, "", "unknown command %q%s", name, didYouMean(name, commandNames(), ""))
}

func helpCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	words, help, err := parseFlags(flag.NewFlagSet("help", flag.ContinueOnError), args)
	switch {
	case err != nil:
		return usage(stderr, "help", "%v", err)
	case len(words) == 0, words[0] == "help":
		overview(stdout, help == fullHelp)
		return exitOK
	}
	m := manualOf(words...)
	if m == nil {
		return usage(stderr, "help", "unknown command %q%s", words[0], didYouMean(words[0], commandNames(), ""))
	}
	if actions := m.actions(); len(actions) > 0 && len(words) > 1 && m.name == words[0] {
		var names []string
		for _, action := range actions {
			names = append(names, strings.TrimPrefix(action.name, m.name+" "))
		}
		return usage(stderr, "help "+m.name, "unknown action %q%s", words[1], didYouMean(words[1], names, ""))
	}
	i := slices.IndexFunc(subcommands(), func(c subcommand) bool { return c.name == words[0] })
	return subcommands()[i].run(append(args[1:], "--help"), strings.NewReader(""), stdout, stderr)
}

func commandNames() (names []string) {
	for _, c := range subcommands() {
		names = append(names, c.name)
	}
	return names
}

// usage says in one line what is wrong with a command line, and which help explains it.
func usage(stderr io.Writer, name, format string, args ...any) int {
	see := strings.TrimPrefix(strings.TrimPrefix(name, "help"), " ")
	text := fmt.Sprintf(format, args...)
	joint := "; see"
	if strings.HasSuffix(text, "?") {
		joint = " See"
	}
	fmt.Fprintf(stderr, "lingserve%s: %s%s lingserve help%s\n", space(name), text, joint, space(see))
	return exitUsage
}

// fail says what did not work; an error that joins several gets a line for each.
func fail(stderr io.Writer, err error) int {
	for _, line := range errorLines(err) {
		fmt.Fprintf(stderr, "lingserve: %s\n", line)
	}
	return exitFailed
}

// errorLines returns the lines of an error: one for each of those that it joins.
func errorLines(err error) []string { return strings.Split(strings.TrimRight(err.Error(), "\n"), "\n") }

func space(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

func didYouMean(name string, known []string, prefix string) string {
	if near := edits.Nearest(name, known); near != "" {
		return "; did you mean " + prefix + near + "?"
	}
	return ""
}

// newFlags returns the flags of a command that reads the configuration: those of its settings.
func newFlags(name string) (*flag.FlagSet, *config.Flags) {
	set, settings := flag.NewFlagSet(name, flag.ContinueOnError), new(config.Flags)
	settings.Bind(set)
	return set, settings
}

// arguments reads the arguments of a command. If they ask for help or are wrong, it says so, and the command ends with status; otherwise ok
// is true.
func arguments(set *flag.FlagSet, args []string, stdout, stderr io.Writer) (rest []string, status int, ok bool) {
	rest, help, err := parseFlags(set, args)
	switch {
	case help != noHelp:
		explain(stdout, set, rest, help == fullHelp)
		return nil, exitOK, false
	case err != nil:
		return nil, usage(stderr, set.Name(), "%v", err), false
	}
	return rest, exitOK, true
}

// errInterrupted is why a command ends that a signal has told to.
var errInterrupted = errors.New("interrupted")

// interruptible returns a context that the first signal cancels with errInterrupted. The second one ends the program at once.
func interruptible() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancel(errInterrupted)
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// printJSON prints a value as JSON on a line.
func printJSON(w io.Writer, v any) error {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// listing prints rows: for people in columns below a heading, or else each as JSON on a line.
type listing struct {
	json bool
	w    io.Writer
	out  *tabwriter.Writer
	err  error // the first one; nothing is printed after it
}

func newListing(w io.Writer, json bool, heading ...string) *listing {
	l := &listing{json: json, w: w, out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if !json {
		l.columns(heading)
	}
	return l
}

// add prints a row: row itself as JSON, or its columns.
func (l *listing) add(row any, columns ...string) {
	switch {
	case l.err != nil:
	case l.json:
		l.err = printJSON(l.w, row)
	default:
		l.columns(columns)
	}
}

func (l *listing) columns(columns []string) {
	_, l.err = fmt.Fprintln(l.out, strings.Join(columns, "\t"))
}

// end prints what is left, and returns the first error.
func (l *listing) end() error { return cmp.Or(l.err, l.out.Flush()) }

// shortFlags are the short names of flags, where a command has these.
var shortFlags = map[string]string{"i": "input", "m": "model", "o": "format", "v": "log-level"}

// helpMode is the help that a command line asks for.
type helpMode int

const (
	noHelp    helpMode = iota
	shortHelp          // --help, -h
	fullHelp           // --all, with or without --help
)

// parseFlags reads flags anywhere among the arguments, as --name value, --name=value or -name; "--" ends them.
// flag.Parse would stop at the first argument that is no flag, and print on its own.
func parseFlags(set *flag.FlagSet, args []string) (rest []string, help helpMode, err error) {
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
		f := set.Lookup(cmp.Or(shortFlags[name], name))
		switch {
		case name == "h" || name == "help":
			help = max(help, shortHelp)
			continue
		case name == "all" && f == nil:
			help = fullHelp
			continue
		case name == "v" && f != nil && !hasText: // the same as --log-level debug
			text, hasText = "debug", true
		}
		if f == nil {
			if why := config.Removed(name); why != "" {
				err = cmp.Or(err, fmt.Errorf("--%s %s", name, why))
				continue
			}
			names := []string{"all", "help"}
			set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
			err = cmp.Or(err, fmt.Errorf("unknown flag %s%s", strings.TrimSuffix(arg, "="+text), didYouMean(name, names, "--")))
			continue
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if !hasText {
				text = "true"
			}
		} else if !hasText {
			if len(args) == 0 {
				err = cmp.Or(err, fmt.Errorf("--%s needs a value", f.Name))
				break
			}
			text, args = args[0], args[1:]
		}
		if e := f.Value.Set(text); e != nil {
			err = cmp.Or(err, fmt.Errorf("--%s: %w", f.Name, flagError(f, text, e)))
		}
	}
	if help != noHelp { // which explains what is wrong with the rest
		err = nil
	}
	return rest, help, err
}

// flagError says what a flag expects where package flag says only "parse error".
func flagError(f *flag.Flag, text string, err error) error {
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return err
	}
	switch getter.Get().(type) {
	case time.Duration:
		return fmt.Errorf("%q is no duration; expected one such as 30s or 5m", text)
	case int:
		return fmt.Errorf("%q is no number; expected one such as 20", text)
	case bool:
		return fmt.Errorf("%q is invalid; expected true or false", text)
	}
	return err
}
