//go:build nightly

package db

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

// schema is a schema of a server whose tables several processes have.
type schema struct{ url, name string }

func (s schema) open(t testing.TB) *DB {
	t.Helper()
	db, err := openSchema(s.url, s.name, longTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s schema) Open(t testing.TB) store.Engine {
	e := s.open(t).Tables()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestPostgresRecordsAreTablesLikeOthers(t *testing.T) {
	url := postgrestest.Run(t).URL()
	var schemas atomic.Int64
	storetest.Tables(t, storetest.Setup{New: func(testing.TB) storetest.Place {
		return schema{url, fmt.Sprint("records", schemas.Add(1))}
	}})
}

func TestPostgresWatchOfAnotherProcess(t *testing.T) {
	s := schema{postgrestest.Run(t).URL(), "watch"}
	testWatchOfAnotherProcess(t, s.open(t), s.open(t))
}

// A revision that was taken first and committed late is not overtaken.
func TestPostgresWatchMissesNoLateCommit(t *testing.T) {
	s := schema{postgrestest.Run(t).URL(), "late"}
	tables := []store.Table{openTable(t, s.open(t)), openTable(t, s.open(t))}
	slow := s.open(t)
	w := watchTable(t, openTable(t, s.open(t)))
	longtest.Wait(t, "the watcher", func() bool { return w.has("", 0) })
	taken, commit := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		slowTable := &table{e: &engine{db: slow, done: make(chan struct{})}, o: store.TableOptions{Name: "things"}}
		err := slow.Update(t.Context(), func(tx *Tx) error {
			_, refused, err := slowTable.put(tx, &store.Put{Key: "late", ID: storetest.NewID()}, time.Now())
			close(taken)
			<-commit
			return errors.Join(refused, err)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-taken
	revs := make([]uint64, len(tables))
	for i, table := range tables {
		wg.Go(func() {
			records, errs := table.Put(t.Context(), store.Put{Key: fmt.Sprint("early", i), ID: storetest.NewID()})
			if revs[i] = records[0].Rev; errs[0] != nil {
				t.Error(errs[0])
			}
		})
	}
	time.Sleep(2500 * time.Millisecond) // the watcher looks twice
	close(commit)
	wg.Wait()
	longtest.Wait(t, "the late change", func() bool { return w.has("late", 1) && w.has("early0", revs[0]) && w.has("early1", revs[1]) })
}

// Several tables share transactions. The processes that write them do not wait for each other for long.
func TestPostgresWritersOfTwoTablesDoNotBlockEachOther(t *testing.T) {
	s := schema{postgrestest.Run(t).URL(), "two"}
	var wg sync.WaitGroup
	start := time.Now()
	for process := range 3 {
		e := s.Open(t)
		for _, name := range []string{"a", "b"} {
			table, err := e.Table(t.Context(), store.TableOptions{Name: name})
			must(t, err)
			for i := range 50 {
				wg.Go(func() {
					_, errs := table.Put(t.Context(), store.Put{Key: fmt.Sprint(process, "-", i), ID: storetest.NewID()})
					if errs[0] != nil {
						t.Error(errs[0])
					}
				})
			}
		}
	}
	wg.Wait()
	longtest.Within(t, "300 puts", time.Since(start), 20*time.Second)
}

func TestPostgresWatchGoesOnWhenTheServerIsBack(t *testing.T) {
	server, err := postgrestest.Start("fsync=off")
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	open := func() store.Table { return openTable(t, openServer(t, server.URL(), callTime)) }
	changing, watching := open(), open()
	w := watchTable(t, watching)
	longtest.Wait(t, "the watcher", func() bool { return w.has("", 0) })
	must(t, server.Kill())
	time.Sleep(2500 * time.Millisecond) // the watcher looks twice
	must(t, server.Restart())
	var rev uint64
	longtest.Wait(t, "a put", func() bool {
		records, errs := changing.Put(t.Context(), store.Put{Key: "x", ID: storetest.NewID()})
		rev = records[0].Rev
		return errs[0] == nil
	})
	longtest.Wait(t, "the change", func() bool { return w.has("x", rev) })
}
