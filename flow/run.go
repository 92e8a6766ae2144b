package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
)

// run is one run of a spec.
//
// What can still happen is counted: a bot of the spec is active while any of its starts runs or waits for a place. A bot that is not active,
// and whose sources and theirs are not, can never start again: then its end is settled. What is to be done is decided with mu held, and done
// without. All this happens in callbacks of bots, which the manager counts, or before Run returns; so Close waits for it.
type run struct {
	spec    *spec
	manager *ling.Manager
	vars    map[string]any // input and params; not changed
	input   string         // the message of bots that have none of their own

	templates *prompt.Budget // of the time of all templates

	mu      sync.Mutex
	bots    []progress
	waits   []waiting    // of the spec's waits
	hits    []bool       // of steps: a trigger has fired
	started int          // of all bots
	number  int          // of the last start
	fired   map[int]bool // waits that were over before the run was resumed
	settled bool         // that nothing can start any more has been seen

	reported map[string]bool // what is reported once
}

// waiting is how far a wait is.
type waiting struct {
	left int  // bots that have not ended
	vain bool // one of them has not completed, though that is waited for
}

// progress is how far the starts of one bot are.
type progress struct {
	started  int // ever, with those that wait
	finished int // well
	failed   int
	running  int
	queue    []event // of the starts that wait for a place; at most max
	ended    bool    // and no more can come
}

func (p *progress) active() bool { return p.running+len(p.queue) > 0 }

// event is what fired a trigger, and the start that it fired.
type event struct {
	Event *eventVars      `json:"event,omitempty"` // the variable "event"
	Error json.RawMessage `json:"error,omitempty"` // the variable "error"
	Root  *string         `json:"root,omitempty"`  // where a bot has written whose failure is the event
	by    int             // number of the start that has fired the trigger; 0 is none
	start int             // number of the start that was fired
	wait  int             // number of the wait that is over, from 1
}

// eventVars is the variable "event". Only values have a uri.
type eventVars struct {
	URI   *string         `json:"uri,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Match []string        `json:"match,omitempty"`
	Bot   string          `json:"bot"`
}

// maxTemplateTime is how long all templates of a run may take together. Those of an ordinary run take some milliseconds; a hostile workflow in
// a request could keep a processor busy for minutes.
const maxTemplateTime = 10 * time.Second

// Run starts the bots that nothing has to start. The params of the request are the manager's custom params. Where the manager's
// config names a model or options, they go before the workflow's own, and those of a bot before both.
func (s *spec) Run(ctx context.Context, m *ling.Manager, input map[string]any) error {
	r := &run{
		spec: s, manager: m, bots: make([]progress, len(s.bots)), waits: make([]waiting, len(s.waits)),
		hits: make([]bool, len(s.steps)), reported: map[string]bool{}, templates: prompt.NewBudget(maxTemplateTime),
	}
	for i, w := range s.waits {
		r.waits[i].left = len(w.trigger.bots)
	}
	r.vars = map[string]any{"input": input, "params": m.CustomParams()}
	r.input = defaultMessage(input)
	if s.filter != nil {
		m.Tube().AddFilter(s.filter.below(""))
	}
	if s.limits.time > 0 {
		// The timer must not be a task, since Close would wait for it; it goes when the run's context ends.
		timer := time.AfterFunc(s.limits.time, func() {
			m.Stop(fmt.Errorf("the workflow exceeded its time limit of %s", s.limits.time))
		})
		context.AfterFunc(m.Context(), func() { timer.Stop() })
	}
	if notes, ok := m.Resumed(); ok && r.resume(notes) {
		return nil
	}
	r.note(note{Do: noteWorkflow, Workflow: s.fingerprint()})
	r.begin(nil)
	return nil
}

// begin begins again starts of before, and starts the bots that nothing has to start and that are not among those that have started.
func (r *run) begin(again []*started) {
	r.decide(func() (acts []func()) {
		for _, s := range again {
			acts = append(acts, r.place(s.Bot, s.ev))
		}
		for i, b := range r.spec.bots {
			if b.on == nil && r.bots[i].started == 0 {
				act, _ := r.prepare(i, event{})
				acts = append(acts, act)
			}
		}
		return acts
	})
	r.fireEnds()
}

// decide calls choose with mu held, and then what it returns without.
func (r *run) decide(choose func() (acts []func())) {
	for _, act := range r.locked(choose) {
		act()
	}
}

func (r *run) locked(choose func() []func()) []func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	return choose()
}

// defaultMessage is the only property where that is a string, or the input as JSON.
func defaultMessage(input map[string]any) string {
	if len(input) == 1 {
		for _, v := range input {
			if s, ok := v.(string); ok {
				return s
			}
		}
	}
	return string(rawjson.MustMarshal(input))
}

// variables are what templates can read. The result so far is a copy of the document, so it is made only for those that name it.
func (r *run) variables(ev event, templates ...*template) map[string]any {
	vars := maps.Clone(r.vars)
	if ev.Event != nil {
		vars["event"] = json.RawMessage(rawjson.MustMarshal(ev.Event))
	}
	if ev.Error != nil {
		vars["error"] = ev.Error
	}
	if slices.ContainsFunc(templates, func(t *template) bool { return t != nil && t.result }) {
		vars["result"] = r.manager.Peek(true).Result
	}
	return vars
}

// over says that the run is canceled: nothing more is started.
func (r *run) over() bool { return r.manager.Context().Err() != nil }

// nothing is what a trigger does that is ignored.
func nothing() {}

// prepare decides whether a step is taken: whether a bot is started, or waits for a place, or an event is sent. Its condition must hold and
// its bounds must allow it. The place of a bot is taken at once; act starts it, or reports why it is not started. fires is false where a
// condition or bound is in the way. It is called with mu held.
func (r *run) prepare(i int, ev event) (act func(), fires bool) {
	r.hits[i] = true
	if r.over() {
		return nothing, false
	}
	st, e := r.spec.steps[i], r.spec.event(i)
	if st.when != nil {
		holds, doubt, err := st.when.Test(r.templates, r.variables(ev, st.when))
		switch {
		case err != nil && e != nil:
			return func() { r.unsent(e, err) }, false
		case err != nil:
			r.bots[i].running++ // until what waits for its failure has been started
			return func() { r.fail(i, event{}, nil, err); r.finish(i) }, false
		case !holds:
			return func() { r.warnOfCondition(i, doubt) }, false
		}
	}
	if e == nil {
		return r.prepareStart(i, ev)
	}
	vars := r.variables(ev, e.data.templates()...)
	return func() { r.send(e, vars) }, true
}

// firstTime notes what is reported once, and says whether it was not. It is called with mu held.
func (r *run) firstTime(what string) bool {
	defer func() { r.reported[what] = true }()
	return !r.reported[what]
}

func (r *run) prepareStart(i int, ev event) (act func(), fires bool) {
	b, p := r.spec.bots[i], &r.bots[i]
	limit := ""
	switch {
	case p.started >= b.max:
		limit = fmt.Sprintf("%s reached its limit max: %d; the server did not start it again", b.name, b.max)
	case r.started >= r.spec.limits.bots:
		limit = fmt.Sprintf("the workflow reached its limit of %d bots; the server started no more", r.spec.limits.bots)
	}
	if limit != "" {
		if !r.firstTime(limit) {
			return nothing, false
		}
		return func() { r.manager.Report(b.name, &bot.Failure{Code: bot.CodeLimitReached, Message: limit}) }, false
	}
	p.started++
	r.started++
	r.number++
	ev.start = r.number
	r.noteStart(i, ev)
	return r.place(i, ev), true
}

// place gives a start of bot i a place, and returns what starts it. Where no place is free, the start waits. It is called with mu held.
func (r *run) place(i int, ev event) (act func()) {
	p, b := &r.bots[i], r.spec.bots[i]
	if b.concurrency > 0 && p.running >= b.concurrency {
		p.queue = append(p.queue, ev)
		return nothing
	}
	p.running++
	return func() { r.start(i, ev) }
}

// start makes a bot and lets it chat; its place is taken already. Where that fails, the next one that waits has its turn.
func (r *run) start(i int, ev event) {
	if c, err := r.chat(i, ev); err != nil {
		r.fail(i, ev, c, err)
		r.finish(i)
	}
}

// chat makes a bot and starts it. The bot is nil if it was not made.
func (r *run) chat(i int, ev event) (*bot.ChatBot, error) {
	b := r.spec.bots[i]
	templates := append([]*template{b.root, b.message}, b.prompts...)
	for _, h := range b.history {
		templates = append(templates, h.text)
	}
	vars := r.variables(ev, templates...)
	root, err := b.rootFor(r.templates, vars)
	if err != nil {
		return nil, err
	}
	start := ev.start
	if root != "" {
		r.note(note{Do: noteRoot, Start: start, URI: root})
	}
	c, err := r.manager.CreateBot(b.name, root, func(c *bot.Config) {
		r.configure(b, c)
		c.Instead = r.standsIn(i, ev, root)
		c.Member = r.noteMembers(start, root)
	})
	if err != nil {
		return nil, err
	}
	var failure error
	render := func(t *template) (text string) {
		if failure == nil {
			text, failure = t.Render(r.templates, vars)
		}
		return text
	}
	text := r.input
	if b.message != nil {
		text = render(b.message)
	}
	for _, p := range b.prompts {
		c.AddSystem(render(p)) // no template any more: it may have what users and models have written
	}
	for _, h := range b.history {
		c.AddHistory(adapter.Message{Role: h.role, Content: render(h.text)})
	}
	if failure != nil {
		return c, failure
	}
	unfilter := func() {}
	if b.filter != nil {
		unfilter = r.manager.Tube().AddFilter(b.filter.below(root))
	}
	// A bot ends once; its callbacks come from one goroutine.
	e, once := r.expectEnd(i, start, c), false
	end := func(err error) {
		if once {
			return
		}
		once = true
		unfilter()
		r.ended(e, err != nil)
		r.finish(i)
	}
	l := r.listener(b, start)
	l.Response = func(bot.Response) { end(nil) }
	l.Error = end
	c.Listen(l)
	message := bot.Message{Text: text}
	if media := r.manager.Media(); b.on == nil && len(media) > 0 { // what came with the input is for the bots that the run starts
		message.Parts = append([]adapter.Part{{Type: "text", Text: text}}, media...)
	}
	if err := c.Chat(message); err != nil {
		unfilter()
		return c, err
	}
	return c, nil
}

// standsIn says whether a start of bot i, at root, takes the place of a bot that has failed there. The whole document is only such a
// place if no other bot has written to it.
func (r *run) standsIn(i int, ev event, root string) bool {
	if ev.Root == nil || *ev.Root != root {
		return false
	}
	if root != "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for j, p := range r.bots {
		if j != i && p.started > p.failed {
			return false
		}
	}
	return true
}

// rootFor renders a bot's root and checks what came out.
func (b *botSpec) rootFor(budget *prompt.Budget, vars map[string]any) (string, error) {
	if b.root == nil {
		return "", nil
	}
	root, err := b.root.Render(budget, vars)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(b.on, func(t *trigger) bool { return slices.Contains(t.segments, many) }) {
		// A star that matched no segment leaves an empty one.
		root = strings.Join(slices.DeleteFunc(splitURI(root), func(s string) bool { return s == "" }), "/")
	}
	if _, err := jsonuri.Parse(root); err != nil {
		return "", &bot.Failure{Code: bot.CodeInvalid, Message: fmt.Sprintf("its root %q is not a valid uri", short(root)), Cause: err}
	}
	if jsonuri.Reserved(root) {
		return "", &bot.Failure{Code: bot.CodeInvalid, Message: fmt.Sprintf("its root %q is reserved", short(root))}
	}
	return root, nil
}

// configure puts a bot's settings over those of the run, and the workflow's under them: the caller of a run decides where
// the bot itself does not.
func (r *run) configure(b *botSpec, c *bot.Config) {
	switch {
	case b.model != "":
		c.Model = b.model
	case c.Model == "":
		c.Model = r.spec.model
	}
	strict := c.OnInvalid.Fails() // for the caller
	c.Format, c.Schema, c.SchemaName, c.OnInvalid = b.format, b.output, "", b.onInvalid
	if strict {
		c.OnInvalid = b.onInvalid.Strict()
	}
	if b.output != nil {
		c.SchemaName = b.name
	}
	c.Quiet = c.Quiet || b.quiet
	c.NoValue = true // the answer of a workflow's bot is in the result
	c.Options = b.options.Over(c.Options).Over(r.spec.options)
}

// listener listens to what fires something, and to nothing else: a bot collects values only where someone listens.
func (r *run) listener(b *botSpec, start int) (l bot.Listener) {
	wanted := func(kind triggerKind) bool {
		return slices.ContainsFunc(b.listeners, func(l listener) bool { return l.trigger.kind == kind || l.trigger.kind == onValue })
	}
	if wanted(onString) {
		l.String = func(v bot.StringValue) { r.completed(b, start, onString, v.URI, v.Value) }
	}
	if wanted(onObject) {
		l.Object = func(v bot.ObjectValue) { r.completed(b, start, onObject, v.URI, v.Value) }
	}
	if wanted(onValue) {
		l.Scalar = func(v bot.ObjectValue) { r.completed(b, start, onValue, v.URI, v.Value) }
	}
	return l
}

// completed fires what waits for the value at uri, or for any value there.
func (r *run) completed(b *botSpec, start int, kind triggerKind, uri string, value any) {
	for _, l := range b.listeners {
		if l.trigger.kind != kind && l.trigger.kind != onValue || !l.trigger.pattern.Match([]byte(uri)) {
			continue
		}
		stars, _ := l.trigger.pattern.Stars(uri)
		ev := event{Event: &eventVars{URI: &uri, Value: rawjson.MustMarshal(value), Match: stars, Bot: b.name}, by: start}
		r.decide(func() []func() {
			act, _ := r.prepare(l.step, ev)
			return []func(){act}
		})
	}
}

// send sends a status event.
func (r *run) send(e *eventSpec, vars map[string]any) {
	data := []byte("{}")
	if e.data != nil {
		var err error
		if data, err = e.data.render(r.templates, vars); err != nil {
			r.unsent(e, err)
			return
		}
	}
	r.unsent(e, r.manager.SendEvent(e.name, json.RawMessage(data)))
}

func (r *run) unsent(e *eventSpec, err error) {
	if err != nil && !r.over() {
		r.manager.Report("", &bot.Failure{Message: fmt.Sprintf("cannot send the event %q: %s", e.name, plainError(err)), Cause: err})
	}
}
