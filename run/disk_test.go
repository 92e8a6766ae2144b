package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// anEndedRun makes a run that has ended with a document.
func anEndedRun(t testing.TB, id, text string) *Run {
	t.Helper()
	r := &Run{
		ID: id, Of: Subject{Workflow: "w"}, tube: tube.New(id, TubeOptions(0)), Began: time.Now(), done: make(chan struct{}),
		result: Result{
			Status: StatusCompleted, Usage: map[string]adapter.Usage{"b": {TotalTokens: 3}},
			Errors: []ling.ErrorData{{Code: "x", Message: "y"}},
		},
	}
	for _, e := range []tube.Event{
		{Kind: tube.Set, URI: []byte("a"), Value: []byte(`{}`)},
		{Kind: tube.Append, URI: []byte("a/b"), Value: []byte(text)},
		{Kind: tube.Set, URI: []byte("hidden"), Value: []byte("1"), Hidden: true},
	} {
		if _, err := r.tube.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.tube.Close(StatusCompleted); err != nil {
		t.Fatal(err)
	}
	close(r.done)
	return r
}

func TestARunComesBackFromDiskAsItWas(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	r := anEndedRun(t, NewID(), "text")
	if _, err := d.save(r); err != nil {
		t.Fatal(err)
	}
	back, err := d.load(r.ID, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resultText(r), resultText(back)); diff != "" {
		t.Error(diff)
	}
	if back.tube.Len() != r.tube.Len() || back.Of.Workflow != "w" || !back.Ended() {
		t.Errorf("%+v", back)
	}
	// SE-23: nobody else reads it.
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && path != folder && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNotWholeIsNotTakenForARun(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	r := anEndedRun(t, NewID(), "text")
	if _, err := d.save(r); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(folder, FileOf(r.ID)))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"cut in the first": string(whole[:10]),
		"cut in the last":  string(whole[:len(whole)-5]),
		"of another run":   strings.ReplaceAll(string(whole), r.ID, NewID()),
		"rubbish":          "\x00\x01\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(folder, FileOf(r.ID)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if back, err := d.load(r.ID, 1<<20); err == nil {
				t.Errorf("was read as %s", resultText(back))
			}
		})
	}
}

// SE-20
func TestNoIDReachesAFileOutsideTheFolder(t *testing.T) {
	outside := t.TempDir()
	folder := filepath.Join(outside, "data")
	rs := bareService(Options{}, nil)
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	rs.disk = d
	secret := filepath.Join(outside, "secret.jsonl")
	if err := os.WriteFile(secret, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(folder, FileOf("link"))); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"../../secret", "..", "a/b", "a\x00b", "", strings.Repeat("a", 300), "C:a", "%2e%2e"} {
		if _, err := rs.get(t.Context(), access.Local, id); err != errUnknown {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := d.save(anEndedRun(t, id, "x")); err == nil {
			t.Errorf("%q was written", id)
		}
	}
	if _, err := d.load("link", 1<<20); err == nil {
		t.Error("a link out of the folder was followed")
	}
	files, err := d.list()
	if err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// FT-28, FT-23
func TestKeysSurviveACrashInTheMiddleOfAWrite(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	k := newKeys(time.Hour)
	var ids []string
	for i := range 3 {
		ids = append(ids, NewID())
		if err := d.addKey(k.put("", fmt.Sprint("key-", i), [16]byte{byte(i)}, ids[i]), lineage{Subject: Subject{Workflow: "work flow \"x\"\n"}}); err != nil {
			t.Fatal(err)
		}
	}
	d.close()
	text, err := os.ReadFile(filepath.Join(folder, keysFile))
	if err != nil {
		t.Fatal(err)
	}
	second := strings.Index(string(text), "\n") + 1
	third := second + strings.Index(string(text[second:]), "\n") + 1
	for cut := range len(text) + 1 {
		if err := os.WriteFile(filepath.Join(folder, keysFile), text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := openDisk(folder)
		if err != nil {
			t.Fatal(err)
		}
		k := newKeys(time.Hour)
		subjects, err := d.loadKeys(k, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, end := range []int{second, third, len(text)} {
			if cut >= end {
				want++
			}
		}
		if len(k.entries) != want {
			t.Fatalf("cut at %d: %d keys, want %d", cut, len(k.entries), want)
		}
		if e, ok := k.get("", "key-0"); want > 0 && (!ok || e.id() != ids[0] || cut == len(text) && subjects[ids[0]].Workflow != "work flow \"x\"\n") {
			t.Fatalf("cut at %d: %+v, %q", cut, e, subjects)
		}
		// What is appended after the crash is not glued to what it has cut off.
		if err := d.addKey(k.put("", "new", [16]byte{9}, NewID()), lineage{}); err != nil {
			t.Fatal(err)
		}
		d.close()
		if d, err = openDisk(folder); err != nil {
			t.Fatal(err)
		}
		k = newKeys(time.Hour)
		if subjects, err = d.loadKeys(k, time.Now()); err != nil || len(k.entries) != want+1 {
			t.Fatalf("cut at %d, then one more: %d keys, %v", cut, len(k.entries), err)
		}
		if want > 0 && subjects[ids[0]].Workflow != "work flow \"x\"\n" {
			t.Fatalf("cut at %d: the run is of %+v", cut, subjects[ids[0]])
		}
		d.close()
	}
}

// FT-27
func TestKeysExpireByTheClockAndStandItsBeingSet(t *testing.T) {
	k := newKeys(24 * time.Hour)
	e := k.put("", "a", [16]byte{}, NewID())
	now := time.Now()
	for ahead, gone := range map[time.Duration]bool{
		0: false, -time.Hour: false, time.Hour: false, 23 * time.Hour: false, 24*time.Hour + 2*time.Second: true,
	} {
		if k.expired(e, now.Add(ahead)) != gone {
			t.Errorf("after %v: %v", ahead, !gone)
		}
	}
	if k.sweep(now.Add(23*time.Hour)) || len(k.entries) != 1 {
		t.Error("swept early")
	}
	if !k.sweep(now.Add(25*time.Hour)) || len(k.entries) != 0 {
		t.Error("not swept")
	}
}

func TestKeysAreBounded(t *testing.T) {
	k := newKeys(time.Hour)
	for i := range maxKeys + 10 {
		key := [16]byte{byte(i), byte(i >> 8), byte(i >> 16)}
		k.entries[key] = keyEntry{key: key, at: int64(i)}
	}
	k.put("", "newest", [16]byte{}, NewID())
	if len(k.entries) > maxKeys {
		t.Errorf("%d keys", len(k.entries))
	}
	if _, ok := k.get("", "newest"); !ok {
		t.Error("the newest was forgotten")
	}
}

func TestTheFileOfKeysIsWrittenAnewWhenMostHaveExpired(t *testing.T) {
	folder := t.TempDir()
	d, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	k := newKeys(time.Hour)
	for i := range 2000 {
		if err := d.addKey(k.put("", fmt.Sprint(i), [16]byte{}, NewID()), lineage{Subject: Subject{Workflow: "w"}}); err != nil {
			t.Fatal(err)
		}
	}
	kept, _ := k.get("", "1999")
	k.entries = map[[16]byte]keyEntry{kept.key: kept}
	if err := d.shortenKeys(k); err != nil {
		t.Fatal(err)
	}
	d.settler.pass()
	text, err := os.ReadFile(filepath.Join(folder, keysFile))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%q, %v", text, err)
	}
	if err := d.addKey(k.put("", "after", [16]byte{}, NewID()), lineage{Subject: Subject{Workflow: "w"}}); err != nil {
		t.Fatal(err)
	}
	again := newKeys(time.Hour)
	subjects, err := d.loadKeys(again, time.Now())
	if err != nil || len(again.entries) != 2 || subjects[kept.id()].Workflow != "w" {
		t.Errorf("%d keys, %v, %v", len(again.entries), subjects, err)
	}
}

func TestExpiredIDsAreRememberedUpToABound(t *testing.T) {
	var e expired
	for i := range maxExpired + 100 {
		e.add(fmt.Sprint(i), "ann")
		e.add(fmt.Sprint(i), "ann")
	}
	has := func(id string) bool { owner, ok := e.owner(id); return ok && owner == "ann" }
	if len(e.ids) != maxExpired || has("0") || has("99") || !has("100") || !has(fmt.Sprint(maxExpired+99)) {
		t.Errorf("%d ids", len(e.ids))
	}
}

func TestRunIDsAreLongAndOfFileNameCharacters(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if len(id) != len(keyEntry{}.run) || !ValidID(id) || strings.ToLower(id) != id || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}

// Two servers on one folder would both restore from it and write to it.
func TestAFolderIsForOneServerAtATime(t *testing.T) {
	folder := t.TempDir()
	first, err := openDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDisk(folder); !errors.Is(err, errInUse) || !strings.Contains(err.Error(), folder) {
		t.Errorf("a second one: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openDisk(folder)
	if err != nil {
		t.Fatalf("after the first: %v", err)
	}
	second.close()
}
