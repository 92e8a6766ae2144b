package tapetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tape"
)

// model is what a store is, in the plainest way: lists.
type model map[string][]tape.Entry

// anchors of q in entries: the ids between which it selects. It is written from the words of TA-21, and knows nothing
// of how package tape does it.
func modelBounds(entries []tape.Entry, q tape.Query) (after, before int64, err error) {
	after, before = 0, 1<<62
	named := func(e tape.Entry, name string) bool {
		var p struct{ Name string }
		_ = json.Unmarshal(e.Payload, &p)
		return e.Kind == tape.KindAnchor && p.Name == name
	}
	latest := func(name string) int {
		for i, e := range slices.Backward(entries) {
			if named(e, name) {
				return i
			}
		}
		return -1
	}
	switch {
	case q.FromLast:
		for _, e := range entries {
			if e.Kind == tape.KindAnchor {
				after = e.ID - 1
			}
		}
	case q.FromAnchor != "":
		i := latest(q.FromAnchor)
		if i < 0 {
			return 0, 0, tape.ErrAnchorNotFound
		}
		after = entries[i].ID - 1
	}
	return after, before, nil
}

func modelRead(entries []tape.Entry, q tape.Query) ([]tape.Entry, error) {
	after, before, err := modelBounds(entries, q)
	if err != nil {
		return nil, err
	}
	var got []tape.Entry
	for _, e := range entries {
		if e.ID > after && e.ID < before && e.ID > q.After && (q.Before == 0 || e.ID < q.Before) &&
			(len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
			(q.Text == "" || modelText(e, q.Text)) {
			got = append(got, e)
		}
	}
	if q.Newest {
		slices.Reverse(got)
	}
	if q.Limit > 0 && len(got) > q.Limit {
		got = got[:q.Limit]
	}
	return got, nil
}

// modelText knows the few texts that this test writes.
func modelText(e tape.Entry, words string) bool {
	if e.Kind != tape.KindMessage && e.Kind != tape.KindError && e.Kind != tape.KindAnchor {
		return false
	}
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(strings.ToLower(string(e.Payload)), word) {
			return false
		}
	}
	return true
}

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

var anchorNames = []string{"a", "b", "c"}

func drawEntry(r *rapid.T) tape.Entry {
	word := rapid.SampledFrom([]string{"red", "green", "blue 天", "RED green"}).Draw(r, "word")
	var e tape.Entry
	switch rapid.IntRange(0, 6).Draw(r, "kind") {
	case 0:
		e = tape.NewAnchor(rapid.SampledFrom(anchorNames).Draw(r, "anchor"), word)
	case 1:
		e = tape.NewEvent("e", word)
	case 2:
		e = tape.NewError("internal", word)
	case 3:
		e = tape.Entry{Kind: "alien", Payload: json.RawMessage(`{"w":"` + word + `"}`)}
	default:
		e = tape.NewMessage("user", word)
	}
	// Hours, in no order: the clock of a machine may go back.
	e.Date = day.Add(time.Duration(rapid.IntRange(0, 48).Draw(r, "hour")) * time.Hour)
	return e
}

func drawQuery(r *rapid.T, last int64) tape.Query {
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(r, name) == 0 }
	var q tape.Query
	if some("after?") {
		q.After = rapid.Int64Range(0, last+2).Draw(r, "after")
	}
	if some("before?") {
		q.Before = rapid.Int64Range(0, last+2).Draw(r, "before")
	}
	switch rapid.IntRange(0, 3).Draw(r, "start") {
	case 0:
		q.FromLast = true
	case 1:
		q.FromAnchor = rapid.SampledFrom(append(anchorNames, "start", "never")).Draw(r, "from")
	}
	if some("kinds?") {
		q.Kinds = rapid.SliceOfN(rapid.SampledFrom([]tape.Kind{"anchor", "message", "alien", "nobody"}), 1, 3).Draw(r, "kinds")
	}
	if some("text?") {
		q.Text = rapid.SampledFrom([]string{"red", "green red", "天", "zzz"}).Draw(r, "text")
	}
	q.Newest = rapid.Bool().Draw(r, "newest")
	if some("limit?") {
		q.Limit = rapid.IntRange(1, 5).Draw(r, "limit")
	}
	return q
}

// againstModel does what it likes to a store and to lists, and compares them.
func againstModel(t *testing.T, b *bench) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(b.dir, "")
		if err != nil {
			r.Fatal(err)
		}
		s, err := b.f.Open(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		ctx := t.Context()
		m := model{}
		drawName := func(r *rapid.T) string { return rapid.SampledFrom([]string{"one", "two"}).Draw(r, "tape") }
		last := func(name string) int64 {
			if all := m[name]; len(all) > 0 {
				return all[len(all)-1].ID
			}
			return 0
		}
		actions := map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				name := drawName(r)
				bt := tape.Batch{Entries: rapid.SliceOfN(rapid.Custom(drawEntry), 1, 5).Draw(r, "entries")}
				bt.Create = rapid.IntRange(0, 4).Draw(r, "create") == 0
				if bt.KeepIDs = rapid.IntRange(0, 9).Draw(r, "keep") == 0; bt.KeepIDs {
					id := last(name)
					for i := range bt.Entries {
						id += rapid.Int64Range(1, 3).Draw(r, "gap")
						bt.Entries[i].ID = id
					}
				}
				first, err := s.Append(ctx, name, bt)
				switch {
				case bt.Create && len(m[name]) > 0:
					if !errors.Is(err, tape.ErrNotEmpty) {
						r.Fatalf("create a tape that exists: %v", err)
					}
					return
				case !bt.Create && len(m[name]) == 0:
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("append to no tape: %v", err)
					}
					return
				case err != nil:
					r.Fatal(err)
				}
				for _, e := range bt.Entries {
					if !bt.KeepIDs {
						e.ID = last(name) + 1
					}
					m[name] = append(m[name], e)
				}
				if want := m[name][len(m[name])-len(bt.Entries)].ID; first != want {
					r.Fatalf("the first id is %d, want %d", first, want)
				}
			},
			"create": func(r *rapid.T) {
				name := drawName(r)
				if len(m[name]) > 0 {
					r.Skip("it is there")
				}
				e := tape.NewAnchor("start", nil)
				e.Date = day
				if _, err := s.Append(ctx, name, tape.Batch{Create: true, Entries: []tape.Entry{e}}); err != nil {
					r.Fatal(err)
				}
				e.ID = 1
				m[name] = append(m[name], e)
			},
			"read": func(r *rapid.T) {
				name := drawName(r)
				q := drawQuery(r, last(name))
				got, err := collect(s.Read(ctx, name, q))
				if len(m[name]) == 0 {
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("read no tape: %v", err)
					}
					return
				}
				want, wantErr := modelRead(m[name], q)
				if wantErr != nil {
					if !errors.Is(err, wantErr) {
						r.Fatalf("%+v: %v, want %v", q, err, wantErr)
					}
					return
				}
				if err != nil {
					r.Fatalf("%+v: %v", q, err)
				}
				if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
					r.Fatalf("%+v (-want +got):\n%s", q, diff)
				}
			},
			"info": func(r *rapid.T) {
				name := drawName(r)
				got, err := s.Info(ctx, name)
				if len(m[name]) == 0 {
					if !errors.Is(err, tape.ErrNotFound) {
						r.Fatalf("info of no tape: %v", err)
					}
					return
				}
				want := tape.Info{Tape: name, Bytes: got.Bytes}
				for _, e := range m[name] {
					want.Entries++
					if want.Entries == 1 {
						want.Created = e.Date
					}
					want.LastID, want.Updated = e.ID, e.Date
					if e.Kind == tape.KindAnchor {
						want.Anchors++
						want.LastAnchor = tape.AnchorOf(e)
					}
					if e.Kind == tape.KindMessage && want.Title == "" {
						var p struct{ Content string }
						_ = json.Unmarshal(e.Payload, &p)
						want.Title = p.Content
					}
				}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					r.Fatalf("info: %v (-want +got):\n%s", err, diff)
				}
			},
			"delete": func(r *rapid.T) {
				name := drawName(r)
				if rapid.IntRange(0, 3).Draw(r, "really") > 0 {
					r.Skip("deletions are rare")
				}
				if err := s.Delete(ctx, name); err != nil {
					r.Fatal(err)
				}
				delete(m, name)
			},
			"": func(r *rapid.T) {
				all, err := collect(s.Sessions(ctx, tape.SessionQuery{}))
				if err != nil || len(all) != len(m) {
					r.Fatalf("%d tapes are listed, %v, want %d", len(all), err, len(m))
				}
				for _, in := range all {
					if in.LastID != last(in.Tape) || in.Entries != int64(len(m[in.Tape])) {
						r.Fatalf("%s is listed with last id %d and %d entries, want %d and %d", in.Tape, in.LastID, in.Entries, last(in.Tape), len(m[in.Tape]))
					}
				}
			},
		}
		if b.f.Durable {
			actions["reopen"] = func(r *rapid.T) {
				if err := s.Close(); err != nil {
					r.Fatal(err)
				}
				if s, err = b.f.Open(dir); err != nil {
					r.Fatal(fmt.Errorf("open the store again: %w", err))
				}
			}
		}
		r.Repeat(actions)
	})
}
