package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/turn"
)

// RU-21, DU-02: the turn that runs and the messages that wait behind it survive the end of their replica, by a crash or in order, and are
// answered by another one in their order.
func TestMessagesThatWaitOutliveTheirReplica(t *testing.T) {
	for name, crash := range map[string]bool{"a crash": true, "a shutdown": false} {
		t.Run(name, func(t *testing.T) {
			workspace := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := &conversations{cluster: *newCluster(t, workspace)}
				defer c.close()
				first := c.replicas[0]
				c.s = first.s
				var runs []string
				for i, words := range []int{60, 1, 2} {
					r, _, err := c.begin(t.Context(), &Request{
						Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Key: fmt.Sprint("k", i), Input: mustJSON(fmt.Sprintf("<"+marked, i, words)),
					})
					if err != nil {
						t.Fatal(err)
					}
					runs = append(runs, r.ID)
					time.Sleep(time.Second)
				}
				if crash {
					first.node.silence(true, 0)
				}
				now, cancel := context.WithCancel(t.Context())
				cancel()
				if err := errors.Join(first.s.Drain(now), first.s.Close()); err != nil {
					t.Fatal(err)
				}
				first.end()
				c.net.change(func() { first.node.left = !crash })
				c.replicas = c.replicas[1:]
				c.s = c.replicas[0].s
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				for i, want := range []string{StatusCompleted, StatusCompleted, StatusCompleted} {
					r, err := c.find(runs[i], access.Local)
					if err != nil {
						t.Fatal(err)
					}
					if result, document, _ := r.Result(); result.Status != want {
						_, all := c.tape("s")
						t.Errorf("run %d is %s, expected %s: %s %+v\n%s", i, result.Status, want, document, result, all)
					}
				}
				list, all := c.tape("s")
				var order []string
				for _, e := range list {
					order = append(order, e.text)
				}
				if want := []string{"<0 60>", "<1 1>", "<2 2>"}; !slices.Equal(order, want) {
					t.Errorf("the tape has %q:\n%s", order, all)
				}
			})
		})
	}
}

// slowStore is a store that waits before it gives a run to a replica, and that says nothing of what runs have come to meanwhile.
type slowStore struct {
	Store
	run  string
	wait chan struct{}
}

func (s *slowStore) waiting() error {
	select {
	case <-s.wait:
		return nil
	default:
		return store.ErrAway
	}
}

func (s *slowStore) Append(ctx context.Context, replica string, list []store.RunBatch) ([]string, error) {
	if err := s.waiting(); err != nil {
		return nil, err
	}
	return s.Store.Append(ctx, replica, list)
}

func (s *slowStore) SetState(ctx context.Context, id, replica string, attempt int, state string, crashes int) error {
	if err := s.waiting(); err != nil {
		return err
	}
	return s.Store.SetState(ctx, id, replica, attempt, state, crashes)
}

func (s *slowStore) Take(ctx context.Context, t store.Takeover) error {
	if t.ID == s.run {
		<-s.wait
	}
	return s.Store.Take(ctx, t)
}

// DU-02: a replica comes back while another one takes its runs over. A message that it gets then does not begin before the turn that is taken
// over has ended.
func TestAMessageWaitsForATurnThatMovesAway(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 2)
		defer l.close()
		first, second := l.replicas[0], l.replicas[1]
		begun := l.ask("s")
		time.Sleep(time.Millisecond) // runs are taken over in their order
		slow := &slowStore{second.node.Store, l.ask("other"), make(chan struct{})}
		goOn := sync.OnceFunc(func() { close(slow.wait) })
		defer goOn()
		first.node.Store = &slowStore{Store: first.node.Store, wait: slow.wait}
		second.node.Store = slow // so that the turn is taken over, and does not go on yet
		time.Sleep(time.Second)
		first.node.silence(false, 7*time.Second)
		time.Sleep(7*time.Second + time.Millisecond)
		synctest.Wait()
		if row := l.row(begun); row.Replica != second.node.id {
			t.Fatalf("the turn is not taken over: %+v", row)
		}
		r, _, err := first.s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Input: mustJSON("more")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		goOn()
		for range 2 { // the turn asks a question, and the message behind it does
			time.Sleep(10 * time.Second)
			l.s = second.s
			answer := agent.Answer{ID: l.question("s").ID, Approve: true}
			if err := l.s.AnswerSession(access.With(t.Context(), access.Local), (&origin{Session: "s"}).Lane(), answer); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		for _, id := range []string{begun, r.ID} {
			r, err := l.find(id, access.Local)
			if err != nil {
				t.Fatal(err)
			}
			if result, document, _ := r.Result(); result.Status != StatusCompleted {
				_, all := l.tape("s")
				t.Errorf("%s is %s, expected completed: %s %+v\n%s", id, result.Status, document, result, all)
			}
		}
	})
}

// noEnds is a store that cannot store the end of a run.
type noEnds struct {
	Store
	run string
}

func (s *noEnds) End(ctx context.Context, e store.RunEnd) error {
	if e.ID == s.run {
		return store.ErrAway
	}
	return s.Store.End(ctx, e)
}

// DU-02, RU-71: a message that a turn has used is not answered again by a run of its own, however many replicas are lost meanwhile.
func TestAMessageThatATurnHasUsedIsNotUsedAgain(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 3)
		defer l.close()
		start := func(req *Request) *Run {
			req.Who, req.Subject, req.Session = access.Local, Subject{Agent: answerer}, "s"
			r, _, err := l.replicas[0].s.Start(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		host := start(&Request{Input: mustJSON("begin")})
		time.Sleep(100 * time.Millisecond)
		start(&Request{Input: mustJSON("more"), OnBusy: string(turn.Steer)})
		time.Sleep(5 * time.Second) // the next step has begun
		list, _, err := l.net.db.Runs().List(t.Context(), store.RunQuery{States: []string{store.RunQueued}, Limit: 10})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		own := list[0]
		for _, r := range l.replicas { // the message is not forgotten before the second replica is lost, too
			r.node.Store = &noEnds{r.node.Store, own.ID}
		}
		for range 2 {
			i := slices.IndexFunc(l.replicas, func(r *modelReplica) bool { return r.node.id == l.row(own.ID).Replica })
			l.end(l.replicas[i])
			l.replicas = slices.Delete(l.replicas, i, i+1)
			time.Sleep(10 * time.Second)
		}
		if row := l.row(own.ID); row.Attempt != 3 {
			t.Fatalf("the message was not taken over twice: %+v", row)
		}
		time.Sleep(3 * time.Minute)
		l.s = l.replicas[0].s
		if r, err := l.find(host.ID, access.Local); err != nil || !r.Ended() {
			t.Errorf("the turn has not ended: %v", err)
		}
		if _, all := l.tape("s"); strings.Count(all, `"content":"more"`) != 1 {
			t.Errorf("the tape:\n%s", all)
		}
	})
}
