package run

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// RU-04, RU-05, RU-13: while the database is away, what runs goes on and is shown, with a warning, but for its end; after a minute its readers
// are broken off. When the database is back, the end is stored.
func TestARunGoesOnWhileTheDatabaseIsAway(t *testing.T) {
	for name, outage := range map[string]time.Duration{"for a moment": 30 * time.Second, "for long": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write := make(chan string)
				w := flow.Func(again, "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
					for text := range write {
						if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(text)}); err != nil {
							return err
						}
					}
					return nil
				})
				d := openDB(t)
				s, node := startOn(t, d, w, nil)
				r := startRun(t, s, 0)
				reader := r.Events()
				var document, names string
				look := func() {
					synctest.Wait()
					for e := range reader.Waiting() {
						if names += e.Name + " "; e.Kind == tube.Append {
							document += string(e.Value)
						}
					}
				}
				write <- "one "
				time.Sleep(2 * RecordEvery)
				node.net.change(func() { node.net.away = true })
				write <- "two"
				time.Sleep(2 * RecordEvery)
				if look(); document != "one two" {
					t.Errorf("while the database is away, %q is shown", document)
				}
				close(write)
				time.Sleep(outage)
				if look(); names != "started   warning " || r.Ended() {
					t.Errorf("while the database is away, the reader gets %q", names)
				}
				if long := outage > time.Minute; r.Moved() != long {
					t.Errorf("the reader is broken off: %v", r.Moved())
				}
				if _, err := d.Runs().Find(t.Context(), r.ID); err != nil {
					t.Error(err)
				}
				node.net.change(func() { node.net.away = false })
				time.Sleep(5 * time.Second)
				if outage < time.Minute {
					if look(); names != "started   warning finished " {
						t.Errorf("when the database is back, the reader has %q", names)
					}
				}
				row, err := d.Runs().Find(t.Context(), r.ID)
				if err != nil || row.State != StatusCompleted {
					t.Errorf("%+v, %v", row, err)
				}
				if result, document, _ := findRun(t, s, r.ID).Result(); result.Status != StatusCompleted || string(document) != `{"a":"one two"}` {
					t.Errorf("%s %s", result.Status, document)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// CL-10: a run whose start is still being stored when its server has to go is handed over as well.
func TestARunThatIsBeingStoredIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := resumable{flow.Func(again, "", nil, func(ctx context.Context, _ *ling.Manager, _ map[string]any) error {
			<-ctx.Done()
			return ctx.Err()
		})}
		d := openDB(t)
		s, node := startOn(t, d, w, nil)
		start := func() {
			if _, _, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: again}}); err != nil {
				t.Error(err)
			}
		}
		start()
		node.slow = 2 * time.Second
		var started sync.WaitGroup
		started.Go(start)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := errors.Join(s.Drain(ctx), s.Close()); err != nil {
			t.Error(err)
		}
		started.Wait()
		list, _, err := d.Runs().List(t.Context(), store.RunQuery{})
		if err != nil || len(list) != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		for _, r := range list {
			if r.State != store.RunRunning || r.Replica != "" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// RU-02, RU-03: a start that cannot be stored is refused, and has done nothing.
func TestAStartThatCannotBeStoredIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := 0
		w := flow.Func(again, "", nil, func(context.Context, *ling.Manager, map[string]any) error { began++; return nil })
		s, node := startOn(t, openDB(t), w, nil)
		node.net.change(func() { node.net.away = true })
		for _, key := range []string{"", "k"} {
			_, _, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: again}, Key: key})
			if code := codeOf(err); code != codeOverloaded || began != 0 || s.Load().Running != 0 {
				t.Errorf("%v: %v, %d runs began, %d go on", key, err, began, s.Load().Running)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// RU-02: a run whose start was stored though the answer was lost does not go on for ever: its replica ends it.
func TestARunWhoseStartHadNoAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "")
		defer c.close()
		r := c.replicas[0]
		c.s = r.s
		c.net.change(func() { r.node.lose = true })
		_, _, err := c.begin(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: work}, Input: []byte(`{"steps":1}`)})
		if codeOf(err) != codeOverloaded || len(c.worked()) != 0 {
			t.Errorf("%v, %v", err, c.worked())
		}
		time.Sleep(3 * time.Minute)
		list, _, err := c.net.db.Runs().List(t.Context(), store.RunQuery{})
		if err != nil || len(list) != 1 || list[0].State != StatusInterrupted {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
