package before_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/before"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/table"
)

// keyLines is what the server has written of two keys, of one that was moved from a run to another, of one that was freed, and of one whose
// line was cut off. The first line has no checksum, as the first versions have written it.
const keyLines = `72a90ea3da8b5dd01bde2f27314e02e2 01000000000000000000000000000000 q6myrp4qkegvdwscbennnkcpyq 1790000000 "chat"
a5fd6584286fc95052dd59ccd7850ac8 02000000000000000000000000000000 aaaaaaaaaaaaaaaaaaaaaaaaaa 1790000001 by ada agent "the \"clerk\"" 833d1105
afb489d9fb7b6149f19f1dfec6634c23 03000000000000000000000000000000 bbbbbbbbbbbbbbbbbbbbbbbbbb 1790000002 by ada agent "clerk" a74c98cd
afb489d9fb7b6149f19f1dfec6634c23 03000000000000000000000000000000 cccccccccccccccccccccccccc 1790000003 by ada agent "clerk" b9e63315
9ebb4175ffd61c986bd46cef0a1579c3 04000000000000000000000000000000 dddddddddddddddddddddddddd 1790000004 by ada agent "clerk" cdf72604
9ebb4175ffd61c986bd46cef0a1579c3 04000000000000000000000000000000 dddddddddddddddddddddddddd 0 "" 4e3dd058
72a90ea3da8b5dd01bde2f27314e02e2 01000000000000000000000000000000 q6myrp4q`

// whenWritten is a moment after the lines were written.
var whenWritten = time.Unix(1790000010, 0)

// keysOf opens the keys of a folder of tables.
func keysOf(t *testing.T, tables vfs.Dir) (*table.Keys, func()) {
	t.Helper()
	e, err := file.Open(tables, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := table.Open(t.Context(), e, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k, func() {
		if err := errors.Join(k.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// checkKeys looks for the keys of keyLines.
func checkKeys(t *testing.T, tables vfs.Dir) {
	t.Helper()
	k, done := keysOf(t, tables)
	defer done()
	for _, want := range []once.Claim{
		{Key: "order-17", Hash: [16]byte{1}, Run: "q6myrp4qkegvdwscbennnkcpyq", Of: []byte(`{"workflow":"chat"}`)},
		{Owner: "ada", Key: "order-17", Hash: [16]byte{2}, Run: "aaaaaaaaaaaaaaaaaaaaaaaaaa", Of: []byte(`{"agent":"the \"clerk\"","owner":"ada"}`)},
		{Owner: "ada", Key: "moved", Hash: [16]byte{3}, Run: "cccccccccccccccccccccccccc", Of: []byte(`{"agent":"clerk","owner":"ada"}`)},
	} {
		got, ok, err := k.Find(t.Context(), want.Owner, want.Key)
		if err != nil || !ok || got.Hash != want.Hash || got.Run != want.Run || string(got.Of) != string(want.Of) {
			t.Errorf("%s of %q leads to %+v, %v, %v; expected %+v", want.Key, want.Owner, got, ok, err, want)
		}
	}
	if got, ok, err := k.Find(t.Context(), "ada", "freed"); ok || err != nil {
		t.Errorf("a key that was freed leads to %+v, %v", got, err)
	}
}

// dataWithKeys makes a data folder with keys.
func dataWithKeys(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keys.txt"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FT-27, FT-28: keys of an earlier version lead where they led, for the rest of their time; a damaged line loses no other.
func TestKeysAreTakenIn(t *testing.T) {
	for name, lines := range map[string]string{
		"whole": keyLines, "with a damaged line": strings.Replace(keyLines, "bbbbbb", "bbbxbb", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(whenWritten))
				dir, tables, log := dataWithKeys(t, lines), vfs.InMemory(), new(bytes.Buffer)
				for range 2 { // the second finds nothing
					if err := before.Keys(t.Context(), vfs.At(dir), tables, 24*time.Hour, slog.New(slog.NewTextHandler(log, nil))); err != nil {
						t.Fatal(err)
					}
				}
				checkKeys(t, tables)
				if _, err := os.Stat(filepath.Join(dir, "keys.txt.before")); err != nil {
					t.Error(err)
				}
				if damaged := strings.Count(log.String(), "cannot read an idempotency key"); damaged != map[bool]int{true: 1}[lines != keyLines] {
					t.Errorf("logged %s", log)
				}
				time.Sleep(23 * time.Hour)
				checkKeys(t, tables)
				time.Sleep(time.Hour)
				k, done := keysOf(t, tables)
				defer done()
				if got, ok, err := k.Find(t.Context(), "", "order-17"); ok || err != nil {
					t.Errorf("after a day the key leads to %+v, %v", got, err)
				}
			})
		})
	}
}

func TestNoKeysAreTakenInWhileAnEarlierVersionUsesThem(t *testing.T) {
	dir := dataWithKeys(t, keyLines)
	root, err := vfs.At(dir).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	lock, err := root.Open("lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	err = before.Keys(t.Context(), vfs.At(dir), vfs.InMemory(), time.Hour, slog.New(slog.DiscardHandler))
	if _, stat := os.Stat(filepath.Join(dir, "keys.txt")); !errors.Is(err, store.ErrInUse) || stat != nil {
		t.Errorf("got %v, %v; expected %v", err, stat, store.ErrInUse)
	}
}

// Whichever call of the tables to their disk fails: the file is renamed only if its keys are there after a loss of power. If a start fails, the
// next one takes them in.
func TestEachCallToTheDiskMayFailWhileKeysAreTakenIn(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(whenWritten))
			dir, log := dataWithKeys(t, keyLines), slog.New(slog.DiscardHandler)
			failed := before.Keys(t.Context(), vfs.At(dir), d.Dir, 24*time.Hour, log)
			if failed != nil {
				d.Mend()
				if err := before.Keys(t.Context(), vfs.At(dir), d.Dir, 24*time.Hour, log); err != nil {
					t.Fatal(err)
				}
			}
			d.Mend()
			if _, err := os.Stat(filepath.Join(dir, "keys.txt.before")); err != nil {
				t.Error(err)
			}
			if open := d.Open(); len(open) > 0 {
				t.Errorf("open at the end: %q", open)
			}
			checkKeys(t, d.Crash(failed == nil).Dir)
		})
	})
}
