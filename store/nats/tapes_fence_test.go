package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/tape"
)

func longest() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// say are entries that have a word each.
func say(words ...string) []tape.Entry {
	var entries []tape.Entry
	for _, word := range words {
		entries = append(entries, tape.NewMessage("user", word))
	}
	return entries
}

// wordsOf are the words of a tape.
func wordsOf(t testing.TB, s tape.Store, name string) []string {
	t.Helper()
	words := []string{}
	for e, err := range s.Read(t.Context(), name, tape.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Content string }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		words = append(words, p.Content)
	}
	return words
}

func wantWords(t *testing.T, s tape.Store, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, wordsOf(t, s, "a")); diff != "" {
		t.Errorf("the tape (-want +got):\n%s", diff)
	}
}

// steal takes a lease away behind the back of the replica that has it, as the pause of a machine does whose clock stood still:
// the replica believes that it has the lease.
func steal(t *testing.T, r *replica, name string) {
	t.Helper()
	tables := storenats.Open(r.cluster, storenats.Options{})
	defer tables.Close()
	table, err := tables.Table(t.Context(), replicas.Table)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := table.Put(t.Context(), store.Put{Key: "tape/" + store.KeyPart(name) + "/holder", ID: storetest.NewID(), After: store.AnyRev})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
}

// leased takes a lease, or says why not, whoever has it. Without waiting for the lease it waits for the servers no longer than a second,
// which is said then.
func leased(ctx context.Context, s *replica, name string) (tape.Lease, error) {
	for {
		if l, err := s.Lease(ctx, name, false); !errors.Is(err, replicas.ErrAway) {
			return l, err
		}
	}
}

func lost(l tape.Lease) bool {
	select {
	case <-l.Lost():
		return true
	case <-time.After(time.Minute): // which only a failure takes
		return false
	}
}

func TestAReplicaThatBelievesInItsLeaseIsRefused(t *testing.T) { // CL-06
	t.Parallel()
	p := tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}
	for what, created := range map[string]bool{"a tape that is there": true, "a tape that is not there yet": false} {
		t.Run(what, func(t *testing.T) {
			p := tapesAt{p.URL, clustertest.Prefix()}
			one, two := openTapes(t, p), openTapes(t, p)
			ctx := t.Context()
			var want []string
			first, err := leased(ctx, one, "a")
			if err != nil {
				t.Fatal(err)
			}
			if created {
				if _, err := one.Append(ctx, "a", tape.Batch{Create: true, Entries: say("one")}); err != nil {
					t.Fatal(err)
				}
				want = append(want, "one")
			}
			steal(t, one, "a")
			second, err := leased(ctx, two, "a")
			if err != nil {
				t.Fatal(err)
			}
			if !created {
				if _, err := two.Append(ctx, "a", tape.Batch{Create: true, Entries: say("two")}); err != nil {
					t.Fatal(err)
				}
				want = append(want, "two")
			}
			for range 2 {
				if _, err := one.Append(ctx, "a", tape.Batch{Entries: say("late")}); !errors.Is(err, tape.ErrLeased) {
					t.Errorf("an append under a lease that another one has taken: %v, want ErrLeased", err)
				}
				if err := one.Import(ctx, "a", "", "", nil); !errors.Is(err, tape.ErrLeased) && !errors.Is(err, tape.ErrNotEmpty) {
					t.Errorf("an import: %v", err)
				}
			}
			if !lost(first) {
				t.Error("the lease is not lost")
			}
			if _, err := two.Append(ctx, "a", tape.Batch{Entries: say("on")}); err != nil {
				t.Fatal(err)
			}
			second.Release()
			first.Release()
			wantWords(t, two, append(want, "on")...)
			// It is as any other replica now.
			third, err := one.Lease(ctx, "a", true)
			if err != nil {
				t.Fatal(err)
			}
			defer third.Release()
			if _, err := one.Append(ctx, "a", tape.Batch{Entries: say("back")}); err != nil {
				t.Error(err)
			}
			wantWords(t, one, append(want, "on", "back")...)
		})
	}
}

func TestALeaseThatIsTakenAgainCostsNoMessage(t *testing.T) {
	t.Parallel()
	p := tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}
	one, two := openTapes(t, p), openTapes(t, p)
	ctx := t.Context()
	if _, err := one.Append(ctx, "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		t.Helper()
		st, err := one.cluster.JetStream().Stream(ctx, one.Stream())
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.Msgs
	}
	turn := func(s *replica) {
		t.Helper()
		l, err := s.Lease(ctx, "a", true)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		if _, err := s.Append(ctx, "a", tape.Batch{Entries: say("turn")}); err != nil {
			t.Fatal(err)
		}
	}
	for i, row := range []struct {
		s    *replica
		want uint64
	}{{one, 2}, {one, 1}, {one, 1}, {two, 2}, {two, 1}, {one, 2}} {
		before := messages()
		turn(row.s)
		if got := messages() - before; got != row.want {
			t.Errorf("turn %d stores %d messages, want %d", i, got, row.want)
		}
	}
	in, err := two.Info(ctx, "a")
	if err != nil || in.Entries != 7 || in.LastID != 7 {
		t.Errorf("info is %+v, %v", in, err)
	}
}
