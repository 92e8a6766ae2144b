package flow

import (
	"slices"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/jsonuri"
)

// bots reads what of the bots is not a template and returns the members of each.
func (l *loader) bots(s *spec, root, n *node) []fields {
	switch {
	case n == nil:
		l.errorf(root, "the workflow has no bots; expected bots: with at least one bot")
		return nil
	case n.kind != mapping:
		l.errorf(n, "bots: expected a mapping from names to bots, got %s", n.kind)
		return nil
	case len(n.items) == 0:
		l.errorf(n, "bots: expected at least one bot")
	case len(n.items) > maxBotSpecs:
		l.errorf(n, "bots: expected at most %d bots, got %d", maxBotSpecs, len(n.items))
		return nil
	}
	var parts []fields
	for i, key := range n.keys {
		f := fields{}
		// A bot without members is one that only sends the input to the model.
		if item := n.items[i]; item.kind != null {
			f = l.fields(item, "bot "+key.text, botFields...)
		}
		b := &botSpec{name: key.text, at: key, format: bot.JSON, max: defaultMax}
		if !validName(b.name) {
			l.errorf(key, "%q is not a valid name for a bot; expected %s", short(b.name), nameRule)
		}
		b.model = l.model(f["model"])
		b.options, b.optionsAt = l.options(f["options"]), f["options"]
		b.quiet = l.boolean(f["quiet"], "quiet")
		b.filter = l.filter(f["filter"])
		if t, ok := l.text(f["format"], "format"); ok {
			if b.format = bot.Format(t); b.format != bot.JSON && b.format != bot.Text && b.format != bot.HTML {
				l.errorf(f["format"], "format: expected json, text or html, got %q", short(t))
				b.format, l.unclear = bot.JSON, true
			}
		}
		if n := f["schema"]; n != nil {
			b.output = n.appendJSON(nil)
			if err := bot.CheckSchema(b.output); err != nil {
				l.schemaError(n, "schema", err)
			}
			if b.format != bot.JSON {
				l.errorf(n, "schema: does not go with format: %s; remove one of them", b.format)
			}
		}
		if t, ok := l.text(f["on_invalid"], "on_invalid"); ok {
			b.onInvalid = bot.OnInvalid(t)
			switch {
			case !slices.Contains([]bot.OnInvalid{bot.Report, bot.Retry, bot.Fail, bot.RetryThenFail}, b.onInvalid):
				l.errorf(f["on_invalid"], "on_invalid: expected report, retry, fail or retry_then_fail, got %q", short(t))
			case b.format != bot.JSON:
				l.errorf(f["on_invalid"], "on_invalid: does not go with format: %s; remove it", b.format)
			}
		}
		if i, ok := l.integer(f["concurrency"], "concurrency", 1, largestMax); ok {
			b.concurrency = i
		}
		if i, ok := l.integer(f["max"], "max", 1, largestMax); ok {
			b.max, b.bounded = i, true
		}
		b.conditional = f["when"] != nil
		b.bounded = b.bounded || b.conditional
		if on := f["on"]; on != nil {
			ok := false
			b.on, ok = l.triggers(on)
			b.unread, b.refused = !ok, !ok
		}
		b.rootAt = key
		if t, ok := l.text(f["root"], "root"); ok {
			b.rootText, b.rootAt = t, f["root"]
		}
		b.segments = rootSegments(b.rootText, b.on.stars())
		if len(b.segments) > maxDepth {
			l.errorf(b.rootAt, "root: expected at most %d segments, got %d", maxDepth, len(b.segments))
			b.segments = nil
		}
		l.root(b)
		s.bots, parts = append(s.bots, b), append(parts, f)
	}
	return parts
}

// root checks what can be known of a root before it is rendered.
func (l *loader) root(b *botSpec) {
	fixed, ok := static(b.segments)
	if !ok {
		return
	}
	if _, err := jsonuri.Parse(fixed); err != nil {
		l.errorf(b.rootAt, "root: %s", plainError(err))
	} else if jsonuri.Reserved(fixed) {
		l.errorf(b.rootAt, `root: %q is reserved; write a name that starts with "$" as "\$…"`, fixed)
	}
}

// maxTriggers bounds a list of triggers: each is compared with each bot.
const maxTriggers = 32

// triggers reads what starts a bot, or sends an event: a trigger, or a list of such. ok is false where one of them is refused.
func (l *loader) triggers(n *node) (out triggers, ok bool) {
	items := []*node{n}
	if n.kind == sequence {
		items = n.items
		if len(items) == 0 || len(items) > maxTriggers {
			l.errorf(n, "on: expected a list of 1 to %d triggers, got %d", maxTriggers, len(items))
			return nil, false
		}
	}
	ok = true
	for _, item := range items {
		t := l.trigger(item)
		if t == nil {
			ok = false
			continue
		}
		out = append(out, t)
	}
	return out, ok
}

func (l *loader) trigger(n *node) *trigger {
	t := &trigger{at: n}
	switch n.kind {
	case text:
		t.text = n.text
	case mapping:
		f := l.fields(n, "on", triggerKinds...)
		if len(n.items) != 1 {
			l.errorf(n, "on: expected exactly one of %s, got %d; write several triggers as a list, such as [{done: a}, {error: b}]", list(triggerKinds), len(n.items))
			return nil
		}
		found := false
		for k, name := range triggerKinds {
			if f[name] != nil {
				t.kind, t.at, found = triggerKind(k), f[name], true
			}
		}
		if !found {
			return nil // an unknown field, which has been reported
		}
		if t.kind >= onDone {
			return l.ends(t)
		}
		ok := false
		if t.text, ok = l.text(t.at, triggerKinds[t.kind]); !ok {
			return nil
		}
	default:
		l.errorf(n, "on: expected a uri pattern, a mapping with one of %s, or a list of these, got %s", list(triggerKinds), n.kind)
		return nil
	}
	if t.text == "" {
		l.errorf(t.at, "on: the pattern is empty; expected one such as article/title (to match a bot's whole document, give the bot a root)")
		return nil
	}
	if n := len(patternSegments(t.text)); n > maxDepth {
		l.errorf(t.at, "on: expected a pattern of at most %d segments, got %d", maxDepth, n)
		return nil
	}
	p, err := compilePattern(t.text)
	if err != nil {
		l.errorf(t.at, "on: %s", plainError(err))
		return nil
	}
	if jsonuri.Reserved(t.text) {
		l.errorf(t.at, `on: events below a name that starts with "$" start no bot; write such a name of the document as "\$…"`)
		return nil
	}
	t.pattern, t.segments = p, patternSegments(t.text)
	return t
}

// ends reads the names of the bots that t waits for.
func (l *loader) ends(t *trigger) *trigger {
	kind := triggerKinds[t.kind]
	if t.kind == onError && t.at.kind == sequence {
		l.errorf(t.at, "error: expected the name of one bot; write several as a list, such as [{error: a}, {error: b}]")
		return nil
	}
	before := len(l.problems)
	l.texts(t.at, kind, func(n *node, name string) {
		if slices.ContainsFunc(t.names, func(other *node) bool { return other.text == name }) {
			l.errorf(n, "%s: %q occurs twice; remove one", kind, short(name))
			return
		}
		t.names = append(t.names, n)
	})
	if len(t.names) == 0 && len(l.problems) == before {
		l.errorf(t.at, "%s: expected the name of a bot, or a list of names", kind)
	}
	if len(l.problems) > before {
		return nil
	}
	return t
}

// ownEvents are the names that the server gives to events of its own (PROTOCOL 1.3).
var ownEvents = []string{"started", "error", "usage", "html", "warning", "queued", "waiting", "approval_required", "approval_resolved", "handoff", "follow_up", "finished", "canceled"}

func (l *loader) events(s *spec, n *node) []fields {
	if n == nil {
		return nil
	}
	if n.kind != sequence {
		l.errorf(n, "events: expected a list of {on, when, send}, got %s", n.kind)
		return nil
	}
	if len(n.items) > maxBotSpecs {
		l.errorf(n, "events: expected at most %d events, got %d", maxBotSpecs, len(n.items))
		return nil
	}
	var parts []fields
	for _, item := range n.items {
		f := l.fields(item, "an event", "on", "when", "send")
		e := &eventSpec{unread: true}
		if on := f["on"]; on != nil {
			ok := false
			e.on, ok = l.triggers(on)
			e.unread = !ok
		} else if item.kind == mapping {
			l.errorf(item, "the event has no on:; expected a trigger that sends it")
		}
		if send := f["send"]; send != nil {
			sent := l.fields(send, "send", "event", "data")
			name, ok := l.text(sent["event"], "event")
			switch {
			case sent["event"] == nil && send.kind == mapping:
				l.errorf(send, "send: expected {event: name}")
			case ok && !validName(name):
				l.errorf(sent["event"], "%q is not a valid name for an event; expected %s", short(name), nameRule)
			}
			for _, own := range ownEvents {
				if name == own {
					l.errorf(sent["event"], "%q is a built-in event; choose another name", name)
				}
			}
			e.name = name
		} else if item.kind == mapping {
			l.errorf(item, "the event has no send:; expected {event: name, data: …}")
		}
		s.events, parts = append(s.events, e), append(parts, f)
	}
	return parts
}
