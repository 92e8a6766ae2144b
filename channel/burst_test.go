package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// debounced is a policy that waits for 2 s.
func debounced(PolicyQuery) Policy { return Policy{Debounce: 2 * time.Second} }

// typed is a text of a sender.
func typed(sender, text string) *Input {
	return &Input{ID: text, SenderID: sender, ConversationID: "c", RawText: text}
}

// streams runs events through a gatherer and notes what comes out, in order.
type streams struct {
	t      *testing.T
	g      *gatherer
	policy func(PolicyQuery) Policy
	wg     sync.WaitGroup

	mu  sync.Mutex
	out []string
	n   int
}

// send sends an event and waits until it has come out, or waits.
func (s *streams) send(in *Input) {
	s.mu.Lock()
	s.n++
	turn := fmt.Sprint("t", s.n)
	s.mu.Unlock()
	s.wg.Go(func() {
		b, err := s.g.join(s.t.Context(), burstEvent{
			turn: turn, channel: "fake", in: in, class: message, policy: s.policy, claim: &memoryClaim{event: &memoryEvent{key: EventKey{ID: in.ID}}},
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.t.Error(err)
		}
		if b.into != "" {
			s.out = append(s.out, turn+">"+b.into)
			return
		}
		var claims []string
		for _, c := range b.claims {
			claims = append(claims, c.(*memoryClaim).event.key.ID)
		}
		s.out = append(s.out, strings.TrimSpace(turn+": "+strings.ReplaceAll(b.in.text(), "\n", "|")+" "+strings.Join(claims, ",")))
		if b.placed != nil {
			b.placed()
		}
	})
	synctest.Wait()
}

func (s *streams) expect(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.out); diff != "" {
		s.t.Errorf("what came out (-want +got):\n%s", diff)
	}
	s.out = nil
}

func inStreams(t *testing.T, policy func(PolicyQuery) Policy, run func(s *streams)) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, g: newBursts(), policy: policy}
		run(s)
		s.wg.Wait()
		if len(s.g.places) != 0 {
			t.Errorf("%d bursts are left", len(s.g.places))
		}
	})
}

func TestWhatOneSenderWritesInABurstIsOneTurn(t *testing.T) { // CH-84, CH-85
	inStreams(t, debounced, func(s *streams) {
		s.send(typed("p", "a"))
		time.Sleep(2*time.Second - 1)
		s.send(typed("p", "b"))
		s.expect("t2>t1")
		time.Sleep(2*time.Second - 1)
		s.expect()
		time.Sleep(time.Nanosecond)
		s.expect("t1: a|b b")
		s.send(typed("p", "c"))
		time.Sleep(2 * time.Second)
		s.expect("t3: c")
	})
}

func TestABurstEndsAfterFiveWindows(t *testing.T) { // CH-84
	inStreams(t, debounced, func(s *streams) {
		for i := range 10 {
			s.send(typed("p", fmt.Sprint(i)))
			time.Sleep(1100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		s.expect("t2>t1", "t3>t1", "t4>t1", "t5>t1", "t6>t1", "t7>t1", "t8>t1", "t9>t1", "t10>t1", "t1: 0|1|2|3|4|5|6|7|8|9 1,2,3,4,5,6,7,8,9")
	})
}

func TestWhatCannotJoinEndsTheBurstAndFollowsIt(t *testing.T) { // CH-84
	media, empty := typed("p", "picture"), typed("p", " ")
	media.HasMedia = true
	for name, test := range map[string]struct {
		in   *Input
		out  string
		wait time.Duration
	}{
		"another sender":    {typed("q", "x"), "t3: x", 2 * time.Second},
		"a medium":          {media, "t3: picture", 0},
		"a command":         {typed("p", ",help"), "t3: ,help", 0},
		"an empty text":     {empty, "t3:", 0},
		"an unknown sender": {typed("", "x"), "t3: x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inStreams(t, debounced, func(s *streams) {
				s.send(typed("p", "a"))
				s.send(typed("p", "b"))
				s.send(test.in)
				if test.wait > 0 {
					s.expect("t2>t1", "t1: a|b b")
					time.Sleep(test.wait)
					s.expect(test.out)
				} else {
					s.expect("t2>t1", "t1: a|b b", test.out)
				}
			})
		})
	}
}

func TestPartsOfAnAlbumAreMergedWithoutDebounce(t *testing.T) { // CH-84
	inStreams(t, nil, func(s *streams) {
		part := func(group, text string) *Input {
			in := typed("p", text)
			in.GroupID, in.HasMedia = group, true
			return in
		}
		s.send(part("g", "1"))
		s.send(part("g", "2"))
		time.Sleep(900 * time.Millisecond)
		s.send(part("g", ""))
		s.send(part("h", "3"))
		s.expect("t2>t1", "t3>t1", "t1: 1|2 2,")
		s.send(typed("p", "text")) // nothing waits for it
		s.expect("t4: 3", "t5: text")
		s.send(typed("p", "alone"))
		s.expect("t6: alone")
	})
}

func TestALeaderThatIsCanceledGivesBackWhatItTook(t *testing.T) { // CH-85
	synctest.Test(t, func(t *testing.T) {
		g := newBursts()
		ctx, cancel := context.WithCancelCause(t.Context())
		type result struct {
			burst
			error
		}
		lead := make(chan result)
		go func() {
			b, err := g.join(ctx, burstEvent{turn: "1", in: typed("p", "a"), class: message, policy: debounced})
			lead <- result{b, err}
		}()
		synctest.Wait()
		other, err := g.join(t.Context(), burstEvent{turn: "2", in: typed("p", "b"), class: message, policy: debounced, claim: &memoryClaim{}})
		if err != nil || other.into != "1" {
			t.Fatalf("the second gets %+v, %v", other, err)
		}
		cancel(ErrDraining)
		r := <-lead
		if !errors.Is(r.error, ErrDraining) || len(r.claims) != 1 || r.placed == nil {
			t.Errorf("the leader gets %+v, %v", r.burst, r.error)
		}
		r.placed()
	})
}

func TestMergingKeepsEveryTextIDAndMediumInOrder(t *testing.T) { // CH-85
	parts := []*Input{
		{ID: "1", RawText: "@bot one", TextForAgent: "one", Timestamp: time.Unix(1, 0)},
		{ID: "2", RawText: "two", HasMedia: true},
		{ID: "3", RawText: "", Timestamp: time.Unix(3, 0)},
	}
	m := MergeInputs(parts)
	want := &Input{
		ID: "3", RawText: "@bot one\ntwo", TextForAgent: "one\ntwo", TextForCommands: "@bot one\ntwo",
		HasMedia: true, Timestamp: time.Unix(3, 0), Parts: parts,
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if MergeInputs(nil) != nil {
		t.Error("nothing is merged to something")
	}
	mentions := MergeMentions(
		MentionFacts{CanDetect: true, Implicit: []MentionKind{ReplyToBot}},
		MentionFacts{WasMentioned: true, Implicit: []MentionKind{ReplyToBot, Native}, AllowedImplicit: []MentionKind{Native}},
		MentionFacts{HasAnyMention: true},
	)
	if diff := cmp.Diff(MentionFacts{true, true, true, []MentionKind{ReplyToBot, Native}, []MentionKind{Native}}, mentions); diff != "" {
		t.Error(diff)
	}
}
