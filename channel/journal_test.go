package channel_test

import (
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
	j := channel.NewJournal(&channel.JournalOptions{Keys: 2})
	id := func(i int) channel.EventKey { return channel.EventKey{Channel: "fake", ID: fmt.Sprint(i)} }
	for i := range 2 {
		c, _, err := j.Claim(t.Context(), id(i))
		if err != nil || i == 0 && c.Commit(t.Context(), channel.OutcomeSilent) != nil {
			t.Fatal(err)
		}
	}
	if isNew, err := j.Accept(t.Context(), id(2), nil); err != nil || !isNew {
		t.Errorf("Accept with a settled event to go is %v, %v", isNew, err)
	}
	if _, err := j.Accept(t.Context(), id(3), nil); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept with nothing settled is %v, expected %v", err, channel.ErrJournalFull)
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
