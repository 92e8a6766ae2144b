package tube

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

	events []EventFunc // those in Exclude
}

// covers says whether the filter is for this uri.
func (f *Filter) covers(uri []byte) bool {
	n := len(f.Root)
	return n == 0 || len(uri) >= n && string(uri[:n]) == f.Root && (len(uri) == n || uri[n] == '/')
}

func (f *Filter) hides(uri []byte) bool {
	if !f.covers(uri) {
		return false
	}
	for _, m := range f.Exclude {
		if m.Match(uri) {
			return true
		}
	}
	for _, m := range f.Include {
		if m.Match(uri) {
			return false
		}
	}
	return len(f.Include) > 0
}

// filters are those in force, with the verdict on the last uri.
type filters struct {
	list    []*Filter
	known   bool // hidden is the verdict on the uri of the last event
	verdict bool
}

// hideEvent asks the filters of whole events.
func (f *filters) hideEvent(e *Event) bool {
	for _, x := range f.list {
		if len(x.events) == 0 || e.Kind != Named && !x.covers(e.URI) {
			continue
		}
		for _, hides := range x.events {
			if hides(*e) {
				return true
			}
		}
	}
	return false
}

func (f *filters) hide(uri []byte, same bool) bool {
	if len(f.list) == 0 {
		return false
	}
	if same && f.known {
		return f.verdict
	}
	f.known, f.verdict = true, false
	for _, x := range f.list {
		if x.hides(uri) {
			f.verdict = true
			break
		}
	}
	return f.verdict
}
