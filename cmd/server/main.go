// Command server is lingserve: a server for streaming agents, and the commands around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // images without a system have no list of time zones

	"github.com/spf13/cobra"
)

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1   // the command failed
	exitUsage       = 2   // the command line is wrong
	exitInterrupted = 130 // 128 and the number of the signal, as in shells
)

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command runs a command line and returns the exit status.
func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(streams{stdin, stdout, stderr})
	root.SetArgs(append([]string{}, args...)) // nil would be the arguments of the process
	cmd, err := root.ExecuteC()
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if wrong, ok := errors.AsType[usageError](err); ok {
		joint := "; see"
		if strings.HasSuffix(string(wrong), "?") {
			joint = " See"
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "lingserve")
		fmt.Fprintf(stderr, "lingserve%s: %s%s lingserve help%s\n", path, wrong, joint, path)
		return exitUsage
	}
	if err != nil {
		printError(stderr, err)
		return exitFailed
	}
	return exitOK
}

// exitStatus is the error of a command that has printed what went wrong.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError says what is wrong with a command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// printError prints an error; one that joins several gets a line for each.
func printError(w io.Writer, err error) {
	for _, line := range errorLines(err) {
		fmt.Fprintf(w, "lingserve: %s\n", line)
	}
}

// errorLines returns the lines of an error: one for each of those that it joins.
func errorLines(err error) []string { return strings.Split(strings.TrimRight(err.Error(), "\n"), "\n") }

// newRoot returns the command "lingserve" with all others below it.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use: "lingserve", Long: "Lingserve is a server for streaming agents: you read results while they grow.",
		Example: "  lingserve serve\n  lingserve run encyclopedia --input \"Why is the sky blue?\"",
		Args:    checkArgs, SilenceErrors: true, SilenceUsage: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(*cobra.Command, []string) error {
		if *version {
			return printVersion(s.out)
		}
		return root.Help()
	}
	root.SetFlagErrorFunc(flagError)
	root.SetOut(s.out)
	setUpHelp(root)
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run workflows and agents:", []*cobra.Command{serveCommand(s), runCommand(s), chatCommand(s)}},
		{"Set up and maintain:", []*cobra.Command{modelsCommand(s), channelsCommand(s), keysCommand(s), tapeCommand(s), dbCommand(s)}},
		{"Other commands:", []*cobra.Command{parseCommand(s), healthCommand(s), newCommand("version", func([]string) error { return printVersion(s.out) })}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("Other commands:")
	return root
}

// errInterrupted is why a run ends after a signal.
var errInterrupted = errors.New("interrupted")

// interruptible returns a context that the first signal cancels. The second signal ends the program at once.
func interruptible() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
