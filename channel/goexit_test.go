package channel_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// CH-26, CH-30, CH-31, and section 18.8: what ends the goroutine of a turn ends the turn, and no step of its end is left out.
func TestACallbackThatEndsItsGoroutineFailsItsTurnAndFinalizeRuns(t *testing.T) {
	for _, hook := range []string{
		"ingest", "classify", "preflight", "resolve", "record", "afterRecord", "dispatch", "skip channel_local", "onFinalize", "finalize",
	} {
		t.Run(hook, func(t *testing.T) {
			s := newScene()
			if strings.HasPrefix(hook, "skip") {
				s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "x"}
			}
			s.do = func(name string) error {
				if name == hook {
					runtime.Goexit()
				}
				return nil
			}
			queued := 0
			m := s.meta()
			m.Queued = func() { queued++ }
			done := make(chan bool)
			go func() {
				defer close(done)
				_, _ = channel.Run(t.Context(), s.kernel, channel.Event[string]{Meta: m, Adapter: s})
				done <- true
			}()
			if <-done {
				t.Fatal("it has come back")
			}
			if len(s.acked) != 1 || queued != 1 {
				t.Errorf("acknowledged %d times, the next one let in %d times; expected once each", len(s.acked), queued)
			}
			finalized := 0
			for _, c := range s.calls {
				if c == "finalize" {
					finalized++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[hook == "ingest"]; finalized != want {
				t.Errorf("finalized %d times, expected %d: %q", finalized, want, s.calls)
			}
			want := map[string]string{
				"ingest": "", "classify": "", "skip channel_local": "commit blocked", "onFinalize": "commit visible", "finalize": "commit visible",
			}
			expected, special := want[hook]
			if !special {
				expected = "release"
			}
			if got := strings.Join(s.journal.states, ", "); got != expected {
				t.Errorf("the claim is %q, expected %q", got, expected)
			}
			if hook == "ingest" || hook == "finalize" || hook == "onFinalize" || strings.HasPrefix(hook, "skip") {
				return
			}
			if r := s.final[len(s.final)-1]; r.Outcome != channel.OutcomeFailed {
				t.Errorf("finalize is told %q, expected %q", r.Outcome, channel.OutcomeFailed)
			}
		})
	}
}

// exiter is a platform that ends the goroutine of whoever calls it.
type exiter struct {
	platform
	at string
}

func (e *exiter) exit(method string) {
	if method == e.at {
		e.at = ""
		runtime.Goexit()
	}
}

func (e *exiter) Prepare(_ context.Context, b channel.Block) (channel.Block, error) {
	e.exit("Prepare")
	return b, nil
}

func (e *exiter) Working(context.Context) error {
	e.exit("Working")
	return nil
}

func (e *exiter) Preview(context.Context, channel.Block, channel.Receipt) (channel.Receipt, error) {
	e.exit("Preview")
	return channel.Receipt{MessageIDs: []string{"p"}}, nil
}

func (*exiter) Abandon(context.Context, channel.Receipt, error) error { return nil }

func (e *exiter) Delivered(context.Context, channel.Block, channel.Receipt) error {
	e.exit("Delivered")
	return nil
}

func (*exiter) Failed(context.Context, channel.Block, error) error { return nil }

func (e *exiter) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	e.exit("Deliver")
	return e.platform.Deliver(ctx, b)
}

// CH-53, CH-26: the same for what sends.
func TestADeliveryThatEndsItsGoroutineDoesNotStopTheBlocksBehindIt(t *testing.T) {
	for at, want := range map[string]struct {
		said    int
		outcome channel.Outcome
		fails   bool
	}{
		"Prepare":   {1, channel.OutcomePartial, true},
		"Deliver":   {1, channel.OutcomePartial, true},
		"Delivered": {2, channel.OutcomeVisible, false},
		"Working":   {2, channel.OutcomeVisible, false},
		"Preview":   {2, channel.OutcomeVisible, false},
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &exiter{at: at}
				k := &channel.Kernel{Agent: agent(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					turn.Queued()
					turn.Sink.Preview(channel.Payload{Text: "on"})
					time.Sleep(10 * time.Second)
					for _, text := range []string{"one", "two"} {
						if err := turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text}); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Second)
					}
					return channel.DispatchResult{}, nil
				})}
				r, err := k.RunAssembled(t.Context(), channel.Meta{Channel: "fake"}, &channel.Assembled{
					Common: channel.Common{Facts: facts("1", "hi")}, Delivery: e,
				})
				if (err != nil) != want.fails || r.Outcome != want.outcome || len(e.said()) != want.said {
					t.Errorf("got %q, %v, said %q", r.Outcome, err, e.said())
				}
			})
		})
	}
}

// CH-53: a send of somebody's own that nobody knows the end of is not made again.
func TestAnOwnSendThatEndsItsGoroutineIsUnknown(t *testing.T) {
	s := newScene()
	s.prepared = func(ctx context.Context, turn *channel.Turn, _ channel.Agent) (channel.DispatchResult, error) {
		_, err := turn.Sink.Do(ctx, channel.Block{}, func(context.Context) (channel.Receipt, error) {
			runtime.Goexit()
			return channel.Receipt{}, nil
		})
		return channel.DispatchResult{}, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.run(t.Context())
	}()
	<-done
	if !slices.Equal(s.journal.states, []string{"commit unknown"}) {
		t.Errorf("got %q", s.journal.states)
	}
}

// CH-05: and the door goes on with its other events.
func TestADoorOutlivesARunThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := map[string]int{}
		d := channel.NewDoor(&channel.Kernel{}, channel.DoorOptions{Channel: "fake", Running: 1, Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
			if ran[e.Key.ID]++; e.Key.ID == "1" && ran["1"] == 1 {
				runtime.Goexit()
			}
			return channel.Result{}, m.Claim.Commit(ctx, channel.OutcomeVisible)
		}})
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- d.Serve(ctx, nil) }()
		for _, id := range []string{"1", "2"} {
			if _, err := d.Accept(ctx, channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: "c", ID: id}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if ran["1"] != 2 || ran["2"] != 1 {
			t.Errorf("they ran %v times", ran)
		}
	})
}
