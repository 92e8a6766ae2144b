package table_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/cluster/replicatest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/store/storetest/file"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/oncetest"
	"github.com/lingserve/lingserve/web/once/table"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func open(t testing.TB, url, schema string, o table.Options) *table.Keys {
	t.Helper()
	e, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema, Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	return openTable(t, e, o)
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

// CL-09, CL-14: keys that replicas share in a database.
func TestReplicas(t *testing.T) {
	url, schemas := postgrestest.Shared(t).URL(), map[*testing.T]string{}
	oncetest.Test(t, oncetest.Setup{Shared: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
		if schemas[t] == "" {
			schemas[t] = replicatest.Schema()
		}
		return open(t, url, schemas[t], table.Options{Retention: retention})
	}, Few: func(t *testing.T, most int) once.Keys {
		return open(t, url, replicatest.Schema(), table.Options{Most: int64(most)})
	}})
}

func BenchmarkReplicas(b *testing.B) {
	oncetest.Bench(b, open(b, postgrestest.Shared(b).URL(), replicatest.Schema(), table.Options{}))
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

// While the database is away keys cannot be claimed, and that is said soon; when it is back, they can.
func TestTheDatabaseIsAway(t *testing.T) {
	s := postgrestest.Run(t)
	k := open(t, s.URL(), replicatest.Schema(), table.Options{})
	if _, ok, err := k.Claim(t.Context(), once.Claim{Key: "before", Run: oncetest.Run(1)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, _, err := k.Claim(t.Context(), once.Claim{Key: "while", Run: oncetest.Run(2)})
	if e, ok := err.(interface{ ErrorCode() string }); !errors.Is(err, once.ErrAway) || !ok || e.ErrorCode() != "overloaded" {
		t.Error(err)
	}
	longtest.Within(t, "until it is said that the database is away", time.Since(begin), 10*time.Second)
	if _, _, err := k.Find(t.Context(), "", "before"); !errors.Is(err, once.ErrAway) {
		t.Errorf("found: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
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
