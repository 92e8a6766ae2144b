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

// Filter hides events from clients by their uri. Named events are never filtered.
type Filter struct {
	Root    string    // only uris at or below this root; "" is all
	Exclude []Matcher // uris that match any of these are hidden
	Include []Matcher // where not empty, uris that match none of these are hidden
}

func (f *Filter) hides(uri []byte) bool {
	if n := len(f.Root); n > 0 {
		if len(uri) < n || string(uri[:n]) != f.Root || len(uri) > n && uri[n] != '/' {
			return false
		}
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
