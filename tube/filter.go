package tube

import "slices"

// Matcher decides by uri; *regexp.Regexp and *jsonuri.Pattern are matchers. It is asked while the tube is locked, once for
// events in a row with one uri: it must not call the tube, and it must always give the same answer for a uri.
type Matcher interface{ Match(uri []byte) bool }

// URI matches one uri exactly.
type URI string

func (u URI) Match(uri []byte) bool { return string(u) == string(uri) }

// Func makes a matcher of a function.
type Func func(uri []byte) bool

func (f Func) Match(uri []byte) bool { return f(uri) }

// EventFunc is a matcher of whole events, named ones included: those are hidden for which it returns true, but the terminal event never
// is. It belongs into [Filter.Exclude], among matchers of uris. It is asked for each event, while the tube is locked: it must not call the
// tube, nor keep or change what the event holds.
type EventFunc func(e Event) bool

// Match says that no uri is hidden as such.
func (f EventFunc) Match([]byte) bool { return false }

// Filter hides events from clients: those of the document by their uri, and any event by an [EventFunc].
type Filter struct {
	Root    string    // only uris at or below this root, and named events, which have none; "" is all
	Exclude []Matcher // uris, or events, that match any of these are hidden
	Include []Matcher // where not empty, uris that match none of these are hidden; named events are not
}

// covers says whether the filter is for this uri.
func (f *Filter) covers(uri []byte) bool {
	n := len(f.Root)
	return n == 0 || len(uri) >= n && string(uri[:n]) == f.Root && (len(uri) == n || uri[n] == '/')
}

func (f *Filter) hides(uri []byte) bool {
	matches := func(m Matcher) bool { return m.Match(uri) }
	return f.covers(uri) && (slices.ContainsFunc(f.Exclude, matches) || len(f.Include) > 0 && !slices.ContainsFunc(f.Include, matches))
}

// hidesEvent asks the matchers of whole events.
func (f *Filter) hidesEvent(e *Event) bool {
	for _, m := range f.Exclude {
		if hides, ok := m.(EventFunc); ok && (e.Kind == Named || f.covers(e.URI)) && hides(*e) {
			return true
		}
	}
	return false
}

// filters are those in force, with the verdict on the last uri.
type filters struct {
	list    []*Filter
	known   bool // verdict is that on the uri of the last event
	verdict bool
}

// hide reports whether a filter hides an event. same says that it has the uri of the event before.
func (f *filters) hide(e *Event, same bool) bool {
	if e.Kind != Named {
		if !same || !f.known {
			f.known, f.verdict = true, f.hides(e.URI)
		}
		if f.verdict {
			return true
		}
	}
	for _, x := range f.list {
		if x.hidesEvent(e) {
			return true
		}
	}
	return false
}

// hides reports whether a filter hides all that is sent at uri.
func (f *filters) hides(uri []byte) bool {
	return slices.ContainsFunc(f.list, func(x *Filter) bool { return x.hides(uri) })
}
