package run

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/oncetest"
)

func openLocalKeys(t testing.TB, folder string, retention time.Duration) localKeys {
	t.Helper()
	var d *disk
	if folder != "" {
		var err error
		if d, err = openDisk(folder); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.close(); err != nil {
				t.Error(err)
			}
		})
	}
	return localKeys{bareService(Options{KeyRetention: retention}, d)}
}

// CL-09: keys of one server alone pass the suite of those that replicas share.
func TestLocalKeys(t *testing.T) {
	for name, folder := range map[string]func(*testing.T) string{
		"in memory": func(*testing.T) string { return "" }, "in a folder": func(t *testing.T) string { return t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			oncetest.Test(t, oncetest.Setup{Alone: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
				return openLocalKeys(t, folder(t), retention)
			}, Few: func(t *testing.T, most int) once.Keys {
				k := openLocalKeys(t, folder(t), time.Hour)
				k.s.keys.most = most
				return k
			}})
		})
	}
}

// FT-28: after a restart a key leads where it led, and one that was forgotten leads nowhere.
func TestLocalKeysOutlastAServer(t *testing.T) {
	folder := t.TempDir()
	t.Run("the first", func(t *testing.T) {
		k := openLocalKeys(t, folder, time.Hour)
		for n, key := range []string{"kept", "moved", "forgotten"} {
			c := once.Claim{Owner: "ada", Key: key, Hash: [16]byte{byte(n)}, Run: oncetest.Run(n), Of: []byte(`{"agent":"assistant"}`)}
			if _, ok, err := k.Claim(t.Context(), c); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		if ok, err := k.Move(t.Context(), "ada", "moved", oncetest.Run(1), oncetest.Run(7)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := k.Forget(t.Context(), "ada", "forgotten", oncetest.Run(2)); err != nil {
			t.Fatal(err)
		}
	})
	k := openLocalKeys(t, folder, time.Hour)
	subjects, err := k.s.disk.loadKeys(k.s.keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := subjects[oncetest.Run(0)]; got.Agent != "assistant" || got.Owner != "ada" {
		t.Errorf("the run is of %+v", got)
	}
	for key, want := range map[string]string{"kept": oncetest.Run(0), "moved": oncetest.Run(7), "forgotten": ""} {
		if got, ok, err := k.Find(t.Context(), "ada", key); err != nil || ok != (want != "") || got.Run != want {
			t.Errorf("%s leads to %q, %v, %v", key, got.Run, ok, err)
		}
	}
}

// DA-09, RU-22: the callers with the most keys lose their oldest; a crowd of callers with one key each stays within the bound, too.
func TestDA_09_KeysAreSharedFairly(t *testing.T) {
	for name, c := range map[string]struct{ have, left map[string]int }{
		"one caller":                {map[string]int{"ada": 101}, map[string]int{"ada": 90}},
		"a flood and others":        {map[string]int{"ada": 90, "bob": 10, "eve": 1}, map[string]int{"ada": 79, "bob": 10, "eve": 1}},
		"two floods and another":    {map[string]int{"ada": 60, "bob": 38, "eve": 3}, map[string]int{"ada": 49, "bob": 38, "eve": 3}},
		"two floods of one size":    {map[string]int{"ada": 50, "bob": 51}, map[string]int{"ada": 45, "bob": 45}},
		"nobody below the share":    {map[string]int{"ada": 34, "bob": 34, "eve": 33}, map[string]int{"ada": 30, "bob": 30, "eve": 30}},
		"a caller without a name":   {map[string]int{"": 100, "bob": 1}, map[string]int{"": 89, "bob": 1}},
		"as many as there may be":   {map[string]int{"ada": 100}, map[string]int{"ada": 100}},
		"the oldest have one owner": {map[string]int{"bob": 40, "ada": 61}, map[string]int{"bob": 40, "ada": 50}},
	} {
		k := newKeys(time.Hour)
		k.most = 100
		for owner, count := range c.have {
			for i := range count {
				e := keyEntry{key: once.Hash(owner, oncetest.Run(i)), owner: hashOwner(owner), at: int64(i)}
				k.entries[e.key] = e
			}
		}
		k.bound()
		for owner, want := range c.left {
			got, oldest := 0, c.have[owner]
			for i := range c.have[owner] {
				if _, ok := k.get(owner, oncetest.Run(i)); ok {
					got++
					oldest = min(oldest, i)
				}
			}
			if got != want || oldest != c.have[owner]-want {
				t.Errorf("%s: %q has %d from %d on, expected %d", name, owner, got, oldest, want)
			}
		}
	}
	k := newKeys(time.Hour)
	k.most = 100
	for i := range 101 {
		e := keyEntry{key: once.Hash(oncetest.Run(i), "k"), owner: hashOwner(oncetest.Run(i)), at: int64(i)}
		k.entries[e.key] = e
	}
	k.bound()
	if _, ok := k.get(oncetest.Run(100), "k"); len(k.entries) != 90 || !ok {
		t.Errorf("%d keys of as many callers are left, the newest %v", len(k.entries), ok)
	}
}
