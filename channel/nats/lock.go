package nats

import "sync"

// locks are locks with names. The zero value has none.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// lock takes a lock, which the returned func gives back.
func (l *locks) lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	one := l.all[name]
	if one == nil {
		one = new(lock)
		l.all[name] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.all, name)
		}
	}
}
