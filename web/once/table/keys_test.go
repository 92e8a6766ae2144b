package table_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/oncetest"
	"github.com/lingserve/lingserve/web/once/table"
)

func TestMain(m *testing.M) { clustertest.Main(m, nil) }

func open(t testing.TB, s *clustertest.Servers, prefix string, o table.Options) (*table.Keys, *cluster.Cluster) {
	t.Helper()
	c := s.Open(t, func(o *cluster.Options) { o.Prefix = prefix })
	return openTable(t, nats.Open(c, nats.Options{}), o), c
}

func openTable(t testing.TB, e store.Engine, o table.Options) *table.Keys {
	t.Helper()
	k, err := table.Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return k
}

func openFiles(t testing.TB, o table.Options) *table.Keys {
	return openIn(t, vfs.At(t.TempDir()), o)
}

func openIn(t testing.TB, dir vfs.Dir, o table.Options) *table.Keys {
	t.Helper()
	e, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return openTable(t, e, o)
}

// CL-09: keys of a server that is alone pass the suite of those that replicas share.
func TestFiles(t *testing.T) {
	for name, dir := range map[string]func(*testing.T) vfs.Dir{
		"in memory": func(*testing.T) vfs.Dir { return vfs.InMemory() }, "in a folder": func(t *testing.T) vfs.Dir { return vfs.At(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			oncetest.Test(t, oncetest.Setup{Shared: true, Alone: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
				return openIn(t, dir(t), table.Options{Retention: retention})
			}, Few: func(t *testing.T, most int) once.Keys { return openIn(t, dir(t), table.Options{Most: int64(most)}) }})
		})
	}
}

func BenchmarkFiles(b *testing.B) { oncetest.Bench(b, openFiles(b, table.Options{})) }

func setup(s *clustertest.Servers) oncetest.Setup {
	prefixes := map[*testing.T]string{}
	return oncetest.Setup{Shared: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
		if prefixes[t] == "" {
			prefixes[t] = clustertest.Prefix()
		}
		k, _ := open(t, s, prefixes[t], table.Options{Retention: retention})
		return k
	}, Few: func(t *testing.T, most int) once.Keys {
		k, _ := open(t, s, clustertest.Prefix(), table.Options{Most: int64(most)})
		return k
	}}
}

func TestOneNode(t *testing.T) { oncetest.Test(t, setup(clustertest.One(t))) }

func BenchmarkOneNode(b *testing.B) {
	k, _ := open(b, clustertest.One(b), clustertest.Prefix(), table.Options{})
	oncetest.Bench(b, k)
}

// Three nodes: the suite, and the leader of the keys is lost while they are claimed. No key is claimed twice, and none is lost.
func TestThreeNodes(t *testing.T) {
	s := clustertest.Three(t)
	oncetest.Test(t, setup(s))
	prefix := clustertest.Prefix()
	a, c := open(t, s, prefix, table.Options{})
	b, _ := open(t, s, prefix, table.Options{})
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		s.Kill(s.Leader(c.Name("TABLE", "keys")))
	}()
	claimed := map[string]string{}
	for n := 0; ; n++ {
		key, first, second := oncetest.Run(n), oncetest.Run(2*n), oncetest.Run(2*n+1)
		tried := 0
		got, ok, err := patient(t, func() (once.Claim, bool, error) {
			tried++
			return a.Claim(t.Context(), once.Claim{Key: key, Run: first})
		})
		if err != nil || got.Run != first || !ok && tried == 1 { // a claim that is made again may have been taken the first time
			t.Fatalf("key %d: %+v, %v, %v", n, got, ok, err)
		}
		got, ok, err = patient(t, func() (once.Claim, bool, error) { return b.Claim(t.Context(), once.Claim{Key: key, Run: second}) })
		if err != nil || ok || got.Run != first {
			t.Fatalf("key %d once more: %+v, %v, %v", n, got, ok, err)
		}
		claimed[key] = first
		select {
		case <-lost:
			if n < 50 {
				continue
			}
		default:
			continue
		}
		break
	}
	for key, run := range claimed {
		got, ok, err := patient(t, func() (once.Claim, bool, error) { return b.Find(t.Context(), "", key) })
		if err != nil || !ok || got.Run != run {
			t.Errorf("%s leads to %s, %v, %v", key, got.Run, ok, err)
		}
	}
}

// patient asks for a key until it is not refused. While servers are finding a leader, on a machine that does much else, keys are at times.
func patient(t *testing.T, ask func() (once.Claim, bool, error)) (got once.Claim, ok bool, err error) {
	t.Helper()
	for end := time.Now().Add(time.Hour); ; {
		if got, ok, err = ask(); !errors.Is(err, once.ErrAway) || time.Now().After(end) {
			return got, ok, err
		}
	}
}

// unsure is an engine whose puts are stored while lost says so, or not, and nobody knows.
type unsure struct {
	store.Engine
	lost func() (lost, stored bool)
}

type unsureTable struct {
	store.Table
	lost func() (lost, stored bool)
}

func (u unsure) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	t, err := u.Engine.Table(ctx, o)
	return unsureTable{t, u.lost}, err
}

func (u unsureTable) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	lost, stored := u.lost()
	if lost && !stored {
		return make([]store.Record, len(puts)), []error{store.ErrUnsure}
	}
	records, errs := u.Table.Put(ctx, puts...)
	if lost {
		return records, []error{store.ErrUnsure}
	}
	return records, errs
}

// A claim of which nobody knows whether it was stored is taken back.
func TestAnswersAreLost(t *testing.T) {
	for name, stored := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := file.Open(vfs.At(t.TempDir()), file.Options{})
				if err != nil {
					t.Fatal(err)
				}
				left := 3 // the claim, and two attempts to take it back
				k := openTable(t, unsure{e, func() (bool, bool) { left--; return left >= 0, stored }}, table.Options{})
				if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "k", Run: oncetest.Run(1)}); ok || !errors.Is(err, once.ErrAway) {
					t.Fatalf("%v, %v", ok, err)
				}
				time.Sleep(time.Minute)
				if got, ok, err := k.Find(t.Context(), "", "k"); ok || err != nil {
					t.Errorf("it leads to %s for ever, %v", got.Run, err)
				}
				if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "k", Run: oncetest.Run(2)}); !ok || err != nil {
					t.Errorf("claimed again: %v, %v", ok, err)
				}
				left = 1
				if _, _, err := k.Claim(t.Context(), once.Claim{Key: "other", Run: oncetest.Run(3)}); !errors.Is(err, once.ErrAway) {
					t.Errorf("%v", err)
				}
				if err := k.Close(); err != nil {
					t.Errorf("closed: %v", err)
				}
				if got, ok, err := k.Find(t.Context(), "", "other"); ok || err != nil {
					t.Errorf("it leads to %s, %v", got.Run, err)
				}
			})
		})
	}
}

// While the servers are away keys cannot be claimed, and that is said soon; when they are back, they can.
func TestTheServersAreAway(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	k, _ := open(t, s, prefix, table.Options{})
	if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "before", Run: oncetest.Run(1)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	s.Kill(0)
	begin := time.Now()
	_, _, err := k.Claim(t.Context(), once.Claim{Key: "while", Run: oncetest.Run(2)})
	if e, ok := err.(interface{ ErrorCode() string }); !errors.Is(err, once.ErrAway) || !ok || e.ErrorCode() != "overloaded" {
		t.Error(err)
	}
	longtest.Within(t, "until it is said that the servers are away", time.Since(begin), 10*time.Second)
	if _, _, err := k.Find(t.Context(), "", "before"); !errors.Is(err, once.ErrAway) {
		t.Errorf("found: %v", err)
	}
	s.Restart(0)
	for end := time.Now().Add(time.Hour); ; {
		got, ok, err := k.Claim(t.Context(), once.Claim{Key: "before", Run: oncetest.Run(3)})
		if err == nil {
			if ok || got.Run != oncetest.Run(1) {
				t.Errorf("a key from before: %+v, %v", got, ok)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// There is a bound, and a stream that somebody has erased is made again.
func TestTheStream(t *testing.T) {
	s, prefix := clustertest.One(t), clustertest.Prefix()
	k, c := open(t, s, prefix, table.Options{Most: 10})
	for n := range 25 {
		if _, ok, err := k.Claim(t.Context(), once.Claim{Key: oncetest.Run(n), Run: oncetest.Run(n)}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for n := range 25 {
		if got, ok, err := k.Find(t.Context(), "", oncetest.Run(n)); err != nil || ok != (n >= 15) {
			t.Errorf("key %d: %+v, %v, %v", n, got, ok, err)
		}
	}
	if err := c.JetStream().DeleteStream(t.Context(), c.Name("TABLE", "keys")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "k", Run: oncetest.Run(99)}); err != nil || !ok {
		t.Errorf("claimed: %v, %v", ok, err)
	}
}
