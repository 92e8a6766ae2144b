package aisdk

import (
	"bytes"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Data parts are sent again as they grow.
const (
	// share of the size of a part is what its value must grow before it is sent again: a quarter. All together are then at most five
	// times as long as what was written.
	share = 4
	// shareAtEnd is the same for when a bot has ended.
	shareAtEnd = 8
	// minGrowth is what a small value must grow.
	minGrowth = 64
)

// appendDelta appends a delta as it is.
func appendDelta(dst []byte, ev tube.Event) []byte {
	dst = ev.AppendMembers(append(frame.Begin(dst, "data-delta"), `,"data":{`...))
	return frame.End(append(dst, `},"transient":true`...))
}

// grow appends a change of a value that is sent as data, and the value itself when that is due.
func (e *Encoder) grow(dst []byte, p *part, ev tube.Event) []byte {
	dst = appendDelta(dst, ev)
	p.grew += len(ev.Value) + len(ev.URI) - bytes.LastIndexByte(ev.URI, '/') // with its key, more or less
	if p.sent == 0 || p.grew >= max(minGrowth, p.sent/share) {
		dst = e.appendData(dst, p)
	}
	return dst
}

// appendData appends a value as it is now.
func (e *Encoder) appendData(dst []byte, p *part) []byte {
	dst = frame.Key(frame.Text(frame.Begin(dst, kindData), "id", p.uri), "data")
	from := len(dst)
	dst, _ = e.doc.AppendValue(dst, []byte(p.uri)) // it exists: if values were deleted, the document is one part
	p.sent, p.grew = len(dst)-from, 0
	return frame.End(dst)
}

// whole returns the part of a document that is one data part; nil for all others.
func (e *Encoder) whole() *part {
	if p := e.values[""]; p != nil && p.kind == kindData {
		return p
	}
	return nil
}

// value returns the part of the value at a uri. A new one has this kind.
func (e *Encoder) value(uri, kind string) *part {
	p := e.values[uri]
	if p == nil {
		p = &part{kind: kind, uri: uri}
		e.values[uri] = p
		e.order = append(e.order, p)
	}
	return p
}

// appendChange appends a change that was made to the document.
func (e *Encoder) appendChange(dst []byte, ev tube.Event) []byte {
	dst = e.open(dst, "")
	isRoot, hasText := len(ev.URI) == 0, e.values[""] != nil // a text at the root
	uri := first(ev.URI)
	kind := kindData
	if ev.Kind == tube.Append && len(uri) == len(ev.URI) {
		kind = kindText
	}
	switch {
	case e.whole() != nil:
	case isRoot && kind == kindData && string(ev.Value) == "{}" && !hasText: // it is an object already
		return dst
	case isRoot && kind == kindData, isRoot && !hasText && len(e.order) > 0, !isRoot && hasText:
		dst = e.becomeWhole(dst)
	}
	if whole := e.whole(); whole != nil {
		return e.grow(dst, whole, ev)
	}
	p := e.value(string(uri), kind)
	if p.kind == kindText && kind == kindText {
		return e.write(dst, p, ev)
	}
	return e.grow(e.becomeData(dst, p), p, ev)
}

// becomeData makes a value a data part from now on.
func (e *Encoder) becomeData(dst []byte, p *part) []byte {
	if p.kind == kindText {
		dst = e.close(dst, p)
		p.kind, p.sent = kindData, 0
	}
	return dst
}

// becomeWhole makes the document one data part from now on.
func (e *Encoder) becomeWhole(dst []byte) []byte {
	for _, p := range e.order {
		dst = e.close(dst, p)
	}
	e.values, e.order = map[string]*part{}, nil
	e.value("", kindData)
	return dst
}

// complete is for a value that does not change again.
func (e *Encoder) complete(dst []byte, ev tube.Event) []byte {
	p := e.values[string(ev.URI)]
	switch {
	case p != nil && p.kind == kindText:
		return e.close(dst, p)
	case p != nil && p.grew > 0:
		dst = e.appendData(dst, p)
	}
	return appendDelta(dst, ev)
}

// appendSnapshot collects the parts of a snapshot. Behind the last one, it appends what is new to the client.
func (e *Encoder) appendSnapshot(dst []byte, ev tube.Event) []byte {
	if e.snapshot == nil {
		e.snapshot, e.last = new(jsonuri.Document), nil
	}
	if ev.Kind != tube.Done {
		_ = e.snapshot.Apply(jsonuri.Delta{Op: jsonuri.Op(ev.Kind), URI: ev.URI, Value: ev.Value}) // what a document refuses is left out
	}
	if ev.Part {
		return dst
	}
	to := e.snapshot
	e.snapshot = nil
	return e.appendEarly(e.appendChanges(dst, to))
}

// appendChanges appends the changes that make to of the document: a text that has grown goes on, and every other value is set anew.
func (e *Encoder) appendChanges(dst []byte, to *jsonuri.Document) []byte {
	reserved := to.AppendReserved(nil)
	for uri, value := range rawjson.Members(reserved) { // reasoning, before the text that it led to
		if value[0] != '{' && value[0] != '[' {
			from, _ := e.doc.Get(uri)
			dst = e.change(dst, uri, from, value)
		}
	}
	document, from, lacks := to.AppendJSON(nil), e.doc.AppendJSON(nil), false
	if from[0] == '{' {
		for name := range rawjson.Members(from) {
			_, ok := to.Get(jsonuri.Format(name))
			lacks = lacks || !ok
		}
	}
	switch {
	case document[0] == '{' && from[0] == '{' && !lacks:
		dst = e.changeMembers(dst, "", document)
	case string(from) == "{}": // nothing yet
		dst = e.change(dst, "", nil, document)
	default:
		dst = e.change(dst, "", from, document)
	}
	for uri, value := range rawjson.Members(reserved) {
		dst = e.changeMembers(dst, uri, value)
	}
	return dst
}

// changeMembers appends the changes to the members of the value at a uri.
func (e *Encoder) changeMembers(dst []byte, uri string, value []byte) []byte {
	for name, member := range rawjson.Children(value) {
		at := jsonuri.Join(uri, jsonuri.Format(name))
		from, _ := e.doc.Get(at)
		dst = e.change(dst, at, from, member)
	}
	return dst
}

// change appends the change of a value; from is nil if there is none yet.
func (e *Encoder) change(dst []byte, uri string, from, value []byte) []byte {
	set := tube.Event{Kind: tube.Set, URI: []byte(uri), Value: value}
	switch isText := value[0] == '"'; {
	case bytes.Equal(from, value):
		return dst
	case isText && from != nil && bytes.HasPrefix(value, from[:len(from)-1]) && from[0] == '"':
		set.Kind, set.Value = tube.Append, value[len(from)-1:len(value)-1]
	case from != nil && (isText || !jsonuri.Reserved(uri)):
		dst = e.apply(dst, tube.Event{Kind: tube.Set, URI: set.URI, Value: []byte("null")})
	}
	return e.apply(dst, set)
}
