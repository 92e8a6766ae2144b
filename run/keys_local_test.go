package run

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/oncetest"
)

func openLocalKeys(t testing.TB, folder string, retention time.Duration) localKeys {
	t.Helper()
	o := Options{Data: folder, KeyRetention: retention, Log: slog.New(slog.DiscardHandler)}
	k, err := openKeys(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// FT-28: after a restart a key leads where it led, and one that was forgotten leads nowhere.
func TestLocalKeysOutlastAServer(t *testing.T) {
	folder := t.TempDir()
	t.Run("the first", func(t *testing.T) {
		k := openLocalKeys(t, folder, time.Hour)
		for n, key := range []string{"kept", "moved", "forgotten"} {
			c := once.Claim{Owner: "ada", Key: key, Hash: [16]byte{byte(n)}, Run: oncetest.Run(n), Of: mustJSON(claimed{Subject{Agent: "assistant"}, "ada", ""})}
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
	lost, err := newService(Options{}, nil, k).keyedWithout(map[string]header{oncetest.Run(7): {}})
	if err != nil {
		t.Fatal(err)
	}
	if got := lost[oncetest.Run(0)]; len(lost) != 1 || got.Agent != "assistant" || got.Owner != "ada" {
		t.Errorf("runs that have left nothing: %+v", lost)
	}
	for key, want := range map[string]string{"kept": oncetest.Run(0), "moved": oncetest.Run(7), "forgotten": ""} {
		if got, ok, err := k.Find(t.Context(), "ada", key); err != nil || ok != (want != "") || got.Run != want {
			t.Errorf("%s leads to %q, %v, %v", key, got.Run, ok, err)
		}
	}
}
