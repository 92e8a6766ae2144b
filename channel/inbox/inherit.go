package inbox

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// mostOthers bounds what is known of the events of others. It is far more than may wait.
const mostOthers = 100_000

// mostAhead is how much the clock of another process may be ahead, so that what arrives here later is behind what arrived there.
const mostAhead = time.Second

// changed takes a change of an event that any process has made.
func (j *Inbox) changed(c store.Change) {
	if c.Gone {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.setOtherLocked(c.Key, nil)
		j.recent.drop(c.Key)
		return
	}
	r, err := recordOf(c.Record)
	if err != nil {
		return // the caller who wants it is told
	}
	self, dead := j.r.Self(), j.r.Dead(r.Owner)
	soon := j.o.now().Add(mostAhead).UnixNano()
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.order() < soon {
		j.last = max(j.last, r.order())
	}
	if was, ok := j.others[c.Key]; ok && was.rev >= c.Rev {
		return
	}
	if r.Given && r.Owner == self && r.State == accepted && j.own[c.Key] == nil {
		j.setOtherLocked(c.Key, nil)
		j.own[c.Key] = &event{record: r, made: c.Made, rev: c.Rev, adrift: true}
		j.bytes += r.bytes()
		j.news = renew(j.news)
		return
	}
	if !r.waits() || r.Owner == self {
		j.setOtherLocked(c.Key, nil)
		return
	}
	if e := j.own[c.Key]; e != nil && (e.rev >= c.Rev || e.record.Owner == r.Owner) {
		return
	}
	if len(j.others) < mostOthers {
		j.setOtherLocked(c.Key, &other{r, c.Made, c.Rev})
		j.r.Wake()
	}
	if dead {
		j.news = renew(j.news)
	}
}

// owners returns the owners of the events of others.
func (j *Inbox) owners() map[string]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[string]bool{}
	for _, o := range j.others {
		all[o.record.Owner] = true
	}
	return all
}

// Inherit implements [channel.Heir].
func (j *Inbox) Inherit(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		told := map[string]uint64{}
		for {
			j.mu.Lock()
			news, closed := j.news, j.closed
			j.mu.Unlock()
			if closed || ctx.Err() != nil {
				return
			}
			var again <-chan time.Time
			all := j.waiting(false)
			still := make(map[string]uint64, len(all))
			for _, w := range all {
				if still[w.token] = w.rev; told[w.token] == w.rev {
					continue
				}
				e, ok, err := j.entry(ctx, w)
				if err != nil { // another time
					delete(still, w.token)
					again = time.After(owner.LookEvery)
					continue
				}
				if ok && !yield(e, nil) {
					return
				}
			}
			told = still
			select {
			case <-news:
			case <-again:
			case <-ctx.Done():
				return
			}
		}
	}
}

// waiting is what Pending or Inherit yields, the oldest first.
type waiting struct {
	token string
	other
}

// waiting lists what the dead have left, and of this process's events all that do not run, or those of which nobody was told alone.
func (j *Inbox) waiting(whole bool) []waiting {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []waiting
	for t, e := range j.own {
		if e.claim == nil && e.record.Stored && (e.todo == nil || e.todo.record.State == accepted) && (whole || e.adrift) {
			r := e.record
			if e.todo != nil {
				r = e.todo.record
			}
			all = append(all, waiting{t, other{r, e.made, e.rev}})
		}
	}
	for t, o := range j.others {
		if o.record.Stored && j.r.Dead(o.record.Owner) {
			if o.record.State == claimed {
				o.record.Attempt++ // its process has died in it
			}
			all = append(all, waiting{t, o})
		}
	}
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.record.order(), b.record.order()), cmp.Compare(a.made, b.made))
	})
	return all
}

// entry reads an event's raw form. It is not ok if the event has gone meanwhile.
func (j *Inbox) entry(ctx context.Context, w waiting) (e channel.JournalEntry, ok bool, err error) {
	k, err := w.record.key()
	var rec store.Record
	if err == nil {
		rec, err = j.r.Get(ctx, w.token)
	}
	if err == nil {
		var r record
		if r, err = recordOf(rec); err == nil && !r.waits() {
			j.forget(w)
			return e, false, nil
		}
	}
	switch {
	case errors.Is(err, errDamaged), errors.Is(err, store.ErrDamaged):
		j.lose(ctx, w, k)
		return e, false, nil
	case err != nil:
		return e, false, explain(err)
	}
	return channel.JournalEntry{Key: k, Raw: rec.Body, At: time.Unix(0, w.record.At), Attempt: w.record.Attempt}, true, nil
}

// forget forgets what was heard of another process's event.
func (j *Inbox) forget(w waiting) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o, ok := j.others[w.token]; ok && o.rev <= w.rev {
		j.setOtherLocked(w.token, nil)
	}
}

// lose settles an event whose raw form cannot be read any more.
func (j *Inbox) lose(ctx context.Context, w waiting, k channel.EventKey) {
	j.o.Log.ErrorContext(ctx, "dropped an unreadable event", "channel", k.Channel, "error", errDamaged)
	err := j.settleLost(ctx, w)
	if err != nil {
		j.o.Log.WarnContext(ctx, "cannot settle a dropped event", "channel", k.Channel, "error", err)
	}
}

func (j *Inbox) settleLost(ctx context.Context, w waiting) error {
	defer j.r.Lock(w.token)()
	_, moved, err := j.store(ctx, j.put(w.token, owner.NewID(), w.rev, j.settle(w.record, channel.OutcomeFailed)))
	if err == nil && moved == nil {
		j.forget(w)
		j.setOwn(w.token, nil)
	}
	return err
}

// renewed makes the events of this process those of its new name, unless others have taken them over. If that cannot be stored now, another
// process may take them over.
func (j *Inbox) renewed() {
	j.o.Log.Warn("other replicas took over this one's events")
	for _, t := range j.tokens() {
		j.keep(t, j.r.Self())
	}
}

func (j *Inbox) keep(token, owner_ string) {
	defer j.r.Lock(token)()
	e, err := j.mine(token)
	if e == nil || err != nil {
		return
	}
	j.mu.Lock()
	next, last := e.record, e.rev
	next.Owner, next.Given = owner_, false
	if e.todo != nil {
		e.todo.record.Owner = owner_
	}
	j.mu.Unlock()
	rec, moved, err := j.store(j.r.End, j.put(token, owner.NewID(), last, next))
	if moved != nil || err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e.record, e.rev = next, rec.Rev
}

// retry stores the ends of claims that could not be stored, and finds out which events were accepted though no answer has come.
func (j *Inbox) retry(ctx context.Context) (more bool) {
	j.mu.Lock()
	var late []string
	for t, e := range j.own {
		if e.todo != nil {
			late = append(late, t)
		}
	}
	doubts := slices.Collect(maps.Keys(j.doubts))
	j.mu.Unlock()
	for _, t := range late {
		if !j.retryEnd(ctx, t) {
			return true
		}
	}
	for _, t := range doubts {
		if !j.resolve(ctx, t) {
			return true
		}
	}
	return false
}

// retryEnd reports whether the engine is there.
func (j *Inbox) retryEnd(ctx context.Context, token string) bool {
	defer j.r.Lock(token)()
	e, err := j.mine(token)
	if err != nil || e == nil || e.todo == nil {
		return true
	}
	return j.finish(ctx, token, e) == nil
}

// resolve reports whether the engine is there.
func (j *Inbox) resolve(ctx context.Context, token string) bool {
	defer j.r.Lock(token)()
	j.mu.Lock()
	_, is := j.doubts[token]
	j.mu.Unlock()
	if !is {
		return true
	}
	r, rec, err := j.get(ctx, token)
	if err != nil {
		return errors.Is(err, errDamaged)
	}
	if isNew, err := j.judge(ctx, token, r, rec); err != nil {
		return false
	} else if e, _ := j.mine(token); isNew && e != nil {
		j.setAdrift(token)
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.doubts, token)
	return true
}
