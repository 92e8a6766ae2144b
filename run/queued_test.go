package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
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
