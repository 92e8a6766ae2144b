package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// delivery shows the answer to one line.
type delivery struct {
	chat  *Chat
	block *block // the one that is not finished
}

const (
	previewEvery = 20 * time.Millisecond
	workingEvery = 200 * time.Millisecond // a turn of the spinner
)

func (d *delivery) working(context.Context) error {
	d.chat.view.working(true)
	return nil
}

func (d *delivery) rest(context.Context) error {
	d.chat.view.working(false)
	return nil
}

// preview shows the text of the block that is not finished.
func (d *delivery) preview(_ context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
	d.chat.view.working(false)
	d.chat.view.write(d.block, Visible(strings.TrimRight(b.Text, "\r"))) // a newline may follow
	return channel.Receipt{MessageIDs: []string{b.Key}}, nil
}

// deliver shows a block.
func (d *delivery) deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	view := d.chat.view
	switch {
	case b.Question != nil:
		d.ask(b)
	case b.IsError:
		view.note(Visible(b.Text), bad)
	case b.Kind == channel.ReplyTool:
		view.note("· "+oneLine(b.Text, 1000), dim)
	default:
		view.working(false)
		if b.Text != "" {
			view.write(d.block, strings.TrimSuffix(Visible(b.Text), "\n")+"\n")
		}
		view.finish(d.block)
		for _, m := range b.Media {
			view.note(strings.TrimSpace(string(m.Kind)+" "+oneLine(m.URL, 1000)), dim)
		}
	}
	return channel.Receipt{MessageIDs: []string{b.Key}}, nil
}

// ask shows a question, which the next line can answer.
func (d *delivery) ask(b channel.Block) {
	c := d.chat
	c.view.note(Visible(b.Text), plain)
	if c.o.Terminal == nil {
		c.wg.Go(func() { c.send(",deny " + b.Question.ID + " this conversation has no approver") })
		return
	}
	c.mu.Lock()
	c.questions = append(c.questions, question{b.Question.Turn, b.Question.ID})
	hint := "y approves, n denies."
	if len(c.questions) > 1 {
		hint = severalWait
	}
	c.mu.Unlock()
	c.view.note(hint, dim)
}

const severalWait = "There are several questions: answer each with ,approve ID or ,deny ID."

// shortAnswers are the commands that short answers stand for.
var shortAnswers = map[string]string{"y": ",approve ", "yes": ",approve ", "n": ",deny ", "no": ",deny "}

// answer returns the command for a short answer such as "y" to the only question. Any other line is returned as it is.
// ok is false if there are several questions: the person may have read another one than the first.
func (c *Chat) answer(text string) (command string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := shortAnswers[strings.ToLower(text)]
	if name == "" || len(c.questions) == 0 {
		return text, true
	}
	return name + c.questions[0].id, len(c.questions) == 1
}

// endTurn shows the outcome of a turn if its answer does not.
func (c *Chat) endTurn(result channel.Result, err error) {
	blocked := err == nil && result.Admission.Kind == channel.Drop
	c.mu.Lock()
	c.running--
	c.questions = slices.DeleteFunc(c.questions, func(q question) bool { return q.turn == result.TurnID })
	c.failed = c.failed || err != nil || blocked
	c.mu.Unlock()
	switch {
	case blocked:
		c.view.note("Not answered: "+refusal(result)+".", bad)
	case err == nil:
	case result.Outcome == channel.OutcomeCanceled || errors.Is(err, turn.ErrStopped):
		c.view.note("Canceled.", dim)
	default: // if nothing of the answer was shown, the kernel has said that it failed
		if result.Outcome != channel.OutcomeFailed {
			c.view.note("The answer is incomplete. (reference "+result.TurnID+")", bad)
		}
		if why := c.o.Reason(err); why != "" {
			c.view.note(Visible(why), dim)
		}
	}
}

// refusal returns why a line was not admitted, and the setting that decides.
func refusal(r channel.Result) string {
	why := strings.ReplaceAll(string(r.Admission.Reason), "_", " ")
	if r.Setting != "" {
		why += "; see " + r.Setting
	}
	return why
}
