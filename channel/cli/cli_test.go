//go:build unix

package cli_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/cli"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

func TestCH_160TheAnswerStreamsAsItIsWritten(t *testing.T) {
	next := make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		text := ""
		for _, piece := range []string{"The first", " and the second", " and the last."} {
			text += piece
			t.Sink.Preview(channel.Payload{Text: text})
			select {
			case <-next:
			case <-ctx.Done():
			}
		}
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
	}}
	r := newRig(t, kernelOf(t, a), cli.Options{Model: "demo:demo"})
	r.sees("lingserve chat: agent assistant, model demo:demo, session main")
	r.types("hello\r")
	r.sees("The first\n>")
	r.types("typed meanwhile") // which stays as it is
	r.reads("typed meanwhile")
	next <- struct{}{}
	r.sees("The first and the second\n> typed meanwhile")
	next <- struct{}{}
	r.sees("The first and the second and the last.\n> typed meanwhile")
	next <- struct{}{}
	r.types("\x15")
	r.reads("")
}

// A model may take back what it has written of its answer: that was thinking.
func TestATextThatIsTakenBackIsRemoved(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after string
		meanwhile     string // a note of others
		want          string
	}{
		{"all of it", "Hmm, the sky\n\nis perhaps", "It is blue.", "", "> hello\nIt is blue.\n>"},
		{"its end", "A first part.\n\nHmm, and", "A first part.\n\nA second part.", "", "> hello\nA first part.\n\nA second part.\n>"},
		{"the end of a row", "The sky is", "The sea is", "", "> hello\nThe sea is\n>"},
		{"its only row, with a note above", "Hmm", "It is blue.", "a note", "> hello\na note\nIt is blue.\n>"},
		{"below it, there is a note", "Hmm\nwell", "It is blue.", "a note", "Hmm\na note\n(The model has taken the text above back.)\nIt is blue.\n>"},
		{
			"a part is above the screen", strings.Repeat("Hmm\n", 30), "It is blue.", "",
			"Hmm\n(The model has taken the text above back.)\nIt is blue.\n>",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := make(chan struct{})
			a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				t.Sink.Preview(channel.Payload{Text: test.before})
				<-next
				t.Sink.Preview(channel.Payload{Text: test.after})
				<-next
				return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: test.after})
			}}
			r := newRig(t, kernelOf(t, a), cli.Options{})
			r.types("hello\r")
			r.sees(strings.TrimSpace(test.before) + "\n>")
			if test.meanwhile != "" {
				r.chat.Note(test.meanwhile)
			}
			next <- struct{}{}
			r.sees(test.want)
			next <- struct{}{}
			r.types("x")
			r.sees(test.want + " x")
		})
	}
}

func TestCH_160CtrlCCancelsTheTurnAndNeverTheProgram(t *testing.T) {
	causes := make(chan error, 1)
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		if t.Context.BodyForAgent != "long" {
			return echo(ctx, t)
		}
		t.Sink.Preview(channel.Payload{Text: "It begins"})
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return channel.DispatchResult{}, context.Cause(ctx)
	}}
	for _, test := range []struct {
		name   string
		cancel func(*rig, chan os.Signal)
	}{
		{"the key", func(r *rig, _ chan os.Signal) { r.types("\x03") }},
		{"the signal", func(_ *rig, c chan os.Signal) { c <- os.Interrupt }},
	} {
		t.Run(test.name, func(t *testing.T) {
			interrupts := make(chan os.Signal)
			r := newRig(t, kernelOf(t, a), cli.Options{Interrupts: interrupts})
			r.types("long\r")
			r.sees("It begins")
			r.types("half a line")
			r.reads("half a line")
			test.cancel(r, interrupts)
			r.sees("Canceled.")
			if cause := <-causes; !errors.Is(cause, turn.ErrStopped) {
				t.Errorf("the turn was canceled because of %v", cause)
			}
			r.reads("half a line") // it stays
			r.types("\x03")
			r.reads("") // nothing runs: the line is cleared
			test.cancel(r, interrupts)
			r.sees("No answer is running.")
			r.types("and now\r")
			r.sees("echo and now")
		})
	}
}

func TestCH_160CtrlDAndQuitEnd(t *testing.T) {
	running := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Sink.Preview(channel.Payload{Text: "It begins"})
		<-ctx.Done()
		return channel.DispatchResult{}, context.Cause(ctx)
	}}
	for _, test := range []struct{ name, keys string }{
		{"Ctrl-D", "\x04"},
		{"quit", ",quit\r"},
		{"quit with a wide comma", "，quit\r"},
		{"Ctrl-D while an answer is written", "long\r\x04"},
		{"quit while an answer is written", "long\r,quit\r"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, kernelOf(t, running), cli.Options{})
			r.types(test.keys)
			r.leaves()
		})
	}
	t.Run("Ctrl-D in a line does not", func(t *testing.T) {
		r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{})
		r.types("abc\x01\x04")
		r.until("the line", func() bool { return r.vt.text(r.vt.row) == "> bc" })
		r.types("\r")
		r.sees("echo bc")
	})
	t.Run("a terminal that goes away", func(t *testing.T) {
		keys, line, err := pty.Open()
		if err != nil {
			t.Skip(err)
		}
		defer line.Close()
		began := make(chan struct{})
		a := &scripted{answer: func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
			close(began)
			<-ctx.Done()
			return channel.DispatchResult{}, context.Cause(ctx)
		}}
		terminal, _ := cli.OpenTerminal(line, line)
		c := cli.New(cli.Options{In: line, Out: line, Terminal: terminal, Agent: "assistant"})
		ended := make(chan error)
		go func() { ended <- c.Serve(t.Context(), kernelOf(t, a)) }()
		if _, err := keys.WriteString("hello\r"); err != nil {
			t.Fatal(err)
		}
		<-began
		keys.Close()
		<-ended // what it says of a terminal that is not there any more is nobody's concern
	})
}

func TestCH_160ALineTypedDuringATurnGoesToTheLane(t *testing.T) {
	second := make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		if t.Policy != string(turn.Steer) {
			return channel.DispatchResult{}, errors.New("the policy is " + t.Policy)
		}
		if t.Context.BodyForAgent == "second" {
			close(second)
			return channel.DispatchResult{Deferred: true}, nil
		}
		select { // the first still runs
		case <-second:
		case <-ctx.Done():
		}
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "answer to both"})
	}}
	r := newRig(t, kernelOf(t, a), cli.Options{})
	r.types("first\rsecond\r")
	r.sees("answer to both")
	if got := a.texts(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the agent was asked %q", got)
	}
}

func TestCH_161CommandsOfTheTerminal(t *testing.T) {
	a := &scripted{answer: echo}
	r := newRig(t, kernelOf(t, a), cli.Options{Commands: command.New().Commands(tool.Admin)})
	r.types("hello\r")
	r.sees("echo hello")
	r.types(",session holidays\r")
	r.sees("The session is holidays from now on; it was main.")
	r.types("again\r")
	r.sees("echo again")
	r.types(",he\tmodel\r") // which is the agent's
	r.sees("echo ,help model")
	r.types(",tape.\t")
	r.sees(",tape.anchors  ,tape.export")
	r.types("in\t\r")
	r.sees("echo ,tape.info")
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for _, t := range a.asked {
		keys = append(keys, t.SessionKey)
	}
	if want := []string{"cli:main", "cli:holidays", "cli:holidays", "cli:holidays"}; !slices.Equal(keys, want) {
		t.Errorf("the sessions are %q, expected %q", keys, want)
	}
	if last := a.asked[3].Context; !last.CommandAuthorized || last.Role != tool.Admin {
		t.Errorf("the command has the role %v, %v", last.Role, last.CommandAuthorized)
	}
}

func TestCH_161EarlierLinesComeBack(t *testing.T) {
	r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{})
	r.types("the first\r\x1b[200~two\rrows\x1b[201~\r")
	r.sees("rows\n>")
	r.types("\x1b[A")
	r.reads("two␤rows")
	r.types("\x1b[A")
	r.reads("the first")
}

func TestCH_162SequencesOfTheModelAreNotObeyed(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;owned\a\x1b[31mred\rover\u009b5A\b\x00\u202edesrever"
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		t.Sink.Preview(channel.Payload{Text: evil})
		for _, b := range []struct {
			kind channel.ReplyKind
			p    channel.Payload
		}{
			{channel.ReplyTool, channel.Payload{Text: "tool " + evil}},
			{channel.ReplyTool, channel.Payload{Text: "asks " + evil, Question: &channel.Question{Turn: t.ID, ID: "c1", Tool: evil}}},
			{channel.ReplyFinal, channel.Payload{Text: evil, Media: []channel.MediaFact{{URL: "https://example.com/" + evil}}}},
		} {
			if err := t.Sink.Emit(ctx, b.kind, b.p); err != nil {
				return channel.DispatchResult{}, err
			}
		}
		return channel.DispatchResult{}, nil
	}}
	// What the terminal is sent beside text is looked at when the test ends.
	r := newRig(t, kernelOf(t, a), cli.Options{Colors: true})
	r.types("hello\x1b[200~\x1b[31m\x1b[201~\r")
	r.sees("red␍over<009B>5A␈␀<202E>desrever")
	r.sees("https://example.com/␛[2J")
}

func TestCH_162WithoutColorsThereIsNothingButText(t *testing.T) {
	for _, colors := range []bool{false, true} {
		r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{Colors: colors})
		r.types("hello\r")
		r.sees("echo hello")
		r.mu.Lock()
		styled := false
		for _, row := range r.vt.rows {
			styled = styled || slices.ContainsFunc(row, func(g glyph) bool { return g.style != "" })
		}
		r.mu.Unlock()
		if styled != colors {
			t.Errorf("colours %v: something is styled: %v", colors, styled)
		}
	}
}

func TestCH_162TheSenderIsLocalAndMayBeKeptOut(t *testing.T) {
	tree, err := channel.NewTree(channel.Configuration{{Level: channel.OfChannel, Channel: cli.Name}: {DMPolicy: channel.PolicyDisabled}})
	if err != nil {
		t.Fatal(err)
	}
	a := &scripted{answer: echo}
	r := newRig(t, &kernel.Kernel{Agent: a, Settings: tree}, cli.Options{})
	r.types("hello\r")
	r.sees("Not answered: dm disabled; see channels.cli.dm.policy.")
	if len(a.texts()) != 0 || !r.chat.Unanswered() {
		t.Error("the line was answered")
	}
}

func TestAQuestionIsAnsweredAtThePrompt(t *testing.T) {
	for _, test := range []struct{ typed, want string }{
		{"y", ",approve c1"}, {"no", ",deny c1"}, {",deny c1 not today", ",deny c1 not today"},
	} {
		t.Run(test.typed, func(t *testing.T) {
			answered := make(chan string)
			a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				if t.Context.BodyForAgent != "do it" {
					answered <- t.Context.BodyForCommands
					return channel.DispatchResult{NoReply: true}, nil
				}
				err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{
					Text: "The tool shell is to be called", Question: &channel.Question{Turn: t.ID, ID: "c1", Tool: "shell"},
				})
				if err != nil {
					return channel.DispatchResult{}, err
				}
				return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "told: " + <-answered})
			}}
			r := newRig(t, kernelOf(t, a), cli.Options{})
			r.types("do it\r")
			r.sees("y approves, n denies.")
			r.types(test.typed + "\r")
			r.sees("told: " + test.want)
			r.types("y\r") // which is a message again
			if got := <-answered; got != "y" {
				t.Errorf("got %q, expected a message", got)
			}
		})
	}
}

// A short answer is for the question that the person has read, which is sure only if no other one waits.
func TestDA_01_OfSeveralQuestionsAShortAnswerIsForNone(t *testing.T) {
	answered := make(chan string, 3)
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		if t.Context.BodyForAgent != "do it" {
			answered <- t.Context.BodyForCommands
			return channel.DispatchResult{NoReply: true}, nil
		}
		for _, id := range []string{"q1", "q2"} {
			if err := t.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: "May " + id + " run?", Question: &channel.Question{Turn: t.ID, ID: id, Tool: "shell"}}); err != nil {
				return channel.DispatchResult{}, err
			}
		}
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "told: " + <-answered + <-answered})
	}}
	r := newRig(t, kernelOf(t, a), cli.Options{})
	r.types("do it\r")
	r.sees("There are several questions")
	r.types("y\r,deny Q2\r")
	r.types("y\r") // one is left
	r.sees("told: ,deny Q2,approve q1")
}

func TestAnAnswerThatFailsSaysSo(t *testing.T) {
	broken := errors.New("secret of the provider")
	for _, test := range []struct {
		name    string
		preview string
		want    string
	}{
		{"before anything was said", "", "Something went wrong. (reference t-"},
		{"in the middle", "It begins", "The answer is incomplete. (reference t-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &scripted{}
			a.answer = func(_ context.Context, t *channel.Turn) (channel.DispatchResult, error) {
				if test.preview != "" {
					t.Sink.Preview(channel.Payload{Text: test.preview})
					a.seen.Wait()
				}
				return channel.DispatchResult{}, broken
			}
			if test.preview != "" {
				a.seen.Add(1)
			}
			r := newRig(t, kernelOf(t, a), cli.Options{Reason: func(err error) string {
				if errors.Is(err, broken) {
					return "the key is wrong"
				}
				return ""
			}})
			r.types("hello\r")
			if test.preview != "" {
				r.sees(test.preview)
				a.seen.Done()
			}
			r.sees(test.want)
			r.sees("the key is wrong")
			if r.shows("secret") {
				t.Error("the error is shown")
			}
		})
	}
}

func TestTheLineFollowsTheSizeOfTheTerminal(t *testing.T) {
	r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{})
	r.types(strings.Repeat("0123456789", 5))
	r.reads(strings.Repeat("0123456789", 5))
	r.mu.Lock()
	r.vt.width = 30
	r.mu.Unlock()
	if err := pty.Setsize(r.keys, &pty.Winsize{Cols: 30, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	r.types("x") // the size is noticed with the next key
	r.until("two rows", func() bool { return r.vt.text(r.vt.row) == "8901234567890123456789x" })
	r.types("\r")
	r.sees("> 0123456789012345678901234567\n8901234567890123456789x\necho\n012345678901234567890123456789\n")
}

func TestTheEndOfAPasteMayComeInParts(t *testing.T) {
	a := &scripted{answer: echo}
	r := newRig(t, kernelOf(t, a), cli.Options{In: &parts{first: []string{"\x1b[200~one\rtwo\x1b", "[201~\r"}}})
	r.sees("echo one")
	if got := a.texts(); !slices.Equal(got, []string{"one\ntwo"}) {
		t.Errorf("the agent was asked %q", got)
	}
}

func TestNotesOfOthersStandAboveTheLine(t *testing.T) {
	r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{})
	r.types("half a line")
	r.reads("half a line")
	if !r.chat.Note("level=WARN msg=\"something \x1b[31mis odd\"\n") {
		t.Error("the note is not shown")
	}
	r.sees("level=WARN msg=\"something ␛[31mis odd\"\n> half a line")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if r.chat.Note("late") {
		t.Error("a note is shown after the end")
	}
}

func TestKeysEditTheLine(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"insert", "ac\x1b[Db", "abc"},
		{"backspace", "abc\x7f", "ab"},
		{"delete", "abc\x01\x1b[3~", "bc"},
		{"wide characters", "你好世\x7f\x1b[D界", "你界好"},
		{"a wide character at the cursor", "你好\x01\x04!", "!好"},
		{"a word away", "one two three\x17four", "one two four"},
		{"words to the left", "one two three\x1bb\x1b[1;5D+", "one +two three"},
		{"to the end", "one two\x1bb\x0b!", "one !"},
		{"to the beginning", "one two\x1bb\x15", "two"},
		{"a clear screen", "one\x0ctwo", "onetwo"},
		{"a row", "one\x1b\rtwo", "one\ntwo"},
		{"keys without a meaning", "\x1b[15~a\x1b[1;2P\x00\x14b\x1bq\xff", "ab"},
		{"a paste", "<\x1b[200~one\rtwo\r\n\tthree\x1b[31m\x03\x1b[201~>", "<one\ntwo\n\tthree>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &scripted{answer: echo}
			r := newRig(t, kernelOf(t, a), cli.Options{})
			r.types(test.keys + "\r")
			r.sees("echo ")
			if got := a.texts(); !slices.Equal(got, []string{test.want}) {
				t.Errorf("the line is %q, expected %q", got, test.want)
			}
		})
	}
}

func TestCommandsAreCompleted(t *testing.T) {
	commands := command.New().Commands(tool.Admin)
	for _, test := range []struct{ typed, line, shown string }{
		{",qu\t", ",quit ", ""},
		{",tape.\t", ",tape.", ",tape.anchors  ,tape.export"},
		{"，qu\t", "，quit ", ""},
		{",help qu\t", ",help quit", ""},
		{",zz\t!", ",zz!", ""},
		{"hello ,q\t!", "hello ,q!", ""},
	} {
		t.Run(test.typed, func(t *testing.T) {
			r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{Commands: commands})
			r.types(test.typed)
			r.reads(test.line)
			r.sees(test.shown)
		})
	}
}

// Pieces of an answer, and a line that is typed meanwhile, of any length and of wide characters, do not disturb each other.
func TestTheLineStaysAsItIsWhateverIsWritten(t *testing.T) {
	line := strings.Repeat("typed 你好 ", 9) + "end"
	answer := strings.Repeat("words 世界 and\nrows ", 20) + strings.Repeat("x", 200) + " end"
	next := make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		runes := []rune(answer)
		for i := range runes {
			if i%5 == 0 {
				t.Sink.Preview(channel.Payload{Text: string(runes[:i+1])})
				select {
				case <-next:
				case <-ctx.Done():
				}
			}
		}
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: answer})
	}}
	r := newRig(t, kernelOf(t, a), cli.Options{})
	r.types("go\r")
	for i, key := range []rune(line) {
		next <- struct{}{}
		if i == 40 {
			r.types("\x01\x05") // to and fro
		}
		r.types(string(key))
	}
	close(next)
	want := squeeze("> go" + answer + "> " + line)
	r.until("answer and line", func() bool { return strings.HasSuffix(squeeze(strings.Join(r.vt.all(), "")), want) })
}

// squeeze removes what separates rows and words.
func squeeze(text string) string { return strings.Join(strings.Fields(text), "") }

func TestASpinnerShowsThatAnAnswerIsAwaited(t *testing.T) {
	released := make(chan struct{})
	a := &scripted{answer: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		<-released
		return channel.DispatchResult{NoReply: true}, nil
	}}
	r := newRig(t, kernelOf(t, a), cli.Options{})
	r.types("hello\rnext")
	for _, sign := range []string{"⠙", "⠹"} {
		r.until("the spinner", func() bool { return r.vt.text(r.vt.row) == sign+" > next" })
	}
	close(released)
	r.reads("next")
}
