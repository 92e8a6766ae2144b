package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
)

func TestEventsOfManyLivesAreEachAnsweredOnce(t *testing.T) { // CH-192
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]int{}
		var mu sync.Mutex
		for n := range 20 {
			j := open(t, vfs.At(dir), inbox.Options{})
			dead := false
			d := channel.NewDoor(&channel.Kernel{Journal: j}, channel.DoorOptions{
				Channel: "fake", Running: 4,
				Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					if dead {
						return channel.Result{}, errors.New("dead")
					}
					seen[string(e.Raw)]++
					return channel.Result{}, m.Claim.Commit(ctx, channel.OutcomeVisible)
				},
			})
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error)
			go func() { served <- d.Serve(ctx, nil) }()
			for i := range 10 {
				id := fmt.Sprint(n, "-", i)
				if _, err := d.Accept(ctx, channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: fmt.Sprint(i), ID: id}, Raw: []byte(id)}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(1500 * time.Millisecond)
			mu.Lock()
			dead = n < 19
			mu.Unlock()
			if n == 19 {
				time.Sleep(time.Hour)
			} else {
				j.Abandon()
			}
			stop()
			<-served
		}
		var wrong []string
		for id, n := range seen {
			if n != 1 {
				wrong = append(wrong, id)
			}
		}
		slices.Sort(wrong)
		if len(seen) != 200 || wrong != nil {
			t.Errorf("%d of 200 events were answered, and %q more than once", len(seen), wrong)
		}
	})
}
