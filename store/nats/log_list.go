package nats

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/internal/recent"
)

// directory has a row for each log of an Indexed space. It begins with the first listing, and follows the stream from then on, of which it
// gets headers alone.
//
// It may have logs that were deleted while the servers could not be reached. They are dropped when a listing meets them.
type directory struct {
	l *Log

	begin sync.Mutex // held while it begins, or ends

	mu       sync.Mutex
	consumer jetstream.ConsumeContext // nil until it has begun
	passes   int                      // counts the beginnings
	rows     logRows
	position uint64        // the last message that is in it
	loaded   bool          // all that was there when it began is in it
	changed  chan struct{} // closed when position or loaded changes; nil if nobody waits
}

// start begins to follow the stream.
func (d *directory) start(ctx context.Context) error {
	d.begin.Lock()
	defer d.begin.Unlock()
	d.mu.Lock()
	begun, pass := d.consumer != nil, d.passes
	d.mu.Unlock()
	if begun {
		return nil
	}
	l := d.l
	var ordered jetstream.Consumer
	if err := l.again(ctx, func(ctx context.Context) (err error) {
		ordered, err = l.e.c.JetStream().OrderedConsumer(ctx, l.name, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{l.prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		})
		return err
	}); err != nil {
		return err
	}
	info := ordered.CachedInfo()
	empty := info.NumPending == 0 && info.Delivered.Consumer == 0
	consume, err := ordered.Consume(func(m jetstream.Msg) { d.take(m, pass) }, jetstream.PullMaxMessages(2000))
	if err != nil {
		return &awayError{err}
	}
	if !l.e.start(func() {
		select {
		case <-l.e.end.Done():
			consume.Stop()
		case <-consume.Closed():
		}
		<-consume.Closed()
	}) {
		consume.Stop()
		return store.ErrClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.consumer = consume
	d.loaded = d.loaded || empty
	return nil
}

// reset forgets a stream that was deleted.
func (d *directory) reset() {
	d.begin.Lock()
	defer d.begin.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.consumer != nil {
		d.consumer.Stop()
	}
	d.consumer, d.rows, d.position, d.loaded = nil, logRows{}, 0, false
	d.passes++
	d.tell()
}

// take takes a message in.
func (d *directory) take(m jetstream.Msg, pass int) {
	meta, err := m.Metadata()
	if err != nil {
		return // not one of JetStream's
	}
	raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passes != pass {
		return
	}
	if name := d.l.nameOf(raw.Subject); name != "" || strings.HasSuffix(raw.Subject, "."+batchesToken) {
		if h, _, err := d.l.read(raw); err == nil && h != nil { // else a part, behind which the whole comes
			d.put(cmp.Or(h.name, name), h)
		}
	}
	d.position = max(d.position, raw.Sequence)
	d.loaded = d.loaded || meta.NumPending == 0
	d.tell()
}

// put takes a head in; mu is held.
func (d *directory) put(name string, h *logHead) {
	if name == "" {
		return
	}
	if h.lives() {
		d.rows.put(name, h.label, h.updated, h.seq)
	} else {
		d.rows.removeAll(name, h.seq)
	}
}

// tell wakes those who wait for a change; mu is held.
func (d *directory) tell() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// drop forgets a log that does not exist any more, if nothing is newer.
func (d *directory) drop(name string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows.remove(name, seq)
}

// catchUp waits until everything is in it that was acknowledged before the call.
func (d *directory) catchUp(ctx context.Context) error {
	for {
		if err := d.start(ctx); err != nil {
			return err
		}
		d.mu.Lock()
		pass := d.passes
		d.mu.Unlock()
		if err := d.wait(ctx, func() bool { return d.loaded || d.passes != pass }); err != nil {
			return err
		}
		var last uint64 // what was stored before the barrier comes before it
		if err := d.l.again(ctx, func(ctx context.Context) (err error) {
			last, err = d.l.barrier.Pass(ctx)
			return err
		}); err != nil {
			return err
		}
		anew := false
		if err := d.wait(ctx, func() bool {
			anew = d.passes != pass
			return d.position >= last || anew
		}); err != nil || !anew {
			return err
		}
	}
}

// wait waits until done says so, with mu held, for as long as something comes: a million logs take longer than servers may take to answer.
func (d *directory) wait(ctx context.Context, done func() bool) error {
	timeout := time.NewTimer(patience + attemptWait)
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
			timeout.Reset(patience + attemptWait)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return &awayError{errors.New("the consumer of the directory gets nothing")}
		}
	}
}

// List implements [store.Log]. The logs are those of the moment when it began.
func (l *Log) List(ctx context.Context, o store.Listing) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		ctx, cancel := l.e.whileOpen(ctx)
		defer cancel()
		if err := l.list(ctx, o, yield); err != nil && !errors.Is(err, errLeft) {
			yield(store.Info{}, err)
		}
	}
}

func (l *Log) list(ctx context.Context, o store.Listing, yield func(store.Info, error) bool) error {
	err := context.Cause(ctx)
	if err == nil {
		err = l.rows.catchUp(ctx)
	}
	if err != nil {
		return err
	}
	for left := o.Limit; ; {
		l.rows.mu.Lock()
		page := l.rows.rows.Page(&o, left)
		l.rows.mu.Unlock()
		full := left > 0 && len(page) == left
		for len(page) > 0 {
			n := min(len(page), fetchMessages)
			infos, err := l.infos(ctx, page[:n])
			if err != nil {
				return err
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return errLeft
				}
				left--
			}
			o.After = page[n-1].After()
			page = page[n:]
		}
		if o.Limit == 0 || left == 0 || !full { // else some were gone, and others may follow
			return nil
		}
	}
}

// infos returns what is known of the logs of rows that exist still.
func (l *Log) infos(ctx context.Context, page []recent.Row[uint64]) ([]store.Info, error) {
	seqs := make([]uint64, len(page))
	for i := range page {
		seqs[i] = page[i].Value
	}
	found, err := l.fetch(ctx, "", seqs)
	if err != nil {
		return nil, err
	}
	infos := make([]store.Info, 0, len(page))
	for i, m := range found {
		var h *logHead
		if m != nil {
			if h, _, err = l.read(m); err != nil {
				return nil, err
			}
		} else if h, err = l.headAgain(ctx, page[i].Name); err != nil { // it was trimmed since, or deleted
			return nil, err
		}
		if h.lives() {
			infos = append(infos, h.info(page[i].Name))
		} else {
			l.rows.drop(page[i].Name, page[i].Value)
		}
	}
	return infos, nil
}

// Count implements [store.Log].
func (l *Log) Count(ctx context.Context, prefix string) (int, error) {
	ctx, cancel := l.e.whileOpen(ctx)
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if err := l.rows.catchUp(ctx); err != nil {
		return 0, err
	}
	l.rows.mu.Lock()
	defer l.rows.mu.Unlock()
	return l.rows.rows.Count(&store.Listing{Prefix: prefix}), nil
}
