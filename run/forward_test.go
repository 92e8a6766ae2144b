package run

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/turn"
)

// RU-04: the replica that a message was forwarded to is its place, although another replica has the session by now: the turn waits there for
// the lease.
func TestRU_04_AForwardedMessageIsNotPassedOn(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, workspace)
		defer c.close()
		say := func(text string) *Request {
			return &Request{
				Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", OnBusy: string(turn.Queue), Input: mustJSON(text),
			}
		}
		holder, asked := c.replicas[0], c.replicas[1]
		first, _, err := holder.s.Start(t.Context(), say("<1 10>"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id := NewID()
		report, err := asked.s.execute(t.Context(), &command{
			name: CommandStart, session: web.SessionKey("", "s"), Ask: say("<2 1>"), ID: id, Who: access.Local,
		})
		if err != nil || report.Run != id || report.failure() != nil {
			t.Fatalf("%+v, %v", report, err)
		}
		r := asked.s.own(id)
		if r == nil || asked.log.asked > 0 || holder.s.own(id) != nil {
			t.Fatalf("it asked %d times; its run here is %v", asked.log.asked, r)
		}
		if err := r.Wait(t.Context()); err != nil || r.result.Status != StatusCompleted || !first.Ended() {
			t.Errorf("%v, %+v", err, r.result)
		}
	})
}

// RU-50: whether a replica is asked to adopt a run, is asked falsely, or is not asked at all: the log decides who does.
func TestRU_50_TheLogDecidesWhoAdoptsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "")
		defer c.close()
		first := c.replicas[0]
		start := func() string {
			r, _, err := first.s.Start(t.Context(), &Request{
				Who: access.Local, Subject: Subject{Workflow: again}, Input: []byte(`{"steps":5}`),
			})
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		asked, notAsked := start(), start()
		synctest.Wait()
		adopt := func(id string) (n int) {
			var wg sync.WaitGroup
			var got [2]report
			for i, r := range c.replicas[1:] {
				wg.Go(func() {
					var err error
					if got[i], err = r.s.execute(t.Context(), &command{name: CommandAdopt, run: id, from: first.log.replica}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, r := range got {
				if !r.NotHere {
					n++
				}
			}
			return n
		}
		if n := adopt(asked); n != 0 || first.s.own(asked) == nil {
			t.Errorf("%d replicas adopted a run that works at its place", n)
		}
		first.log.die()
		c.memory.change(func() { delete(c.memory.there, first.log.replica) })
		first.s.stopWork(context.Canceled)
		if n := adopt(asked); n != 1 {
			t.Errorf("%d replicas adopted a run that they were asked to", n)
		}
		time.Sleep(lookForLeft + time.Minute)
		for _, id := range []string{asked, notAsked} {
			for _, r := range c.replicas[1:] {
				got, err := r.s.Find(t.Context(), access.Local, id)
				if err != nil {
					t.Fatal(err)
				}
				if err := got.Wait(t.Context()); err != nil || got.result.Status != StatusCompleted || c.worked()[id] != 2 {
					t.Errorf("%v, %+v; its work began %d times", err, got.result, c.worked()[id])
				}
			}
		}
	})
}
