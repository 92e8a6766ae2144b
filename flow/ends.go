package flow

import (
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/bot"
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
	start := ev.start
	react, handled := r.onFailure(i, start, c)
	if c.Fail(err) == nil { // tells the manager
		r.countFailure(i)
		react()
		r.note(note{Do: noteEnd, Start: start, Bot: i, Failed: true, Handled: *handled})
	}
}

func (r *run) countFailure(i int) {
	r.mu.Lock()
	r.bots[i].failed++
	r.mu.Unlock()
}

// onFailure has the failure of c, a start of bot i, handled by what waits for it. A failure that starts something is expected and
// does not fail the run; one that a condition or bound keeps from that does. What the failure has fired happens in react, which is
// called after c has failed: by then the "error" event was sent, and handled is known.
func (r *run) onFailure(i, start int, c *bot.ChatBot) (react func(), handled *bool) {
	handled = new(bool)
	if len(r.spec.failing[i]) == 0 {
		return nothing, handled
	}
	var reactions []func()
	r.manager.OnFailure(c, func(err error) bool {
		reactions, *handled = r.failed(i, start, c.Root(), err)
		return *handled
	})
	return func() {
		for _, f := range reactions {
			f()
		}
	}, handled
}

// failed decides what the failure of a start of bot i, at root, fires, and whether anything does.
func (r *run) failed(i, start int, root string, err error) (reactions []func(), handled bool) {
	if r.over() {
		return nil, false
	}
	name := r.spec.bots[i].name
	f, _ := bot.Describe(err)
	failure := encode(map[string]any{"code": f.Code, "message": f.Message, "bot": name})
	ev := event{Event: &eventVars{Bot: name}, Error: failure, Root: &root, by: start}
	for _, t := range slices.SortedStableFunc(slices.Values(r.spec.failing[i]), r.spec.eventsFirst) {
		act, fires := r.prepare(t, ev)
		reactions, handled = append(reactions, act), handled || fires
	}
	return reactions, handled
}

// finish is the end of a start of bot i.
func (r *run) finish(i int) {
	if ev, waiting := r.next(i); waiting {
		r.start(i, ev)
		return
	}
	r.fireEnds()
}

// next gives the place of a start of bot i that has ended to one that waits, or back.
func (r *run) next(i int) (ev event, waiting bool) {
	over := r.over()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.bots[i]
	if over {
		p.queue = nil
	}
	if len(p.queue) == 0 {
		p.running--
		return event{}, false
	}
	ev, p.queue = p.queue[0], p.queue[1:]
	return ev, true
}

func (r *run) release(i int) {
	r.mu.Lock()
	r.bots[i].holds--
	r.mu.Unlock()
}

// fireEnds fires what waits for the end of bots, for each that has ended and can start no more, until nothing more is due.
func (r *run) fireEnds() {
	for !r.over() {
		fired, more := r.due()
		if !more {
			r.conclude()
			return
		}
		for _, f := range fired {
			w := r.spec.waits[f.wait]
			if !r.fired[f.wait] {
				r.hit(w.target, event{Event: &eventVars{Bot: r.spec.bots[f.last].name}, wait: f.wait + 1})
				r.note(note{Do: noteWait, Wait: f.wait + 1})
			}
			if r.spec.event(w.target) == nil {
				r.release(int(w.target))
			}
		}
	}
}

// fired is a wait that is over, and the bot that was the last to end.
type fired struct{ wait, last int }

// due settles the ends of bots and returns the waits that are over by them, whose bots it holds. more is false where no end was settled.
func (r *run) due() (out []fired, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	possible := make([]bool, len(r.bots))
	for i := range r.bots {
		possible[i] = r.bots[i].active()
	}
	for i, w := range r.spec.waits {
		if r.spec.event(w.target) == nil && r.waits[i].left > 0 && !r.waits[i].vain {
			possible[w.target] = true // these ends, when they come, can start it
		}
	}
	closure(possible, r.edges)
	for i := range r.bots {
		p := &r.bots[i]
		if possible[i] || p.ended || len(r.spec.waiting[i]) == 0 {
			continue
		}
		p.ended, more = true, true
		for _, w := range r.spec.waiting[i] {
			r.waits[w].left--
			if r.spec.waits[w].trigger.kind == onCompleted && (p.finished == 0 || p.failed > 0) {
				r.waits[w].vain = true
			}
			if r.waits[w].left > 0 || r.waits[w].vain {
				continue
			}
			out = append(out, fired{w, i})
			if t := r.spec.waits[w].target; r.spec.event(t) == nil {
				r.bots[t].holds++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b fired) int {
		return r.spec.eventsFirst(r.spec.waits[a.wait].target, r.spec.waits[b.wait].target)
	})
	return out, more
}

// eventsFirst orders targets: events are sent before the bots of the same end or failure write.
func (s *spec) eventsFirst(a, b target) int {
	bots := func(t target) int { return min(1, max(0, len(s.bots)-int(t))) }
	return bots(a) - bots(b)
}
