package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Model is a [store.LogEngine] that keeps everything in memory and nothing longer than the process. Engines are compared with it.
type Model struct {
	data *modelData
	end  context.Context
	stop context.CancelCauseFunc
}

type modelData struct {
	mu      sync.Mutex
	spaces  map[string]*modelSpace
	changed chan struct{} // closed at the next change
	revs    int
}

type modelSpace struct {
	o     store.LogOptions
	logs  map[string]*modelLog
	bytes int64
}

type modelLog struct {
	info    store.Info
	entries []store.Entry
	behind  map[store.Rev]modelBatch // the batch that was written behind a revision
	trimmed bool
	deleted bool
}

type modelBatch struct {
	id   [16]byte
	info store.Info
}

// NewModel returns an engine without logs.
func NewModel() *Model {
	return (&Model{data: &modelData{spaces: map[string]*modelSpace{}, changed: make(chan struct{})}}).Again()
}

// Again returns an engine that has the same logs, like that of another process.
func (m *Model) Again() *Model {
	again := &Model{data: m.data}
	again.end, again.stop = context.WithCancelCause(context.Background())
	return again
}

// Log implements [store.LogEngine].
func (m *Model) Log(_ context.Context, o store.LogOptions) (store.Log, error) {
	if err := store.CheckKey(o.Space); err != nil {
		return nil, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	if m.end.Err() != nil {
		return nil, store.ErrClosed
	}
	s := m.data.spaces[o.Space]
	if s == nil {
		s = &modelSpace{o: o, logs: map[string]*modelLog{}}
		m.data.spaces[o.Space] = s
	}
	return &modelSpaceOf{m, s}, nil
}

// Close refuses later calls.
func (m *Model) Close() error {
	m.stop(store.ErrClosed)
	return nil
}

// modelSpaceOf is a space as one process uses it.
type modelSpaceOf struct {
	m *Model
	s *modelSpace
}

// lock locks the logs for a call.
func (l *modelSpaceOf) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if l.m.end.Err() != nil {
		return nil, store.ErrClosed
	}
	if err := store.CheckKey(name); err != nil {
		return nil, err
	}
	l.m.data.mu.Lock()
	if log := l.s.logs[name]; log != nil && l.s.o.Keep > 0 && time.Since(log.info.Updated) > l.s.o.Keep {
		log.deleted = true
		delete(l.s.logs, name)
	}
	return l.m.data.mu.Unlock, nil
}

func (l *modelSpaceOf) change() {
	close(l.m.data.changed)
	l.m.data.changed = make(chan struct{})
}

// Append implements [store.Log].
func (l *modelSpaceOf) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	if err := b.Check(name); err != nil {
		return store.Info{}, err
	}
	unlock, err := l.lock(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	defer unlock()
	was := l.s.logs[name]
	next := modelLog{info: store.Info{Name: name, Label: b.Label, Created: time.Now()}, behind: map[store.Rev]modelBatch{}}
	if was != nil {
		next = *was
		if same, ok := was.behind[b.After]; ok && same.id == b.ID {
			return same.info, nil
		}
	}
	before := next.info.Rev
	if b.After != store.Any && b.After != before {
		return store.Info{}, &store.MovedLog{Info: cmpInfo(was, name)}
	}
	size, err := next.add(b.Entries)
	if err != nil {
		return store.Info{}, err
	}
	if l.s.o.MaxBytes > 0 && l.s.bytes+size > l.s.o.MaxBytes {
		return store.Info{}, store.ErrFull
	}
	if b.Head != nil {
		next.info.Head = bytes.Clone(b.Head)
	}
	l.m.data.revs++
	next.info.Rev, next.info.Updated = store.Rev(fmt.Sprint("r", l.m.data.revs)), b.Updated
	if b.Updated.IsZero() {
		next.info.Updated = time.Now()
	}
	next.behind[b.After] = modelBatch{b.ID, next.info}
	next.behind[before] = modelBatch{b.ID, next.info}
	l.s.bytes += size
	if was == nil {
		l.s.logs[name] = &next
	} else {
		*was = next
	}
	l.change()
	return next.info, nil
}

func cmpInfo(l *modelLog, name string) store.Info {
	if l == nil {
		return store.Info{Name: name}
	}
	return l.info
}

// add appends entries to what is a copy of a log.
func (l *modelLog) add(entries []store.Entry) (size int64, err error) {
	for _, e := range entries {
		if e.N != 0 && e.N <= l.info.Last {
			return 0, fmt.Errorf("%w: entry %d of %q behind %d", store.ErrInvalid, e.N, l.info.Name, l.info.Last)
		}
		e.N, e.Data = max(e.N, l.info.Last+1), bytes.Clone(e.Data)
		l.info.Last = e.N
		if l.info.Entries == 0 {
			l.info.First = e.N
		}
		if e.Mark {
			l.info.LastMark = e.N
		}
		l.info.Entries++
		size += int64(len(e.Data))
		l.entries = append(l.entries, e)
	}
	l.info.Bytes += size
	return size, nil
}

// Info implements [store.Log].
func (l *modelSpaceOf) Info(ctx context.Context, name string) (store.Info, error) {
	unlock, err := l.lock(ctx, name)
	if err != nil {
		return store.Info{}, err
	}
	defer unlock()
	if log := l.s.logs[name]; log != nil {
		return log.info, nil
	}
	return store.Info{}, store.ErrNotFound
}

// Read implements [store.Log].
func (l *modelSpaceOf) Read(ctx context.Context, name string, r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		unlock, err := l.lock(ctx, name)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		log := l.s.logs[name]
		var entries []store.Entry
		switch {
		case log == nil:
			err = store.ErrNotFound
		case log.trimmed && r.From != 0 && r.From < log.info.First:
			err = store.ErrExpired
		default:
			entries = Select(log.entries, r)
		}
		unlock()
		for _, e := range entries {
			if err = l.readable(ctx, log); err != nil {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
		}
	}
}

// readable returns why a reader of a log ends.
func (l *modelSpaceOf) readable(ctx context.Context, log *modelLog) error {
	unlock, err := l.lock(ctx, "read")
	if err != nil {
		return err
	}
	defer unlock()
	if log.deleted {
		return store.ErrDeleted
	}
	return nil
}

// Select returns the entries of a range.
func Select(entries []store.Entry, r store.Range) (selected []store.Entry) {
	for _, e := range entries {
		if e.N >= r.From && (r.Before == 0 || e.N < r.Before) && (e.Mark || !r.Marks) {
			selected = append(selected, e)
		}
	}
	if r.Newest {
		slices.Reverse(selected)
	}
	if r.Limit > 0 && len(selected) > r.Limit {
		selected = selected[:r.Limit]
	}
	return selected
}

// Trim implements [store.Log].
func (l *modelSpaceOf) Trim(ctx context.Context, name string, below uint64) error {
	unlock, err := l.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	log := l.s.logs[name]
	if log == nil {
		return nil
	}
	kept := 0
	for kept < len(log.entries) && log.entries[kept].N < below {
		size := int64(len(log.entries[kept].Data))
		log.info.Entries, log.info.Bytes, l.s.bytes = log.info.Entries-1, log.info.Bytes-size, l.s.bytes-size
		kept++
	}
	if kept == 0 {
		return nil
	}
	log.trimmed = true
	log.entries = slices.Clone(log.entries[kept:])
	log.info.First = log.info.Last + 1
	if len(log.entries) > 0 {
		log.info.First = log.entries[0].N
	}
	if log.info.LastMark < log.info.First {
		log.info.LastMark = 0
	}
	l.change()
	return nil
}

// Delete implements [store.Log].
func (l *modelSpaceOf) Delete(ctx context.Context, name string) error {
	unlock, err := l.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	for other, log := range l.s.logs {
		if other == name || strings.HasPrefix(other, name+"/") {
			log.deleted = true
			l.s.bytes -= log.info.Bytes
			delete(l.s.logs, other)
		}
	}
	l.change()
	return nil
}

// CompareInfos compares logs as lists have them: the one that was updated last first, and of one time by name.
func CompareInfos(a, b store.Info) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.Name, b.Name))
}

// List implements [store.Log].
func (l *modelSpaceOf) List(ctx context.Context, o store.Listing) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		unlock, err := l.lock(ctx, "list")
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		infos := make([]store.Info, 0, len(l.s.logs))
		for log := range maps.Values(l.s.logs) {
			infos = append(infos, log.info)
		}
		unlock()
		slices.SortFunc(infos, CompareInfos)
		yielded := 0
		for _, info := range infos {
			switch {
			case !o.Has(info):
			case o.After.Name != "" && CompareInfos(info, o.After) <= 0:
			default:
				if !yield(info, nil) {
					return
				}
				if yielded++; yielded == o.Limit {
					return
				}
			}
		}
	}
}

// Count implements [store.Log].
func (l *modelSpaceOf) Count(ctx context.Context, prefix string) (n int, err error) {
	for _, err := range l.List(ctx, store.Listing{Prefix: prefix}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Sync implements [store.Log].
func (l *modelSpaceOf) Sync(ctx context.Context, _ ...string) error {
	unlock, err := l.lock(ctx, "sync")
	if err != nil {
		return err
	}
	unlock()
	return nil
}
