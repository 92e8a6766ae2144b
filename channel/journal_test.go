package channel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/journaltest"
)

func TestMemoryJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Store{
		Open:  func(testing.TB) channel.Journal { return channel.NewJournal(nil) },
		Close: func(channel.Journal) {},
	})
}

func TestMemoryJournalForgetsTheOldestSettledEvent(t *testing.T) { // CH-70
	const keys = 100
	j := channel.NewJournal(&channel.JournalOptions{Keys: keys})
	id := func(i int) channel.EventKey { return channel.EventKey{Channel: "fake", ID: fmt.Sprint(i)} }
	for i := range keys {
		c, _, err := j.Claim(t.Context(), id(i))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := c.Commit(t.Context(), channel.OutcomeSilent); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range keys / 2 { // each puts out a settled one
		if isNew, err := j.Accept(t.Context(), id(1000+i), nil); err != nil || !isNew {
			t.Fatalf("Accept with %d settled events to go is %v, %v", keys/2-i, isNew, err)
		}
		if state, _ := j.Peek(t.Context(), id(2*i)); state != channel.ClaimNone {
			t.Errorf("the oldest settled event is %q, expected to be forgotten", state)
		}
	}
	if _, err := j.Accept(t.Context(), id(2000), nil); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept with nothing settled is %v, expected %v", err, channel.ErrJournalFull)
	}
	if _, _, err := j.Claim(t.Context(), id(2000)); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Claim with nothing settled is %v, expected %v", err, channel.ErrJournalFull)
	}
}

func TestMemoryJournalIsBoundedInBytes(t *testing.T) { // CH-70
	j := channel.NewJournal(nil)
	raw := make([]byte, 1<<20)
	id := func(i int) channel.EventKey { return channel.EventKey{Channel: "fake", ID: fmt.Sprint(i)} }
	n := 0
	for ; ; n++ {
		if _, err := j.Accept(t.Context(), id(n), raw); errors.Is(err, channel.ErrJournalFull) {
			break
		} else if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if n != 64 {
		t.Errorf("%d MiB wait, expected 64", n)
	}
	c, _, err := j.Claim(t.Context(), id(0))
	if err != nil || c.Commit(t.Context(), channel.OutcomeSilent) != nil {
		t.Fatal(err)
	}
	if err := j.Erase(t.Context(), func(k channel.EventKey) bool { return k.ID == "1" }); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // room of the one that settled, and of the one that was erased
		if isNew, err := j.Accept(t.Context(), id(2000+i), raw); err != nil || !isNew {
			t.Errorf("Accept where there is room again is %v, %v", isNew, err)
		}
	}
	if _, err := j.Accept(t.Context(), id(3000), raw); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept is %v, expected %v", err, channel.ErrJournalFull)
	}
}

func FuzzEventKeysHaveOneText(f *testing.F) { // CH-70
	f.Add("telegram", "", "-100", "5", "17", "telegram", "", "-100", `"5"`, "17")
	f.Add("a", "b/", "c", "", "", "a", "b", "/c", "", "")
	f.Add("%", "%2F", "\x00", "é", " ", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, a1, a2, a3, a4, a5, b1, b2, b3, b4, b5 string) {
		a, b := channel.EventKey{Channel: a1, Account: a2, Conversation: a3, Thread: a4, ID: a5}, channel.EventKey{Channel: b1, Account: b2, Conversation: b3, Thread: b4, ID: b5}
		if (a.String() == b.String()) != (a == b) {
			t.Errorf("%#v is %q, and %#v is %q", a, a, b, b)
		}
		if strings.ContainsFunc(a.String(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q has characters that a log does not show", a)
		}
		if back, err := channel.ParseEventKey(a.String()); err != nil || back != a {
			t.Errorf("%q is read as %#v, %v, expected %#v", a, back, err, a)
		}
		if back, err := channel.ParseEventKey(a1); err == nil && !strings.EqualFold(back.String(), a1) && back.String() == "" {
			t.Errorf("%q is read as nothing", a1)
		}
	})
}

func BenchmarkMemoryJournal(b *testing.B) {
	j := channel.NewJournal(nil)
	raw := journaltest.Text(300)
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := channel.EventKey{Channel: "fake", Conversation: "42", ID: fmt.Sprint(i / 2)} // every second is known
		isNew, err := j.Accept(ctx, k, raw)
		if err != nil || isNew != (i%2 == 0) {
			b.Fatal(isNew, err)
		}
		if isNew {
			c, _, err := j.Claim(ctx, k)
			if err != nil || c.Commit(ctx, channel.OutcomeVisible) != nil {
				b.Fatal(err)
			}
		}
		i++
	}
}
