package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// job is what to run and how.
type job struct {
	workflow string
	input    inputs
	model    string // "" is the default
	params   map[string]any
	options  runOptions
	format   string
	done     bool // each completed value is followed by a done event
	html     bool // bots that write HTML also send html events
	strict   bool // an answer that does not fit its schema fails its bot
	server   string
}

// startedRun is a run in this process or on a server.
type startedRun interface {
	// Events yields what clients may see, up to the terminal event; a second call goes on after the first. An error is the
	// last pair.
	Events(ctx context.Context) iter.Seq2[tube.Event, error]
	ID() string
	// Info describes the workflow; its graph may be missing.
	Info() flow.Info
	// Result is the aggregate, after the end.
	Result(ctx context.Context) (json.RawMessage, error)
	// Cancel stops the run and waits until it has stopped.
	Cancel(cause error)
}

func runCommand(s streams) *cobra.Command {
	var settings config.Flags
	j := job{params: map[string]any{}}
	cmd := loaded("run", &settings, func(c *config.Config, args []string) error {
		j.workflow = args[0]
		if err := j.input.readStdin(s.in); err != nil {
			return err
		}
		if j.format == "" {
			j.format = "jsonl"
			if isTerminal(s.out) {
				j.format = "text"
			}
		}
		j.done = j.done || j.format == "text"
		if c.Source("model").Kind == config.Flag { // other sources set only the default, which the workflow's model overrides
			j.model = c.Model
		}
		// A closed reader is an error of a write, after which the run is canceled, instead of a signal.
		signal.Ignore(syscall.SIGPIPE)
		ctx, stop := interruptible()
		defer stop()
		return j.run(ctx, c, s)
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("unexpected argument %q; expected only a workflow name; give the input with --input", args[1])
		}
		return checkArgs(cmd, args)
	}
	set := cmd.Flags()
	set.FuncP("input", "i", "`INPUT`: text, JSON, or NAME=TEXT per property; - is stdin", j.input.set)
	set.Func("param", "variable `NAME=TEXT` of the workflow's templates", func(s string) error { return pair(s, j.params) })
	set.Func("option", "model option `NAME=VALUE`, such as temperature=0.2", j.options.set)
	set.FuncP("format", "o", "`FORMAT` of the output: text (default on a terminal), jsonl (default elsewhere), sse or json", j.setFormat)
	set.BoolVar(&j.done, "done", false, "also print an event when a value is complete")
	set.BoolVar(&j.html, "html", false, "also print events for the tags and the text in HTML")
	set.BoolVar(&j.strict, "strict", false, "fail a bot if its answer does not match its schema; overrides on_invalid")
	set.StringVar(&j.server, "server", "", "`URL` of a server to run it on; its key is in LINGSERVE_KEY")
	addSettings(set, &settings)
	return cmd
}

// setFormat reads the flag --format.
func (j *job) setFormat(s string) error {
	if !slices.Contains([]string{"text", "jsonl", "sse", "json"}, s) {
		return fmt.Errorf("unknown format %q; expected text, jsonl, sse or json", s)
	}
	j.format = s
	return nil
}

func (j *job) run(ctx context.Context, c *config.Config, s streams) error {
	var r startedRun
	var err error
	if j.server != "" {
		r, err = startRemote(ctx, j, c)
	} else {
		r, err = startLocal(ctx, j, c, s.err)
	}
	if err != nil && ctx.Err() != nil {
		return exitStatus(exitInterrupted)
	}
	if err != nil {
		return err
	}
	o := newOutput(j.format, s.out, s.err, r)
	end, err := o.follow(ctx, r)
	if ctx.Err() != nil {
		r.Cancel(errInterrupted)
		// The last events say that the run was canceled.
		rest, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = o.follow(rest, r)
		_ = o.finish(rest, r)
		return exitStatus(exitInterrupted)
	}
	if err == nil {
		err = o.finish(ctx, r)
	} else if !errors.Is(err, syscall.EPIPE) {
		_ = o.finish(ctx, r)
	}
	if err != nil {
		r.Cancel(err) // does nothing after the end of the run
	}
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader of the output needs no more
		return nil
	case err != nil:
		return err
	}
	if j.format == "text" || j.format == "json" { // the other formats have them
		for _, warning := range end.warnings {
			fmt.Fprintln(s.err, "lingserve: warning: "+warning)
		}
	}
	err = end.report(s.err, j.format == "text")
	if local, ok := r.(*localRun); ok && (err != nil || j.format == "text") {
		for _, cause := range local.causes.all() {
			printError(s.err, errors.New("cause: "+cause))
		}
	}
	return err
}

// ending is how a run ended.
type ending struct {
	status   string // completed, failed, interrupted, canceled
	reason   string
	fatal    string   // the first error that ended the run
	failed   string   // the first failure of a bot that was not handled
	problems []string // the errors that did not end the run
	warnings []string // of the workflow, for its author
}

// report prints how the run failed, and returns the exit status; nil if it completed. It prints the errors that did not end the run only if
// printAll is set: other formats have them in their output.
func (e ending) report(stderr io.Writer, printAll bool) error {
	why := cmp.Or(e.fatal, e.failed, "no reason was given")
	if printAll && (e.status == "completed" || e.status == "failed") {
		for _, problem := range e.problems {
			if problem != why || e.status == "completed" {
				printError(stderr, errors.New(problem))
			}
		}
	}
	ended := textview.Clean(e.status)
	switch e.status {
	case "completed":
		return nil
	case "canceled":
		ended, why = "was canceled", textview.Clean(e.reason)
	case "interrupted":
		ended = "was interrupted"
	}
	printError(stderr, fmt.Errorf("the run %s: %s", ended, why))
	return exitStatus(exitFailed)
}

// maxProblems bounds the stored errors, warnings and causes of a run.
const maxProblems = 20

// output writes the events of a run in the format asked for.
type output struct {
	format string
	w      *bufio.Writer
	run    string
	frame  func([]byte, string, tube.Event) []byte
	doc    *textview.View
	end    ending
	stderr io.Writer
	shared bool // stdout is a terminal, which stderr may be, too
}

func newOutput(format string, stdout, stderr io.Writer, r startedRun) *output {
	o := &output{format: format, w: bufio.NewWriterSize(stdout, 32<<10), run: r.ID(), stderr: stderr, shared: isTerminal(stdout)}
	switch format {
	case "jsonl":
		o.frame = frame.AppendJSONL
	case "sse":
		o.frame = frame.AppendSSE
	case "text":
		o.doc = textview.New(o.w, textview.Options{Terminal: o.shared && colorful(), Width: terminalWidth(stdout), Whole: !o.shared}, r.Info().Graph)
	}
	return o
}

// follow writes events as they come, until the run or ctx ends.
func (o *output) follow(ctx context.Context, r startedRun) (ending, error) {
	for e, err := range r.Events(ctx) {
		if err == nil {
			err = o.event(e)
		}
		if err := cmp.Or(err, o.w.Flush()); err != nil {
			return o.end, err
		}
	}
	if o.end.status == "" {
		return o.end, errors.New("the run ended without a final event")
	}
	return o.end, nil
}

func (o *output) event(e tube.Event) error {
	if e.Kind == tube.Named {
		o.named(e)
	}
	switch {
	case o.frame != nil:
		_, err := o.w.Write(o.frame(o.w.AvailableBuffer(), o.run, e))
		return err
	case o.doc != nil:
		o.doc.Event(e)
		return o.doc.Err()
	}
	return nil
}

// retrying says on stderr that a bot pauses before it asks its model once more. Lines of events have it already.
func (o *output) retrying(data []byte) {
	var d struct {
		Bot string
		adapter.Retry
	}
	if o.frame != nil || json.Unmarshal(data, &d) != nil {
		return
	}
	if o.doc != nil && o.shared {
		o.doc.BreakLine()
	}
	_ = o.w.Flush() // the next write has the error
	fmt.Fprintf(o.stderr, "lingserve: %s: %s, next try in %d s (%d of %d)\n", textview.Clean(d.Bot), textview.Clean(d.Reason), d.Seconds, d.Attempt, d.Of)
}

// named records the errors, the warnings and the end of the run.
func (o *output) named(e tube.Event) {
	switch e.Name {
	case "retrying":
		o.retrying(e.Value)
	case "warning":
		var d struct{ Message string }
		if json.Unmarshal(e.Value, &d) == nil && len(o.end.warnings) < maxProblems {
			o.end.warnings = append(o.end.warnings, strings.ReplaceAll(textview.Clean(d.Message), "\n", " "))
		}
	case "error":
		var d ling.ErrorData
		if json.Unmarshal(e.Value, &d) == nil {
			o.end.add(d)
		}
	case "finished", "canceled":
		var d struct{ Status, Reason string }
		_ = json.Unmarshal(e.Value, &d)
		o.end.status, o.end.reason = cmp.Or(d.Status, e.Name), d.Reason
	}
}

// add records an error of the run.
func (e *ending) add(d ling.ErrorData) {
	text := d.Message
	if d.Bot != "" {
		text = d.Bot + ": " + text
	}
	switch {
	case d.Code != "" && d.Pointer != "":
		text += " (" + d.Code + " at " + d.Pointer + ")"
	case d.Code != "":
		text += " (" + d.Code + ")"
	}
	text = strings.ReplaceAll(textview.Clean(text), "\n", " ")
	switch {
	case d.Fatal:
		e.fatal = cmp.Or(e.fatal, text)
		return
	case d.Handled:
		text += ", which was handled"
	case d.Failed:
		e.failed = cmp.Or(e.failed, text)
	}
	if len(e.problems) < maxProblems {
		e.problems = append(e.problems, text)
	}
}

// finish writes what can only be written at the end.
func (o *output) finish(ctx context.Context, r startedRun) error {
	switch o.format {
	case "text":
		o.doc.End()
	case "json":
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		result, err := r.Result(ctx)
		if err != nil {
			return err
		}
		o.w.Write(result)
		o.w.WriteByte('\n')
	}
	return o.w.Flush()
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalWidth returns the columns of a terminal, 0 if w is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return width
}

// colorful follows the common agreements on terminals without escape sequences.
func colorful() bool {
	return os.Getenv("NO_COLOR") == "" && !strings.EqualFold(os.Getenv("TERM"), "dumb")
}
