// Package inbox keeps the events of channels in a table, from their arrival until their keys are forgotten.
//
// Each event has a record, whose key is a hash of the event's key. Its meta says how far the event is, which process has it, and what is
// known of its answer; its body is the raw form, until the event is settled. A settled event is known for 24 hours.
//
// # Guarantees
//   - An event that was accepted is durable. If that is not known, Accept fails; if it was stored nevertheless, it runs once, whoever
//     brings it again.
//   - An event has an owner: the process that has accepted it, until that dies or ends. No other process claims it before. Those who wait
//     for such events ([Inbox.Inherit]) get them within a second of the moment at which the others take the owner for dead.
//   - An event may be given to the process that runs another one of its conversation ([Inbox.Give]), which is its owner from then on.
//   - A change is stored only at the revision that its writer has seen. So a claim that is outdated does nothing: it cannot settle, cannot
//     release, and cannot mark that something is about to be sent, without which nothing is sent.
//   - A turn in which its process died is an attempt of its event, as a release is. So an event that ends the process does not run for
//     ever.
//   - Claims and ends are durable a second later. An event that was settled just before the machine failed runs again, unless the ledger
//     shows that it was answered.
//   - What waits is bounded, in events and bytes. Beyond it nothing is accepted, with [channel.ErrJournalFull]. Keys are bounded, too:
//     beyond it the events that settled first are forgotten.
//   - While the engine is away, calls wait some seconds for it; then they fail with the code "overloaded". The end of a claim is kept, and
//     stored when the engine is back.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// Options of an inbox. The zero value has the defaults.
type Options struct {
	Owners       owner.Owners  // nil: no other process uses the table
	Pending      int           // events of all processes that are not settled, beyond which none is accepted: 10 000
	PendingBytes int64         // of them: 64 MiB
	Keys         int           // events that are known: 200 000; the oldest that are settled go first
	Keep         time.Duration // that an event waits; 0: for ever
	Shown        bool          // keep what people see of answers before they are finished
	Log          *slog.Logger  // nil is nowhere

	now func() time.Time // in tests
}

const (
	defaultPending      = 10_000
	defaultPendingBytes = 64 << 20
	defaultKeys         = 200_000

	keyLife       = 24 * time.Hour
	syntheticLife = time.Minute
	// claimLife is longer than any turn takes. What a dead process has claimed, and nobody has accepted, goes then.
	claimLife = 7 * 24 * time.Hour
	// slack is how much longer a settled event is stored than it is known: the clocks of processes differ.
	slack = time.Minute
)

// Inbox is a [channel.Journal].
type Inbox struct {
	o     Options
	r     *owner.Records
	shown store.Table // nil: nothing is kept

	mu     sync.Mutex
	closed bool
	last   int64               // the order of the last event that arrived
	own    map[string]*event   // by token: those that wait and are this process's
	others map[string]other    // those that wait and are another process's, as far as was heard
	bytes  int64               // of both
	doubts map[string][16]byte // by token: the ID of a put that has accepted an event, or not
	recent recent
	news   chan struct{} // closed, and another one made, when there may be something to inherit
	warned bool          // that keys are forgotten before their time
	making sync.Mutex    // held while room is made
}

// event is one of this process's. Its fields are guarded by the inbox's mu, and changed only with the token's lock, too.
type event struct {
	record record
	made   uint64
	rev    uint64 // the last that was seen
	claim  *claim // nil: nobody's
	adrift bool   // nobody was told that it was accepted
	shown  bool   // something is kept of what people see of its answer
	todo   *todo  // a change that is still to be stored: the claim has ended
}

// todo is a change that is still to be stored. A record that is erased is to be deleted.
type todo struct {
	id     [16]byte
	record record
}

type other struct {
	record record
	made   uint64
	rev    uint64
}

var (
	_ channel.Journal       = (*Inbox)(nil)
	_ channel.Ledger        = (*Inbox)(nil)
	_ channel.Shower        = (*Inbox)(nil)
	_ channel.BatchAccepter = (*Inbox)(nil)
	_ channel.Heir          = (*Inbox)(nil)
	_ channel.Giver         = (*Inbox)(nil)
	_ channel.Eraser        = (*Inbox)(nil)
)

// Open opens the inbox of an engine, and returns when it is known what waits. The caller closes the inbox before the engine.
func Open(ctx context.Context, e store.Engine, o Options) (*Inbox, error) {
	o.Pending = cmp.Or(max(o.Pending, 0), defaultPending)
	o.PendingBytes = cmp.Or(max(o.PendingBytes, 0), defaultPendingBytes)
	o.Keys = cmp.Or(max(o.Keys, 0), defaultKeys)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
	j := &Inbox{o: o, own: map[string]*event{}, others: map[string]other{}, doubts: map[string][16]byte{}, news: make(chan struct{})}
	var err error
	if o.Shown {
		if j.shown, err = e.Table(ctx, shownTable); err != nil {
			return nil, fmt.Errorf("open the inbox: %w", err)
		}
	}
	table := Table
	table.MaxRecords = int64(max(o.Keys, o.Pending))
	if j.r, err = owner.Open(ctx, e, table, o.Owners); err == nil {
		err = j.r.Start(ctx, owner.Hooks{
			Changed: j.changed, Others: j.owners, Died: func(string) { j.tellNews() }, Renewed: j.renewed, Retry: j.retry,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the inbox: %w", err)
	}
	return j, nil
}

// Table is the table of inboxes, without its bound.
var Table = store.TableOptions{Name: "inbox", Durability: store.Synced}

// Close gives back what this process has: others take it over at once, and what ran of it is none of its attempts.
func (j *Inbox) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.news = renew(j.news)
	j.mu.Unlock()
	j.r.Stop()
	var errs []error
	for _, t := range j.tokens() {
		err := j.giveBack(t)
		if errs = append(errs, err); err != nil {
			break // the others would wait as long
		}
	}
	j.r.Release()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the inbox: %w", err)
	}
	return nil
}

func (j *Inbox) tokens() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.own))
}

// giveBack stores of a claimed event that it does not run any more.
func (j *Inbox) giveBack(token string) error {
	defer j.r.Lock(token)()
	j.mu.Lock()
	e := j.own[token]
	if e != nil && e.claim != nil {
		e.claim = nil
		e.todo = &todo{owner.NewID(), e.record.released()}
	}
	idle := e == nil || e.todo == nil
	j.mu.Unlock()
	if idle {
		return nil
	}
	return j.finish(context.Background(), token, e)
}

// released is the record of an event whose claim was given back.
func (r record) released() record {
	if !r.Stored {
		return record{}
	}
	r.State, r.Claim = accepted, ""
	return r
}

func renew(c chan struct{}) chan struct{} {
	close(c)
	return make(chan struct{})
}

func (j *Inbox) tellNews() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.news = renew(j.news)
}

// setOwn makes an event this process's; with nil, it is not any more.
func (j *Inbox) setOwn(token string, e *event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := j.own[token]; was != nil {
		j.bytes -= was.record.bytes()
		delete(j.own, token)
	}
	if e != nil {
		j.own[token] = e
		j.bytes += e.record.bytes()
		j.setOtherLocked(token, nil)
	}
	delete(j.doubts, token)
}

func (j *Inbox) setOtherLocked(token string, o *other) {
	if was, ok := j.others[token]; ok {
		j.bytes -= was.record.bytes()
		delete(j.others, token)
	}
	if o != nil {
		j.others[token] = *o
		j.bytes += o.record.bytes()
	}
}

// mine is this process's event of a token; nil is none.
func (j *Inbox) mine(token string) (*event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, channel.ErrJournalClosed
	}
	return j.own[token], nil
}

// put returns the change that stores what is known of an event.
func (j *Inbox) put(token string, id [16]byte, after uint64, r record) store.Put {
	if r.State == erased {
		return store.Put{Key: token, ID: id, After: after, Delete: true, Lazy: true}
	}
	p := store.Put{Key: token, ID: id, After: after, Meta: owner.Meta(&r), Lazy: true}
	now := j.o.now()
	switch {
	case r.State == settled:
		p.Life = max(time.Unix(0, r.Until).Sub(now), 0) + slack
	case !r.Stored:
		p.Life = claimLife
	case j.o.Keep > 0:
		p.Life = max(time.Unix(0, r.At).Add(j.o.Keep).Sub(now), slack)
	}
	if r.State == settled || !r.Stored {
		p.Body = []byte{}
	}
	return p
}

// store makes a change of an event, and makes room for it if the table is full.
func (j *Inbox) store(ctx context.Context, p store.Put) (rec store.Record, moved *store.Record, err error) {
	rec, moved, err = j.r.PutOne(ctx, p)
	if errors.Is(err, store.ErrFull) && j.makeRoom(ctx) {
		rec, moved, err = j.r.PutOne(ctx, p)
	}
	return rec, moved, explain(err)
}

// explain makes an error of the table one for callers.
func explain(err error) error {
	if errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%w: %w", channel.ErrJournalFull, err)
	}
	return owner.Explain(err)
}

// Peek implements [channel.Journal].
func (j *Inbox) Peek(ctx context.Context, k channel.EventKey) (channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return channel.ClaimNone, err
	}
	token := owner.Token(k.String())
	e, err := j.mine(token)
	if err != nil {
		return channel.ClaimNone, err
	}
	if e != nil {
		return j.stateOf(e), nil
	}
	if j.settledNow(token) {
		return channel.ClaimSettled, nil
	}
	r, _, err := j.get(ctx, token)
	switch {
	case err != nil || r.over(j.o.now()):
		return channel.ClaimNone, err
	case r.State == settled:
		return channel.ClaimSettled, nil
	}
	alive, err := j.r.Alive(ctx, r.Owner)
	switch {
	case err != nil:
		return channel.ClaimNone, err
	case alive && r.State == claimed:
		return channel.ClaimTaken, nil
	case !r.Stored:
		return channel.ClaimNone, nil
	}
	return channel.ClaimAccepted, nil
}

// settledNow reports whether this process has settled an event a short time ago.
func (j *Inbox) settledNow(token string) bool {
	now := j.o.now().UnixNano()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recent.has(token, now)
}

// get reads what the table has of an event.
func (j *Inbox) get(ctx context.Context, token string) (record, store.Record, error) {
	rec, err := j.r.Get(ctx, token)
	if err != nil {
		return record{}, rec, explain(err)
	}
	r, err := recordOf(rec)
	return r, rec, err
}

// stateOf is how far an event of this process is. The table may not have it yet.
func (j *Inbox) stateOf(e *event) channel.ClaimState {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case e.claim != nil:
		return channel.ClaimTaken
	case e.todo != nil && e.todo.record.State == settled:
		return channel.ClaimSettled
	case e.todo != nil && e.todo.record.State == erased:
		return channel.ClaimNone
	}
	return channel.ClaimAccepted
}

// Erase implements [channel.Eraser]. Within a minute nothing of the events is left.
func (j *Inbox) Erase(ctx context.Context, match func(channel.EventKey) bool) error {
	err := j.r.Erase(ctx, func(rec store.Record) bool {
		r, err := recordOf(rec)
		if err != nil {
			return false // nothing tells whose it is
		}
		k, err := r.key()
		return err == nil && match(k)
	}, j.erase)
	if err != nil {
		return fmt.Errorf("erase events: %w", err)
	}
	return nil
}

func (j *Inbox) erase(ctx context.Context, token string) error {
	defer j.r.Lock(token)()
	if err := j.forgetShown(ctx, token); err != nil {
		return err
	}
	if err := j.r.Remove(ctx, token); err != nil {
		return err
	}
	j.setOwn(token, nil)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setOtherLocked(token, nil)
	j.recent.drop(token)
	return nil
}

// Waiting counts the events of all processes that are not settled, by channel.
func (j *Inbox) Waiting() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := map[string]int{}
	count := func(r *record) {
		if k, err := r.key(); err == nil {
			n[k.Channel]++
		}
	}
	for _, e := range j.own {
		count(&e.record)
	}
	for _, o := range j.others {
		count(&o.record)
	}
	return n
}

// makeRoom forgets a part of the settled events, those that settled first. It reports whether there were any.
func (j *Inbox) makeRoom(ctx context.Context) bool {
	j.making.Lock()
	defer j.making.Unlock()
	var puts []store.Put
	for rec, err := range j.r.Table.Range(ctx, "", false) {
		if err != nil {
			return false
		}
		if r, err := recordOf(rec); err != nil || r.State == settled {
			puts = append(puts, store.Put{Key: rec.Key, ID: owner.NewID(), After: rec.Rev, Delete: true, Lazy: true})
		}
	}
	if len(puts) == 0 {
		return false
	}
	if !j.warned {
		j.warned = true
		j.o.Log.WarnContext(ctx, "inbox is full; forgetting events younger than a day", "keys", j.o.Keys)
	}
	slices.SortFunc(puts, func(a, b store.Put) int { return cmp.Compare(a.After, b.After) })
	_, errs := j.r.Put(ctx, puts[:len(puts)/16+1]...)
	return slices.Contains(errs, nil)
}

// Pending implements [channel.Journal]: what this process has accepted, and what dead ones have left.
func (j *Inbox) Pending(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		if err := j.r.Look(ctx); err != nil {
			yield(channel.JournalEntry{}, err)
			return
		}
		for _, w := range j.waiting(true) {
			e, ok, err := j.entry(ctx, w)
			if (ok || err != nil) && (!yield(e, err) || err != nil) {
				return
			}
		}
	}
}
