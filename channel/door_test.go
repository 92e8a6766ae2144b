package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

// arrival is an event of a conversation.
func arrival(conversation, id string) channel.Arrival {
	return channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: conversation, ID: id}, Raw: []byte(id)}
}

// behind is a door with turns that a test decides about.
type behind struct {
	t      *testing.T
	kernel *channel.Kernel
	door   *channel.Door
	stop   context.CancelFunc
	served chan error

	mu  sync.Mutex
	log []string
}

func (b *behind) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprintf(format, args...))
}

// expect waits until nothing moves, and compares what was noted since.
func (b *behind) expect(want ...string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.log, want) {
		b.t.Errorf("it came to %q, expected %q", b.log, want)
	}
	b.log = nil
}

func (b *behind) accept(events ...channel.Arrival) {
	b.t.Helper()
	if _, err := b.door.Accept(b.t.Context(), events...); err != nil {
		b.t.Fatal(err)
	}
}

// serve starts the door, with run for its turns.
func serve(t *testing.T, j channel.Journal, o channel.DoorOptions, run func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error) *behind {
	b := &behind{t: t, kernel: &channel.Kernel{Journal: j}, served: make(chan error, 1)}
	o.Channel = "fake"
	o.Run = func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
		return channel.Result{}, run(b, ctx, e, m)
	}
	b.door = channel.NewDoor(b.kernel, o)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() { b.served <- b.door.Serve(ctx, nil) }()
	t.Cleanup(b.close)
	synctest.Wait()
	return b
}

func (b *behind) close() {
	b.stop()
	if b.served != nil {
		if err := <-b.served; err != nil {
			b.t.Error(err)
		}
		b.served = nil
	}
}

func commit(ctx context.Context, m channel.Meta) error {
	return m.Claim.Commit(ctx, channel.OutcomeVisible)
}

func TestADoorStartsTheNextEventOfAConversationWhenTheOneBeforeIsQueued(t *testing.T) { // CH-05, CH-71
	synctest.Test(t, func(t *testing.T) {
		b := serve(t, nil, channel.DoorOptions{}, func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error {
			b.note("start %s", e.Raw)
			time.Sleep(time.Second)
			m.Queued()
			m.Queued()
			time.Sleep(time.Minute)
			b.note("end %s", e.Raw)
			return commit(ctx, m)
		})
		b.accept(arrival("c", "1"), arrival("c", "2"))
		b.accept(arrival("c", "1"), arrival("c", "3"))
		b.expect("start 1")
		time.Sleep(time.Second)
		b.expect("start 2")
		b.accept(arrival("d", "4"))
		b.expect("start 4")
		time.Sleep(time.Second)
		b.expect("start 3")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.mu.Lock()
		slices.Sort(b.log)
		b.mu.Unlock()
		b.expect("end 1", "end 2", "end 3", "end 4")
	})
}

func TestAReleasedEventRunsAgainAfterItsPauses(t *testing.T) { // CH-73
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for name, run := range map[string]func(context.Context, channel.Meta) error{
			"released":   func(ctx context.Context, m channel.Meta) error { return m.Claim.Release(ctx, errors.New("broken")) },
			"left alone": func(context.Context, channel.Meta) error { return nil },
			"panic":      func(context.Context, channel.Meta) error { panic("oh") },
		} {
			j := channel.NewJournal(nil)
			b := serve(t, j, channel.DoorOptions{}, func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error {
				b.note("%s %v %d", e.Raw, time.Since(began), e.Attempt)
				if string(e.Raw) == "good" {
					return commit(ctx, m)
				}
				return run(ctx, m)
			})
			began = time.Now()
			b.accept(arrival("c", "1"), arrival("c", "good"))
			time.Sleep(time.Hour)
			b.expect("1 0s 0", "good 0s 0", "1 1s 1", "1 6s 2", "1 36s 3")
			if state, _ := j.Peek(t.Context(), arrival("c", "1").Key); state != channel.ClaimSettled {
				t.Errorf("%s: the event is %q at the end", name, state)
			}
			b.close()
		}
	})
}

func TestWhatWasMergedRunsAgainWithTheTurnThatTookIt(t *testing.T) { // CH-73, CH-85
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var taken channel.Claim
		o := channel.DoorOptions{Channel: "fake"}
		runs := map[string]int{}
		o.Run = func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			mu.Lock()
			runs[string(e.Raw)]++
			first := runs[string(e.Raw)] == 1
			if string(e.Raw) == "2" && first {
				taken = m.Claim
				mu.Unlock()
				return channel.Result{Outcome: channel.OutcomeMerged}, nil
			}
			mu.Unlock()
			if !first {
				return channel.Result{}, commit(ctx, m)
			}
			m.Queued()
			time.Sleep(time.Second)
			err := errors.Join(m.Claim.Release(ctx, errors.New("broken")), taken.Release(ctx, errors.New("broken")))
			return channel.Result{}, err
		}
		d := channel.NewDoor(&channel.Kernel{}, o)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- d.Serve(ctx, nil) }()
		if _, err := d.Accept(t.Context(), arrival("c", "1"), arrival("c", "2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-served; err != nil || runs["1"] != 2 || runs["2"] != 2 {
			t.Errorf("the events ran %v times, %v, expected each twice", runs, err)
		}
	})
}

func TestADoorIsBounded(t *testing.T) { // CH-71
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		b := serve(t, nil, channel.DoorOptions{Running: 4, Waiting: 50}, func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return commit(ctx, m)
		})
		n := 0
		for ; ; n++ {
			if _, err := b.door.Accept(t.Context(), arrival(fmt.Sprint(n), fmt.Sprint(n))); errors.Is(err, channel.ErrJournalFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n != 50 || most != 4 {
			t.Errorf("%d were accepted and %d ran at a time, expected 50 and 4", n, most)
		}
		b.accept(arrival("c", "there is room again"))
		for range 40 { // all of one conversation, each in its lane
			b.accept(arrival("one", fmt.Sprint(rand.Uint64())))
		}
		time.Sleep(time.Minute)
	})
}

func TestADrainingDoorLetsTurnsEndThenCancelsThem(t *testing.T) { // CH-73, section 16
	synctest.Test(t, func(t *testing.T) {
		j := channel.NewJournal(nil)
		b := serve(t, j, channel.DoorOptions{Grace: 10 * time.Second}, func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error {
			length, _ := time.ParseDuration(string(e.Raw))
			select {
			case <-time.After(length):
				b.note("end %s", e.Raw)
				return commit(ctx, m)
			case <-ctx.Done():
				b.note("canceled %s: %v", e.Raw, context.Cause(ctx))
				return m.Claim.Release(context.WithoutCancel(ctx), context.Cause(ctx))
			}
		})
		b.accept(arrival("a", "5s"), arrival("b", "1h"), arrival("b", "1s"))
		synctest.Wait()
		began := time.Now()
		b.close()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the door closed after %v, expected 10 s", took)
		}
		if _, err := b.door.Accept(t.Context(), arrival("c", "9s")); !errors.Is(err, channel.ErrDraining) {
			t.Errorf("Accept of a closed door is %v", err)
		}
		b.expect("end 5s", "canceled 1h: turn: the server is shutting down")
		var left []string
		for e, err := range j.Pending(t.Context()) {
			left = append(left, fmt.Sprintf("%s %d %v", e.Raw, e.Attempt, err))
		}
		if want := []string{"1h 0 <nil>", "1s 0 <nil>"}; !slices.Equal(left, want) {
			t.Errorf("%q are left for the next start, expected %q", left, want)
		}
	})
}

// noted is a journal with a ledger.
type noted struct {
	*channel.MemoryJournal
	channel.Ledger
}

func TestAStartReplaysWhatWasLeftUnlessItWasAnswered(t *testing.T) { // CH-74
	synctest.Test(t, func(t *testing.T) {
		ledger := newLedger()
		j := noted{channel.NewJournal(nil), ledger}
		for i, id := range []string{"1", "sending", "sent", "partial", "not sent", "2"} {
			k := arrival(fmt.Sprint("c", i%2), id).Key
			if _, err := j.Accept(t.Context(), k, []byte(id)); err != nil {
				t.Fatal(err)
			}
			mark := func(states ...channel.ReceiptState) {
				if err := j.Sending(t.Context(), k.String()); err != nil {
					t.Fatal(err)
				}
				for _, s := range states {
					if err := j.Sent(t.Context(), k.String(), s); err != nil {
						t.Fatal(err)
					}
				}
			}
			switch id {
			case "sending":
				mark()
			case "sent":
				mark(channel.Sent)
			case "partial":
				mark(channel.Partial)
			case "not sent":
				mark(channel.NotSent)
			}
		}
		other := arrival("c", "of another channel").Key
		other.Channel = "other"
		if _, err := j.Accept(t.Context(), other, nil); err != nil {
			t.Fatal(err)
		}
		var told []string
		var b *behind
		o := channel.DoorOptions{
			Running: 1,
			Incomplete: func(ctx context.Context, e channel.JournalEntry) error {
				if state, _ := j.Peek(ctx, e.Key); state != channel.ClaimSettled {
					t.Errorf("the conversation of %s is told before the event is settled", e.Raw)
				}
				told = append(told, string(e.Raw))
				if len(told) == 1 {
					panic("oh")
				}
				return errors.New("blocked")
			},
		}
		run := func(b *behind, ctx context.Context, e channel.JournalEntry, m channel.Meta) error {
			b.note("%s", e.Raw)
			return commit(ctx, m)
		}
		b = serve(t, j, o, run)
		b.accept(arrival("c0", "new"))
		b.expect("1", "not sent", "2", "new")
		slices.Sort(told)
		if want := []string{"partial", "sending", "sent"}; !slices.Equal(told, want) {
			t.Errorf("told are the conversations of %q, expected %q", told, want)
		}
		b.close()
		b = serve(t, j, o, run)
		b.expect()
		if len(told) != 3 {
			t.Errorf("%q: a conversation is told twice", told)
		}
	})
}

func TestEventsThatComeBeforeTheReplayStandBehindIt(t *testing.T) { // CH-74
	synctest.Test(t, func(t *testing.T) {
		j := channel.NewJournal(nil)
		if _, err := j.Accept(t.Context(), arrival("c", "old").Key, []byte("old")); err != nil {
			t.Fatal(err)
		}
		var order []string
		d := channel.NewDoor(&channel.Kernel{Journal: j}, channel.DoorOptions{
			Channel: "fake",
			Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
				order = append(order, string(e.Raw))
				return channel.Result{}, commit(ctx, m)
			},
		})
		if _, err := d.Accept(t.Context(), arrival("c", "new")); err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("the platform is gone")
		err := d.Serve(t.Context(), func(context.Context) error {
			time.Sleep(time.Second)
			return stopped
		})
		if want := []string{"old", "new"}; !slices.Equal(order, want) || !errors.Is(err, stopped) {
			t.Errorf("the order was %q, expected %q; Serve is %v", order, want, err)
		}
		if err := d.Serve(t.Context(), nil); err == nil {
			t.Error("a door serves twice")
		}
	})
}

func TestADoorHoldsTheMemoryOfAnEventUntilItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, most := int64(0), int64(0)
		hold := func(n int64) (func(), bool) {
			held += n
			most = max(most, held)
			return func() { held -= n }, true
		}
		d := channel.NewDoor(&channel.Kernel{Hold: hold}, channel.DoorOptions{
			Channel: "fake",
			Run: func(ctx context.Context, _ channel.JournalEntry, m channel.Meta) (channel.Result, error) {
				return channel.Result{}, commit(ctx, m)
			},
		})
		for range 2 { // the second time it is known
			if _, err := d.Accept(t.Context(), arrival("c", "an event")); err != nil {
				t.Fatal(err)
			}
		}
		stopped := errors.New("the platform is gone")
		err := d.Serve(t.Context(), func(context.Context) error {
			synctest.Wait()
			return stopped
		})
		if !errors.Is(err, stopped) || held != 0 || most < int64(len("an event")) {
			t.Errorf("%d bytes are held of %d, %v", held, most, err)
		}
	})
}

// DO-04: a disk that cannot keep an event is reported, and so is its cause; other errors are not the disk's.
func TestDO_04_ADiskThatCannotKeepAnEventIsReported(t *testing.T) {
	for cause, want := range map[error]int{vfs.Explain(syscall.ENOSPC): 1, channel.ErrJournalFull: 0} {
		for _, events := range [][]channel.Arrival{{arrival("c", "1")}, {arrival("c", "1"), arrival("c", "2")}} {
			reported := 0
			var log bytes.Buffer
			d := channel.NewDoor(&channel.Kernel{Journal: refusing{channel.NewJournal(nil), cause}, DiskFailed: func() { reported++ }}, channel.DoorOptions{
				Channel: "fake", Log: slog.New(slog.NewTextHandler(&log, nil)),
				Run: func(context.Context, channel.JournalEntry, channel.Meta) (channel.Result, error) {
					return channel.Result{}, nil
				},
			})
			if _, err := d.Accept(t.Context(), events...); !errors.Is(err, cause) {
				t.Error(err)
			}
			if reported != want || strings.Contains(log.String(), "level=ERROR") != (want > 0) {
				t.Errorf("%v: it is reported %d times; the log says %s", cause, reported, &log)
			}
		}
	}
}

// refusing is a journal that keeps nothing.
type refusing struct {
	channel.Journal
	err error
}

func (j refusing) Accept(context.Context, channel.EventKey, []byte) (bool, error) {
	return false, j.err
}

func (j refusing) AcceptAll(context.Context, []channel.JournalEntry) ([]bool, error) {
	return nil, j.err
}
