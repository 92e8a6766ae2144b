package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// delivery shows the answer to one line.
type delivery struct {
	chat   *Chat
	shown  string  // text of the open block that stands there
	screen visible // what it is passed through
	open   bool    // a block is shown that is not finished
}

// Intervals of what is shown of an unfinished answer, and of the sign that work goes on. The first is that of a screen: what comes in
// between is not seen. The second is given once, and then stands there.
const (
	previewEvery = 20 * time.Millisecond
	workingEvery = time.Hour
)

// working shows that work goes on.
func (d *delivery) working(context.Context) error {
	d.chat.show.tell("… Ctrl-C cancels")
	return nil
}

// preview writes what is new of the text behind what stands there.
func (d *delivery) preview(_ context.Context, b channel.Block, _ channel.Receipt) (channel.Receipt, error) {
	d.grow(b.Text)
	return channel.Receipt{MessageIDs: []string{b.Key}}, nil
}

// deliver shows a block.
func (d *delivery) deliver(_ context.Context, b channel.Block) (channel.Receipt, error) {
	show := d.chat.show
	show.tell("")
	switch {
	case b.Question != nil:
		d.ask(b)
	case b.IsError:
		show.note(Visible(b.Text), bad)
	case b.Kind == channel.ReplyTool:
		show.note("· "+line(b.Text), dim)
	default:
		d.grow(b.Text)
		d.end()
		for _, m := range b.Media {
			show.note(strings.TrimSpace(string(m.Kind)+" "+line(m.URL)), dim)
		}
	}
	return channel.Receipt{MessageIDs: []string{b.Key}}, nil
}

// grow shows a text of which the beginning may stand there. A text that is another one is shown anew, below.
func (d *delivery) grow(text string) {
	rest, ok := strings.CutPrefix(text, d.shown)
	if !ok && strings.TrimSpace(text) == strings.TrimSpace(d.shown) {
		return
	}
	if !ok {
		d.end()
		rest = text
	}
	if rest == "" {
		return
	}
	d.chat.show.tell("")
	d.open, d.shown = true, text
	d.chat.show.write(d, d.screen.add(rest), plain)
}

// end ends what stands there.
func (d *delivery) end() {
	if d.open {
		d.chat.show.write(d, d.screen.end(), plain)
		d.chat.show.fresh(d)
	}
	d.open, d.shown = false, ""
}

// ask puts a question, which the next line can answer.
func (d *delivery) ask(b channel.Block) {
	c := d.chat
	c.mu.Lock()
	c.questions = append(c.questions, &question{b.Question.Turn, b.Question.ID, b.Question.Tool})
	told, several := c.told, len(c.questions) > 1
	c.mu.Unlock()
	c.show.note(Visible(b.Text), plain)
	if told != nil {
		told(b.Question.ID)
		return
	}
	if several {
		c.show.note(severalWait, dim)
		return
	}
	c.show.note("y approves, n denies.", dim)
}

const severalWait = "There are several questions: answer each with ,approve ID or ,deny ID."

// answer makes the command of a short answer to a question: that of the id, or with "" the only one that waits. A line that is no short
// answer stays as it is. ok is false if several questions wait: the person may have read another one than the first.
func (c *Chat) answer(text, id string) (command string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.questions) == 0 {
		return text, true
	}
	name := map[string]string{"y": ",approve ", "yes": ",approve ", "n": ",deny ", "no": ",deny "}[strings.ToLower(strings.TrimSpace(text))]
	if name != "" {
		if id == "" && len(c.questions) > 1 {
			return text, false
		}
		text = name + cmp.Or(id, c.questions[0].id)
	}
	for _, name := range []string{",approve ", ",deny "} {
		if rest, ok := strings.CutPrefix(text, name); ok && len(strings.Fields(rest)) > 0 {
			id := strings.Fields(rest)[0]
			c.questions = slices.DeleteFunc(c.questions, func(q *question) bool { return strings.EqualFold(q.id, id) })
		}
	}
	return text, true
}

// ended says what came of a turn, where its answer does not.
func (c *Chat) ended(r *running, result channel.Result, err error) {
	c.mu.Lock()
	c.running = slices.DeleteFunc(c.running, func(other *running) bool { return other == r })
	c.questions = slices.DeleteFunc(c.questions, func(q *question) bool { return q.turn == result.TurnID })
	last, why := &lastTurn{result, r.message.text}, r.why
	c.last = last
	idle := len(c.running) == 0
	c.mu.Unlock()
	if idle {
		c.show.tell("")
	}
	blocked := err == nil && result.Admission.Kind == channel.Drop
	if err != nil || blocked {
		c.mu.Lock()
		c.failed = true
		c.mu.Unlock()
	}
	switch {
	case blocked:
		c.show.note("Not answered: "+refusal(result)+". ,why explains it.", bad)
	case err == nil:
	case result.Outcome == channel.OutcomeCanceled || errors.Is(err, turn.ErrStopped):
		c.show.note("Canceled.", dim)
	default:
		c.fail(result, err)
	}
	if why {
		c.explain(last)
	}
}

// fail says why an answer has failed. The sentence for everybody was told where nothing else was shown.
func (c *Chat) fail(result channel.Result, err error) {
	if result.Outcome != channel.OutcomeFailed {
		c.show.note("The answer is incomplete. (reference "+result.TurnID+")", bad)
	}
	if c.o.Reason == nil {
		return
	}
	if why := c.o.Reason(err); why != "" {
		c.show.note(Visible(why), dim)
	}
}

// refusal says why a line was not let through.
func refusal(r channel.Result) string {
	why, ok := map[channel.Reason]string{
		channel.ReasonOverloaded:        "too many messages are waiting",
		channel.ReasonSessionBusy:       "the session is still answering",
		channel.ReasonDraining:          "the program is ending",
		channel.ReasonRateLimited:       "you sent too many messages at once",
		channel.ReasonNoRoute:           "no agent is configured for the terminal; set an agent",
		channel.ReasonCommandNotAllowed: "the settings do not allow commands here",
	}[r.Admission.Reason]
	if !ok {
		why = "the settings deny it (" + string(r.Admission.Reason) + ")"
	}
	for _, v := range r.Verdicts {
		if v.State == channel.Blocked && v.Setting != "" {
			why += fmt.Sprintf("; see %s", v.Setting)
			break
		}
	}
	return why
}
