package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tube"
)

// startOn starts a server on a database, with one workflow.
func startOn(t *testing.T, d *db.DB, w flow.Workflow, edit func(*Options)) (*Service, *node) {
	t.Helper()
	alive := (&network{db: d, nodes: map[string]*node{}, changed: make(chan struct{})}).join()
	o := Options{Workflows: new(flow.Registry), Models: new(adapter.Registry), Files: noFiles{}, Store: alive}
	if w != nil {
		o.Workflows.Register(w)
	}
	if edit != nil {
		edit(&o)
	}
	s, err := Open(bareOptions(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return s, alive
}

// crashServer ends a server as a crash does, a moment after it has stored what it had.
func crashServer(t *testing.T, s *Service, alive *node) {
	t.Helper()
	time.Sleep(2 * RecordEvery)
	alive.silence(true, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// startRun starts a run of the workflow again.
func startRun(t *testing.T, s *Service, n int) *Run {
	t.Helper()
	input := json.RawMessage(fmt.Sprintf(`{"n":"%02d"}`, n))
	r, _, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: again}, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func findRun(t *testing.T, s *Service, id string) *Run {
	t.Helper()
	r, err := s.Find(t.Context(), access.Local, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// DU-05, RU-12: runs that a crash has cut off go on in the order in which they began, a few at a time, and each ends that has crashed
// MaxCrashes servers in a row. A run that waits to go on can be canceled, and a crash while it waits does not count.
func TestRunsGoOnInOrderAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 2*RestartsAtOnce + 3
		begun, goOn := make(chan string, all), make(chan struct{})
		w := resumable{flow.Func(again, "", nil, func(ctx context.Context, _ *ling.Manager, input map[string]any) error {
			begun <- fmt.Sprint(input["n"])
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})}
		check := func(first, count int) {
			t.Helper()
			synctest.Wait()
			var want, got []string
			for i := range count {
				want = append(want, fmt.Sprintf("%02d", first+i))
			}
			for len(begun) > 0 {
				got = append(got, <-begun)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-expected to begin +begun):\n%s", diff)
			}
		}
		d := openDB(t)
		s, alive := startOn(t, d, w, nil)
		var ids []string
		for i := range all {
			ids = append(ids, startRun(t, s, i).ID)
			time.Sleep(time.Millisecond)
		}
		check(0, all)
		for attempt := range MaxCrashes {
			crashServer(t, s, alive)
			s, alive = startOn(t, d, w, nil)
			if attempt < MaxCrashes-1 {
				check(0, RestartsAtOnce)
			}
		}
		check(RestartsAtOnce, RestartsAtOnce)
		for i, id := range ids {
			want := StatusRunning
			if i < RestartsAtOnce {
				want = StatusFailed
			}
			result, _, _ := findRun(t, s, id).Result()
			if cause, _ := result.Cause(); result.Status != want || want == StatusFailed && cause.Code != codeCrashed {
				t.Errorf("run %d is %+v, expected %s", i, result, want)
			}
		}
		waiting := findRun(t, s, ids[all-2])
		if err := s.Cancel(waiting); err != nil {
			t.Fatal(err)
		}
		goOn <- struct{}{}
		check(all-3, 1)
		goOn <- struct{}{}
		check(all-1, 1)
		close(goOn)
		<-findRun(t, s, ids[all-1]).Done()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// DU-01: a run that cannot go on, or whose client cannot come back, ends as interrupted, with what it has made.
func TestRunThatCannotGoOnIsInterrupted(t *testing.T) {
	begun := 0
	work := func(ctx context.Context, m *ling.Manager, _ map[string]any) error {
		begun++
		if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte("made")}); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, next := range map[string]struct {
		workflow flow.Workflow
		attached bool
	}{
		"the workflow is gone":           {},
		"its client cannot come back":    {resumable{flow.Func(again, "", nil, work)}, true},
		"the workflow no longer says so": {workflow: flow.Func(again, "", nil, work)},
		"its input does not fit": {
			workflow: resumable{flow.Func(again, "", json.RawMessage(`{"type":"object","required":["z"],"properties":{"z":{"type":"string"}}}`), work)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun = 0
				d := openDB(t)
				s, alive := startOn(t, d, resumable{flow.Func(again, "", nil, work)}, nil)
				r, _, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: again}, Input: []byte(`{"n":"0"}`), Attached: next.attached})
				if err != nil {
					t.Fatal(err)
				}
				id := r.ID
				crashServer(t, s, alive)
				s, _ = startOn(t, d, next.workflow, nil)
				synctest.Wait()
				result, document, _ := findRun(t, s, id).Result()
				if result.Status != StatusInterrupted || len(result.Errors) != 1 || string(document) != `{"a":"made"}` || begun != 1 {
					t.Errorf("%+v %s, begun %d times", result, document, begun)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
