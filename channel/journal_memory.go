package channel

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

// MemoryJournal is a journal that ends with its process: for doors whose platform, or whose user, repeats what was lost.
type MemoryJournal struct {
	max int

	mu      sync.Mutex
	events  map[EventKey]*memoryEvent // by the key without Synthetic
	settled list.List                 // in the order of settling
	brief   list.List                 // those with synthetic ids: they are forgotten sooner
	arrived uint64
	bytes   int // of events that are not settled
}

// maxMemoryBytes bounds the events that wait in memory.
const maxMemoryBytes = 64 << 20

// memoryEvent is one event. Its fields are guarded by the journal's mu.
type memoryEvent struct {
	key      EventKey
	state    ClaimState
	accepted bool
	raw      []byte
	at       time.Time
	order    uint64 // of arrival
	attempt  int
	claim    *memoryClaim // the one that counts
	until    time.Time    // it is forgotten then
	place    *list.Element
}

// JournalOptions of a journal in memory. The zero value has the defaults.
type JournalOptions struct {
	Keys int // events that are known at a time; 0 are 10 000
}

// NewJournal returns a journal in memory; nil is the defaults. Beyond its keys the event that settled first is forgotten, and where
// none has settled, nothing is taken any more.
func NewJournal(o *JournalOptions) *MemoryJournal {
	j := &MemoryJournal{max: maxEvents, events: map[EventKey]*memoryEvent{}}
	if o != nil && o.Keys > 0 {
		j.max = o.Keys
	}
	return j
}

func plainKey(k EventKey) EventKey {
	k.Synthetic = false
	return k
}

// findLocked looks an event up and forgets what has lived long enough. Synthetic ids may settle in another order than they
// arrived in, so that one may be over that the sweep has not come to.
func (j *MemoryJournal) findLocked(k EventKey, now time.Time) *memoryEvent {
	j.sweepLocked(now)
	e := j.events[plainKey(k)]
	if e != nil && e.place != nil && !now.Before(e.until) {
		j.forgetLocked(e)
		return nil
	}
	return e
}

func (j *MemoryJournal) sweepLocked(now time.Time) {
	for _, l := range []*list.List{&j.settled, &j.brief} {
		for at := l.Front(); at != nil; at = l.Front() {
			e := at.Value.(*memoryEvent)
			if now.Before(e.until) {
				break
			}
			j.forgetLocked(e)
		}
	}
}

func (j *MemoryJournal) forgetLocked(e *memoryEvent) {
	delete(j.events, plainKey(e.key))
	if e.place != nil {
		j.settledOf(e).Remove(e.place)
		e.place = nil
	}
	j.bytes -= len(e.raw)
	e.claim, e.raw = nil, nil
}

func (j *MemoryJournal) settledOf(e *memoryEvent) *list.List {
	if e.key.Synthetic {
		return &j.brief
	}
	return &j.settled
}

// addLocked makes room for an event and adds it.
func (j *MemoryJournal) addLocked(k EventKey, now time.Time) (*memoryEvent, error) {
	if len(j.events) >= j.max {
		oldest := j.settled.Front()
		if b := j.brief.Front(); oldest == nil || b != nil && b.Value.(*memoryEvent).at.Before(oldest.Value.(*memoryEvent).at) {
			oldest = b
		}
		if oldest == nil {
			return nil, ErrJournalFull
		}
		j.forgetLocked(oldest.Value.(*memoryEvent))
	}
	j.arrived++
	e := &memoryEvent{key: k, at: now, order: j.arrived}
	j.events[plainKey(k)] = e
	return e, nil
}

// Accept implements [Journal].
func (j *MemoryJournal) Accept(ctx context.Context, k EventKey, raw []byte) (isNew bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.findLocked(k, now) != nil {
		return false, nil
	}
	if j.bytes+len(raw) > maxMemoryBytes {
		return false, ErrJournalFull
	}
	e, err := j.addLocked(k, now)
	if err != nil {
		return false, err
	}
	j.bytes += len(raw)
	e.state, e.accepted, e.raw = ClaimAccepted, true, bytes.Clone(raw)
	return true, nil
}

// Claim implements [Journal].
func (j *MemoryJournal) Claim(ctx context.Context, k EventKey) (Claim, ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, ClaimNone, err
	}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.findLocked(k, now)
	if e == nil {
		var err error
		if e, err = j.addLocked(k, now); err != nil {
			return nil, ClaimNone, err
		}
	} else if e.state != ClaimAccepted {
		return nil, e.state, nil
	}
	e.state = ClaimTaken
	e.claim = &memoryClaim{j, e}
	return e.claim, ClaimTaken, nil
}

// Peek implements [Journal].
func (j *MemoryJournal) Peek(ctx context.Context, k EventKey) (ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return ClaimNone, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.events[plainKey(k)]
	if e == nil || e.place != nil && !time.Now().Before(e.until) {
		return ClaimNone, nil
	}
	return e.state, nil
}

// Pending implements [Journal].
func (j *MemoryJournal) Pending(ctx context.Context) iter.Seq2[JournalEntry, error] {
	return func(yield func(JournalEntry, error) bool) {
		type pending struct {
			JournalEntry
			order uint64
		}
		var waiting []pending
		j.mu.Lock()
		for _, e := range j.events {
			if e.accepted && e.state == ClaimAccepted {
				waiting = append(waiting, pending{JournalEntry{e.key, e.raw, e.at, e.attempt}, e.order})
			}
		}
		j.mu.Unlock()
		slices.SortFunc(waiting, func(a, b pending) int { return cmp.Compare(a.order, b.order) })
		for _, p := range waiting {
			if err := context.Cause(ctx); err != nil {
				yield(JournalEntry{}, err)
				return
			}
			if !yield(p.JournalEntry, nil) {
				return
			}
		}
	}
}

// settleLocked ends an event; its key alone is kept.
func (j *MemoryJournal) settleLocked(e *memoryEvent, now time.Time) {
	j.bytes -= len(e.raw)
	e.state, e.claim, e.raw = ClaimSettled, nil, nil
	life, from := keyLife, now
	if e.key.Synthetic {
		life, from = syntheticLife, e.at
	}
	e.until = from.Add(life)
	e.place = j.settledOf(e).PushBack(e)
}

// Erase removes all events that match, whatever their state: their session is erased. Their claims are outdated then.
func (j *MemoryJournal) Erase(_ context.Context, match func(EventKey) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		if match(e.key) {
			j.forgetLocked(e)
		}
	}
	return nil
}

type memoryClaim struct {
	journal *MemoryJournal
	event   *memoryEvent
}

// Commit implements [Claim].
func (c *memoryClaim) Commit(context.Context, Outcome) error {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.event.claim == c {
		j.settleLocked(c.event, time.Now())
	}
	return nil
}

// Release implements [Claim].
func (c *memoryClaim) Release(_ context.Context, cause error) error {
	j, e := c.journal, c.event
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case e.claim != c:
	case !e.accepted:
		j.forgetLocked(e)
	case ReleaseCounts(cause) && e.attempt >= len(retries):
		j.settleLocked(e, time.Now())
	default:
		if ReleaseCounts(cause) {
			e.attempt++
		}
		e.state, e.claim = ClaimAccepted, nil
	}
	return nil
}

// Key implements [KeyedClaim].
func (c *memoryClaim) Key() EventKey { return c.event.key }

// Again implements [Repeater].
func (c *memoryClaim) Again() bool {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.event.claim == c && c.event.accepted && c.event.attempt < len(retries)
}
