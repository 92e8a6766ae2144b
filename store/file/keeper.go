package file

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

// keeper deletes the logs of a space that were not changed for as long as entries are kept. It measures how long it has seen a file
// unchanged, so setting the clock makes nothing go early.
type keeper struct {
	running sync.WaitGroup
	seen    map[string]seen
}

// seen says since when a file is as it is.
type seen struct {
	mark  mark
	since time.Time
}

func (k *keeper) start(s *Space) {
	if s.o.Keep <= 0 || s.e.lock == nil {
		return
	}
	k.seen = map[string]seen{}
	k.running.Go(func() {
		for backoff.Sleep(s.ending, max(time.Second, s.o.Keep/16)) == nil {
			if err := k.look(s); err != nil && !errors.Is(err, store.ErrClosed) {
				s.log.Warn("cannot delete old logs", "space", s.o.Space, "error", err)
			}
		}
	})
}

// look deletes what is old.
func (k *keeper) look(s *Space) error {
	now, next := time.Now(), map[string]seen{}
	var old []string
	list := s.disk.List(".", func(d fs.DirEntry) bool {
		name, ok := s.nameOf(d.Name())
		if !ok {
			return true
		}
		at, err := d.Info()
		if err != nil {
			return true // it was deleted
		}
		one := seen{markOf(at), now}
		if was, ok := k.seen[name]; ok && was.mark == one.mark {
			if one = was; now.Sub(was.since) > s.o.Keep {
				old = append(old, name)
			}
		}
		next[name] = one
		return true
	})
	k.seen = next
	errs := []error{explain(list)}
	for _, name := range old {
		errs = append(errs, s.erase(context.Background(), name))
	}
	return errors.Join(errs...)
}
