package nats

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/internal/recent"
)

// directory is what of each session is needed to find and order it: where its last batch is, and what a listing asks for. It
// begins with the first listing, and follows the stream from then on, of which it gets headers alone.
//
// It may have sessions that were erased while the servers could not be reached. They are dropped when a listing meets them.
type directory struct {
	s *Store

	begin sync.Mutex // one at a time

	mu       sync.Mutex
	consumer jetstream.ConsumeContext // nil until it has begun
	rows     recent.Index[uint64]
	position uint64        // the last message that is in it
	loaded   bool          // all that was there when it began is in it
	changed  chan struct{} // closed when position or loaded changes, where somebody waits
}

// row is a session with the sequence of its last batch, or of a fence behind it.
type row = recent.Session[uint64]

// start begins to follow the stream.
func (d *directory) start(ctx context.Context) error {
	d.begin.Lock()
	defer d.begin.Unlock()
	d.mu.Lock()
	begun := d.consumer != nil
	d.mu.Unlock()
	if begun {
		return nil
	}
	s := d.s
	var ordered jetstream.Consumer
	if err := s.again(ctx, func(ctx context.Context) (err error) {
		ordered, err = s.js.OrderedConsumer(ctx, s.stream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{s.sessionsSubject(), s.barrier.Subject()}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		})
		return err
	}); err != nil {
		return err
	}
	empty := ordered.CachedInfo().NumPending == 0 && ordered.CachedInfo().Delivered.Consumer == 0
	consume, err := ordered.Consume(d.take, jetstream.PullMaxMessages(2000))
	if err != nil {
		return explain(err)
	}
	d.mu.Lock()
	d.consumer = consume
	d.loaded = d.loaded || empty
	d.mu.Unlock()
	s.running.Go(func() {
		<-s.end.Done()
		consume.Stop()
		<-consume.Closed()
	})
	return nil
}

// take takes a message in. It is called by one goroutine.
func (d *directory) take(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return // not one of JetStream's
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := m.Headers().Get(headerRecord); text != "" { // else a part, behind which the whole comes
		var r record
		if json.Unmarshal([]byte(text), &r) == nil {
			d.put(&r, meta.Sequence.Stream)
		}
	}
	d.position = max(d.position, meta.Sequence.Stream)
	d.loaded = d.loaded || meta.NumPending == 0
	d.tell()
}

// tell wakes those who wait for a change; mu is held.
func (d *directory) tell() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// put takes a record in; mu is held.
func (d *directory) put(r *record, seq uint64) {
	switch old, there := d.rows.Get(r.Tape); {
	case there && old.Value >= seq:
	case r.State != "":
		d.rows.Delete(r.Tape)
	default:
		d.rows.Put(row{Tape: r.Tape, Session: r.Session, Workspace: r.Workspace, Updated: r.Updated, Value: seq})
	}
}

// drop forgets a session that is not there any more, if nothing is newer.
func (d *directory) drop(name string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, there := d.rows.Get(name); there && r.Value == seq {
		d.rows.Delete(name)
	}
}

// catchUp waits until everything is in it that was acknowledged before the call.
func (d *directory) catchUp(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	if err := d.wait(ctx, func() bool { return d.loaded }); err != nil {
		return err
	}
	// What was stored before the barrier comes before it.
	var last uint64
	if err := d.s.again(ctx, func(ctx context.Context) (err error) {
		last, err = d.s.barrier.Pass(ctx)
		return err
	}); err != nil {
		return err
	}
	return d.wait(ctx, func() bool { return d.position >= last })
}

// wait waits until done says so, with mu held, for as long as something comes: a million sessions take longer than servers may take to answer.
func (d *directory) wait(ctx context.Context, done func() bool) error {
	timeout := time.NewTimer(d.s.waits.patience)
	defer timeout.Stop()
	for {
		d.mu.Lock()
		if done() {
			d.mu.Unlock()
			return nil
		}
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
			timeout.Reset(d.s.waits.patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return &Error{textAway, errors.New("the consumer of the directory gets nothing")}
		}
	}
}

// page returns the next sessions behind last, in order; most of them with 0 is all.
func (d *directory) page(q tape.SessionQuery, last tape.Info, most int) []row {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows.Page(q, last, most)
}

// Sessions implements tape.Store.
func (s *Store) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		ctx, done, err := s.enter(ctx)
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		defer done()
		if err := s.list(ctx, q, yield); err != nil {
			yield(tape.Info{}, err)
		}
	}
}

// list yields sessions. They are those of the moment when it began, as they were then; those that were erased since are left out.
func (s *Store) list(ctx context.Context, q tape.SessionQuery, yield func(tape.Info, error) bool) error {
	last, err := q.Last()
	if err != nil {
		return err
	}
	if err := s.directory.catchUp(ctx); err != nil {
		return err
	}
	for left := q.Limit; ; {
		page := s.directory.page(q, last, left)
		full := left > 0 && len(page) == left
		for len(page) > 0 {
			n := min(len(page), fetchMessages)
			infos, err := s.infos(ctx, page[:n])
			if err != nil {
				return err
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return nil
				}
				left--
			}
			last = tape.Info{Tape: page[n-1].Tape, Updated: time.UnixMicro(page[n-1].Updated)}
			page = page[n:]
		}
		if q.Limit == 0 || left == 0 || !full { // else some were gone, and others may follow
			return nil
		}
	}
}

// infos tells about the sessions of rows that are still there.
func (s *Store) infos(ctx context.Context, page []row) ([]tape.Info, error) {
	seqs := make([]uint64, len(page))
	for i, r := range page {
		seqs[i] = r.Value
	}
	found, err := s.fetch(ctx, "", seqs)
	if err != nil {
		return nil, err
	}
	infos := make([]tape.Info, 0, len(page))
	for i, m := range found {
		if m == nil {
			s.directory.drop(page[i].Tape, page[i].Value)
			continue
		}
		h, err := headOf(m)
		if err != nil {
			return nil, err
		}
		infos = append(infos, h.info(h.Tape))
	}
	return infos, nil
}
