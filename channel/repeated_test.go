package channel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// DC-03: a turn knows that one of the same event may have begun before: it was released, or an earlier process had the event.
func TestATurnKnowsThatItsEventHasRunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &channel.Kernel{Agent: says("hi"), Journal: channel.NewJournal(nil)}
		left := channel.EventKey{Channel: "fake", Conversation: "1", ID: "left"}
		if _, err := k.Journal.Accept(t.Context(), left, nil); err != nil {
			t.Fatal(err)
		}
		repeated := map[string][]bool{}
		door := channel.NewDoor(k, channel.DoorOptions{Channel: "fake", Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			list := append(repeated[e.Key.ID], m.Repeated)
			repeated[e.Key.ID] = list
			if e.Key.ID == "new" && len(list) < 3 {
				return channel.Result{}, m.Claim.Release(ctx, errTest)
			}
			return channel.Result{}, m.Claim.Commit(ctx, channel.OutcomeVisible)
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- door.Serve(ctx, nil) }()
		synctest.Wait()
		if _, err := door.Accept(t.Context(), channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: "1", ID: "new"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(repeated["left"], []bool{true}) || !slices.Equal(repeated["new"], []bool{false, true, true}) {
			t.Errorf("got %v", repeated)
		}
	})
}
