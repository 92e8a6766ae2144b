package channel_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// CH-84, CH-85, CH-05, and the row "merged" of the finalize matrix.
func TestTheClaimsOfABurstSettleWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &channel.Kernel{Agent: says("nice")}
		var wg sync.WaitGroup
		type event struct {
			*scene
			claim  accepted
			result channel.Result
			err    error
		}
		events := make([]*event, 3)
		for i := range events {
			e := &event{scene: newScene()}
			events[i] = e
			id := string(rune('1' + i))
			e.in = &channel.Input{ID: id, ConversationID: "42", SenderID: "42", GroupID: "album", HasMedia: true}
			e.facts.MessageID = id
			m := e.meta()
			m.Claim = &e.claim
			queued := make(chan struct{})
			m.Queued = func() { close(queued) }
			wg.Go(func() {
				e.result, e.err = channel.Run(t.Context(), k, channel.Event[string]{Meta: m, Adapter: e.scene})
			})
			<-queued // the next one comes when this one waits
		}
		wg.Wait()
		leader := events[0]
		if leader.err != nil || leader.result.Outcome != channel.OutcomeVisible {
			t.Fatalf("got %+v, %v", leader.result, leader.err)
		}
		for i, e := range events[1:] {
			if e.err != nil || e.result.Outcome != channel.OutcomeMerged || e.result.MergedInto != leader.result.TurnID || e.result.Admission.Reason != channel.ReasonMerged {
				t.Errorf("%d: got %+v, %v", i, e.result, e.err)
			}
			if !slices.Contains(e.calls, "finalize") || slices.Contains(e.calls, "preflight") {
				t.Errorf("%d: got the calls %q", i, e.calls)
			}
		}
		for i, e := range events {
			if diff := cmp.Diff([]string{"commit visible"}, e.claim.states); diff != "" {
				t.Errorf("%d: %s", i, diff)
			}
			if len(e.acked) != 1 {
				t.Errorf("%d: acknowledged %d times", i, len(e.acked))
			}
		}
		if diff := cmp.Diff([]string{"nice"}, leader.platform.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// CH-28, CH-93
func TestAMediaLoaderThatHangsHasFifteenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		s.group(false)
		s.facts.Access.Group.RequireMention = true
		s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
		s.pre.History.LoadMedia = func(ctx context.Context) ([]channel.MediaFact, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		r, err := s.run(t.Context())
		if err != nil || r.Outcome != channel.OutcomeBlocked || time.Since(began) != 15*time.Second {
			t.Errorf("got %+v, %v after %v", r.Outcome, err, time.Since(began))
		}
		if !slices.Contains(s.phases(), "finalize:warning") || s.journal.states[0] != "commit blocked" {
			t.Errorf("got %q, %q", s.phases(), s.journal.states)
		}
		kept := s.kernel.Window.Snapshot(t.Context(), channel.WindowKey{Channel: "fake", Conversation: "42"}, 0).Entries
		if len(kept) != 1 || kept[0].Body != "hi" {
			t.Errorf("got %+v, expected the text alone", kept)
		}
	})
}

// CH-80
func TestWhatIsBeingSentIsNotTakenForAMessage(t *testing.T) {
	s := newScene()
	s.facts.Access.AllowBots = channel.BotsAll
	var echoed channel.Result
	echo := newScene()
	echo.kernel, echo.facts = s.kernel, s.facts
	echo.facts.Sender, echo.facts.MessageID, echo.facts.Message.RawBody = channel.SenderFacts{ID: "99", IsBot: true}, "2", "hello"
	echo.in = &channel.Input{ID: "2", ConversationID: "42", SenderID: "99"}
	sends := &sending{platform: &s.platform, during: func() { echoed, _ = echo.run(t.Context()) }}
	if _, err := s.kernel.RunAssembled(t.Context(), s.meta(), &channel.Assembled{Common: s.common(), Delivery: sends}); err != nil {
		t.Fatal(err)
	}
	if echoed.Admission.Reason != channel.ReasonSelfEcho || echoed.Verdicts[0].State != channel.Blocked {
		t.Errorf("got %+v", echoed.Admission)
	}
	// And by the id that it was given.
	echo.in = &channel.Input{ID: s.platform.ids[0], ConversationID: "42", SenderID: "42"}
	if r, err := echo.run(t.Context()); err != nil || r.Admission.Reason != channel.ReasonSelfEcho || r.Stage != channel.StagePreflight {
		t.Errorf("got %+v, %v", r.Admission, err)
	}
}

// sending is a platform on which something happens while it sends.
type sending struct {
	*platform
	during func()
}

func (s *sending) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	s.during()
	return s.platform.Deliver(ctx, b)
}
