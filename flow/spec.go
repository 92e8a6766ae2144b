package flow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/yaml"
	"github.com/lingserve/lingserve/jsonuri"
)

// spec is a workflow that was read from text and checked. It does not change.
type spec struct {
	described
	model   string // "" is the server's; several, separated by commas, are a fallback chain
	options adapter.Options
	bots    []*botSpec
	events  []*eventSpec
	steps   []*step // of the bots, then of the events
	starts  [][]int // by bot: the bots that it can start
	filter  *filter
	limits  limits
	waits   []listener // triggers that wait for the end of bots
}

// onFailure lists the steps that wait for a failure of bot i, events first.
func (s *spec) onFailure(i int) (steps []int) {
	for step, st := range s.steps {
		for _, t := range st.on {
			if t.kind == onError && slices.Contains(t.bots, i) {
				steps = append(steps, step)
			}
		}
	}
	slices.SortStableFunc(steps, s.eventsFirst)
	return steps
}

// step is what triggers start: a bot, or the sending of an event.
type step struct {
	name   string
	on     triggers
	unread bool // one of the triggers could not be read
	when   *template
}

// event returns the event of a step, or nil if it is a bot.
func (s *spec) event(i int) *eventSpec {
	if i < len(s.bots) {
		return nil
	}
	return s.events[i-len(s.bots)]
}

// limits bound a run.
type limits struct {
	bots int           // that are started
	time time.Duration // 0: none
}

// Bounds of a workflow where it names none.
const (
	defaultMax  = 256 // starts of one bot, and of all
	largestMax  = 10_000
	maxBotSpecs = 100 // bots in a file, and events: each is compared with each
)

type botSpec struct {
	step
	at          *yaml.Node
	model       string
	options     adapter.Options
	format      bot.Format
	output      json.RawMessage // JSON Schema
	onInvalid   bot.OnInvalid
	quiet       bool
	refused     bool // a trigger is unread, or nothing can fire it: little is known of when the bot starts
	prompts     []*template
	history     []message
	message     *template // nil: the input
	root        *template
	rootText    string
	rootAt      *yaml.Node
	segments    []string // what is known of the root
	concurrency int      // 0: no bound
	max         int
	conditional bool // when is written
	bounded     bool // max or when is
	filter      *filter
	sources     []int // bots that can fire one of on

	listeners []listener // what completes below the bot's root and fires something
}

// listener is a trigger together with the step that it starts.
type listener struct {
	trigger *trigger
	step    int
}

type message struct {
	role string
	text *template
}

type eventSpec struct {
	step
	data value // nil: an empty object
}

type triggerKind uint8

const (
	onString triggerKind = iota
	onObject
	onValue
	onDone
	onCompleted
	onError
)

// triggerKinds are the kinds as they are written, in their order.
var triggerKinds = []string{"string", "object", "value", "done", "completed", "error"}

// trigger is a compiled [Trigger].
type trigger struct {
	kind     triggerKind
	at       *yaml.Node
	text     string // the pattern
	pattern  *jsonuri.Pattern
	segments []string
	names    []*yaml.Node // of bots: several of onDone and onCompleted, one of onError
	bots     []int        // those names
	sources  []int        // bots that can fire it
}

// ends says whether the trigger waits for the end of bots.
func (t *trigger) ends() bool { return t.kind == onDone || t.kind == onCompleted }

// repeats says whether the trigger can fire while another firing of it goes on.
func (t *trigger) repeats() bool { return slices.ContainsFunc(t.segments, isStar) }

// botNames lists the names of the bots that the trigger waits for.
func (t *trigger) botNames() (names []string) {
	for _, n := range t.names {
		names = append(names, n.Text)
	}
	return names
}

func (t *trigger) public() Trigger {
	names := t.botNames()
	switch t.kind {
	case onString:
		return Trigger{String: t.text}
	case onObject:
		return Trigger{Object: t.text}
	case onValue:
		return Trigger{Value: t.text}
	case onDone:
		return Trigger{Done: names}
	case onCompleted:
		return Trigger{Completed: names}
	default:
		return Trigger{Error: names[0]}
	}
}

// triggers start the same thing, each by itself.
type triggers []*trigger

func (ts triggers) public() (out []Trigger) {
	for _, t := range ts {
		out = append(out, t.public())
	}
	return out
}

// stars says what each star stands for, whichever trigger fires: as many as all of them have.
func (ts triggers) stars() (out []string) {
	for i, t := range ts {
		stars := starsOf(t.segments)
		if i == 0 {
			out = stars
			continue
		}
		out = out[:min(len(out), len(stars))]
		for j := range out {
			out[j] = max(out[j], stars[j]) // "**" is the larger
		}
	}
	return out
}

// fits says whether the trigger can be fired by what b writes.
func (t *trigger) fits(b *botSpec) bool {
	if t.pattern == nil {
		return false
	}
	if b.format != bot.JSON {
		// Text and HTML are one string: the one at its root.
		return t.kind != onObject && meet(t.segments, b.segments)
	}
	return meet(t.segments, append(slices.Clone(b.segments), many))
}

// value is JSON with templates in its strings, in pieces.
type value []piece

// piece is JSON text, or a template whose text becomes a string.
type piece struct {
	json []byte
	text *template // nil for JSON text
}

func (v value) templates() (out []*template) {
	for _, p := range v {
		if p.text != nil {
			out = append(out, p.text)
		}
	}
	return out
}

// render returns v as JSON text.
func (v value) render(budget *prompt.Budget, vars map[string]any) (out []byte, err error) {
	for _, p := range v {
		text := p.json
		if p.text != nil {
			rendered, err := p.text.Render(budget, vars)
			if err != nil {
				return nil, err
			}
			text = rawjson.MustMarshal(rendered)
		}
		out = append(out, text...)
	}
	return out, nil
}
