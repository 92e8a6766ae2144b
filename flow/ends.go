package flow

import (
	"fmt"

	"github.com/lingserve/lingserve/bot"
)

// fail ends a start of bot i that could not be made; c is its bot, nil where it has none.
func (r *run) fail(i int, c *bot.ChatBot, err error) {
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
		f.Message = fmt.Sprintf("the bot %q cannot be started: %s", name, f.Message)
		err = &f
	}
	react := r.onFailure(i, c)
	if c.Fail(err) == nil { // tells the manager
		react()
	}
}

// onFailure has the failure of c, a start of bot i, handled by what waits for it. A failure that starts something is expected and
// does not fail the run; one that a condition or bound keeps from that does. What the failure has fired happens in react, which is
// called after c has failed: by then the "error" event was sent.
func (r *run) onFailure(i int, c *bot.ChatBot) (react func()) {
	if !r.spec.failing[i].any() {
		return nothing
	}
	var reactions []func()
	r.manager.OnFailure(c, func(err error) (handled bool) {
		reactions, handled = r.failed(i, err)
		return handled
	})
	return func() {
		for _, f := range reactions {
			f()
		}
	}
}

// failed decides what the failure of bot i fires, and whether anything does.
func (r *run) failed(i int, err error) (reactions []func(), handled bool) {
	if r.over() {
		return nil, false
	}
	d := r.spec.failing[i]
	name := r.spec.bots[i].name
	f, _ := bot.Describe(err)
	ev := event{
		"event": map[string]any{"bot": name},
		"error": map[string]any{"code": f.Code, "message": f.Message, "bot": name},
	}
	fire := func(bot, status int) {
		act, fires := r.prepare(bot, status, ev)
		reactions, handled = append(reactions, act), handled || fires
	}
	for _, e := range d.events {
		fire(-1, e)
	}
	for _, b := range d.bots {
		fire(b, -1)
	}
	return reactions, handled
}

// finish is the end of a start of bot i.
func (r *run) finish(i int) {
	if ev, waiting := r.next(i); waiting {
		r.start(i, ev)
		return
	}
	r.settle()
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
		return nil, false
	}
	ev, p.queue = p.queue[0], p.queue[1:]
	return ev, true
}

func (r *run) release(i int) {
	r.mu.Lock()
	r.bots[i].holds--
	r.mu.Unlock()
}

// settle fires {done: bot} for each bot that has ended and can start no more, until nothing more is due.
func (r *run) settle() {
	for !r.over() {
		due := r.due()
		if len(due) == 0 {
			return
		}
		for _, i := range due {
			ev := event{"event": map[string]any{"bot": r.spec.bots[i].name}}
			for _, e := range r.spec.waiting[i].events {
				r.hit(-1, e, ev)
			}
			for _, b := range r.spec.waiting[i].bots {
				r.hit(b, -1, ev)
				r.release(b)
			}
		}
	}
}

// due returns the bots whose end has not been told yet and holds what waits for it.
func (r *run) due() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	possible := make([]bool, len(r.bots))
	for i := range r.bots {
		possible[i] = possible[i] || r.bots[i].active()
		if !r.bots[i].ended {
			for _, b := range r.spec.waiting[i].bots {
				possible[b] = true // this end, when it comes, can start it
			}
		}
	}
	closure(possible, r.edges)
	var due []int
	for i, p := range r.bots {
		if !possible[i] && !p.ended && r.spec.waiting[i].any() {
			due = append(due, i)
		}
	}
	for _, i := range due {
		r.bots[i].ended = true
		for _, b := range r.spec.waiting[i].bots {
			r.bots[b].holds++
		}
	}
	return due
}
