package aisdk

import (
	"bytes"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Snapshots of a value.
const (
	// share of a snapshot is what its value must grow before it is sent again: a quarter. All together are then at most five times
	// as long as what was written.
	share = 4
	// shareAtEnd is the same for when a bot has ended.
	shareAtEnd = 8
	// minGrowth is what a small value must grow.
	minGrowth = 64
)

// appendDelta appends a delta as it is.
func (e *Encoder) appendDelta(dst []byte, ev tube.Event) []byte {
	dst = ev.AppendMembers(append(frame.Begin(dst, "data-delta"), `,"data":{`...))
	return frame.End(append(dst, `},"transient":true`...))
}

// grow counts what an event adds to a value, and appends a snapshot of the value when that is due.
func (e *Encoder) grow(dst []byte, p *place, ev tube.Event) []byte {
	p.grew += len(ev.Value) + len(ev.URI) - bytes.LastIndexByte(ev.URI, '/') // with its key, more or less
	if p.size == 0 || p.grew >= max(minGrowth, p.size/share) {
		return e.appendSnapshot(dst, p)
	}
	return dst
}

// appendSnapshot appends a value as it is now.
func (e *Encoder) appendSnapshot(dst []byte, p *place) []byte {
	dst = frame.Key(frame.Text(frame.Begin(dst, "data-ling"), "id", p.id), "data")
	from := len(dst)
	if p == e.whole {
		dst = e.doc.AppendJSON(dst)
	} else {
		dst, _ = e.doc.AppendValue(dst, []byte(p.id)) // it exists: if values were deleted, the document is one part
	}
	p.size, p.grew = len(dst)-from, 0
	return frame.End(dst)
}

// data returns the places that are sent as data.
func (e *Encoder) data() []*place {
	if e.whole != nil {
		return []*place{e.whole}
	}
	var list []*place
	for _, p := range e.order {
		if p.text == nil {
			list = append(list, p)
		}
	}
	return list
}

// complete is for a value that does not change again.
func (e *Encoder) complete(dst []byte, ev tube.Event) []byte {
	if e.group && !ev.Part { // the last one of a snapshot
		return e.caughtUp(dst)
	}
	if e.group || ev.Part {
		return dst
	}
	if e.whole != nil && len(ev.URI) == 0 && e.whole.grew > 0 {
		dst = e.appendSnapshot(dst, e.whole)
	}
	if p := e.places[string(ev.URI)]; p != nil && e.whole == nil {
		switch {
		case p.text != nil:
			return e.close(dst, p.text)
		case p.grew > 0:
			dst = e.appendSnapshot(dst, p)
		}
	}
	return e.appendDelta(dst, ev)
}

// becomeWhole makes the document one part from now on.
func (e *Encoder) becomeWhole(dst []byte) []byte {
	for _, p := range e.order {
		if p.text != nil {
			dst = e.close(dst, p.text)
		}
	}
	e.places, e.order = map[string]*place{}, nil
	e.whole = &place{}
	return dst
}

// remember stores the texts as the client has them, before a snapshot takes effect.
func (e *Encoder) remember() {
	e.before = map[*text][]byte{}
	note := func(t *text, uri string) {
		if value, ok := e.doc.Get(uri); ok && value[0] == '"' {
			e.before[t] = value[1 : len(value)-1]
		}
	}
	for _, p := range e.order {
		if p.text != nil {
			note(p.text, p.id)
		}
	}
	for prefix, t := range e.thoughts {
		note(t, jsonuri.Join(prefix, "$reasoning_context"))
	}
}

// caughtUp appends what a snapshot has changed.
func (e *Encoder) caughtUp(dst []byte) []byte {
	e.group = false
	dst = e.resend(dst)
	for uri, value := range rawjson.Members(e.doc.AppendReserved(nil)) {
		prefix, name, _, is := reserved([]byte(uri))
		if !is {
			continue
		}
		switch string(name) {
		case "$reasoning_context":
			if value[0] == '"' {
				dst = e.appendRest(dst, e.thought(string(prefix)), value[1:len(value)-1])
			}
		case "$tools":
			for n := range rawjson.Children(value) {
				dst = e.appendCall(dst, string(prefix), jsonuri.Format(n))
			}
		case "$tool_results":
			for n := range rawjson.Children(value) {
				dst = e.appendResult(dst, string(prefix), jsonuri.Format(n))
			}
		}
	}
	e.before = nil
	if len(e.early) > 0 {
		return e.appendEarly(dst)
	}
	return dst
}

// appendRest appends what a text has more than the client; nothing if the client has another beginning.
func (e *Encoder) appendRest(dst []byte, t *text, content []byte) []byte {
	if sent := e.before[t]; bytes.HasPrefix(content, sent) && len(content) > len(sent) {
		dst = e.open(dst, t.uri)
		return e.appendPiece(dst, t, content[len(sent):])
	}
	return dst
}

// resend appends the document as it is now, after a change of any kind.
func (e *Encoder) resend(dst []byte) []byte {
	document := e.doc.AppendJSON(nil)
	if e.whole == nil {
		if document[0] == '"' && (len(e.order) == 0 || e.places[""] != nil) {
			known := e.places[""] != nil
			p := e.place("")
			content := document[1 : len(document)-1]
			if !known {
				return e.appendPiece(e.open(dst, ""), p.text, content)
			}
			if bytes.HasPrefix(content, e.before[p.text]) {
				return e.appendRest(dst, p.text, content)
			}
		}
		if document[0] == '{' && !e.lacks() {
			return e.appendMembers(dst)
		}
		dst = e.becomeWhole(e.open(dst, ""))
	}
	// Clients that fold deltas start with an empty document.
	dst = e.appendDelta(dst, tube.Event{Kind: tube.Set, Value: []byte("null")})
	dst = e.appendDelta(dst, setTo(nil, document))
	return e.appendSnapshot(dst, e.whole)
}

// lacks reports whether the document has no value at a place that the client has.
func (e *Encoder) lacks() bool {
	for _, p := range e.order {
		if _, ok := e.doc.Get(p.id); !ok || p.id == "" {
			return true
		}
	}
	return false
}

// appendMembers appends the members of the document.
func (e *Encoder) appendMembers(dst []byte) []byte {
	e.doc.Walk(func(uri string, value []byte) bool {
		if uri == "" || len(first([]byte(uri))) < len(uri) {
			return true
		}
		if len(e.order) == 0 {
			dst = e.open(dst, "")
		}
		p, known := e.places[uri]
		if !known {
			p = e.place(uri)
			if value[0] != '"' {
				p.text = nil
			}
		}
		if t := p.text; t != nil {
			if value[0] == '"' && bytes.HasPrefix(value[1:len(value)-1], e.before[t]) {
				if content := value[1 : len(value)-1]; !known || len(content) > len(e.before[t]) {
					dst = e.appendPiece(e.open(dst, ""), t, content[len(e.before[t]):])
				}
				return true
			}
			dst = e.close(dst, t)
			p.text = nil
		}
		if value[0] == '"' || string(value) == "{}" {
			dst = e.appendDelta(dst, tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte("null")})
		}
		dst = e.appendDelta(dst, setTo([]byte(uri), value))
		dst = e.appendSnapshot(dst, p)
		return true
	})
	return dst
}

// setTo is the event that makes a value, which is not there, what it is.
func setTo(uri, value []byte) tube.Event {
	if value[0] == '"' {
		return tube.Event{Kind: tube.Append, URI: uri, Value: value[1 : len(value)-1]}
	}
	return tube.Event{Kind: tube.Set, URI: uri, Value: value}
}
