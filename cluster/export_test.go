package cluster

// Waiting is how many callers of this process wait for a lease.
func (l *Leases) Waiting(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[name]; e != nil && e.line != nil {
		return len(e.line.waiting)
	}
	return 0
}
