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
	if c.Fail(err) == nil { // tells the manager
		r.failed(i, c, err)
	}
}

// failed fires what waits for the failure of bot i. A failure that starts something is expected and does not fail the run; one
// that a condition or bound keeps from that does.
func (r *run) failed(i int, c *bot.ChatBot, err error) {
	d := r.spec.failing[i]
	if !d.any() || r.over() {
		return
	}
	name := r.spec.bots[i].name
	f, _ := bot.Describe(err)
	ev := event{
		"event": map[string]any{"bot": name},
		"error": map[string]any{"code": f.Code, "message": f.Message, "bot": name},
	}
	handled := false
	for _, e := range d.events {
		handled = r.hit(-1, e, ev) || handled
	}
	for _, b := range d.bots {
		handled = r.hit(b, -1, ev) || handled
	}
	if handled {
		r.manager.Handled(c)
	}
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
