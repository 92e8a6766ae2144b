package nats

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/tape"
)

// directory is what of each session is needed to find and order it: where its last batch is, and what a listing asks for. It
// begins with the first listing, and follows the stream from then on, of which it gets headers alone.
//
// It may have sessions that were erased while the servers could not be reached. They are dropped when a listing meets them.
type directory struct {
	s *Store

	begin sync.Mutex // one at a time

	mu         sync.Mutex
	consumer   jetstream.ConsumeContext // nil until it has begun
	rows       map[string]*row
	workspaces map[string]string // each once
	position   uint64            // the last message that is in it
	loaded     bool              // all that was there when it began is in it
	changed    chan struct{}     // closed when position or loaded changes, where somebody waits
}

// row is a session. There may be very many.
type row struct {
	text      string // the tape's name and the session's id
	name      int    // bytes of the name
	workspace string // of directory.workspaces
	updated   int64  // µs
	seq       uint64 // of the last batch, or of a fence behind it
}

func (r *row) tape() string    { return r.text[:r.name] }
func (r *row) session() string { return r.text[r.name:] }

func (d *directory) init(s *Store) {
	d.s, d.rows, d.workspaces = s, map[string]*row{}, map[string]string{}
}

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
	old := d.rows[r.Tape]
	switch {
	case old != nil && old.seq >= seq:
		return
	case r.State != "":
		delete(d.rows, r.Tape)
		return
	}
	if old != nil && old.session() == r.Session && old.workspace == r.Workspace {
		old.updated, old.seq = r.Updated, seq
		return
	}
	workspace, ok := d.workspaces[r.Workspace]
	if !ok {
		workspace = strings.Clone(r.Workspace)
		d.workspaces[workspace] = workspace
	}
	now := &row{text: r.Tape + r.Session, name: len(r.Tape), workspace: workspace, updated: r.Updated, seq: seq}
	if old != nil { // the key is a part of the old text
		delete(d.rows, r.Tape)
	}
	d.rows[now.tape()] = now
}

// drop forgets a session that is not there any more, if nothing is newer.
func (d *directory) drop(name string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.rows[name]; r != nil && r.seq == seq {
		delete(d.rows, name)
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

// before orders sessions as listings do: by their last entry, the newest first, and those of one moment by name.
func before(a, b *row) int {
	if c := cmp.Compare(b.updated, a.updated); c != 0 {
		return c
	}
	return cmp.Compare(a.tape(), b.tape())
}

// page are the next sessions behind last, in order; most of them with 0 is all.
func (d *directory) page(q tape.SessionQuery, last *row, most int) []row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found rows
	for _, r := range d.rows {
		switch {
		case len(found) == most && most > 0 && before(r, &found[0]) >= 0: // most are
		case q.Workspace != "" && r.workspace != q.Workspace, !strings.HasPrefix(r.session(), q.Prefix), last != nil && before(last, r) >= 0:
		case most == 0 || len(found) < most:
			found = append(found, *r)
			if len(found) == most {
				heap.Init(&found)
			}
		default:
			found[0] = *r
			heap.Fix(&found, 0)
		}
	}
	slices.SortFunc(found, func(a, b row) int { return before(&a, &b) })
	return found
}

// rows is a heap with the last in order on top.
type rows []row

func (r rows) Len() int           { return len(r) }
func (r rows) Less(i, j int) bool { return before(&r[i], &r[j]) > 0 }
func (r rows) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rows) Push(any)          { panic("nats: a page does not grow") }
func (r *rows) Pop() any          { panic("nats: a page does not shrink") }

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
	var last *row
	if q.After != "" {
		r, err := cursor(q.After)
		if err != nil {
			return err
		}
		last = &r
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
			end := page[n-1]
			last, page = &end, page[n:]
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
		seqs[i] = r.seq
	}
	found, err := s.fetch(ctx, "", seqs)
	if err != nil {
		return nil, err
	}
	infos := make([]tape.Info, 0, len(page))
	for i, m := range found {
		if m == nil {
			s.directory.drop(page[i].tape(), page[i].seq)
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

// cursor is the place that tape.Info.Cursor says.
func cursor(text string) (row, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	date, name, found := strings.Cut(string(raw), " ")
	if err == nil && found {
		var at time.Time
		if at, err = time.Parse(time.RFC3339Nano, date); err == nil {
			return row{text: name, name: len(name), updated: at.UnixMicro()}, nil
		}
	}
	return row{}, fmt.Errorf("%w: %q is no cursor of a session list", tape.ErrInvalid, text)
}
