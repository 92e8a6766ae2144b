package main

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/edits"
)

func init() { cobra.EnableCommandSorting = false } // the help has them in the order of newRoot

// newCommand returns the command of a path such as "tape show", with its texts of help.txt. run is called with the arguments that are no flags;
// nil is a command that only has actions below it.
func newCommand(path string, run func(args []string) error, actions ...*cobra.Command) *cobra.Command {
	m := manuals[path]
	words := strings.Fields(path)
	cmd := &cobra.Command{
		Use: strings.TrimSpace(words[len(words)-1] + " " + m.args), Short: m.summary, Long: m.about, Example: m.examples, Args: checkArgs,
		Annotations: map[string]string{commonFlags: m.flags},
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		return usagef("the action is missing; expected one of %s", strings.Join(commandNames(cmd), ", "))
	}
	if run != nil {
		cmd.RunE = func(_ *cobra.Command, args []string) error { return run(args) }
	}
	cmd.Flags().SortFlags = false
	cmd.AddCommand(actions...)
	return cmd
}

// configured returns a command that needs the configuration. The first signal cancels the context of do, and is then the exit status.
func configured(path string, settings *config.Flags, do func(ctx context.Context, c *config.Config, args []string) error, actions ...*cobra.Command) *cobra.Command {
	return loaded(path, settings, func(c *config.Config, args []string) error {
		ctx, stop := interruptible()
		defer stop()
		if err := do(ctx, c, args); ctx.Err() == nil {
			return err
		}
		return exitStatus(exitInterrupted)
	}, actions...)
}

// loaded makes a command that gets the configuration.
func loaded(path string, settings *config.Flags, do func(c *config.Config, args []string) error, actions ...*cobra.Command) *cobra.Command {
	return newCommand(path, func(args []string) error {
		c, err := config.Load(settings, os.Environ())
		if err != nil {
			return err
		}
		return do(c, args)
	}, actions...)
}

// commandNames returns the names of the commands below another.
func commandNames(of *cobra.Command) (names []string) {
	for _, cmd := range of.Commands() {
		names = append(names, cmd.Name())
	}
	return names
}

// checkArgs compares the arguments of a command with those that it uses: NAME is required, [NAME] is not, and NAME... is one or more.
func checkArgs(cmd *cobra.Command, args []string) error {
	if all, _ := cmd.Flags().GetBool("all"); all {
		return pflag.ErrHelp
	}
	if cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	most := 0
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if len(args) <= most && name[0] != '[' {
			return usagef("%s is missing", strings.Trim(name, "."))
		}
		if most++; strings.Contains(name, "...") {
			most = math.MaxInt
		}
	}
	if len(args) > most {
		return usagef("unexpected argument %q", args[most])
	}
	return nil
}

func unknownCommand(of *cobra.Command, name string) error {
	what := "action"
	if !of.HasParent() {
		what = "command"
	}
	return usagef("unknown %s %q%s", what, name, edits.Suggest(name, commandNames(of), ""))
}

// addSettings adds the flags of all settings to a command. They are collected in settings.
func addSettings(set *pflag.FlagSet, settings *config.Flags) {
	settings.Bind(set)
	set.BoolFuncP("verbose", "v", "the same as --log-level debug", func(string) error { return set.Set("log-level", "debug") })
}

// flagError explains an error of a flag.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s: %v", e.GetFlag().Name, e.Unwrap())
	}
	e, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usagef("%v", err)
	}
	name, dashes := e.GetSpecifiedName(), "--"
	if short := e.GetSpecifiedShortnames(); short != "" {
		name, _, _ = strings.Cut(short, "=")
		dashes = "-"
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return usagef("unknown flag %s%s%s", dashes, name, edits.Suggest(name, known, "--"))
}
