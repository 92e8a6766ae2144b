package nats_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
)

// ST-11, ST-16, ST-17: a range of which a process knows that all of it was there is read as the log is now.
func TestAKnownRange(t *testing.T) {
	t.Parallel()
	a, b, _ := twoLogs(t, clustertest.One(t), indexed)
	known := store.Range{From: 1, Before: 4}
	want := func(data ...string) {
		t.Helper()
		if got, err := readAll(a, t.Context(), "k", known); err != nil || !slices.Equal(got, data) {
			t.Errorf("%q, %v, want %q", got, err, data)
		}
	}
	fails := func(kind error) {
		t.Helper()
		if got, err := readAll(a, t.Context(), "k", known); !errors.Is(err, kind) || len(got) > 0 {
			t.Errorf("%q, %v, want %v", got, err, kind)
		}
	}
	for _, data := range []string{"1", "2", "3"} {
		mustAppend(t, a, "k", store.Batch{After: store.Any, Entries: entriesOf(data)})
	}
	want("1", "2", "3")
	mustAppend(t, b, "k", store.Batch{After: store.Any, Entries: entriesOf("4")})
	want("1", "2", "3")
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	fails(store.ErrNotFound)
	if _, err := a.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	for _, data := range []string{"x", "y", "z", "end"} {
		mustAppend(t, b, "k", store.Batch{After: store.Any, Entries: entriesOf(data)})
	}
	want("x", "y", "z")
	want("x", "y", "z")
	if err := b.Trim(t.Context(), "k", 3); err != nil {
		t.Fatal(err)
	}
	fails(store.ErrExpired)
	known.From = 0
	want("z")
	want("z")
}
