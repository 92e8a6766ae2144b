package nats

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

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
)

// JournalOptions of a journal. The zero value has the defaults.
type JournalOptions struct {
	Pending      int          // events of all replicas that are not settled, beyond which none is accepted: 10 000
	PendingBytes int64        // of them: 64 MiB
	Bytes        int64        // of the stream, with what is settled, beyond which none is accepted: 1 GiB. The servers set more aside
	Log          *slog.Logger // what is wrong with what is stored; nil is nowhere
}

const (
	defaultPending      = 10_000
	defaultPendingBytes = 64 << 20
	defaultBytes        = 1 << 30

	inboxStream = "INBOX"
	inboxSpace  = "inbox"
	inboxLeases = "inbox"

	keyLife       = 24 * time.Hour
	syntheticLife = time.Minute
	// longest is how long an event waits at most: what nobody has run for a week nobody runs any more.
	longest = 7 * 24 * time.Hour
	// slack is how much longer than it is believed what is settled is there: the clocks of replicas are not one.
	slack = time.Minute

	// room is for the steps of what waits, in its bytes: what cannot be settled would not make any.
	room = 2

	acceptAtOnce = 16 // events of one batch, of as many conversations, that are on their way at a time
)

// Journal is a channel.Journal that replicas share. It is also a channel.Ledger, a channel.BatchAccepter, a channel.Heir, a
// channel.Giver and a channel.Eraser.
type Journal struct {
	o      JournalOptions
	c      *cluster.Cluster
	log    *log
	owners owners
	now    func() time.Time
	locks  locks // by token, held while a step is stored

	end     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	owner   string // this replica's name as an owner; another one after its lease was lost
	lost    <-chan struct{}
	release func()
	own     map[string]*event // by token: those that wait and are this replica's
	others  map[string]other  // those that wait and are somebody else's, as far as was heard
	bytes   int64             // of both
	size    int64             // of the stream in bytes, when it was last looked at
	grown   bool              // since then
	dead    map[string]bool   // owners of others: they do not come back
	doubts  map[string]string // by token: the id of a step that has accepted an event, or not
	news    chan struct{}     // closed, and another one made, when there may be something to inherit
}

// event is one of this replica's. Its fields are guarded by the journal's mu, and changed only with the token's lock, too.
type event struct {
	record record
	seq    uint64 // the last step that was seen
	claim  *claim // nil: nobody's
	adrift bool   // nobody was told that it was accepted
	todo   *todo  // a step that is still to be stored: the claim has ended
}

type todo struct {
	id     string
	record record
}

type other struct {
	record record
	seq    uint64
}

var (
	_ channel.Journal       = (*Journal)(nil)
	_ channel.Ledger        = (*Journal)(nil)
	_ channel.BatchAccepter = (*Journal)(nil)
	_ channel.Heir          = (*Journal)(nil)
	_ channel.Giver         = (*Journal)(nil)
	_ channel.Eraser        = (*Journal)(nil)
)

// OpenJournal opens the journal of an installation, and returns when it is known what waits in it. Close ends it before the cluster.
func OpenJournal(ctx context.Context, c *cluster.Cluster, o JournalOptions) (*Journal, error) {
	leases, err := c.Leases(ctx, inboxLeases)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return openJournal(ctx, c, leased{leases}, time.Now, o)
}

func openJournal(ctx context.Context, c *cluster.Cluster, who owners, now func() time.Time, o JournalOptions) (*Journal, error) {
	o.Pending = cmp.Or(max(o.Pending, 0), defaultPending)
	o.PendingBytes = cmp.Or(max(o.PendingBytes, 0), defaultPendingBytes)
	o.Bytes = cmp.Or(max(o.Bytes, 0), defaultBytes)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	stream, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: inboxStream, Subjects: []string{c.Subject(inboxSpace, "*")}, Description: "events of channels, from their arrival until their key is forgotten",
		MaxBytes: o.Bytes + room*o.PendingBytes, MaxAge: longest, Discard: jetstream.DiscardNew, AllowRollup: true, AllowMsgTTL: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j := &Journal{
		o: o, c: c, owners: who, now: now, log: &log{c: c, stream: stream, publish: c.JetStream().PublishMsg},
		own: map[string]*event{}, others: map[string]other{}, dead: map[string]bool{}, doubts: map[string]string{}, news: make(chan struct{}),
	}
	if j.owner, j.lost, j.release, err = who.begin(ctx); err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j.end, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	caught := make(chan struct{})
	j.running.Go(func() { j.follow(sync.OnceFunc(func() { close(caught) })) })
	select {
	case <-caught:
	case <-ctx.Done():
		j.stop()
		j.running.Wait()
		j.release()
		return nil, fmt.Errorf("open the journal: %w", context.Cause(ctx))
	}
	j.running.Go(j.watch)
	return j, nil
}

// Close gives back what this replica has: others take it over at once, and what ran of it is none of its attempts.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.news = renew(j.news)
	j.mu.Unlock()
	j.stop()
	j.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, t := range j.tokens() {
		errs = append(errs, j.giveBack(ctx, t))
	}
	j.release()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}

func (j *Journal) tokens() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.own))
}

// giveBack stores of an event that is claimed that it does not run any more.
func (j *Journal) giveBack(ctx context.Context, token string) error {
	defer j.locks.lock(token)()
	j.mu.Lock()
	e := j.own[token]
	if e != nil && e.claim != nil {
		e.claim = nil
		next := e.record
		next.State, next.Claim = accepted, ""
		if !next.Stored {
			next = record{State: erased}
		}
		e.todo = &todo{newID(), next}
	}
	idle := e == nil || e.todo == nil
	j.mu.Unlock()
	if idle {
		return nil
	}
	return j.finish(ctx, token, e)
}

func (j *Journal) subject(token string) string { return j.c.Subject(inboxSpace, token) }

func renew(c chan struct{}) chan struct{} {
	close(c)
	return make(chan struct{})
}

// setOwn makes an event this replica's, or no longer, with nil.
func (j *Journal) setOwn(token string, e *event) {
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

func (j *Journal) setOtherLocked(token string, o *other) {
	if was, ok := j.others[token]; ok {
		j.bytes -= was.record.bytes()
		delete(j.others, token)
	}
	if o != nil {
		j.others[token] = *o
		j.bytes += o.record.bytes()
	}
}

// mine is this replica's event of a token; nil is none.
func (j *Journal) mine(token string) (*event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, channel.ErrJournalClosed
	}
	return j.own[token], nil
}

// Accept implements [channel.Journal]. It cannot be canceled: what is being stored is accepted.
func (j *Journal) Accept(ctx context.Context, k channel.EventKey, raw []byte) (isNew bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	token := token(k.String())
	defer j.locks.lock(token)()
	e, err := j.mine(token)
	if err != nil {
		return false, err
	}
	if e != nil {
		return j.adopt(e), nil
	}
	data, packed, err := pack(raw, j.log.largest())
	if err != nil {
		return false, err
	}
	j.mu.Lock()
	r := record{
		State: accepted, Owner: j.owner, Key: k.String(), Brief: k.Synthetic, At: j.now().UnixNano(), Size: len(data), Packed: packed, Stored: true,
	}
	crowded := len(j.own)+len(j.others) >= j.o.Pending || j.bytes+r.bytes() > j.o.PendingBytes || j.size > j.o.Bytes
	j.grown = true
	j.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	s := step{subject: j.subject(token), id: newID(), header: r.header(), data: data}
	if crowded { // one that is known is known all the same
		isNew, err := j.known(ctx, token, s.id)
		if err != nil || !isNew {
			return false, err
		}
		if e, err := j.mine(token); e != nil || err != nil {
			return err == nil, err
		}
		return false, channel.ErrJournalFull
	}
	for range tries {
		seq, known, err := j.log.put(ctx, s)
		switch {
		case err == nil:
			r.Raw = seq
			j.setOwn(token, &event{record: r, seq: seq})
			return true, nil
		case !errors.Is(err, errMoved):
			if !known {
				j.doubt(token, s.id)
			}
			if cluster.Full(err) {
				err = fmt.Errorf("%w: %w", channel.ErrJournalFull, err)
			}
			return false, fmt.Errorf("keep an event: %w", err)
		}
		m, err := j.log.last(ctx, s.subject)
		if err != nil {
			return false, fmt.Errorf("keep an event: %w", err)
		}
		isNew, err := j.judge(ctx, token, m, s.id)
		if err != nil || !isNew {
			return false, err
		}
		if e, err := j.mine(token); e != nil || err != nil {
			return err == nil, err // an attempt of before has stored it
		}
		s.last, s.alone = m.seq, m.seq != 0
	}
	return false, &Error{textBusy, errMoved}
}

// tries is how often something is tried again that others have changed: each time one of them has come further.
const tries = 20

// adopt says whether an event of this replica is new to whoever brings it: nobody was told that it was accepted.
func (j *Journal) adopt(e *event) (isNew bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !e.adrift || e.record.Given { // of one that was given, another replica's caller was told
		return false
	}
	e.adrift = false
	return true
}

// known looks whether an event is known. isNew is true where it is not.
func (j *Journal) known(ctx context.Context, token, id string) (isNew bool, err error) {
	m, err := j.log.last(ctx, j.subject(token))
	if err != nil {
		return false, err
	}
	return j.judge(ctx, token, m, id)
}

// judge says of the last step of an event whether the event is new. One that this replica has stored without knowing it, becomes its own.
func (j *Journal) judge(ctx context.Context, token string, m message, id string) (isNew bool, err error) {
	r, err := recordOf(m)
	if err != nil {
		return false, err
	}
	if r.over(j.now()) {
		return true, nil
	}
	j.mu.Lock()
	self, doubt := r.Owner == j.owner, j.doubts[token]
	j.mu.Unlock()
	switch step := m.header.Get(headerID); {
	case self && r.State == accepted && (step == id || step == doubt):
		j.setOwn(token, &event{record: r, seq: m.seq})
		return true, nil
	case !r.Stored && r.State == claimed:
		alive, err := j.alive(ctx, r.Owner)
		return !alive, err
	}
	return false, nil
}

// doubt notes that a step may have accepted an event.
func (j *Journal) doubt(token, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.doubts) < j.o.Pending {
		j.doubts[token] = id
	}
}

// AcceptAll implements [channel.BatchAccepter].
func (j *Journal) AcceptAll(ctx context.Context, entries []channel.JournalEntry) (isNew []bool, err error) {
	isNew = make([]bool, len(entries))
	errs := make([]error, len(entries))
	// Those of one conversation one after the other: so they are pending in their order.
	lines := map[[2]string][]int{}
	for i, e := range entries {
		line := [2]string{e.Key.Conversation, e.Key.Thread}
		lines[line] = append(lines[line], i)
	}
	slots := make(chan struct{}, acceptAtOnce)
	var wg sync.WaitGroup
	for _, line := range lines {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, i := range line {
				if isNew[i], errs[i] = j.Accept(ctx, entries[i].Key, entries[i].Raw); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for i, e := range entries {
			if isNew[i] {
				j.setAdrift(token(e.Key.String()))
			}
		}
		return nil, err
	}
	return isNew, nil
}

// setAdrift notes that nobody is told that an event was accepted.
func (j *Journal) setAdrift(token string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.own[token]; e != nil && e.claim == nil {
		e.adrift = true
		j.news = renew(j.news)
	}
}

// Peek implements [channel.Journal].
func (j *Journal) Peek(ctx context.Context, k channel.EventKey) (channel.ClaimState, error) {
	if err := context.Cause(ctx); err != nil {
		return channel.ClaimNone, err
	}
	token := token(k.String())
	e, err := j.mine(token)
	if err != nil {
		return channel.ClaimNone, err
	}
	if e != nil {
		return j.stateOf(e), nil
	}
	m, err := j.log.last(ctx, j.subject(token))
	if err != nil {
		return channel.ClaimNone, err
	}
	r, err := recordOf(m)
	switch {
	case err != nil || r.over(j.now()):
		return channel.ClaimNone, err
	case r.State == settled:
		return channel.ClaimSettled, nil
	}
	alive, err := j.alive(ctx, r.Owner)
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

// stateOf is how far an event of this replica is, of which the servers may not know yet.
func (j *Journal) stateOf(e *event) channel.ClaimState {
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

// alive says whether an owner has not ended.
func (j *Journal) alive(ctx context.Context, owner string) (bool, error) {
	j.mu.Lock()
	self, dead := owner == j.owner, j.dead[owner]
	j.mu.Unlock()
	if self || dead {
		return self, nil
	}
	alive, err := j.owners.alive(ctx, owner)
	if err != nil {
		return false, &Error{textAway, err}
	}
	return alive, nil
}

// Pending implements [channel.Journal]: what this replica has accepted, and what those have left that are dead.
func (j *Journal) Pending(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		if err := j.look(ctx); err != nil {
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

// Inherit implements [channel.Heir].
func (j *Journal) Inherit(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		told := map[string]uint64{}
		for {
			j.mu.Lock()
			news, closed := j.news, j.closed
			j.mu.Unlock()
			if closed || ctx.Err() != nil {
				return
			}
			all := j.waiting(false)
			still := make(map[string]uint64, len(all))
			for _, w := range all {
				if still[w.token] = w.seq; told[w.token] == w.seq {
					continue
				}
				e, ok, err := j.entry(ctx, w)
				if err != nil {
					delete(still, w.token) // another time
					continue
				}
				if ok && !yield(e, nil) {
					return
				}
			}
			told = still
			select {
			case <-news:
			case <-time.After(lookEvery): // for what could not be read
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

// waiting lists what the dead have left, and of this replica all that nobody runs, or what is adrift alone.
func (j *Journal) waiting(whole bool) []waiting {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []waiting
	for t, e := range j.own {
		if e.claim == nil && e.record.Stored && (e.todo == nil || e.todo.record.State == accepted) && (whole || e.adrift) {
			r := e.record
			if e.todo != nil {
				r = e.todo.record
			}
			all = append(all, waiting{t, other{r, e.seq}})
		}
	}
	for t, o := range j.others {
		if o.record.Stored && j.dead[o.record.Owner] {
			if o.record.State == claimed {
				o.record.Attempt++ // its replica has died in it
			}
			all = append(all, waiting{t, o})
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Compare(a.record.Raw, b.record.Raw) })
	return all
}

// entry reads an event's raw form. It is not ok where the event has gone meanwhile.
func (j *Journal) entry(ctx context.Context, w waiting) (e channel.JournalEntry, ok bool, err error) {
	k, err := w.record.key()
	var raw []byte
	if err == nil {
		raw, err = j.raw(ctx, w)
	}
	switch {
	case errors.Is(err, errGone):
		return e, false, nil
	case errors.Is(err, errDamaged):
		j.lose(ctx, w, k)
		return e, false, nil
	case err != nil:
		return e, false, err
	}
	return channel.JournalEntry{Key: k, Raw: raw, At: unixNano(w.record.At), Attempt: w.record.Attempt}, true, nil
}

// errGone says that an event was settled or erased in this moment.
var errGone = errors.New("the event is settled")

func (j *Journal) raw(ctx context.Context, w waiting) ([]byte, error) {
	m, err := j.log.at(ctx, w.record.Raw)
	if err != nil {
		return nil, err
	}
	if m.seq == 0 {
		last, err := j.log.last(ctx, j.subject(w.token))
		if err != nil {
			return nil, err
		}
		if r, err := recordOf(last); err != nil || !r.waits() {
			j.forget(w)
			return nil, errGone
		}
		return nil, errDamaged // it has waited for longer than anything does
	}
	if w.record.Packed {
		return unpack(m.data)
	}
	return m.data, nil
}

// forget forgets of somebody else's event what was heard of it.
func (j *Journal) forget(w waiting) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o, ok := j.others[w.token]; ok && o.seq <= w.seq {
		j.setOtherLocked(w.token, nil)
	}
}

// lose settles an event whose raw form cannot be read any more.
func (j *Journal) lose(ctx context.Context, w waiting, k channel.EventKey) {
	j.o.Log.ErrorContext(ctx, "dropped an unreadable event", "channel", k.Channel, "error", errDamaged)
	c, _, err := j.take(ctx, w.token, k)
	if err == nil && c != nil {
		err = c.Commit(ctx, channel.OutcomeFailed)
	}
	if err != nil {
		j.o.Log.WarnContext(ctx, "cannot settle a dropped event", "channel", k.Channel, "error", err)
	}
}

// Erase implements [channel.Eraser].
func (j *Journal) Erase(ctx context.Context, match func(channel.EventKey) bool) error {
	if err := j.log.erase(ctx, j.subject("*"), func(m message) bool {
		r, err := recordOf(m)
		if err != nil || r.State == erased {
			return false // there is nothing to be known by, or nothing
		}
		k, err := r.key()
		return err == nil && match(k)
	}, j.erase); err != nil {
		return fmt.Errorf("erase events: %w", err)
	}
	return nil
}

func (j *Journal) erase(ctx context.Context, token string) error {
	defer j.locks.lock(token)()
	gone := record{State: erased}
	if _, err := j.log.change(ctx, j.subject(token), func(last message) (*step, error) {
		if last.seq == 0 {
			return nil, nil
		}
		return &step{header: gone.header(), alone: true, life: slack}, nil
	}); err != nil {
		return err
	}
	j.setOwn(token, nil)
	j.mu.Lock()
	j.setOtherLocked(token, nil)
	j.mu.Unlock()
	return nil
}

// Waiting counts the events of all replicas that are not settled, by channel.
func (j *Journal) Waiting() map[string]int {
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
