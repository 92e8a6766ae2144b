package inbox

// recent are events that this process has settled a short time ago. Most events that come twice do so soon, and need no read then.
type recent struct{ young, old map[string]int64 } // by token: until when an event is known, ns since 1970

// mostRecent bounds each of the two generations.
const mostRecent = 4096

func (r *recent) add(token string, until int64) {
	if r.young == nil || len(r.young) >= mostRecent {
		r.young, r.old = map[string]int64{}, r.young
	}
	r.young[token] = until
}

func (r *recent) has(token string, now int64) bool {
	return now < max(r.young[token], r.old[token])
}

func (r *recent) drop(token string) {
	delete(r.young, token)
	delete(r.old, token)
}
