//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/cli"
)

// talk gives lines to a conversation without a terminal.
func talk(t *testing.T, a *scripted, in io.Reader, o cli.Options) (c *cli.Chat, out, errs string) {
	t.Helper()
	var said, about bytes.Buffer
	o.In, o.Out, o.Err, o.Agent = in, &said, &about, "assistant"
	c = cli.New(o)
	if err := c.Serve(t.Context(), kernelOf(t, a)); err != nil {
		t.Fatal(err)
	}
	return c, said.String(), about.String()
}

func TestCH_162WithoutATerminalLinesGoInAndPlainTextComesOut(t *testing.T) {
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Sink.Preview(channel.Payload{Text: "a text that is taken back"})
		if err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: "clock {}"}); err != nil {
			return channel.DispatchResult{}, err
		}
		return echo(ctx, t)
	}}
	c, out, errs := talk(t, a, strings.NewReader("one\n\n  \ntwo\x1b[31m\r\n,session other\nthree"), cli.Options{Colors: true})
	if want := "echo one\necho two[31m\nThe session is other from now on; it was main.\necho three\n"; out != want {
		t.Errorf("got\n%q\nexpected\n%q", out, want)
	}
	if want := strings.Repeat("· clock {}\n", 3); errs != want {
		t.Errorf("about it is said %q, expected %q", errs, want)
	}
	if c.Unanswered() {
		t.Error("something was not answered")
	}
	if last := a.asked[2].SessionKey; last != "cli:other" {
		t.Errorf("the session is %s", last)
	}
}

func TestWithoutATerminalAFailureIsKnownAtTheEnd(t *testing.T) {
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		if t.Context.BodyForAgent == "bad" {
			return channel.DispatchResult{}, errors.New("broken")
		}
		return echo(ctx, t)
	}}
	c, out, errs := talk(t, a, strings.NewReader("bad\ngood\n"), cli.Options{})
	if out != "echo good\n" || !strings.HasPrefix(errs, "Something went wrong. (reference t-") || !c.Unanswered() {
		t.Errorf("got %q, %q, unanswered %v", out, errs, c.Unanswered())
	}
}

func TestWithoutATerminalACallThatNeedsApprovalIsDenied(t *testing.T) {
	answered := make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		switch {
		case t.Context.BodyForAgent == "do it":
			err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: "May I?", Question: &channel.Question{Turn: t.ID, ID: "c1", Tool: "shell"}})
			if err != nil {
				return channel.DispatchResult{}, err
			}
			select {
			case <-answered:
			case <-ctx.Done():
			}
		case strings.HasPrefix(t.Context.BodyForCommands, ","):
			close(answered)
		}
		return channel.DispatchResult{NoReply: true}, nil
	}}
	_, out, _ := talk(t, a, strings.NewReader("do it\ny\n"), cli.Options{})
	want := []string{"do it", ",deny c1 this conversation has no approver", "y"}
	if out != "May I?\n" || !slices.Equal(a.texts(), want) {
		t.Errorf("got %q, the agent was asked %q, expected %q", out, a.texts(), want)
	}
}

// DN-05: a call with long arguments is shown whole.
func TestDN_05_AQuestionIsShownWhole(t *testing.T) {
	text := "The agent wants to call the tool `write` with\n\n```json\n{\"a\":\"" + strings.Repeat("word ", 20_000) + "\"}\n```"
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		if t.Context.BodyForAgent != "do it" {
			return channel.DispatchResult{NoReply: true}, nil
		}
		return channel.DispatchResult{NoReply: true}, t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{
			Text: text, Question: &channel.Question{Turn: t.ID, ID: "c1", Tool: "write", File: "arguments-c1.json", Text: "short"},
		})
	}}
	if _, out, _ := talk(t, a, strings.NewReader("do it\n"), cli.Options{}); out != text+"\n" {
		t.Errorf("people see %d bytes: %.200s", len(out), out)
	}
}

func TestWithoutATerminalAReaderThatHasGoneEnds(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, "one\n") }()
	c := cli.New(cli.Options{In: in, Out: gone{}, Agent: "assistant"})
	if err := c.Serve(t.Context(), kernelOf(t, &scripted{answer: echo})); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, expected what the writer says", err)
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWithoutATerminalAnInterruptEndsTheTurnAndThenAll(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	interrupts, began := make(chan os.Signal), make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
		close(began)
		<-ctx.Done()
		return channel.DispatchResult{}, context.Cause(ctx)
	}}
	var out bytes.Buffer
	c := cli.New(cli.Options{In: in, Out: &out, Agent: "assistant", Interrupts: interrupts})
	ended := make(chan error)
	go func() { ended <- c.Serve(t.Context(), kernelOf(t, a)) }()
	_, _ = io.WriteString(feed, "one\n")
	<-began
	for done := false; !done; { // those that come before the turn has ended end it again
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		case interrupts <- os.Interrupt:
		}
	}
	if !c.Unanswered() || !c.Interrupted() {
		t.Error("a line that was canceled counts as answered")
	}
}
