package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/vfs"
)

// keepEnded keeps an ended run: on disk, or else in memory.
func (s *Service) keepEnded(r *Run) {
	if s.save(r) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.expires = now.Add(s.retention(r.Keyed))
	s.inMemory[r.ID] = r
	s.keepLocked(r, now)
}

// known says whether a restored run is there, or is about to be.
func (s *Service) known(id string) bool {
	_, stored := s.onDisk[id]
	return stored || s.inMemory[id] != nil ||
		slices.ContainsFunc(s.toRestart, func(p *leftRun) bool { return p.Run == id })
}

// surplusLocked forgets ended runs while they take too much of the disk, those that expire first, and returns their ids.
func (s *Service) surplusLocked() (ids []string) {
	var total int64
	for _, st := range s.onDisk {
		total += st.size
	}
	if total <= s.o.MaxDisk {
		return nil
	}
	for id := range s.onDisk {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(s.onDisk[a].expires.Compare(s.onDisk[b].expires), cmp.Compare(a, b))
	})
	n := 0
	for total > s.o.MaxDisk {
		total -= s.onDisk[ids[n]].size
		s.forgetLocked(ids[n])
		n++
	}
	return ids[:n]
}

// maxSettles is how often a run's file is written anew that cannot be made durable.
const maxSettles = 3

// settle has a run's file made durable, and drops it from the journal then.
func (s *Service) settle(r *Run, attempt int) {
	s.disk.settler.add(settling{r.ID, func(err error) {
		if err == nil {
			r.entry.Drop()
			return
		}
		// As another file, since of this one nobody knows what the disk has.
		if attempt < maxSettles {
			if _, err = s.disk.save(r); err == nil {
				s.settle(r, attempt+1)
				return
			}
		}
		s.log.ErrorContext(r.Context(), "cannot sync an ended run", "run", r.ID, "code", codeNotDurable, "error", err)
		r.entry.Drop()
	}})
}

// errGone says that a run was known once.
var errGone = errors.New("web: the run has expired")

// errDamaged says that what is kept of a run cannot be read.
var errDamaged = errors.New("web: the record of the run is damaged")

// errUnknown says that a run is not known, and errNotYet that it may still come, from another replica.
var (
	errUnknown = errors.New("web: unknown run")
	errNotYet  = fmt.Errorf("%w until now", errUnknown)
)

// leaveLocked forgets a run that goes on elsewhere.
func (s *Service) leaveLocked(r *Run) {
	switch {
	case r.machine.is(runHandedOver):
	case r.restarts():
		r.machine.enter(runHandedOver)
	default:
		r.machine.enter(runMoved)
	}
	r.where.leave()
	s.removeLocked(r)
}

// retention is how long an ended run can be attached to.
func (s *Service) retention(keyed bool) time.Duration {
	if keyed {
		return max(s.o.Retention, s.o.KeyRetention)
	}
	return s.o.Retention
}

// keepLocked counts an ended run as kept in memory.
func (s *Service) keepLocked(r *Run, now time.Time) {
	if r.restarts() {
		r.machine.enter(runHandedOver)
	} else {
		r.machine.enter(runEnded)
	}
	r.touched = now
	r.size = int64(r.tube.Bytes()) + sizeOfRun
	s.kept = append(s.kept, r)
	s.keptBytes += r.size
	r.account.Settle(2 * r.size) // with the document, as it is sent
}

// sizeOfRun is what an ended run takes beside its log, about.
const sizeOfRun = 4 << 10

// get finds a run by its id for somebody, reading it back where it has left memory. Another's run is an unknown run, and is found to be so as
// soon. Errors: errUnknown, errGone, errDamaged, the cause of ctx, and an *[adapter.Error] where there is no memory to read it back.
func (s *Service) get(ctx context.Context, who access.Principal, id string) (*Run, error) {
	if !ValidID(id) {
		return nil, errUnknown
	}
	for {
		s.mu.Lock()
		r := s.inMemory[id]
		st, stored := s.onDisk[id]
		s.mu.Unlock()
		if r != nil && !r.Moved() {
			if r.followed() {
				r.asked.Store(time.Now().UnixNano())
			}
			if !r.owned(who) {
				return nil, errUnknown
			}
			return r, nil
		}
		if stored && !who.Sees(st.owner) {
			return nil, errUnknown
		}
		loaded, wait := s.loadOnce(id)
		if wait == nil {
			r, err := s.readBack(ctx, who, id)
			loaded()
			if r != nil || err != nil {
				return r, err
			}
			continue // it has come into memory meanwhile
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// loadOnce lets one at a time read a run back, until loaded is called; wait is closed when another has.
func (s *Service) loadOnce(id string) (loaded func(), wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := s.loading[id]; wait != nil {
		return nil, wait
	}
	over := make(chan struct{})
	s.loading[id] = over
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loading, id)
		close(over)
	}, nil
}

// load reads an ended run back from the data folder.
func (s *Service) load(ctx context.Context, who access.Principal, id string) (*Run, error) {
	s.mu.Lock()
	st, stored := s.onDisk[id]
	owner, gone := s.expired.owner(id)
	here := s.inMemory[id] != nil
	s.mu.Unlock()
	switch {
	case here:
		return nil, nil
	case stored && !who.Sees(st.owner), !stored && !(gone && who.Sees(owner)):
		return nil, errUnknown
	case !stored:
		return nil, errGone
	}
	account := s.o.Ledger.Open()
	if err := account.Reserve(ctx, 2*st.size); err != nil {
		account.Release()
		return nil, err
	}
	r, err := s.disk.load(id, s.o.MaxLog)
	if err != nil {
		account.Release()
		s.log.ErrorContext(ctx, "cannot read an ended run", "run", id, "error", err)
		if err := vfs.Explain(err); vfs.Failed(err) {
			return nil, err
		}
		return nil, errDamaged
	}
	r.expires, r.saved, r.account = st.expires, true, account
	now := time.Now()
	s.mu.Lock()
	s.inMemory[id] = r
	s.keepLocked(r, now)
	s.mu.Unlock()
	s.trim(now)
	return r, nil
}

// inLane finds the run that was started last in a session, by its lane: nil where none is in memory.
func (s *Service) inLane(lane string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inSession[lane]
}

// save writes an ended run to disk; false where that failed.
func (s *Service) save(r *Run) bool {
	size, err := s.disk.save(r)
	if err != nil {
		s.log.ErrorContext(r.Context(), "cannot write an ended run", "run", r.ID, "error", err)
		s.notKept(err)
		return false
	}
	s.mu.Lock()
	r.saved = true
	expires := r.expires
	if expires.IsZero() {
		expires = time.Now().Add(s.retention(r.Keyed))
	}
	s.onDisk[r.ID] = stored{owner: r.owner, expires: expires, size: size}
	s.mu.Unlock()
	s.settle(r, 1)
	return true
}

// trim moves ended runs out of memory: the least recently touched first, while there are too many bytes of them, and where
// there is a disk those that have been there for long. Without a disk they are forgotten.
func (s *Service) trim(now time.Time) {
	if !s.trimming.TryLock() {
		return // the one that is at it sees to this run, too, or the next sweep does
	}
	defer s.trimming.Unlock()
	for {
		s.mu.Lock()
		// Without a disk the last run to end is kept however large it is: somebody may be about to come back to it.
		full := s.keptBytes > s.o.MemoryOfEnded && (s.canReadBack() || len(s.kept) > 1)
		if len(s.kept) == 0 || !full && (!s.canReadBack() || now.Sub(s.kept[0].touched) < KeepInMemory) {
			s.mu.Unlock()
			return
		}
		r := s.kept[0]
		saved := r.saved
		s.mu.Unlock()
		if !saved && s.disk != nil && !r.restarts() {
			if s.disk.settler.behind() {
				return // it harms less in memory
			}
			saved = s.save(r)
		}
		s.mu.Lock()
		s.dropLocked(r)
		if !saved {
			s.expired.add(r.ID, r.owner)
		}
		s.mu.Unlock()
	}
}

// dropLocked takes an ended run out of memory. It is one of kept.
func (s *Service) dropLocked(r *Run) {
	i := slices.Index(s.kept, r)
	if i < 0 {
		return
	}
	r.machine.enter(runDropped)
	s.kept = slices.Delete(s.kept, i, i+1)
	s.keptBytes -= r.size
	s.freed += r.size
	if !r.restarts() && !r.saved { // else when its file is safe
		r.entry.Drop()
	}
	s.removeLocked(r)
}

// removeLocked takes a run out of memory.
func (s *Service) removeLocked(r *Run) {
	if s.inMemory[r.ID] == r {
		delete(s.inMemory, r.ID)
	}
	if lane := r.Lane(); lane != "" && s.inSession[lane] == r {
		delete(s.inSession, lane)
	}
	r.account.Release()
}

// sweep forgets what has expired. It says whether much memory has become free while nothing runs.
func (s *Service) sweep(now time.Time) (idle bool) {
	s.trim(now)
	var remove []string
	s.mu.Lock()
	for i := 0; i < len(s.kept); {
		r := s.kept[i]
		if now.Before(r.expires) {
			i++
			continue
		}
		s.dropLocked(r)
		if _, also := s.onDisk[r.ID]; !also {
			s.expired.add(r.ID, r.owner)
		}
	}
	for id, st := range s.onDisk {
		if now.Before(st.expires) {
			continue
		}
		s.forgetLocked(id)
		remove = append(remove, id)
	}
	remove = append(remove, s.surplusLocked()...)
	if len(s.onDisk) == 0 && len(s.inMemory) == 0 {
		// A map does not get smaller by itself.
		s.onDisk, s.inMemory, s.inSession = map[string]stored{}, map[string]*Run{}, map[string]*Run{}
	}
	idle = s.running == 0 && s.freed >= giveBack
	if idle {
		s.freed = 0
	}
	s.mu.Unlock()
	for _, id := range remove {
		if err := s.disk.remove(id); err != nil {
			s.log.Warn("cannot remove an expired run", "run", id, "error", err)
		}
	}
	return idle
}

// forgetLocked forgets a run that is on disk.
func (s *Service) forgetLocked(id string) {
	s.expired.add(id, s.onDisk[id].owner)
	delete(s.onDisk, id)
	if r := s.inMemory[id]; r != nil {
		s.dropLocked(r) // if it has ended
	}
}

// saveAll writes all ended runs to disk, so that clients find them after a restart.
func (s *Service) saveAll() {
	if s.disk == nil {
		return
	}
	s.mu.Lock()
	var list []*Run
	for _, r := range s.kept {
		if !r.saved && !r.restarts() {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	for _, r := range list {
		s.save(r)
	}
	s.disk.settler.pass()
}

// expired remembers ids that were known once, and to whom, as many as it can; the oldest make room.
type expired struct {
	ids  map[string]string // owners
	ring []string
	next int
}

const maxExpired = 8192

func (e *expired) add(id, owner string) {
	if e.ids == nil {
		e.ids = map[string]string{}
	}
	if _, ok := e.ids[id]; ok {
		return
	}
	if len(e.ring) < maxExpired {
		e.ring = append(e.ring, id)
	} else {
		delete(e.ids, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % maxExpired
	}
	e.ids[id] = owner
}

// owner is who had a run; ok is false where it is not remembered.
func (e *expired) owner(id string) (owner string, ok bool) { owner, ok = e.ids[id]; return owner, ok }
