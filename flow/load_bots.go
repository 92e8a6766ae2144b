package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/yaml"
	"github.com/lingserve/lingserve/jsonuri"
)

// bots reads what of the bots is not a template and returns the members of each.
func (l *loader) bots(s *spec, root, n *yaml.Node) []fields {
	switch {
	case n == nil:
		l.Errorf(root, "", "the workflow has no bots; expected bots: with at least one bot")
		return nil
	case n.Kind != yaml.Mapping:
		l.Errorf(n, "bots", "expected a mapping from names to bots, got %s", n.Kind)
		return nil
	case len(n.Items) == 0:
		l.Errorf(n, "bots", "expected at least one bot")
	case len(n.Items) > maxBotSpecs:
		l.Errorf(n, "bots", "expected at most %d bots, got %d", maxBotSpecs, len(n.Items))
		return nil
	}
	var parts []fields
	for i, key := range n.Keys {
		f := fields{}
		// A bot without members only sends the input to the model.
		if item := n.Items[i]; item.Kind != yaml.Null {
			f = l.Fields(item, "bot "+key.Text, botFields...)
		}
		b := &botSpec{step: step{name: key.Text}, at: key, format: bot.JSON, max: defaultMax}
		if !validName(b.name) {
			l.Errorf(key, "", "%q is not a valid name for a bot; expected %s", short(b.name), nameRule)
		}
		b.model = l.model(f["model"])
		b.options = l.options(f["options"])
		b.quiet = l.Bool(f["quiet"], "quiet")
		b.filter = l.filter(f["filter"])
		if t, ok := l.choice(f["format"], "format", "json", "text", "html"); ok {
			b.format = bot.Format(t)
		} else if f["format"] != nil {
			l.unclear = true
		}
		if n := f["schema"]; n != nil {
			b.output = n.AppendJSON(nil)
			l.checkSchema(n, "schema", b.output, bot.CheckSchema)
			if b.format != bot.JSON {
				l.Errorf(n, "schema", "does not go with format: %s; remove one of them", b.format)
			}
		}
		if t, ok := l.choice(f["on_invalid"], "on_invalid", "report", "retry", "fail", "retry_then_fail"); ok {
			if b.onInvalid = bot.OnInvalid(t); b.format != bot.JSON {
				l.Errorf(f["on_invalid"], "on_invalid", "does not go with format: %s; remove it", b.format)
			}
		}
		if i, ok := l.Int(f["concurrency"], "concurrency", 1, largestMax); ok {
			b.concurrency = i
		}
		if i, ok := l.Int(f["max"], "max", 1, largestMax); ok {
			b.max, b.bounded = i, true
		}
		b.conditional = f["when"] != nil
		b.bounded = b.bounded || b.conditional
		if on := f["on"]; on != nil {
			l.readTriggers(&b.step, on)
		}
		b.rootAt = key
		if t, ok := l.Text(f["root"], "root"); ok {
			b.rootText, b.rootAt = t, f["root"]
		}
		b.segments = rootSegments(b.rootText, b.on.stars())
		if len(b.segments) > yaml.MaxDepth {
			l.Errorf(b.rootAt, "root", "expected at most %d segments, got %d", yaml.MaxDepth, len(b.segments))
			b.segments = nil
		}
		l.root(b)
		s.bots, parts = append(s.bots, b), append(parts, f)
	}
	return parts
}

// choice reads one of some words.
func (l *loader) choice(n *yaml.Node, what string, words ...string) (word string, ok bool) {
	if word, ok = l.Text(n, what); ok && !slices.Contains(words, word) {
		l.Errorf(n, what, "expected one of %s, got %q", list(words), short(word))
		return "", false
	}
	return word, ok
}

// root checks what can be known of a root before it is rendered.
func (l *loader) root(b *botSpec) {
	if strings.HasPrefix(b.rootText, "/") {
		l.Errorf(b.rootAt, "root", leadingSlash)
		return
	}
	fixed, ok := static(b.segments)
	if !ok {
		return
	}
	if _, err := jsonuri.Parse(fixed); err != nil {
		l.Errorf(b.rootAt, "root", "%s", plainError(err))
	} else if jsonuri.Reserved(fixed) {
		l.Errorf(b.rootAt, "root", `%q is reserved; write a name that starts with "$" as "\$…"`, fixed)
	}
}

// maxTriggers bounds a list of triggers: each is compared with each bot.
const maxTriggers = 32

// readTriggers reads what starts a bot, or sends an event: a trigger, or a list of such.
func (l *loader) readTriggers(st *step, n *yaml.Node) {
	st.unread = true
	items := []*yaml.Node{n}
	if n.Kind == yaml.List {
		items = n.Items
	}
	if len(items) == 0 || len(items) > maxTriggers {
		l.Errorf(n, "on", "expected a list of 1 to %d triggers, got %d", maxTriggers, len(items))
		return
	}
	for _, item := range items {
		if t := l.trigger(item); t != nil {
			st.on = append(st.on, t)
		}
	}
	st.unread = len(st.on) < len(items)
}

func (l *loader) trigger(n *yaml.Node) *trigger {
	t := &trigger{at: n}
	switch n.Kind {
	case yaml.Text:
	case yaml.Mapping:
		l.Fields(n, "on", triggerKinds...)
		if len(n.Items) != 1 {
			l.Errorf(n, "on", "expected exactly one of %s, got %d; write several triggers as a list, such as [{done: a}, {error: b}]", list(triggerKinds), len(n.Items))
			return nil
		}
		kind := slices.Index(triggerKinds, n.Keys[0].Text)
		if kind < 0 {
			return nil // an unknown field, which has been reported
		}
		t.kind, t.at = triggerKind(kind), n.Items[0]
	default:
		l.Errorf(n, "on", "expected a uri pattern, a mapping with one of %s, or a list of these, got %s", list(triggerKinds), n.Kind)
		return nil
	}
	if t.kind >= onDone {
		return l.ends(t)
	}
	ok := false
	if t.text, ok = l.Text(t.at, triggerKinds[t.kind]); !ok {
		return nil
	}
	t.segments = splitURI(t.text)
	problem := ""
	switch p, err := compilePattern(t.text); {
	case t.text == "":
		problem = "the pattern is empty; expected one such as article/title (to match a bot's whole document, give the bot a root)"
	case len(t.segments) > yaml.MaxDepth:
		problem = fmt.Sprintf("expected a pattern of at most %d segments, got %d", yaml.MaxDepth, len(t.segments))
	case err != nil:
		problem = plainError(err)
	case jsonuri.Reserved(t.text):
		problem = `events below a name that starts with "$" start no bot; write such a name of the document as "\$…"`
	default:
		t.pattern = p
		return t
	}
	l.Errorf(t.at, "on", "%s", problem)
	return nil
}

// ends reads the names of the bots that t waits for.
func (l *loader) ends(t *trigger) *trigger {
	kind := triggerKinds[t.kind]
	if t.kind == onError && t.at.Kind == yaml.List {
		l.Errorf(t.at, "error", "expected the name of one bot; write several as a list, such as [{error: a}, {error: b}]")
		return nil
	}
	before := l.NumProblems()
	l.Texts(t.at, kind, func(n *yaml.Node, name string) {
		if slices.ContainsFunc(t.names, func(other *yaml.Node) bool { return other.Text == name }) {
			l.Errorf(n, kind, "%q occurs twice; remove one", short(name))
			return
		}
		t.names = append(t.names, n)
	})
	if len(t.names) == 0 && l.NumProblems() == before {
		l.Errorf(t.at, kind, "expected the name of a bot, or a list of names")
	}
	if l.NumProblems() > before {
		return nil
	}
	return t
}

// ownEvents are the names of the server's own events (PROTOCOL 1.3).
var ownEvents = []string{"started", "error", "usage", "bot", "html", "warning", "queued", "waiting", "retrying", "approval_required", "approval_resolved", "handoff", "follow_up", "finished", "canceled"}

func (l *loader) events(s *spec, n *yaml.Node) []fields {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.List {
		l.Errorf(n, "events", "expected a list of {on, when, send}, got %s", n.Kind)
		return nil
	}
	if len(n.Items) > maxBotSpecs {
		l.Errorf(n, "events", "expected at most %d events, got %d", maxBotSpecs, len(n.Items))
		return nil
	}
	var parts []fields
	for _, item := range n.Items {
		f := l.Fields(item, "an event", "on", "when", "send")
		e := &eventSpec{step: step{unread: true}}
		s.events, parts = append(s.events, e), append(parts, f)
		if item.Kind != yaml.Mapping {
			continue // which was reported
		}
		if on := f["on"]; on != nil {
			l.readTriggers(&e.step, on)
		} else {
			l.Errorf(item, "", "the event has no on:; expected a trigger that sends it")
		}
		if send := f["send"]; send != nil {
			e.name = l.sentEvent(send)
		} else {
			l.Errorf(item, "", "the event has no send:; expected {event: name, data: …}")
		}
	}
	return parts
}

// sentEvent reads the name of an event that is sent.
func (l *loader) sentEvent(n *yaml.Node) string {
	f := l.Fields(n, "send", "event", "data")
	name, ok := l.Text(f["event"], "event")
	switch {
	case f["event"] == nil && n.Kind == yaml.Mapping:
		l.Errorf(n, "send", "expected {event: name}")
	case ok && !validName(name):
		l.Errorf(f["event"], "", "%q is not a valid name for an event; expected %s", short(name), nameRule)
	case slices.Contains(ownEvents, name):
		l.Errorf(f["event"], "", "%q is a built-in event; choose another name", name)
	}
	return name
}
