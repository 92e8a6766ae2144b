package flow

import (
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/jsonuri"
)

// bots reads what of the bots is not a template and returns the members of each.
func (l *loader) bots(s *spec, root, n *node) []fields {
	switch {
	case n == nil:
		l.errorf(root, "the workflow has no bots: expected bots: with at least one")
		return nil
	case n.kind != mapping:
		l.errorf(n, "bots: expected a mapping from names to bots, got %s", n.kind)
		return nil
	case len(n.items) == 0:
		l.errorf(n, "bots: expected at least one")
	case len(n.items) > maxBotSpecs:
		l.errorf(n, "bots: expected at most %d, got %d", maxBotSpecs, len(n.items))
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
			l.errorf(key, "%q is no name for a bot: expected %s", short(b.name), nameRule)
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
				l.errorf(n, "schema: a bot with format: %s has none; leave one of the two out", b.format)
			}
		}
		if t, ok := l.text(f["on_invalid"], "on_invalid"); ok {
			b.onInvalid = bot.OnInvalid(t)
			switch {
			case b.onInvalid != bot.Report && b.onInvalid != bot.Retry:
				l.errorf(f["on_invalid"], "on_invalid: expected report or retry, got %q", short(t))
			case b.format != bot.JSON:
				l.errorf(f["on_invalid"], "on_invalid: only JSON is held to a schema; with format: %s leave it out", b.format)
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
			b.on = l.trigger(on)
			b.refused = b.on == nil
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
		l.errorf(b.rootAt, `root: %q is reserved; a name that begins with "$" is written "\$…"`, fixed)
	}
}

func (l *loader) trigger(n *node) *trigger {
	t := &trigger{at: n, bot: -1}
	kinds := []string{"string", "object", "value", "done", "error"} // in the order of triggerKind
	switch n.kind {
	case text:
		t.kind, t.text = onString, n.text
	case mapping:
		f := l.fields(n, "on", kinds...)
		if len(n.items) != 1 {
			l.errorf(n, "on: expected exactly one of %s, got %d", list(kinds), len(n.items))
			return nil
		}
		for k, name := range kinds {
			if f[name] == nil {
				continue
			}
			pattern, ok := l.text(f[name], name)
			if !ok {
				return nil
			}
			t.kind, t.text, t.at = triggerKind(k), pattern, f[name]
		}
		if t.at == n {
			return nil // an unknown field, which has been reported
		}
	default:
		l.errorf(n, "on: expected a uri pattern or a mapping with one of %s, got %s", list(kinds), n.kind)
		return nil
	}
	if t.kind == onDone || t.kind == onError {
		return t
	}
	if t.text == "" {
		l.errorf(t.at, "on: the pattern is empty; expected one such as article/title (give a bot a root to have a name for its whole document)")
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
		l.errorf(t.at, `on: nothing below a name that begins with "$" starts a bot; such a name of the document is written "\$…"`)
		return nil
	}
	t.pattern, t.segments = p, patternSegments(t.text)
	return t
}

// ownEvents are the names that the server gives to events of its own (PROTOCOL 1.3).
var ownEvents = []string{"started", "error", "usage", "html", "queued", "waiting", "approval_required", "approval_resolved", "handoff", "follow_up", "finished", "canceled"}

func (l *loader) events(s *spec, n *node) []fields {
	if n == nil {
		return nil
	}
	if n.kind != sequence {
		l.errorf(n, "events: expected a list of {on, when, send}, got %s", n.kind)
		return nil
	}
	if len(n.items) > maxBotSpecs {
		l.errorf(n, "events: expected at most %d, got %d", maxBotSpecs, len(n.items))
		return nil
	}
	var parts []fields
	for _, item := range n.items {
		f := l.fields(item, "an event", "on", "when", "send")
		e := &eventSpec{}
		if on := f["on"]; on != nil {
			e.on = l.trigger(on)
		} else if item.kind == mapping {
			l.errorf(item, "the event has no on: that says when it is sent")
		}
		if send := f["send"]; send != nil {
			sent := l.fields(send, "send", "event", "data")
			name, ok := l.text(sent["event"], "event")
			switch {
			case sent["event"] == nil && send.kind == mapping:
				l.errorf(send, "send: expected {event: name}")
			case ok && !validName(name):
				l.errorf(sent["event"], "%q is no name for an event: expected %s", short(name), nameRule)
			}
			for _, own := range ownEvents {
				if name == own {
					l.errorf(sent["event"], "%q is an event of the server's own; choose another name", name)
				}
			}
			e.name = name
		} else if item.kind == mapping {
			l.errorf(item, "the event has no send: expected {event: name, data: …}")
		}
		s.events, parts = append(s.events, e), append(parts, f)
	}
	return parts
}
