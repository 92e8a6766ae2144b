package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// newLibrary opens replicas.
func newLibrary(t *testing.T, workspace string, replicas int) *library {
	return newLibraryOn(t, newNetwork(t), workspace, replicas)
}

func newLibraryOn(t *testing.T, net *network, workspace string, replicas int) *library {
	l := &library{single: replicas == 1, asked: map[string]int{}, tools: map[string]int{}}
	l.cluster = cluster{world: world{t: t, net: net}, workspace: workspace}
	l.world.other, l.world.stormy = l.reachable, func() bool { return true }
	for range replicas {
		l.replicas = append(l.replicas, l.open())
	}
	return l
}

// row is what the store has of a run.
func (l *library) row(id string) store.Run {
	row, err := l.net.db.Runs().Find(l.t.Context(), id)
	if err != nil {
		l.t.Fatal(err)
	}
	return row
}

// rest ends a replica in order and starts the next one.
func (l *library) rest(i int) {
	l.stop(i)
	l.replicas[i] = l.open()
}

// stop ends a replica in order.
func (l *library) stop(i int) {
	r := l.replicas[i]
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
	defer cancel()
	if err := errors.Join(r.s.Drain(ctx), r.s.Close()); err != nil {
		l.t.Fatal(err)
	}
	r.end()
	l.net.change(func() { r.node.left = true })
}

// ask starts a turn whose tool needs an approval.
func (l *library) ask(session string) string {
	l.s = l.replicas[0].s
	r, _, err := l.begin(l.t.Context(), &Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: session, Input: mustJSON("grant")})
	if err != nil {
		l.t.Fatal(err)
	}
	return r.ID
}

// question is the one that is open in a session at a replica.
func (l *library) question(session string) agent.Question {
	lane := (&origin{Session: session}).Lane()
	ctx := access.With(l.t.Context(), access.Local)
	list, err := l.s.Questions(ctx, lane)
	if e, ok := errors.AsType[*Elsewhere](err); ok {
		l.s = l.reachable(e.Replica)
		list, err = l.s.Questions(ctx, lane)
	}
	if err != nil || len(list) != 1 {
		l.t.Fatalf("questions: %v %v", list, err)
	}
	return list[0]
}

// DU-04: a run that waits for an approval costs a row and nothing else, through restarts; it is answered at another replica, under the
// id that its question has always had, and readers are told of the question once.
func TestARunWaitsAsARow(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 3)
		defer l.close()
		id := l.ask("s")
		time.Sleep(5 * time.Second)
		first := l.question("s")
		time.Sleep(SuspendAfter + time.Second)
		synctest.Wait()
		if row := l.row(id); !suspended(&row) {
			t.Fatalf("%+v", row)
		}
		for _, r := range l.replicas {
			if load := r.s.Load(); load.Running != 0 || r.s.runsInMemory()[id] != nil {
				t.Fatalf("DU-04: %+v", load)
			}
		}
		for range 2 {
			time.Sleep(20 * time.Minute)
			for i := range l.replicas {
				l.rest(i)
			}
		}
		l.s = l.replicas[2].s
		again := l.question("s")
		if again.ID != first.ID || !again.Expires.Equal(first.Expires) {
			t.Errorf("the question was %+v and is %+v", first, again)
		}
		r, err := l.find(id, access.Local)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.s.Answer(access.With(t.Context(), access.Local), r, agent.Answer{ID: first.ID, Approve: true}); err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		o, document, _ := r.Result()
		told := 0
		for e := range r.Events().Waiting() {
			if e.Name == "approval_required" {
				told++
			}
			if e.Name == "restarted" {
				t.Errorf("%s", e.Value)
			}
		}
		if o.Status != StatusCompleted || string(document) != `"That is all."` || told != 1 {
			t.Errorf("%+v %s, told %d times", o, document, told)
		}
		if _, all := l.tape("s"); strings.Count(all, `"turn.start"`) != 1 || strings.Count(all, "grant done") != 1 {
			t.Errorf("%s", all)
		}
	})
}

// DU-04: a server that ends does not wait for people, whether someone reads the run or not.
func TestADrainLeavesRunsThatWait(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 1)
		defer l.close()
		id, followed := l.ask("s"), l.ask("t")
		r, err := l.find(followed, access.Local)
		if err != nil {
			t.Fatal(err)
		}
		r.readers.Add(1)
		time.Sleep(5 * time.Second)
		first := l.question("s")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.s.Drain(ctx); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		for _, id := range []string{id, followed} {
			if row := l.row(id); !suspended(&row) {
				t.Errorf("%+v", row)
			}
		}
		l.rest(0)
		l.s = l.replicas[0].s
		if again := l.question("s"); again.ID != first.ID {
			t.Errorf("the question was %+v and is %+v", first, again)
		}
	})
}

// DU-04: a run that waits goes on behind a migration of the database: with the server that makes it, or after a newer one has made it.
func TestARunThatWaitsOutlivesAMigration(t *testing.T) {
	undo11 := []string{
		"DROP INDEX runs_open", "DROP TABLE events", "DROP TABLE replies", "CREATE TABLE records (name TEXT)", "CREATE TABLE tables (name TEXT)",
		"UPDATE schema_version SET version = 10, compatible = 1",
	}
	undo10 := []string{
		"DROP INDEX runs_left", "DROP INDEX runs_waiting", "ALTER TABLE runs DROP COLUMN wake", "CREATE INDEX runs_live ON runs (created, id) WHERE ended = 0",
		"UPDATE schema_version SET version = 9",
	}
	for name, test := range map[string]struct {
		waits   time.Duration
		changes []string
	}{
		"of other tables":          {time.Minute, undo11},
		"of the table of runs":     {time.Minute, slices.Concat(undo11, undo10)},
		"while it waits in memory": {SuspendAfter / 2, slices.Concat(undo11, undo10)},
		"by a newer server": {time.Minute, []string{
			"ALTER TABLE runs ADD COLUMN later TEXT NOT NULL DEFAULT ''", "UPDATE schema_version SET version = version + 1",
		}},
	} {
		workspace := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(workspace, "test.db")
				open := func() *db.DB {
					d, err := db.Open(t.Context(), "sqlite:"+file, nil)
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				l := newLibraryOn(t, networkOn(open()), workspace, 1)
				defer l.close()
				id := l.ask("s")
				time.Sleep(test.waits)
				row := l.row(id)
				if suspended(&row) != (test.waits > SuspendAfter) {
					t.Fatalf("%+v", row)
				}
				l.stop(0)
				if err := l.net.db.Close(); err != nil {
					t.Fatal(err)
				}
				changeSchema(t, file, test.changes)
				l.net.db = open()
				l.replicas[0] = l.open()
				l.s = l.replicas[0].s
				time.Sleep(time.Second)
				r, err := l.find(id, access.Local)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.s.Answer(access.With(t.Context(), access.Local), r, agent.Answer{ID: l.question("s").ID, Approve: true}); err != nil {
					t.Fatal(err)
				}
				<-r.Done()
				told := 0
				for e := range r.Events().Waiting() {
					if e.Name == "approval_required" {
						told++
					}
				}
				if o, document, _ := r.Result(); o.Status != StatusCompleted || string(document) != `"That is all."` || told != 1 {
					t.Errorf("%+v %s, told %d times", o, document, told)
				}
			})
		})
	}
}

// changeSchema runs statements on a database that no server has open.
func changeSchema(t *testing.T, file string, statements []string) {
	t.Helper()
	d, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, statement := range statements {
		if _, err := d.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// DU-04: a question whose time is over while its run is a row is denied, and the turn goes on.
func TestARunThatWaitsIsWokenWhenItsTimeIsOver(t *testing.T) {
	for name, replicas := range map[string]int{"one server": 1, "three replicas": 3} {
		workspace := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLibrary(t, workspace, replicas)
				defer l.close()
				id := l.ask("s")
				time.Sleep(time.Minute)
				if row := l.row(id); !suspended(&row) {
					t.Fatalf("%+v", row)
				}
				time.Sleep(time.Hour)
				if row := l.row(id); row.State != StatusCompleted {
					t.Fatalf("%+v", row)
				}
				l.s = l.replicas[0].s
				r, err := l.find(id, access.Local)
				if err != nil {
					t.Fatal(err)
				}
				resolved := false
				for e := range r.Events().Waiting() {
					resolved = resolved || e.Name == "approval_resolved" && strings.Contains(string(e.Value), agent.ReasonTimeout)
				}
				if _, all := l.tape("s"); !strings.Contains(all, "no answer came in time") || !resolved {
					t.Errorf("%v %s", resolved, all)
				}
			})
		})
	}
}

// repeatRun makes n runs of the only one in a database: as many transactions would take minutes under the race detector.
func repeatRun(t *testing.T, file string, n int) {
	t.Helper()
	d, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var columns string
	err = d.QueryRow("SELECT group_concat(name) FROM pragma_table_info('runs') WHERE name NOT IN ('id', 'session')").Scan(&columns)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Exec("WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < ?) "+
		"INSERT INTO runs (id, session, "+columns+") SELECT id || i, session || i, "+columns+" FROM runs, n", n)
	if err != nil {
		t.Fatal(err)
	}
}

// DU-04: 100 000 runs that wait take no memory, and a second of the start at most.
func TestAHundredThousandRunsWait(t *testing.T) {
	longtest.Only(t, "100 000 runs are stored")
	file := filepath.Join(t.TempDir(), "test.db")
	d, err := db.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r := store.Run{ID: "r", Agent: answerer, Session: "web:local#", Replica: "gone", Attempt: 1, State: store.RunRunning, Request: []byte("{}")}
	if _, err := d.Runs().Start(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Runs().Suspend(t.Context(), r.ID, "gone", 1, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	repeatRun(t, file, 100_000)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, began := heap(), time.Now()
	s, err := Open(bareOptions(Options{Store: d.Runs(), Files: noFiles{}, Models: new(adapter.Registry)}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	longtest.Within(t, "a start with 100 000 runs that wait", time.Since(began), time.Second)
	began = time.Now()
	if err := s.recoverLeft(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	longtest.Within(t, "a look for runs that are due", time.Since(began), 50*time.Millisecond)
	if after := heap(); after > before+400<<20 {
		t.Errorf("they take %d MB", (after-before)>>20)
	}
}

// DU-04: a message to a session whose run is suspended waits behind it; an erased session ends it.
func TestASessionWhoseRunIsSuspendedIsBusy(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 3)
		defer l.close()
		id := l.ask("s")
		time.Sleep(time.Minute)
		l.s = l.replicas[1].s
		req := &Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Input: mustJSON("hello"), OnBusy: "reject"}
		if _, _, err := l.begin(t.Context(), req); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		if row := l.row(id); row.State == StatusCompleted || row.Replica == "" {
			t.Errorf("%+v", row)
		}
		time.Sleep(time.Minute)
		if row := l.row(id); !suspended(&row) {
			t.Fatalf("%+v", row)
		}
		r, err := l.find(id, access.Local)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.s.Cancel(r); err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		if row := l.row(id); row.State != StatusCanceled {
			t.Errorf("%+v", row)
		}
	})
}

// RU-21: a message behind a turn that waits for a person stays behind it: neither does the turn give its place in the lane away, nor does the
// message begin meanwhile.
func TestAMessageBehindATurnThatWaitsStaysBehindIt(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		for _, policy := range []turn.Policy{turn.Queue, turn.Steer} {
			t.Run(fmt.Sprint(replicas, " ", policy), func(t *testing.T) {
				workspace := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					l := newLibrary(t, workspace, replicas)
					defer l.close()
					first := l.ask("s")
					time.Sleep(3 * time.Second)
					req := &Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Input: mustJSON("more"), OnBusy: string(policy)}
					if _, _, err := l.replicas[0].s.Start(t.Context(), req); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * SuspendAfter)
					l.s = l.replicas[0].s
					answer := agent.Answer{ID: l.question("s").ID, Approve: true}
					if err := l.s.AnswerSession(access.With(t.Context(), access.Local), (&origin{Session: "s"}).Lane(), answer); err != nil {
						t.Fatal(err)
					}
					for range 60 {
						time.Sleep(time.Second)
						for _, q := range l.s.o.Agents.Questions((&origin{Session: "s"}).Lane()) { // the message leads to another one
							answer := agent.Answer{Session: q.Session, ID: q.ID, Approve: true, Role: tool.Admin}
							if err := l.s.o.Agents.Answer(t.Context(), answer); err != nil {
								t.Fatal(err)
							}
						}
					}
					_, all := l.tape("s")
					if row := l.row(first); row.State != StatusCompleted || strings.Contains(all, "turn.aborted") {
						t.Errorf("the turn has ended as %s:\n%s", row.State, all)
					}
				})
			})
		}
	}
}
