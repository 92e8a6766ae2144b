package web

import (
	"log/slog"
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
	return localKeys{newRuns(&Options{KeyRetention: retention, Log: slog.New(slog.DiscardHandler)}, d)}
}

// CL-09: keys of one server alone pass the suite of those that replicas share.
func TestLocalKeys(t *testing.T) {
	for name, folder := range map[string]func(*testing.T) string{
		"in memory": func(*testing.T) string { return "" }, "in a folder": func(t *testing.T) string { return t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			oncetest.Test(t, oncetest.Setup{Alone: true, Open: func(t *testing.T, retention time.Duration) once.Keys {
				return openLocalKeys(t, folder(t), retention)
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
	subjects, err := k.rs.disk.loadKeys(k.rs.keys, time.Now())
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
