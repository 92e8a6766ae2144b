package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// Accept implements [channel.Journal]. It cannot be canceled: what is being stored is accepted.
func (j *Inbox) Accept(ctx context.Context, k channel.EventKey, raw []byte) (isNew bool, err error) {
	news, err := j.AcceptAll(ctx, []channel.JournalEntry{{Key: k, Raw: raw}})
	return err == nil && news[0], err
}

// acceptance is an event that is being accepted.
type acceptance struct {
	at     int // in the batch
	token  string
	record record
	put    store.Put
}

// AcceptAll implements [channel.BatchAccepter].
func (j *Inbox) AcceptAll(ctx context.Context, entries []channel.JournalEntry) (isNew []bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	tokens := make([]string, len(entries))
	for i, e := range entries {
		if err := checkRaw(e.Raw); err != nil {
			return nil, err
		}
		tokens[i] = owner.Token(e.Key.String())
	}
	defer j.r.LockAll(tokens...)()
	isNew = make([]bool, len(entries))
	todo, err := j.prepare(ctx, entries, tokens, isNew)
	if err == nil {
		err = j.acceptEach(ctx, todo, isNew)
	}
	if err == nil {
		return isNew, nil
	}
	for i := range entries {
		if isNew[i] { // nobody is told
			j.setAdrift(tokens[i])
		}
	}
	return nil, fmt.Errorf("keep an event: %w", err)
}

// prepare finds out which events have to be stored, and whether there is room for all of them.
func (j *Inbox) prepare(
	ctx context.Context, entries []channel.JournalEntry, tokens []string, isNew []bool,
) (todo []*acceptance, err error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, channel.ErrJournalClosed
	}
	self := j.r.Self()
	before := map[string]bool{}
	count, bytes := len(j.own)+len(j.others), j.bytes
	for i, e := range entries {
		t := tokens[i]
		if own := j.own[t]; own != nil {
			isNew[i] = own.adoptLocked()
			continue
		}
		now := j.o.now().UnixNano()
		if j.recent.has(t, now) {
			continue
		}
		if len(entries) > 1 {
			if before[t] {
				continue // once more in the batch
			}
			before[t] = true
		}
		j.last = max(j.last+1, now)
		r := record{
			State: accepted, Owner: self, Key: e.Key.String(), Brief: e.Key.Synthetic, At: now, Behind: j.last - now, Size: len(e.Raw), Stored: true,
		}
		a := &acceptance{at: i, token: t, record: r}
		id, again := j.doubts[t] // an attempt of before may have stored it
		if !again {
			id = owner.NewID()
		}
		a.put = j.put(t, id, 0, r)
		a.put.Lazy = false
		if a.put.Body = e.Raw; e.Raw == nil {
			a.put.Body = []byte{}
		}
		todo = append(todo, a)
		count++
		bytes += r.bytes()
	}
	j.mu.Unlock()
	if len(todo) == 0 || count <= j.o.Pending && bytes <= j.o.PendingBytes {
		return todo, nil
	}
	return j.fit(ctx, todo, count, bytes, isNew)
}

// fit leaves out the events that are known, and checks whether the others fit.
func (j *Inbox) fit(ctx context.Context, todo []*acceptance, count int, bytes int64, isNew []bool) (left []*acceptance, err error) {
	for _, a := range todo {
		r, rec, err := j.get(ctx, a.token)
		if err == nil {
			isNew[a.at], err = j.judge(ctx, a.token, r, rec)
		}
		if err != nil {
			return nil, err
		}
		own, err := j.mine(a.token)
		if err != nil {
			return nil, err
		}
		if isNew[a.at] && own == nil {
			isNew[a.at] = false // not yet
			a.put.After = rec.Rev
			left = append(left, a)
			continue
		}
		count--
		bytes -= a.record.bytes()
	}
	if len(left) > 0 && (count > j.o.Pending || bytes > j.o.PendingBytes) {
		return nil, channel.ErrJournalFull
	}
	return left, nil
}

// adoptLocked reports whether an event of this process is new to the caller who brings it: nobody was told that it was accepted.
func (e *event) adoptLocked() (isNew bool) {
	if !e.adrift || e.record.Given { // the caller of the process that has given it was told
		return false
	}
	e.adrift = false
	return true
}

// acceptEach stores events in one write, and finds out about those that are there.
func (j *Inbox) acceptEach(ctx context.Context, todo []*acceptance, isNew []bool) error {
	if len(todo) == 0 {
		return nil
	}
	puts := make([]store.Put, len(todo))
	for i, a := range todo {
		puts[i] = a.put
	}
	records, errs := j.r.Put(ctx, puts...)
	var failed error
	for i, a := range todo {
		var err error
		if errs[i] == nil {
			j.accepted(a, records[i])
			isNew[a.at] = true
		} else if isNew[a.at], err = j.acceptAfter(ctx, a, errs[i]); err != nil {
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

func (j *Inbox) accepted(a *acceptance, rec store.Record) {
	j.setOwn(a.token, &event{record: a.record, made: rec.Made, rev: rec.Rev})
}

// acceptAfter goes on with an event whose first put has failed.
func (j *Inbox) acceptAfter(ctx context.Context, a *acceptance, err error) (isNew bool, _ error) {
	for range owner.Tries {
		moved := owner.Moved(err)
		if moved == nil && !errors.Is(err, store.ErrFull) {
			if errors.Is(err, store.ErrUnsure) {
				j.doubt(a)
			}
			return false, explain(err)
		}
		if moved != nil {
			r, err := recordOf(*moved)
			if err != nil {
				return false, err
			}
			if isNew, err := j.judge(ctx, a.token, r, *moved); err != nil || !isNew {
				return false, err
			}
			if own, err := j.mine(a.token); own != nil || err != nil {
				return err == nil, err // an attempt of before has stored it
			}
			a.put.After = moved.Rev
		}
		var rec store.Record
		if rec, moved, err = j.store(ctx, a.put); moved != nil {
			err = &store.Moved{Record: *moved}
			continue
		}
		if err == nil {
			j.accepted(a, rec)
			return true, nil
		}
		if errors.Is(err, store.ErrFull) {
			return false, err
		}
	}
	return false, owner.ErrBusy
}

// judge decides by the record of an event whether the event is new. One that this process has stored without knowing it becomes its own.
func (j *Inbox) judge(ctx context.Context, token string, r record, rec store.Record) (isNew bool, err error) {
	if r.over(j.o.now()) {
		return true, nil
	}
	switch {
	case r.State == accepted && !r.Given && r.Owner == j.r.Self(): // else it would be in own
		j.setOwn(token, &event{record: r, made: rec.Made, rev: rec.Rev})
		return true, nil
	case !r.Stored && r.State == claimed:
		alive, err := j.r.Alive(ctx, r.Owner)
		return !alive, err
	}
	return false, nil
}

// doubt notes that an event may have been accepted.
func (j *Inbox) doubt(a *acceptance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.doubts) < j.o.Pending {
		j.doubts[a.token] = a.put.ID
	}
	j.r.Wake()
}

// setAdrift notes that nobody was told that an event was accepted.
func (j *Inbox) setAdrift(token string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.own[token]; e != nil && e.claim == nil {
		e.adrift = true
		j.news = renew(j.news)
	}
}
