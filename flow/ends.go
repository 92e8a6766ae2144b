package flow

import (
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// fail ends a start of bot i that could not be made; c is its bot, nil where it has none. ev has no start where a condition has failed.
func (r *run) fail(i int, ev event, c *bot.ChatBot, err error) {
	if r.over() {
		return
	}
	name := r.spec.bots[i].name
	if c == nil {
		var e error
		if c, e = r.manager.CreateBot(name, "", nil); e != nil {
			return // the run is being ended, and says why itself
		}
	}
	if f, ok := bot.Describe(err); ok {
		f.Message = fmt.Sprintf("cannot start the bot %q: %s", name, f.Message)
		err = &f
	}
	e := r.expectEnd(i, ev.start, c)
	if c.Fail(err) == nil { // tells the manager
		r.ended(e, true)
	}
}

// ending is the end of a start of a bot. A failure that starts something is expected and does not fail the run: it is handled; one that a
// condition or bound keeps from that does. What the failure has fired happens in reactions, which are called after the bot has failed: by
// then the "error" event was sent.
type ending struct {
	bot, start int
	reactions  []func()
	handled    bool
}

// expectEnd has the failure of c, a start of bot i, handled by what waits for it.
func (r *run) expectEnd(i, start int, c *bot.ChatBot) *ending {
	e := &ending{bot: i, start: start}
	if len(r.spec.onFailure(i)) > 0 {
		r.manager.OnFailure(c, func(err error) bool {
			e.reactions, e.handled = r.failed(i, start, c.Root(), err)
			return e.handled
		})
	}
	return e
}

// ended counts an end, does what it has fired, and notes it.
func (r *run) ended(e *ending, failed bool) {
	r.mu.Lock()
	if failed {
		r.bots[e.bot].failed++
	} else {
		r.bots[e.bot].finished++
	}
	r.mu.Unlock()
	for _, react := range e.reactions {
		react()
	}
	r.note(note{Do: noteEnd, Start: e.start, Bot: e.bot, Failed: failed, Handled: e.handled})
}

// failed decides what the failure of a start of bot i, at root, fires, and whether anything does.
func (r *run) failed(i, start int, root string, err error) (reactions []func(), handled bool) {
	if r.over() {
		return nil, false
	}
	name := r.spec.bots[i].name
	f, _ := bot.Describe(err)
	failure := rawjson.MustMarshal(map[string]any{"code": f.Code, "message": f.Message, "bot": name})
	ev := event{Event: &eventVars{Bot: name}, Error: failure, Root: &root, by: start}
	reactions = r.locked(func() (acts []func()) {
		for _, step := range r.spec.onFailure(i) {
			act, fires := r.prepare(step, ev)
			acts, handled = append(acts, act), handled || fires
		}
		return acts
	})
	return reactions, handled
}

// finish is the end of a start of bot i, whose place goes to one that waits.
func (r *run) finish(i int) {
	r.decide(func() (acts []func()) {
		p := &r.bots[i]
		if p.running--; r.over() {
			p.queue = nil
		}
		if len(p.queue) > 0 && p.running < r.spec.bots[i].concurrency {
			acts = append(acts, r.place(i, p.queue[0]))
			p.queue = p.queue[1:]
		}
		return acts
	})
	r.fireEnds()
}

// fireEnds fires what waits for the end of bots, for each that has ended and can start no more, until nothing more is due.
func (r *run) fireEnds() {
	r.decide(func() (acts []func()) {
		for !r.over() {
			over, more := r.finalizeEnds()
			if !more {
				return append(acts, r.conclude())
			}
			for _, w := range over {
				if !r.fired[w.wait] {
					act, _ := r.prepare(r.spec.waits[w.wait].step, event{Event: &eventVars{Bot: r.spec.bots[w.last].name}, wait: w.wait + 1})
					acts = append(acts, act)
					r.note(note{Do: noteWait, Wait: w.wait + 1})
				}
			}
		}
		return acts
	})
}

// endedWait is a wait that is over, and the bot that was the last to end.
type endedWait struct{ wait, last int }

// finalizeEnds marks the bots that have ended and can start no more, and returns the waits that are over by that. more is false if no wait
// has come closer to its end. It is called with mu held.
func (r *run) finalizeEnds() (over []endedWait, more bool) {
	possible := make([]bool, len(r.bots))
	for i := range r.bots {
		possible[i] = r.bots[i].active()
	}
	for i, w := range r.spec.waits {
		if r.spec.event(w.step) == nil && r.waits[i].left > 0 && !r.waits[i].vain {
			possible[w.step] = true // these ends, when they come, can start it
		}
	}
	closure(possible, r.spec.starts)
	for i := range r.bots {
		p := &r.bots[i]
		if possible[i] || p.ended {
			continue
		}
		p.ended = true
		for w, wait := range r.spec.waits {
			if !slices.Contains(wait.trigger.bots, i) {
				continue
			}
			more = true
			r.waits[w].left--
			if wait.trigger.kind == onCompleted && (p.finished == 0 || p.failed > 0) {
				r.waits[w].vain = true
			}
			if r.waits[w].left == 0 && !r.waits[w].vain {
				over = append(over, endedWait{w, i})
			}
		}
	}
	slices.SortStableFunc(over, func(a, b endedWait) int {
		return r.spec.eventsFirst(r.spec.waits[a.wait].step, r.spec.waits[b.wait].step)
	})
	return over, more
}

// eventsFirst orders steps: events are sent before the bots of the same end or failure write.
func (s *spec) eventsFirst(a, b int) int {
	bots := func(i int) int { return min(1, max(0, len(s.bots)-i)) }
	return bots(a) - bots(b)
}
