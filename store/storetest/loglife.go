package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

func testDamaged(t *testing.T, s Setup) {
	place := s.New(t)
	damager, ok := place.(Damager)
	if !ok {
		t.Skip("the place cannot damage an entry")
	}
	for _, o := range []store.LogOptions{{Space: "indexed", Indexed: true}, {Space: "plain"}} {
		e := place.Open(t)
		l := logs(t, e, o)
		for i := range 6 {
			add(t, l, "k", store.Batch{After: store.Any, Entries: entries(fmt.Sprint("entry ", i+1))})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		damager.DamageEntry(t, o.Space, "k", 3)
		e = place.Open(t)
		l = logs(t, e, o)
		check := func(want ...uint64) {
			t.Helper()
			for _, newest := range []bool{false, true} {
				var got []uint64
				for e, err := range l.Read(t.Context(), "k", store.Range{Newest: newest}) {
					if (e.N == 3) != errors.Is(err, store.ErrDamaged) || (e.N != 3) != (err == nil) {
						t.Fatalf("entry %d: %v", e.N, err)
					}
					got = append(got, e.N)
				}
				if newest {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
		}
		check(1, 2, 3, 4, 5, 6)
		if info := add(t, l, "k", store.Batch{After: infoOf(t, l, "k").Rev, Entries: entries("next")}); info.Last != 7 {
			t.Errorf("%+v", info)
		}
		check(1, 2, 3, 4, 5, 6, 7)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func testDelete(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		l := logs(t, place.Open(t), o)
		var data []string
		for i := range 3000 {
			data = append(data, fmt.Sprint(i, strings.Repeat("x", 1000))) // more than a reader holds
		}
		old := add(t, l, "k", store.Batch{Entries: entries(data...)})
		for _, name := range []string{"k/a", "k/a/b", "k2", "other"} {
			add(t, l, name, store.Batch{Entries: entries(name)})
		}
		var ended error
		for e, err := range l.Read(t.Context(), "k", store.Range{}) {
			if ended = err; e.N == 1 {
				if err := l.Delete(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !errors.Is(ended, store.ErrDeleted) {
			t.Errorf("a reader ends with %v", ended)
		}
		for _, name := range []string{"k", "k/a", "k/a/b"} {
			noLog(t, l, name)
		}
		wantRead(t, l, "k2", store.Range{}, "1:k2")
		for range 2 {
			if err := l.Delete(t.Context(), "k"); err != nil {
				t.Errorf("again: %v", err)
			}
		}
		var m *store.MovedLog
		if _, err := tryAdd(t, l, "k", store.Batch{After: old.Rev, Entries: entries("late")}); !errors.As(err, &m) || m.Rev != store.New {
			t.Errorf("behind a deleted log: %v", err)
		}
		anew := add(t, l, "k", store.Batch{Entries: entries("new")})
		if anew.Rev == old.Rev || anew.Label != "" || anew.Last != 1 || anew.Entries != 1 {
			t.Errorf("%+v", anew)
		}
		if _, err := tryAdd(t, l, "k", store.Batch{After: old.Rev, Entries: entries("late")}); !errors.Is(err, store.ErrMoved) {
			t.Errorf("behind the log before: %v", err)
		}
		wantRead(t, l, "k", store.Range{}, "1:new")
		noLog(t, l, "k/a")
	})
}

func testTrim(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		e := place.Open(t)
		l := logs(t, e, o)
		for i := range 20 {
			add(t, l, "k", store.Batch{After: store.Any, Entries: []store.Entry{{Data: []byte("x"), Mark: i%6 == 0}}})
		}
		was := infoOf(t, l, "k")
		for _, below := range []uint64{0, 1} {
			if err := l.Trim(t.Context(), "k", below); err != nil {
				t.Fatal(err)
			}
		}
		if got := infoOf(t, l, "k"); !sameInfo(got, was) {
			t.Errorf("%+v, want %+v", got, was)
		}
		if err := l.Trim(t.Context(), "k", 8); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the first entry is 8", func() bool { return infoOf(t, l, "k").First == 8 })
		got := infoOf(t, l, "k")
		if got.Rev != was.Rev || got.Last != 20 || got.LastMark != 19 || got.Entries != 13 || got.Bytes != 13 {
			t.Errorf("%+v", got)
		}
		wantRead(t, l, "k", store.Range{Limit: 1}, "8:x")
		wantRead(t, l, "k", store.Range{From: 8, Limit: 1}, "8:x")
		wantRead(t, l, "k", store.Range{Marks: true}, "13*:x", "19*:x")
		wantRead(t, l, "k", store.Range{Newest: true, Before: 10}, "9:x", "8:x")
		wantRead(t, l, "k", store.Range{Before: 8})
		if got, err := tryRead(t.Context(), l, "k", store.Range{From: 7}); !errors.Is(err, store.ErrExpired) || len(got) > 0 {
			t.Errorf("%q, %v", got, err)
		}
		if err := l.Trim(t.Context(), "k", 100); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all but the last are gone", func() bool { return infoOf(t, l, "k").First >= 20 })
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		l = logs(t, place.Open(t), o)
		if info := infoOf(t, l, "k"); info.First < 20 || info.Last != 20 || info.Rev != was.Rev {
			t.Errorf("%+v", info)
		}
		next := add(t, l, "k", store.Batch{After: was.Rev, Entries: entries("y")})
		if next.Last != 21 {
			t.Errorf("%+v", next)
		}
		wantRead(t, l, "k", store.Range{From: 21}, "21:y")
		if err := l.Trim(t.Context(), "nothing", 5); err != nil {
			t.Error(err)
		}
		noLog(t, l, "nothing")
	})
}

func testKeep(t *testing.T, s Setup) {
	l := logs(t, s.New(t).Open(t), store.LogOptions{Keep: time.Hour})
	info := add(t, l, "k", store.Batch{Entries: entries("1")})
	wantRead(t, l, "k", store.Range{}, "1:1")
	if !s.Bubble {
		return // the engine's time is not the test's
	}
	for range 59 {
		<-time.After(time.Minute)
		if got := infoOf(t, l, "k"); !sameInfo(got, info) {
			t.Fatalf("%+v, want %+v", got, info)
		}
		wantRead(t, l, "k", store.Range{From: 1}, "1:1")
	}
	add(t, l, "k", store.Batch{After: info.Rev, Entries: entries("2")})
	<-time.After(59 * time.Minute)
	wantRead(t, l, "k", store.Range{From: 2}, "2:2")
}

func testFullSpace(t *testing.T, s Setup) {
	l := logs(t, s.New(t).Open(t), store.LogOptions{MaxBytes: 1 << 20})
	stored := 0
	for i := range 30 {
		name := fmt.Sprint("k", i%3)
		_, err := tryAdd(t, l, name, store.Batch{After: store.Any, Entries: []store.Entry{{Data: make([]byte, 100_000)}}})
		switch {
		case err == nil:
			stored++
		case !errors.Is(err, store.ErrFull):
			t.Fatal(err)
		default:
			if got := infoOf(t, l, name); got.Entries != int64((stored+2-i%3)/3) {
				t.Errorf("%+v", got)
			}
		}
	}
	if stored < 8 || stored > 10 {
		t.Errorf("%d entries of 100000 bytes in a mebibyte", stored)
	}
	if err := l.Delete(t.Context(), "k0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is room", func() bool {
		_, err := tryAdd(t, l, "k1", store.Batch{After: store.Any, Entries: entries("more")})
		return err == nil
	})
}

func testLogEnded(t *testing.T, s Setup) {
	l := logs(t, s.New(t).Open(t), store.LogOptions{Indexed: true})
	was := add(t, l, "k", store.Batch{Entries: entries("1")})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller has left")
	cancel(why)
	_, err := l.Append(ctx, "k", store.Batch{ID: NewID(), After: was.Rev, Entries: entries("2")})
	_, newErr := l.Append(ctx, "new", store.Batch{ID: NewID()})
	_, infoErr := l.Info(ctx, "k")
	_, readErr := tryRead(ctx, l, "k", store.Range{})
	_, countErr := l.Count(ctx, "")
	var listErr error
	for _, err := range l.List(ctx, store.Listing{}) {
		listErr = err
	}
	for _, err := range []error{
		err, newErr, infoErr, readErr, countErr, listErr, l.Trim(ctx, "k", 2), l.Delete(ctx, "k"), l.Sync(ctx),
	} {
		if !errors.Is(err, why) || errors.Is(err, store.ErrUnsure) {
			t.Errorf("%v, want %v", err, why)
		}
	}
	noLog(t, l, "new")
	if got := infoOf(t, l, "k"); !sameInfo(got, was) {
		t.Errorf("%+v, want %+v", got, was)
	}
}

func testLogClosed(t *testing.T, s Setup) {
	both(t, s, func(t *testing.T, place Place, o store.LogOptions) {
		e := place.Open(t)
		l := logs(t, e, o)
		info := add(t, l, "k", store.Batch{Entries: entries("1")})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := tryAdd(t, l, "k", store.Batch{After: info.Rev})
		_, infoErr := l.Info(t.Context(), "k")
		_, readErr := tryRead(t.Context(), l, "k", store.Range{})
		_, logErr := e.(store.LogEngine).Log(t.Context(), store.LogOptions{Space: "more"})
		for _, err := range []error{err, infoErr, readErr, logErr, l.Delete(t.Context(), "k"), l.Trim(t.Context(), "k", 1), l.Sync(t.Context())} {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("%v, want %v", err, store.ErrClosed)
			}
		}
		l = logs(t, place.Open(t), o)
		if got := infoOf(t, l, "k"); !sameInfo(got, info) {
			t.Errorf("%+v, want %+v", got, info)
		}
	})
}

// testBeside has a process beside the first, which reads every space and appends to Indexed ones.
func testBeside(t *testing.T, s Setup) {
	place := s.New(t)
	server, command := place.Open(t), place.Open(t)
	for _, o := range []store.LogOptions{{Space: "indexed", Indexed: true}, {Space: "plain"}} {
		a, b := logs(t, server, o), logs(t, command, o)
		info := add(t, a, "k", store.Batch{Entries: entries("1")})
		wantRead(t, b, "k", store.Range{}, "1:1")
		if !o.Indexed {
			continue
		}
		info = add(t, b, "k", store.Batch{After: info.Rev, Entries: entries("2")})
		add(t, a, "k", store.Batch{After: info.Rev, Entries: entries("3")})
		add(t, b, "other", store.Batch{Entries: entries("1")})
		wantRead(t, b, "k", store.Range{}, "1:1", "2:2", "3:3")
		wantRead(t, a, "other", store.Range{}, "1:1")
	}
}
