package logs

import (
	"context"
	"errors"
	"sync"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// indexer adds ranges of tapes that have grown to the engine's index, one tape after another, so that no append waits for them. What it does
// not come to is done when the tape grows again.
type indexer struct {
	store *Store
	index store.Terms // nil: the engine has none
	done  sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]bool // keys of tapes
	busy    bool            // the goroutine runs
	ended   bool            // it must not be started again
}

const waitingMost = 10_000 // tapes that wait; others are found again

func (x *indexer) start(s *Store) {
	x.store, x.waiting = s, map[string]bool{}
	x.index, _ = s.space.(store.Terms)
}

// add makes a tape wait for its ranges.
func (x *indexer) add(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.index == nil || x.ended || len(x.waiting) == waitingMost {
		return
	}
	x.waiting[key] = true
	if !x.busy {
		x.busy = true
		x.done.Go(x.work) // ends when nothing waits
	}
}

// grown makes a tape wait if there may be enough entries for another range since it had some number of them.
func (x *indexer) grown(before int64, st *state) {
	if before/looseMost != st.info.Entries/looseMost {
		x.add(st.key)
	}
}

func (x *indexer) work() {
	for {
		x.mu.Lock()
		key := ""
		for key = range x.waiting {
			break
		}
		delete(x.waiting, key)
		if key == "" || x.ended {
			x.busy = false
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		if err := x.cover(x.store.end, key); err != nil && x.store.end.Err() == nil && !isNotFound(err) && !errors.Is(err, store.ErrMoved) {
			x.store.options.Log.WarnContext(x.store.end, "cannot write the search index", "reason", err.Error())
		}
	}
}

// Indexed reports whether all that could be indexed for searches is.
func (s *Store) Indexed() bool {
	s.indexer.mu.Lock()
	defer s.indexer.mu.Unlock()
	return !s.indexer.busy
}

// wait waits for the end of the goroutine, when the store closes.
func (x *indexer) wait() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.done.Wait()
}

// cover adds ranges of what no range of a tape has, up to the last step.
func (x *indexer) cover(ctx context.Context, key string) error {
	for {
		at, err := x.index.Indexed(ctx, key, 0)
		if err != nil {
			return err
		}
		ranges, more, err := x.ranges(ctx, key, at.Last)
		if err != nil || len(ranges) == 0 {
			return err
		}
		if err := x.index.Index(ctx, key, at.Last, ranges); err != nil || !more {
			return err
		}
	}
}

// ranges makes ranges of the entries behind a number, and reports whether there are more.
func (x *indexer) ranges(ctx context.Context, key string, after uint64) (ready []store.TermRange, more bool, err error) {
	var folder tape.Folder
	var now store.TermRange
	var grams map[gram]struct{}
	text := 0
	from := store.Range{From: after + 1}
	if after == 0 {
		from.From = 0 // an import may begin with any number
	}
	for raw, err := range x.store.space.Read(ctx, key, from) {
		if errors.Is(err, store.ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		e, err := tape.ParseEntry(raw.Data)
		if err != nil {
			continue // searches skip it, too
		}
		if now.Entries > 0 && tape.BeginsStep(e) && (now.Entries >= rangeEntries || text >= rangeText) {
			now.Terms = termsIn(grams)
			ready = append(ready, now)
			now, text = store.TermRange{}, 0
			if len(ready) == rangesAtOnce {
				return ready, true, nil
			}
		}
		if now.Entries == 0 {
			now.First, grams = raw.N, map[gram]struct{}{}
		}
		now.Entries++
		now.Last = raw.N
		of := folder.Text(e)
		if text += len(of); text <= termsText {
			addGrams(grams, of)
		} else {
			grams = nil
		}
	}
	return ready, false, nil
}

func termsIn(grams map[gram]struct{}) []string {
	if grams == nil {
		return nil
	}
	terms := make([]string, 0, len(grams))
	for g := range grams {
		terms = append(terms, g.String())
	}
	return terms
}
