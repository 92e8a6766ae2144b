package nats

import "time"

// rows are what a follower knows of the records of a table.
type rows struct {
	of   map[string]row
	pass int   // counts the beginnings
	next int64 // when the first record ends, at the earliest; 0: never
}

// row is what is known of a record.
type row struct {
	rev   uint64
	end   int64
	bytes int64
	pass  int // in which it was heard of last
}

// begin begins a pass over all that there is.
func (r *rows) begin() {
	if r.of == nil {
		r.of = map[string]row{}
	}
	r.pass++
}

// set takes what a message says. It reports whether that is new; what does not live is not taken.
func (r *rows) set(m *message) (isNew bool) {
	old := r.of[m.key]
	r.of[m.key] = row{rev: m.seq, end: m.End, bytes: m.bytes(), pass: r.pass}
	if m.End > 0 && (r.next == 0 || m.End < r.next) {
		r.next = m.End
	}
	return m.seq > old.rev
}

// vanished returns the keys that were not heard of in this pass.
func (r *rows) vanished() (keys []string) {
	for key, row := range r.of {
		if row.pass != r.pass {
			keys = append(keys, key)
		}
	}
	return keys
}

// ended returns the keys whose records have ended. It looks once a second at most.
func (r *rows) ended() (keys []string) {
	now := time.Now().UnixMilli()
	if r.next == 0 || now < r.next {
		return nil
	}
	next := int64(0)
	for key, row := range r.of {
		switch {
		case row.end == 0:
		case row.end <= now:
			keys = append(keys, key)
		case next == 0 || row.end < next:
			next = row.end
		}
	}
	if r.next = next; next > 0 {
		r.next = max(next, now+time.Second.Milliseconds())
	}
	return keys
}
