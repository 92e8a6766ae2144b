package inbox_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// content is what is in a folder.
func content(t testing.TB, dir string) []byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v, expected 0600", filepath.Base(name), info.Mode(), err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

func TestAnEventIsRemovedWhenItIsSettledAndItsKeyADayLater(t *testing.T) { // CH-76, ST-22, ST-24
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.At(dir), inbox.Options{})
		accept(t, j, key(1), "canary 1")
		settle(t, j, key(1))
		time.Sleep(time.Minute)
		accept(t, j, key(2), "canary 2")
		if text := content(t, dir); bytes.Contains(text, []byte("canary 1")) || !bytes.Contains(text, []byte("canary 2")) {
			t.Error("the event that is settled is to be removed, and the other one not")
		}
		time.Sleep(23*time.Hour + 58*time.Minute)
		if n, err := j.Known(t.Context()); n != 2 || err != nil {
			t.Errorf("%d keys are known, %v, expected 2", n, err)
		}
		time.Sleep(3 * time.Minute)
		if n, err := j.Known(t.Context()); n != 1 || err != nil {
			t.Errorf("%d keys are known after a day, %v, expected 1", n, err)
		}
		time.Sleep(30 * 24 * time.Hour)
		if got := pending(t, j); !slices.Equal(got, []string{"canary 2"}) { // nothing ends what waits
			t.Errorf("%q are pending", got)
		}
		settle(t, j, key(2))
		time.Sleep(25 * time.Hour)
		if text := content(t, dir); bytes.Contains(text, []byte("canary")) {
			t.Errorf("the folder has %q", text)
		}
	})
}

func TestAnEventThatWaitsForTooLongGoes(t *testing.T) { // CH-76
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.InMemory(), inbox.Options{Keep: 7 * 24 * time.Hour})
		accept(t, j, key(1), "old")
		time.Sleep(6 * 24 * time.Hour)
		c, _, err := j.Claim(t.Context(), key(1))
		if err != nil || c == nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context(), channel.ErrDraining); err != nil { // which does not give it another week
			t.Fatal(err)
		}
		accept(t, j, key(2), "new")
		time.Sleep(25 * time.Hour)
		if got := pending(t, j); !slices.Equal(got, []string{"new"}) {
			t.Errorf("%q are pending", got)
		}
		if n, err := j.Known(t.Context()); n != 1 || err != nil {
			t.Errorf("%d keys are known, %v", n, err)
		}
	})
}

func TestWhatWaitsIsBounded(t *testing.T) { // CH-71
	j := open(t, vfs.At(t.TempDir()), inbox.Options{Pending: 3, PendingBytes: 4 << 10})
	for i := range 3 {
		accept(t, j, key(i), "")
	}
	if _, err := j.Accept(t.Context(), key(3), nil); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of one too many is %v", err)
	}
	if isNew, err := j.Accept(t.Context(), key(1), nil); isNew || err != nil {
		t.Errorf("one that is known is %v, %v", isNew, err)
	}
	settle(t, j, key(0))
	if isNew, err := j.Accept(t.Context(), key(0), nil); isNew || err != nil {
		t.Errorf("one that is settled is %v, %v", isNew, err)
	}
	if _, err := j.Accept(t.Context(), key(3), make([]byte, 4<<10)); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of too many bytes is %v", err)
	}
	if _, err := j.Accept(t.Context(), key(3), make([]byte, store.MaxBody+1)); err == nil || errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of an event that is too large is %v", err)
	}
	// Of a batch those that are known take no room.
	isNew, err := j.AcceptAll(t.Context(), []channel.JournalEntry{{Key: key(0)}, {Key: key(1)}, {Key: key(3)}, {Key: key(3)}})
	if err != nil || !slices.Equal(isNew, []bool{false, false, true, false}) {
		t.Errorf("a batch is new as %v, %v", isNew, err)
	}
}

func TestTheOldestSettledKeysAreForgottenAndNothingThatWaits(t *testing.T) { // CH-70
	const keys = 160
	j := open(t, vfs.InMemory(), inbox.Options{Keys: keys, Pending: 10})
	accept(t, j, key(-1), "it waits")
	for i := range 1000 {
		accept(t, j, key(i), "raw")
		settle(t, j, key(i))
		if n, err := j.Known(t.Context()); n > keys || err != nil {
			t.Fatalf("%d keys are known, %v, expected at most %d", n, err, keys)
		}
	}
	if got := pending(t, j); !slices.Equal(got, []string{"it waits"}) {
		t.Errorf("%q are pending", got)
	}
	if isNew, err := j.Accept(t.Context(), key(950), nil); err != nil || isNew {
		t.Errorf("a young event is forgotten: %v, %v", isNew, err)
	}
}

// What people see of an answer is kept for the next process, until the event is settled.
func TestWhatPeopleSeeIsKept(t *testing.T) { // DC-09
	dir := t.TempDir()
	j := open(t, vfs.At(dir), inbox.Options{Shown: true})
	accept(t, j, key(1), "raw")
	if c, _, err := j.Claim(t.Context(), key(1)); c == nil || err != nil {
		t.Fatal(err)
	}
	event := key(1).String()
	for _, text := range []string{"ha", "half an answer"} {
		if err := j.Shown(t.Context(), event, channel.ShownText{Session: "s", Turn: "t", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	j.Abandon()
	j = open(t, vfs.At(dir), inbox.Options{Shown: true})
	c, _, err := j.Claim(t.Context(), key(1))
	if c == nil || err != nil {
		t.Fatal(err)
	}
	if s, err := j.LastShown(t.Context(), event); err != nil || s.Text != "half an answer" || s.Session != "s" || s.Turn != "t" {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := c.Commit(t.Context(), channel.OutcomeUnknown); err != nil {
		t.Fatal(err)
	}
	if s, err := j.LastShown(t.Context(), event); err != nil || s != (channel.ShownText{}) {
		t.Errorf("behind its end it is %+v, %v", s, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content(t, dir), []byte("half an answer")) {
		t.Error("it is on the disk")
	}
}
