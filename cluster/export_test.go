package cluster

import "time"

// Waiting is how many callers of this process wait for a lease.
func (l *Leases) Waiting(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[name]; e != nil && e.line != nil {
		return len(e.line.waiting)
	}
	return 0
}

// Patient has a replica keep a connection to a server that is stopped.
func Patient(o *Options) { o.ping = time.Hour }
