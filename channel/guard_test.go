package channel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestAnEchoIsKnownByItsIDForTenMinutes(t *testing.T) { // CH-80
	synctest.Test(t, func(t *testing.T) {
		g := newEcho()
		g.sent("fake", "a", "c", "1", "", "2")
		for _, id := range []string{"1", "2"} {
			if !g.byID("fake", "a", "c", id) {
				t.Errorf("the message %s, which was sent, is not known", id)
			}
		}
		for _, other := range [][4]string{{"fake", "a", "c", "3"}, {"fake", "a", "c", ""}, {"fake", "a", "d", "1"}, {"fake", "b", "c", "1"}, {"real", "a", "c", "1"}, {"fake", "ac", "", "1"}} {
			if g.byID(other[0], other[1], other[2], other[3]) {
				t.Errorf("%v is known, which was not sent", other)
			}
		}
		time.Sleep(10*time.Minute - time.Nanosecond)
		if !g.byID("fake", "a", "c", "1") {
			t.Error("a message is forgotten before ten minutes are over")
		}
		time.Sleep(time.Nanosecond)
		if g.byID("fake", "a", "c", "1") {
			t.Error("a message is known after ten minutes")
		}
	})
}

func TestAnEchoThatOvertakesItsIDIsKnownByItsText(t *testing.T) { // CH-80
	synctest.Test(t, func(t *testing.T) {
		g := newEcho()
		unsent := g.sending("fake", "a", "c", "**Good** morning, _all_!\n")
		if !g.byText("fake", "a", "c", "Good morning, all!") {
			t.Error("a text is not known when its markup is gone")
		}
		if g.byText("fake", "a", "c", "Good morning") || g.byText("fake", "a", "d", "Good morning, all!") || g.byText("fake", "a", "c", " ") {
			t.Error("another text, or one of another conversation, is known")
		}
		unsent()
		if g.byText("fake", "a", "c", "Good morning, all!") {
			t.Error("a text is known that was not sent")
		}
		g.sending("fake", "a", "c", "👍")
		time.Sleep(30*time.Second - time.Nanosecond)
		if !g.byText("fake", "a", "c", "👍 ") {
			t.Error("a text is forgotten before 30 s are over")
		}
		time.Sleep(time.Nanosecond)
		if g.byText("fake", "a", "c", "👍") {
			t.Error("a text is known after 30 s")
		}
		g.sending("fake", "a", "c", "")()
	})
}

func TestMarksOfEchoesAreBounded(t *testing.T) { // CH-80
	g := newEcho()
	for i := range 3 * maxEchoes {
		g.sent("fake", "", "c", fmt.Sprint(i))
		g.sending("fake", "", "c", fmt.Sprint(i))
	}
	if n, m := g.ids.until.Len(), g.texts.until.Len(); n != maxEchoes || m != maxEchoes {
		t.Errorf("%d ids and %d texts are kept, expected %d of each", n, m, maxEchoes)
	}
	if g.byID("fake", "", "c", fmt.Sprint(2*maxEchoes-1)) || !g.byID("fake", "", "c", fmt.Sprint(2*maxEchoes)) {
		t.Error("the oldest is to go first")
	}
}

// bot says a thing: the facts of an event.
func bot(sender, id string) *Facts {
	return &Facts{
		Channel: "fake", Account: "us", MessageID: id, Sender: SenderFacts{ID: sender, IsBot: true},
		Conversation: ConversationFacts{Kind: Group, ID: "c"},
	}
}

func person(sender, id string) *Facts {
	f := bot(sender, id)
	f.Sender.IsBot = false
	return f
}

// unlimited is without rates and slow loops.
func unlimited() Limits {
	return Limits{SenderRate: Rate{PerMinute: -1}, ChatRate: Rate{PerMinute: -1}, LoopTurns: -1}
}

func passes(g *budget, f *Facts) bool {
	v := g.use(context.Background(), f, &Policy{}, false, false)
	return v.admission.Kind != Drop
}

func TestTwoBotsHaveTwentyEventsAMinuteThenAPause(t *testing.T) { // CH-81
	synctest.Test(t, func(t *testing.T) {
		g := newBudget(unlimited())
		for i := range 20 {
			if !passes(g, bot("b", fmt.Sprint(i))) {
				t.Fatalf("the event %d is dropped", i)
			}
			time.Sleep(time.Second)
		}
		for i := range 20 { // known ids, also when the budget is used up
			if !passes(g, bot("b", fmt.Sprint(i))) {
				t.Fatalf("the event %d, which was counted, is dropped", i)
			}
		}
		v := g.use(t.Context(), bot("b", "20"), &Policy{}, false, false)
		if v.admission.Reason != ReasonBotLoop || v.wait != time.Minute || v.verdicts[0].State != Blocked || v.verdicts[0].Setting == "" || v.verdicts[0].Hint == "" {
			t.Fatalf("the event that is too many gets %+v", v)
		}
		if !passes(g, bot("other", "x")) {
			t.Error("another pair has no budget of its own")
		}
		other := bot("b", "x")
		other.Conversation.ID = "d"
		if !passes(g, other) {
			t.Error("another conversation has no budget of its own")
		}
		for i := range 59 { // what is dropped makes the pause no longer
			time.Sleep(time.Second)
			if v := g.use(t.Context(), bot("b", fmt.Sprint("p", i)), &Policy{}, false, false); v.wait != time.Duration(59-i)*time.Second {
				t.Fatalf("%d s into the pause there are %v left", i+1, v.wait)
			}
		}
		time.Sleep(time.Second)
		for i := range 20 {
			if !passes(g, bot("b", fmt.Sprint("again", i))) {
				t.Fatalf("after the pause the event %d is dropped: what was dropped has counted", i)
			}
		}
	})
}

func TestAPairIsUnorderedAndNeedsItsIDs(t *testing.T) { // CH-81
	g := newBudget(unlimited())
	for i := range 20 {
		f := bot("b", fmt.Sprint(i))
		if i%2 == 0 {
			f.Account, f.Sender.ID = "b", "us"
		}
		if !passes(g, f) {
			t.Fatalf("the event %d is dropped", i)
		}
	}
	if passes(g, bot("b", "20")) {
		t.Error("what both say is to use one budget")
	}
	for i := range 100 {
		if !passes(g, bot("", fmt.Sprint(i))) || !passes(g, bot("x", "")) || !passes(g, person("y", fmt.Sprint(i))) {
			t.Fatal("an event without ids, or of a person, uses a budget")
		}
	}
}

func TestASlidingMinuteIsThatOfASimpleModel(t *testing.T) { // CH-81
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		limit := rapid.IntRange(1, 6).Draw(rt, "limit")
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			l := unlimited()
			l.LoopEvents = limit
			g := newBudget(l)
			type event struct {
				id string
				at time.Time
			}
			var counted []event
			var paused time.Time
			for range 200 {
				time.Sleep(time.Duration(random.IntN(30)) * time.Second)
				now, id := time.Now(), fmt.Sprint(random.IntN(50))
				counted = slices.DeleteFunc(counted, func(e event) bool { return now.Sub(e.at) >= time.Minute })
				want := true
				switch {
				case slices.ContainsFunc(counted, func(e event) bool { return e.id == id }):
				case now.Before(paused):
					want = false
				case len(counted) >= limit:
					want, paused = false, now.Add(time.Minute)
				default:
					counted = append(counted, event{id, now})
				}
				dry := g.use(t.Context(), bot("b", id), &Policy{}, false, true).admission.Kind != Drop
				if got := passes(g, bot("b", id)); got != want || dry != want {
					t.Fatalf("seed %d: an event passes: %v, dry: %v, expected %v", seed, got, dry, want)
				}
			}
		})
	})
}

func TestBotsByThemselvesEndAfterEightTurns(t *testing.T) { // CH-81
	synctest.Test(t, func(t *testing.T) {
		g := newBudget(Limits{SenderRate: Rate{PerMinute: -1}, ChatRate: Rate{PerMinute: -1}})
		say := func(n int) {
			t.Helper()
			for i := range n {
				time.Sleep(time.Hour) // slowly
				if !passes(g, bot(fmt.Sprint("b", i%3), fmt.Sprint(rand.Uint64()))) {
					t.Fatalf("the turn %d of bots is dropped", i)
				}
			}
		}
		say(8)
		if v := g.use(t.Context(), bot("b", "x"), &Policy{}, false, false); v.admission.Reason != ReasonBotLoop || v.verdicts[0].Setting != "default:loop_turns" {
			t.Fatalf("the ninth turn gets %+v", v)
		}
		if !passes(g, person("p", "1")) {
			t.Fatal("a person is dropped")
		}
		say(7)
		g.heard(person("p", "2")) // who started no turn
		g.heard(bot("b", "3"))
		say(8)
		if passes(g, bot("b", "y")) {
			t.Error("a bot that was heard has made room")
		}
	})
}

func TestSendersAndConversationsHaveTheirRates(t *testing.T) { // CH-82
	synctest.Test(t, func(t *testing.T) {
		g := newBudget(Limits{})
		n := 0
		for passes(g, person("p", fmt.Sprint(n))) {
			n++
		}
		if n != 10 {
			t.Errorf("a burst of %d passes, expected 10", n)
		}
		v := g.use(t.Context(), person("p", "x"), &Policy{}, false, false)
		if v.admission.Reason != ReasonRateLimited || v.wait != 3*time.Second || v.verdicts[1].Setting != "default:limits.sender_rate" {
			t.Errorf("the next gets %+v, expected to wait for 3 s", v)
		}
		time.Sleep(v.wait - time.Microsecond)
		if passes(g, person("p", "x")) {
			t.Error("an event passes before its time")
		}
		time.Sleep(time.Microsecond)
		if !passes(g, person("p", "x")) {
			t.Error("an event is dropped after the time that it was told to wait: what was dropped has counted")
		}
		n = 0
		for n < 1000 && passes(g, person(fmt.Sprint("q", n), "x")) {
			n++
		}
		if n < 49 || n > 60 {
			t.Errorf("%d others pass in the conversation, expected 60 less what was used", n)
		}
		if v := g.use(t.Context(), person("new", "x"), &Policy{}, false, false); v.verdicts[1].Setting != "default:limits.chat_rate" || v.wait <= 0 || v.wait > time.Second {
			t.Errorf("one too many in the conversation gets %+v", v)
		}
		none := &Policy{Limits: PolicyLimits{SenderRate: Rate{PerMinute: -1}, ChatRate: Rate{PerMinute: -1}}}
		for range 1000 {
			if v := g.use(t.Context(), person("p", "x"), none, false, false); v.admission.Kind == Drop {
				t.Fatal("settings without limits limit")
			}
		}
	})
}

func TestWhatOneBudgetDropsUsesNothingOfTheOther(t *testing.T) { // CH-82
	synctest.Test(t, func(t *testing.T) {
		g := newBudget(Limits{LoopTurns: -1, LoopEvents: 11, ChatRate: Rate{PerMinute: -1}})
		for i := range 10 {
			if !passes(g, bot("b", fmt.Sprint(i))) {
				t.Fatal(i)
			}
		}
		for i := range 5 {
			if v := g.use(t.Context(), bot("b", fmt.Sprint("x", i)), &Policy{}, false, false); v.admission.Reason != ReasonRateLimited {
				t.Fatalf("the event gets %v, expected %s", v.admission, ReasonRateLimited)
			}
		}
		time.Sleep(3 * time.Second)
		if !passes(g, bot("b", "one more")) {
			t.Error("what the rate has dropped has counted as a loop")
		}
	})
}

func TestADryQuestionUsesNothing(t *testing.T) { // CH-111
	g := newBudget(Limits{})
	for i := range 1000 {
		if v := g.use(t.Context(), bot("b", fmt.Sprint(i)), &Policy{}, false, true); v.admission.Kind == Drop || len(v.verdicts) != 2 {
			t.Fatalf("the question %d gets %+v", i, v)
		}
	}
	if n := g.pairs.len() + g.rows.len() + g.senders.Len() + g.chats.Len(); n != 0 {
		t.Errorf("%d keys are kept of questions", n)
	}
}

func TestBudgetsAreBounded(t *testing.T) { // CH-81, CH-82
	g := newBudget(Limits{})
	before := memory()
	for i := range 4 * maxBudgets {
		f := bot(fmt.Sprint("b", i), fmt.Sprint(i))
		f.Conversation.ID = fmt.Sprint("c", i)
		passes(g, f)
	}
	for _, n := range []int{g.pairs.len(), g.rows.len(), g.senders.Len(), g.chats.Len()} {
		if n != maxBudgets {
			t.Errorf("%d keys are kept, expected %d", n, maxBudgets)
		}
	}
	if used := memory() - before; used > 32<<20 {
		t.Errorf("budgets take %d bytes", used)
	}
	runtime.KeepAlive(g)
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkBudget(b *testing.B) {
	g := newBudget(unlimited())
	f := person("p", "1")
	b.ReportAllocs()
	for b.Loop() {
		g.use(context.Background(), f, &Policy{}, false, false)
	}
}
