package aisdk

import (
	"bytes"
	"slices"

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

// dataParts returns the values that are sent as data.
func (e *Encoder) dataParts() (list []*part) {
	for _, p := range e.order {
		if p.kind == kindData {
			list = append(list, p)
		}
	}
	return list
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
	case isRoot && kind == kindData && ev.Value[0] == '{' && !hasText:
		if string(ev.Value) == "{}" { // it is an object already
			return dst
		}
		return e.resend(dst)
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
	if e.snapshot && !ev.Part { // the last one of a snapshot
		return e.catchUp(dst)
	}
	if e.snapshot || ev.Part {
		return dst
	}
	p := e.values[string(ev.URI)]
	switch {
	case p != nil && p.kind == kindText:
		return e.close(dst, p)
	case p != nil && p.grew > 0:
		dst = e.appendData(dst, p)
	}
	return appendDelta(dst, ev)
}

// catchUp appends what a snapshot has changed.
func (e *Encoder) catchUp(dst []byte) []byte {
	e.snapshot = false
	dst = e.resend(dst)
	for uri, value := range rawjson.Members(e.doc.AppendReserved(nil)) {
		prefix, name, _, _ := reserved([]byte(uri))
		switch string(name) {
		case "$reasoning_context":
			if rest, ok := e.reasoningOf(string(prefix)).rest(value); ok && len(rest) > 0 {
				dst = e.appendPiece(e.open(dst, string(prefix)), e.reasoningOf(string(prefix)), rest)
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
	return e.appendEarly(dst)
}

// resend appends the document as it is now, after a change of any kind.
func (e *Encoder) resend(dst []byte) []byte {
	document := e.doc.AppendJSON(nil)
	hasText := e.values[""] != nil
	lacks := func(p *part) bool { _, ok := e.doc.Get(p.uri); return !ok }
	switch {
	case e.whole() != nil:
	case document[0] == '"' && (hasText || len(e.order) == 0):
		p := e.value("", kindText)
		if rest, ok := p.rest(document); ok {
			if !hasText || len(rest) > 0 {
				dst = e.appendPiece(e.open(dst, ""), p, rest)
			}
			return dst
		}
	case document[0] == '{' && !hasText && !slices.ContainsFunc(e.order, lacks):
		for name, value := range rawjson.Members(document) {
			dst = e.resendMember(dst, jsonuri.Format(name), value)
		}
		return dst
	}
	if e.whole() == nil {
		dst = e.becomeWhole(e.open(dst, ""))
	}
	return e.replace(dst, e.whole(), document)
}

// resendMember appends a member of the document as it is now.
func (e *Encoder) resendMember(dst []byte, uri string, value []byte) []byte {
	kind := kindData
	if value[0] == '"' {
		kind = kindText
	}
	known := e.values[uri] != nil
	p := e.value(uri, kind)
	if rest, ok := p.rest(value); ok && p.kind == kindText {
		if !known || len(rest) > 0 {
			dst = e.appendPiece(e.open(dst, ""), p, rest)
		}
		return dst
	}
	dst = e.open(dst, "")
	return e.replace(e.becomeData(dst, p), p, value)
}

// replace appends a value that replaces what the client has, also for clients that fold deltas.
func (e *Encoder) replace(dst []byte, p *part, value []byte) []byte {
	set := tube.Event{Kind: tube.Set, URI: []byte(p.uri), Value: value}
	if value[0] == '"' {
		set.Kind, set.Value = tube.Append, value[1:len(value)-1]
	}
	dst = appendDelta(dst, tube.Event{Kind: tube.Set, URI: []byte(p.uri), Value: []byte("null")})
	return e.appendData(appendDelta(dst, set), p)
}
