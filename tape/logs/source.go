package logs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// source is a tape as it was at one moment. It implements [tape.Source].
type source struct {
	ctx   context.Context
	s     *Store
	state *state
	words []string // that a search looks for
}

// Entries implements [tape.Source].
func (src *source) Entries(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	before = min(before, src.state.info.LastID+1) // what was appended since does not belong to this moment
	r := store.Range{From: uint64(max(after, 0)) + 1, Before: uint64(max(before, 0)), Newest: newest}
	if found, ok := src.search(r); ok {
		return src.decode(found)
	}
	return src.read(r)
}

// Anchors implements [tape.Source].
func (src *source) Anchors() iter.Seq2[tape.AnchorRef, error] {
	return func(yield func(tape.AnchorRef, error) bool) {
		last := src.state.info.LastAnchor
		if src.state.info.Anchors == 0 || !yield(last, nil) || src.state.info.Anchors == 1 {
			return
		}
		for e, err := range src.read(store.Range{Before: uint64(last.ID), Newest: true, Marks: true}) {
			if !yield(tape.AnchorOf(e), err) || err != nil {
				return
			}
		}
	}
}

// read yields the entries of a range.
func (src *source) read(r store.Range) iter.Seq2[tape.Entry, error] {
	if r.Before <= max(r.From, 1) {
		return func(func(tape.Entry, error) bool) {}
	}
	return src.decode(src.s.space.Read(src.ctx, src.state.key, src.from(r)))
}

// from is a range that begins with the first entry if it begins before: an import may begin with any number.
func (src *source) from(r store.Range) store.Range {
	if r.From <= src.state.first {
		r.From = 0
	}
	return r
}

// decode yields entries, without those that are damaged.
func (src *source) decode(raws iter.Seq2[store.Entry, error]) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		name := src.state.info.Tape
		for raw, err := range raws {
			var e tape.Entry
			if err == nil {
				if e, err = tape.ParseEntry(raw.Data); err != nil || uint64(e.ID) != raw.N {
					err = fmt.Errorf("%w: entry %d: %w", store.ErrDamaged, raw.N, err)
				}
			}
			if errors.Is(err, store.ErrDamaged) {
				src.s.options.Log.LogAttrs(src.ctx, slog.LevelWarn, "tape is damaged; skipped unreadable parts",
					slog.String("tape", name), slog.String("error", err.Error()))
				continue
			}
			switch {
			case err == nil:
			case errors.Is(err, store.ErrDeleted), errors.Is(err, store.ErrNotFound):
				err = fmt.Errorf("%w: tape %s was erased while it was read", tape.ErrDeleted, name)
			default:
				err = src.s.explain(name, err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
