package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// folders are where journals lie.
var folders sync.Map

func open(t testing.TB, dir string, o file.JournalOptions) *file.Journal {
	t.Helper()
	j, err := file.OpenJournal(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Store{
		Open: func(t testing.TB) channel.Journal {
			dir, err := os.MkdirTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			j, err := file.OpenJournal(dir, file.JournalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			folders.Store(j, dir)
			return j
		},
		Close: func(j channel.Journal) { _ = j.(*file.Journal).Close() },
		Reopen: func(t testing.TB, j channel.Journal) channel.Journal {
			dir, _ := folders.Load(j)
			j.(*file.Journal).Abandon()
			next, err := file.OpenJournal(dir.(string), file.JournalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			folders.Store(next, dir)
			return next
		},
	})
}

func key(i int) channel.EventKey {
	return channel.EventKey{Channel: "fake", Conversation: "c", ID: fmt.Sprint(i)}
}

func accept(t testing.TB, j *file.Journal, k channel.EventKey, raw string) {
	t.Helper()
	if isNew, err := j.Accept(t.Context(), k, []byte(raw)); err != nil || !isNew {
		t.Fatalf("Accept of %s is %v, %v, expected it to be new", k, isNew, err)
	}
}

func settle(t testing.TB, j *file.Journal, k channel.EventKey) {
	t.Helper()
	c, state, err := j.Claim(t.Context(), k)
	if err != nil || c == nil {
		t.Fatalf("Claim of %s is %q, %v", k, state, err)
	}
	if err := c.Commit(t.Context(), channel.OutcomeVisible); err != nil {
		t.Fatal(err)
	}
}

func pending(t testing.TB, j *file.Journal) (raws []string) {
	t.Helper()
	for e, err := range j.Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, string(e.Raw))
	}
	return raws
}

// content is what lies in a folder.
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

func TestAnEventIsRemovedADayAfterItWasSettled(t *testing.T) { // CH-76
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir, file.JournalOptions{})
		accept(t, j, key(1), "canary 1")
		settle(t, j, key(1))
		time.Sleep(time.Hour)
		accept(t, j, key(2), "canary 2")
		time.Sleep(23*time.Hour - time.Nanosecond)
		synctest.Wait()
		if text := content(t, dir); !bytes.Contains(text, []byte("canary 1")) || !bytes.Contains(text, []byte("canary 2")) {
			t.Error("an event is removed before a day is over")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if text := content(t, dir); bytes.Contains(text, []byte("canary 1")) || !bytes.Contains(text, []byte("canary 2")) {
			t.Error("the event that was settled a day ago is to be removed, and the other one not")
		}
		time.Sleep(48 * time.Hour)
		settle(t, j, key(2))
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if text := content(t, dir); bytes.Contains(text, []byte("canary")) || j.Known() != 0 {
			t.Errorf("%d keys are known, and the folder has %q", j.Known(), text)
		}
	})
}

func TestAnOldSegmentIsRemovedWhenTheJournalIsOpened(t *testing.T) { // CH-76
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir, file.JournalOptions{})
		accept(t, j, key(1), "canary")
		settle(t, j, key(1))
		j.Abandon()
		time.Sleep(25 * time.Hour)
		j = open(t, dir, file.JournalOptions{})
		if text := content(t, dir); bytes.Contains(text, []byte("canary")) {
			t.Errorf("the folder has %q", text)
		}
		accept(t, j, key(1), "again")
	})
}

func TestNothingIsLeftOfWhatWasErased(t *testing.T) { // CH-76
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{})
	for i := range 20 {
		k := key(i)
		k.Conversation = []string{"hers", "his"}[i%2]
		accept(t, j, k, k.Conversation+strings.Repeat(".", 200*i))
		if i%3 == 0 {
			settle(t, j, k)
		}
	}
	if err := j.Erase(t.Context(), func(k channel.EventKey) bool { return k.Conversation == "hers" }); err != nil {
		t.Fatal(err)
	}
	if text := content(t, dir); bytes.Contains(text, []byte("hers")) || !bytes.Contains(text, []byte("his")) {
		t.Error("her events are to be gone from the disk, and his are not")
	}
	want := pending(t, j)
	j.Abandon()
	if got := pending(t, open(t, dir, file.JournalOptions{})); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("%d are pending, expected %d", len(got), len(want))
	}
}

func TestATornEndIsCutOffAndDamageCostsItsRecords(t *testing.T) { // CH-71, CH-192: kill -9 while it writes, a sector that went bad
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{})
	var whole []string
	for i := range 20 {
		raw := fmt.Sprint(i, strings.Repeat("x", 50*i))
		accept(t, j, key(i), raw)
		whole = append(whole, raw)
	}
	j.Abandon()
	names, _ := filepath.Glob(filepath.Join(dir, "*.events"))
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, text []byte, least int) {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), text, 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, dir, file.JournalOptions{})
		got := pending(t, j)
		for _, raw := range got {
			if !slices.Contains(whole, raw) {
				t.Fatalf("%s: an event is %q, which was never accepted", what, raw)
			}
		}
		if len(got) < least {
			t.Fatalf("%s: %d events are left, expected at least %d", what, len(got), least)
		}
		if !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(whole, a) - slices.Index(whole, b) }) {
			t.Fatalf("%s: the events are not in order", what)
		}
		accept(t, j, key(1000), "next")
		j.Abandon()
		if again := pending(t, open(t, dir, file.JournalOptions{})); !slices.Equal(again, append(got, "next")) {
			t.Fatalf("%s: %d events are left after one more, expected %d", what, len(again), len(got)+1)
		}
	}
	for range 60 {
		cut := rand.IntN(len(text))
		whole := 0
		for end := 0; end <= cut; { // records that end before the cut
			_, raw, err := file.ParseRecord(text[end:])
			if err != nil {
				break
			}
			size := (48 + 6 + len("fake") + len("c") + len(fmt.Sprint(whole)) + len(raw) + 63) / 64 * 64
			if end += size; end <= cut {
				whole++
			}
		}
		try(fmt.Sprint("cut at ", cut), text[:cut], whole)
		try(fmt.Sprint("zeros from ", cut), append(slices.Clone(text[:cut]), make([]byte, len(text)-cut)...), whole)
		bad := slices.Clone(text)
		bad[cut] ^= 1 << rand.IntN(8)
		try(fmt.Sprint("bad at ", cut), bad, 19)
	}
	try("moved", append(make([]byte, 64), text...), 20)
	try("empty", nil, 0)
	try("rubbish", bytes.Repeat([]byte("Lev1\xff"), 1000), 0)
}

func TestAFullDiskRefusesEventsUntilThereIsRoom(t *testing.T) { // CH-71
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{})
	accept(t, j, key(1), "before")
	j.Break(syscall.ENOSPC, nil)
	for i := range 5 {
		if _, err := j.Accept(t.Context(), key(10+i), []byte("lost")); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
			t.Fatalf("Accept on a full disk is %v", err)
		}
		if state, _ := j.Peek(t.Context(), key(10+i)); state != channel.ClaimNone {
			t.Errorf("an event that was refused is %q", state)
		}
	}
	j.Break(nil, nil)
	accept(t, j, key(10), "after")
	j.Abandon()
	if got := pending(t, open(t, dir, file.JournalOptions{})); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("%q are pending", got)
	}
}

func TestADiskThatCannotKeepWhatItGotIsNotTriedAgain(t *testing.T) { // CH-71
	j := open(t, t.TempDir(), file.JournalOptions{})
	accept(t, j, key(1), "before")
	j.Break(nil, syscall.EIO)
	if _, err := j.Accept(t.Context(), key(2), nil); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Accept is %v", err)
	}
	j.Break(nil, nil)
	if _, err := j.Accept(t.Context(), key(2), nil); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Accept is %v after the disk has failed once", err)
	}
}

func TestWhatWaitsIsBounded(t *testing.T) { // CH-71
	j := open(t, t.TempDir(), file.JournalOptions{Pending: 3, PendingBytes: 1 << 10})
	for i := range 3 {
		accept(t, j, key(i), "")
	}
	if _, err := j.Accept(t.Context(), key(3), nil); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of one too many is %v", err)
	}
	settle(t, j, key(0))
	if _, err := j.Accept(t.Context(), key(3), make([]byte, 1<<10)); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of too many bytes is %v", err)
	}
	accept(t, j, key(3), "")
}

func TestKeysAndBytesAreBounded(t *testing.T) { // CH-70, CH-76
	const keys = 160
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{Keys: keys, Bytes: 64 << 10})
	accept(t, j, key(-1), "it waits")
	raw := strings.Repeat("x", 500)
	for i := range 1000 {
		accept(t, j, key(i), raw)
		settle(t, j, key(i))
		if n := j.Known(); n > keys+1 {
			t.Fatalf("%d keys are known, expected at most %d", n, keys)
		}
	}
	if size := len(content(t, dir)); size > 80<<10 {
		t.Errorf("the folder has %d bytes", size)
	}
	want := []string{"it waits"}
	if got := pending(t, j); !slices.Equal(got, want) {
		t.Errorf("%q are pending, expected %q", got, want)
	}
	for i := 999; i > 950; i-- {
		if isNew, err := j.Accept(t.Context(), key(i), nil); err != nil || isNew {
			t.Fatalf("the event %d of 1000 is forgotten: %v", i, err)
		}
	}
	j.Abandon()
	j = open(t, dir, file.JournalOptions{Keys: keys})
	if got := pending(t, j); !slices.Equal(got, want) {
		t.Errorf("%q are pending after a crash, expected %q", got, want)
	}
	settle(t, j, key(-1))
	j.Abandon()
	if got := pending(t, open(t, dir, file.JournalOptions{})); got != nil {
		t.Errorf("%q are pending, expected none: an event that was moved has come back", got)
	}
}

func TestALinkIsNotTakenForASegment(t *testing.T) { // CH-76
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "0000000000000001.events")); err != nil {
		t.Skip(err)
	}
	if j, err := file.OpenJournal(dir, file.JournalOptions{}); err == nil || !strings.Contains(err.Error(), "not an ordinary file") {
		t.Errorf("a link is opened as a segment: %v, %v", j, err)
	}
}

func TestAllOfABatchAreDurableWithOneSync(t *testing.T) { // CH-71
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{})
	var all []channel.JournalEntry
	for i := range 100 {
		all = append(all, channel.JournalEntry{Key: key(i / 2), Raw: fmt.Append(nil, i/2)})
	}
	isNew, err := j.AcceptAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range isNew {
		if n != (i%2 == 0) {
			t.Errorf("the event %d is new: %v", i, n)
		}
	}
	j.Abandon()
	j = open(t, dir, file.JournalOptions{Pending: 60})
	if got := pending(t, j); len(got) != 50 || got[49] != "49" {
		t.Errorf("%d are pending: %q", len(got), got)
	}
	for i := range all {
		all[i].Key.ID += "x"
	}
	if _, err := j.AcceptAll(t.Context(), all); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("AcceptAll of too many is %v", err)
	}
	if got := pending(t, j); len(got) != 50 {
		t.Errorf("%d are pending after a batch that was refused, expected 50", len(got))
	}
}

func TestStoredEventsCanBeReadUntilTheyAreRemoved(t *testing.T) { // CH-76, CH-110
	j := open(t, t.TempDir(), file.JournalOptions{})
	accept(t, j, key(1), "one")
	accept(t, j, key(2), "two")
	settle(t, j, key(1))
	var got []string
	for e, err := range j.Stored(t.Context()) {
		got = append(got, fmt.Sprint(e.Key.ID, string(e.Raw), e.Settled, e.Outcome, err))
	}
	if want := []string{"1onetruevisible<nil>", "2twofalse<nil>"}; !slices.Equal(got, want) {
		t.Errorf("stored are %q, expected %q", got, want)
	}
}

func TestNothingIsLostOrRunTwiceWhereverTheProcessDies(t *testing.T) { // CH-192
	dir := t.TempDir()
	accepted, settled := map[string]bool{}, map[string]bool{}
	for life := range 40 {
		j := open(t, dir, file.JournalOptions{})
		for _, raw := range pending(t, j) {
			if !accepted[raw] || settled[raw] {
				t.Fatalf("life %d: %s is pending; it was accepted: %v, settled: %v", life, raw, accepted[raw], settled[raw])
			}
		}
		if got, want := len(pending(t, j)), len(accepted)-len(settled); got != want {
			t.Fatalf("life %d: %d are pending, expected %d", life, got, want)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var stop atomic.Bool
		for g := range 4 {
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					raw := fmt.Sprint(life, "-", g, "-", i)
					k := channel.EventKey{Channel: "fake", ID: raw}
					if _, err := j.Accept(t.Context(), k, []byte(raw)); err != nil {
						continue
					}
					mu.Lock()
					accepted[raw] = true
					mu.Unlock()
					c, _, err := j.Claim(t.Context(), k)
					if err != nil || i%3 == 0 {
						continue
					}
					if c.Commit(t.Context(), channel.OutcomeSilent) == nil {
						mu.Lock()
						settled[raw] = true
						mu.Unlock()
					}
				}
			})
		}
		for range rand.IntN(2000) {
			runtime.Gosched()
		}
		j.Abandon()
		stop.Store(true)
		wg.Wait()
	}
}

func FuzzRecordsOfAnyBytes(f *testing.F) { // CH-71
	dir := f.TempDir()
	j, err := file.OpenJournal(dir, file.JournalOptions{})
	if err != nil {
		f.Fatal(err)
	}
	_, _ = j.Accept(context.Background(), key(1), []byte("raw"))
	_, _ = j.Accept(context.Background(), channel.EventKey{ID: strings.Repeat("é", 100), Synthetic: true}, nil)
	_ = j.Close()
	names, _ := filepath.Glob(filepath.Join(dir, "*.events"))
	text, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-100])
	f.Add([]byte("Lev1"))
	f.Add(append(make([]byte, 64), text...))
	f.Fuzz(func(t *testing.T, text []byte) {
		end := 0
		file.Scan(text, func(offset, size int, again, raw []byte, erased bool) {
			if offset < end || offset%64 != 0 || size%64 != 0 || size <= 0 {
				t.Fatalf("a record at %d of %d bytes, behind %d", offset, size, end)
			}
			end = offset + size
			if erased {
				return
			}
			if key, read, err := file.ParseRecord(again); err != nil || !bytes.Equal(read, raw) {
				t.Fatalf("the record of %s cannot be read when it is written again: %v", key, err)
			}
		})
	})
}

// BenchmarkJournal is accept, claim and commit of one event and its duplicate, from so many doors at once.
func BenchmarkJournal(b *testing.B) {
	raw := journaltest.Text(300)
	for _, doors := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("doors=", doors), func(b *testing.B) {
			j := open(b, b.TempDir(), file.JournalOptions{})
			ctx := context.Background()
			b.ReportAllocs()
			b.SetParallelism(max(1, doors/runtime.GOMAXPROCS(0)))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					k := channel.EventKey{Channel: "fake", Conversation: "42", ID: fmt.Sprint(n.Add(1))}
					for range 2 {
						isNew, err := j.Accept(ctx, k, raw)
						if err != nil {
							b.Error(err)
							return
						}
						if !isNew {
							continue
						}
						c, _, err := j.Claim(ctx, k)
						if err != nil || c.Commit(ctx, channel.OutcomeVisible) != nil {
							b.Error(err)
							return
						}
					}
				}
			})
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
