package channel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

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
	v := g.use(context.Background(), f, &Policy{}, false)
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
		v := g.use(t.Context(), bot("b", "20"), &Policy{}, false)
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
			if v := g.use(t.Context(), bot("b", fmt.Sprint("p", i)), &Policy{}, false); v.wait != time.Duration(59-i)*time.Second {
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

func TestAPairOfBotsIsUnordered(t *testing.T) { // CH-81
	g := newBudget(unlimited())
	for i := range 20 {
		f := bot("b", fmt.Sprint(i))
		if i%2 == 0 {
			f.Account, f.Sender.ID = "b", "us"
		}
		if !passes(g, f) || !passes(g, person("p", fmt.Sprint(i))) {
			t.Fatalf("the event %d is dropped", i)
		}
	}
	if passes(g, bot("b", "20")) {
		t.Error("what both say is to use one budget")
	}
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
		if v := g.use(t.Context(), bot("b", "x"), &Policy{}, false); v.admission.Reason != ReasonBotLoop || v.verdicts[0].Setting != "default:loop_turns" {
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
		v := g.use(t.Context(), person("p", "x"), &Policy{}, false)
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
		if v := g.use(t.Context(), person("new", "x"), &Policy{}, false); v.verdicts[1].Setting != "default:limits.chat_rate" || v.wait <= 0 || v.wait > time.Second {
			t.Errorf("one too many in the conversation gets %+v", v)
		}
		none := &Policy{Limits: PolicyLimits{SenderRate: Rate{PerMinute: -1}, ChatRate: Rate{PerMinute: -1}}}
		for range 1000 {
			if v := g.use(t.Context(), person("p", "x"), none, false); v.admission.Kind == Drop {
				t.Fatal("settings without limits limit")
			}
		}
	})
}

func TestBudgetsAreBounded(t *testing.T) { // CH-81, CH-82
	g := newBudget(Limits{})
	for i := range 4 * maxBudgets {
		f := bot(fmt.Sprint("b", i), fmt.Sprint(i))
		f.Conversation.ID = fmt.Sprint("c", i)
		passes(g, f)
	}
	for _, n := range []int{g.pairs.lru.Len(), g.rows.lru.Len(), g.senders.Len(), g.chats.Len()} {
		if n != maxBudgets {
			t.Errorf("%d keys are kept, expected %d", n, maxBudgets)
		}
	}
}
