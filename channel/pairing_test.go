package channel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingserve/lingserve/channel"
)

// inBubble runs a test with pairs in memory and in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, p *channel.Pairs)) {
	synctest.Test(t, func(t *testing.T) { f(t, channel.NewPairs(nil)) })
}

func ask(t *testing.T, p *channel.Pairs, sender string) (code string, tell bool) {
	t.Helper()
	code, tell, err := p.Request(t.Context(), "telegram", "", channel.SenderFacts{ID: sender, Name: "Somebody " + sender})
	if err != nil {
		t.Fatal(err)
	}
	return code, tell
}

func paired(t *testing.T, p *channel.Pairs, channelName, account, sender string) bool {
	t.Helper()
	state, _, err := p.State(t.Context(), channelName, account, sender)
	if err != nil {
		t.Fatal(err)
	}
	return state == channel.Yes
}

// CH-101: who asks is paired by the code that an operator approves.
func TestWhoAsksIsPairedWhenTheCodeIsApproved(t *testing.T) {
	inBubble(t, func(t *testing.T, p *channel.Pairs) {
		if paired(t, p, "telegram", "", "42") {
			t.Error("paired with nothing done")
		}
		code, _ := ask(t, p, "42")
		if paired(t, p, "telegram", "", "42") {
			t.Error("paired by asking")
		}
		if _, err := p.Approve(t.Context(), "slack", code); !errors.Is(err, channel.ErrNoCode) {
			t.Errorf("of another channel: %v", err)
		}
		written := strings.ToLower(code[:4] + "-" + code[4:] + " ")
		got, err := p.Approve(t.Context(), "telegram", written)
		if err != nil {
			t.Fatal(err)
		}
		want := channel.Pair{Channel: "telegram", Sender: "42", Name: "Somebody 42", At: time.Now().UTC(), Welcome: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, other := range [][3]string{{"telegram", "", "4"}, {"telegram", "work", "42"}, {"slack", "", "42"}, {"telegram", "", ""}} {
			if paired(t, p, other[0], other[1], other[2]) {
				t.Errorf("%q is paired, too", other)
			}
		}
		if !paired(t, p, "telegram", "", "42") {
			t.Error("not paired")
		}
		if _, err := p.Approve(t.Context(), "", code); !errors.Is(err, channel.ErrNoCode) {
			t.Errorf("a code works once: %v", err)
		}
		if code, tell := ask(t, p, "42"); code != "" || tell {
			t.Errorf("who is paired is told %q", code)
		}
	})
}

// CH-101: at most one challenge an hour for a sender, and a code is good for as long.
func TestASenderIsToldACodeOnceAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, p *channel.Pairs) {
		first, tell := ask(t, p, "42")
		if !tell || len(first) != 8 {
			t.Errorf("the first time: %q, %t", first, tell)
		}
		time.Sleep(time.Hour - time.Second)
		if again, tell := ask(t, p, "42"); tell || again != first {
			t.Errorf("within the hour: %q, %t; want %q", again, tell, first)
		}
		if other, tell := ask(t, p, "43"); !tell || other == first {
			t.Errorf("somebody else: %q, %t", other, tell)
		}
		time.Sleep(time.Second)
		if _, err := p.Approve(t.Context(), "", first); !errors.Is(err, channel.ErrNoCode) {
			t.Errorf("an hour later, the code is good: %v", err)
		}
		if next, tell := ask(t, p, "42"); !tell || next == first {
			t.Errorf("the hour after: %q, %t", next, tell)
		}
	})
}

func TestStrangersCannotMakeTheServerKeepMoreThanSomeRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, p *channel.Pairs) {
		for i := range 256 {
			ask(t, p, fmt.Sprint(i))
		}
		if _, _, err := p.Request(t.Context(), "telegram", "", channel.SenderFacts{ID: "more"}); !errors.Is(err, channel.ErrManyRequests) {
			t.Errorf("got %v", err)
		}
		if _, tell := ask(t, p, "1"); tell {
			t.Error("who waits is told again")
		}
		time.Sleep(time.Hour)
		if _, tell := ask(t, p, "more"); !tell {
			t.Error("what is over makes no room")
		}
		all, err := p.List(t.Context())
		if err != nil || len(all) != 1 {
			t.Errorf("%d are listed, %v", len(all), err)
		}
	})
}

func TestPairsAndRequestsAreListedAndRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, p *channel.Pairs) {
		code, _ := ask(t, p, "1")
		if _, err := p.Approve(t.Context(), "", code); err != nil {
			t.Fatal(err)
		}
		code, _ = ask(t, p, "2")
		all, err := p.List(t.Context())
		want := []channel.Pair{
			{Channel: "telegram", Sender: "1", Name: "Somebody 1", Welcome: true},
			{Channel: "telegram", Sender: "2", Name: "Somebody 2", Code: code},
		}
		if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(channel.Pair{}, "At")); diff != "" || err != nil {
			t.Error(err, diff)
		}
		for _, sender := range []string{"1", "2"} {
			if ok, err := p.Remove(t.Context(), "telegram", "", sender); !ok || err != nil {
				t.Errorf("%s: %t, %v", sender, ok, err)
			}
			if ok, err := p.Remove(t.Context(), "telegram", "", sender); ok || err != nil {
				t.Errorf("%s, again: %t, %v", sender, ok, err)
			}
		}
		if paired(t, p, "telegram", "", "1") {
			t.Error("still paired")
		}
		if _, err := p.Approve(t.Context(), "", code); !errors.Is(err, channel.ErrNoCode) {
			t.Errorf("a request that was removed is approved: %v", err)
		}
	})
}

func TestSomebodyWithoutAnIDCannotBePaired(t *testing.T) {
	if _, _, err := channel.NewPairs(nil).Request(t.Context(), "telegram", "", channel.SenderFacts{Name: "x"}); err == nil {
		t.Error("no error")
	}
}

// replaceTexts replaces all texts whose names begin with prefix.
func replaceTexts(t *testing.T, s channel.Texts, prefix, text string) {
	t.Helper()
	all, err := s.All(t.Context(), prefix)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	for name := range all {
		if strings.Contains(name, "42") {
			t.Errorf("the name %s tells an id", name)
		}
		if err := s.Change(t.Context(), name, func([]byte) ([]byte, error) { return []byte(text), nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// CH-101: an unreadable store pairs nobody, and says so.
func TestADamagedPairIsAnErrorAndNoPair(t *testing.T) {
	for name, text := range map[string]string{
		"empty":     "",
		"cut off":   `{"channel":"tele`,
		"no object": `7`,
	} {
		t.Run(name, func(t *testing.T) {
			store := channel.NewTexts()
			p := channel.NewPairs(store)
			code, _ := ask(t, p, "42")
			if _, err := p.Approve(t.Context(), "", code); err != nil {
				t.Fatal(err)
			}
			replaceTexts(t, store, "pair-", text)
			fact, _, err := p.State(t.Context(), "telegram", "", "42")
			if fact != channel.Unknown || err == nil {
				t.Errorf("fact %d, %v", fact, err)
			}
			if _, err := p.List(t.Context()); err == nil {
				t.Error("it is listed")
			}
		})
	}
}

// CH-102: paired senders count under the policy pairing alone.
func TestPairsCountOnlyUnderThePolicyPairing(t *testing.T) {
	p := channel.NewPairs(nil)
	code, _ := ask(t, p, "42")
	if _, err := p.Approve(t.Context(), "", code); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		store  *channel.Pairs
		sender string
		want   channel.Tri
	}{
		"paired":          {p, "42", channel.Yes},
		"not paired":      {p, "43", channel.No},
		"without a store": {nil, "42", channel.No},
	} {
		got, _, err := test.store.State(t.Context(), "telegram", "", test.sender)
		if got != test.want || err != nil {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
	f := admitted(channel.Direct)
	f.Access.DM = channel.DMFacts{Policy: channel.PolicyAllowlist, Paired: channel.Yes}
	if d := channel.Evaluate(f); d.Admission != dropped(channel.ReasonDMNotAllowed) {
		t.Errorf("%+v", d)
	}
}
