package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
)

// CH-73, CH-192, section 18.1: what ends the process whenever it runs would otherwise be replayed at every start.
func TestAnEventInWhichTheProcessDiesFourTimesIsGivenUpAndTold(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		poison := channel.EventKey{Channel: "fake", Conversation: "c", ID: "poison"}
		good := channel.EventKey{Channel: "fake", Conversation: "other", ID: "good"}
		starts, notices, answered := 0, 0, 0
		var log bytes.Buffer
		for process := range 7 {
			j := open(t, vfs.At(dir), inbox.Options{})
			ctx, stop := context.WithCancel(t.Context())
			d := channel.NewDoor(&channel.Kernel{Journal: j}, channel.DoorOptions{
				Channel: "fake", Grace: time.Millisecond, Log: slog.New(slog.NewJSONHandler(&log, nil)),
				Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
					if e.Key.ID == "good" {
						answered++
						return channel.Result{}, m.Claim.Commit(ctx, channel.OutcomeVisible)
					}
					time.Sleep(time.Second) // the other one is answered
					starts++
					j.Abandon() // the process ends here
					stop()
					return channel.Result{}, errors.New("dead")
				},
				Incomplete: func(_ context.Context, e channel.JournalEntry) error {
					notices++
					if e.Key != poison {
						t.Errorf("%s is told of", e.Key)
					}
					return nil
				},
			})
			if process == 0 {
				for _, k := range []channel.EventKey{good, poison} {
					if _, err := d.Accept(ctx, channel.Arrival{Key: k, Raw: []byte("hi")}); err != nil {
						t.Fatal(err)
					}
				}
			}
			served := make(chan error)
			go func() { served <- d.Serve(ctx, nil) }()
			time.Sleep(time.Minute)
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if process >= 3 && starts != 4 {
				t.Fatalf("process %d: the event ran %d times, expected 4", process, starts)
			}
			if process > 3 {
				if state, err := j.Peek(t.Context(), poison); err != nil || state != channel.ClaimSettled {
					t.Errorf("the event is %q, %v, expected %q", state, err, channel.ClaimSettled)
				}
			}
			_ = j.Close()
		}
		if notices != 1 || answered != 1 {
			t.Errorf("%d notices and %d answers to another event, expected one of each", notices, answered)
		}
		if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 || !strings.Contains(log.String(), `"message":"poison"`) {
			t.Errorf("%d errors are logged, expected one that names the event:\n%s", n, log.String())
		}
	})
}

// A server that is stopped while a turn runs is no fault of the event's.
func TestAJournalThatIsClosedAsItShouldCostsNoAttempt(t *testing.T) { // CH-73
	dir := t.TempDir()
	for range 6 {
		j := open(t, vfs.At(dir), inbox.Options{})
		if state, err := j.Peek(t.Context(), key(1)); err != nil || state == channel.ClaimNone {
			accept(t, j, key(1), "hi")
		}
		if c, _, err := j.Claim(t.Context(), key(1)); err != nil || c == nil {
			t.Fatalf("got %v, %v", c, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j := open(t, vfs.At(dir), inbox.Options{})
	for e, err := range j.Pending(t.Context()) {
		if err != nil || e.Attempt != 0 {
			t.Errorf("attempt %d, %v; expected none", e.Attempt, err)
		}
	}
}
