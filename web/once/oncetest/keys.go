// Package oncetest is the test of every [once.Keys].
package oncetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/web/once"
)

// Setup makes keys for a test.
type Setup struct {
	// Open makes keys that are retained for so long; each call of one t makes another replica of the same keys.
	Open func(t *testing.T, retention time.Duration) once.Keys
	// Few makes keys of which only so many are known.
	Few func(t *testing.T, most int) once.Keys
	// Alone says that there are no other replicas: Open is called once for a t.
	Alone bool
	// Shared says that Of comes back.
	Shared bool
}

// Run is a run's id.
func Run(n int) string { return fmt.Sprintf("%026d", n) }

// Test runs the suite.
func Test(t *testing.T, s Setup) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Setup, a, b once.Keys)
	}{
		{"CL-09: a key leads to the first run, on any replica", leads},
		{"keys of others are others", owners},
		{"of many who claim one gets it", race},
		{"a key is moved", moves},
		{"a key is forgotten", forgets},
		{"what cannot be a claim is none", checks},
		{"who does not wait any more has claimed nothing", canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.Open(t, time.Hour)
			b := a
			if !s.Alone {
				b = s.Open(t, time.Hour)
			}
			test.run(t, s, a, b)
		})
	}
	t.Run("DA-09, RU-22: one caller's flood leaves the keys of others", func(t *testing.T) { flood(t, s) })
	t.Run("a key is known for as long as keys are retained", func(t *testing.T) { expires(t, s.Open(t, retention)) })
}

func claim(t *testing.T, k once.Keys, c once.Claim) (once.Claim, bool) {
	t.Helper()
	got, ok, err := k.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got, ok
}

func find(t *testing.T, k once.Keys, owner, key, want string) once.Claim {
	t.Helper()
	got, ok, err := k.Find(t.Context(), owner, key)
	if err != nil || ok != (want != "") || ok && got.Run != want {
		t.Fatalf("the key %.40q of %q leads to %q, %v, %v; want %q", key, owner, got.Run, ok, err, want)
	}
	return got
}

func leads(t *testing.T, s Setup, a, b once.Keys) {
	find(t, b, "ada", "k1", "")
	first := once.Claim{Owner: "ada", Key: "k1", Hash: [16]byte{1}, Run: Run(1), Of: []byte(`{"workflow":"旅行","Owner":"ada"}`)}
	begin := time.Now().Add(-2 * time.Second) // times may be whole seconds
	got, ok := claim(t, a, first)
	if !ok || got.Run != Run(1) {
		t.Fatalf("the first: %+v, %v", got, ok)
	}
	for name, c := range map[string]once.Claim{
		"again": {Owner: "ada", Key: "k1", Hash: [16]byte{1}, Run: Run(2)}, "another request": {Owner: "ada", Key: "k1", Hash: [16]byte{2}, Run: Run(3)},
	} {
		for _, k := range []once.Keys{a, b} {
			got, ok := claim(t, k, c)
			if ok || got.Run != Run(1) || got.Hash != first.Hash || got.Owner != "ada" || got.Key != "k1" || got.At.Before(begin) || got.At.After(time.Now().Add(time.Second)) {
				t.Errorf("%s: %+v, %v", name, got, ok)
			}
			if s.Shared && string(got.Of) != string(first.Of) {
				t.Errorf("%s: the run is of %s", name, got.Of)
			}
		}
	}
	if got := find(t, b, "ada", "k1", Run(1)); got.Hash != first.Hash {
		t.Errorf("found %+v", got)
	}
}

func owners(t *testing.T, _ Setup, a, b once.Keys) {
	names := []struct{ owner, key string }{
		{"", "k"}, {"ada", "k"}, {"bob", "k"}, {"", "ada"}, {"ada", "ada"}, {"bob@example", "k.*> \r\n"}, {"", strings.Repeat("键", 1000)}, {"", "K"},
	}
	for i, n := range names {
		if _, ok := claim(t, a, once.Claim{Owner: n.owner, Key: n.key, Run: Run(i)}); !ok {
			t.Errorf("%.20q of %q was claimed before", n.key, n.owner)
		}
	}
	for i, n := range names {
		find(t, b, n.owner, n.key, Run(i))
	}
}

// flood claims more keys for one caller than are known at all.
func flood(t *testing.T, s Setup) {
	const most, others = 160, 8
	k := s.Few(t, most)
	claimed := 0
	own := func(owner, key string) {
		t.Helper()
		if _, ok := claim(t, k, once.Claim{Owner: owner, Key: key, Run: Run(claimed)}); !ok {
			t.Fatalf("%s of %s was claimed before", key, owner)
		}
		claimed++
	}
	for n := range others {
		own("bob", fmt.Sprint(n))
		own(fmt.Sprint("user-", n), "k")
	}
	before := claimed
	for n := range 2 * most {
		own("ada", fmt.Sprint(n))
	}
	for n := range others {
		find(t, k, "bob", fmt.Sprint(n), Run(2*n))
		find(t, k, fmt.Sprint("user-", n), "k", Run(2*n+1))
	}
	find(t, k, "ada", fmt.Sprint(2*most-1), Run(claimed-1))
	known := 0
	for n := range 2 * most {
		_, ok, err := k.Find(t.Context(), "ada", fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			known++
		}
	}
	if known > most-before || known == 0 {
		t.Errorf("%d keys of the one with too many are known, and %d of all are the most", known, most)
	}
}

func race(t *testing.T, _ Setup, a, b once.Keys) {
	for round := range 20 {
		key := fmt.Sprint("k", round)
		const n = 8
		var mu sync.Mutex
		var won []string
		led := map[string]bool{}
		var wg sync.WaitGroup
		for i := range n {
			k := a
			if i%2 == 1 {
				k = b
			}
			wg.Go(func() {
				got, ok, err := k.Claim(t.Context(), once.Claim{Key: key, Run: Run(round*n + i)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if ok {
					won = append(won, got.Run)
				}
				led[got.Run] = true
			})
		}
		wg.Wait()
		if len(won) != 1 || len(led) != 1 || !led[won[0]] {
			t.Fatalf("%q have it, and it leads to %v", won, led)
		}
	}
}

func moves(t *testing.T, _ Setup, a, b once.Keys) {
	move := func(k once.Keys, from, to int, want bool) {
		t.Helper()
		if ok, err := k.Move(t.Context(), "ada", "k", Run(from), Run(to)); err != nil || ok != want {
			t.Errorf("from %d to %d: %v, %v", from, to, ok, err)
		}
	}
	move(a, 1, 2, false)
	claim(t, a, once.Claim{Owner: "ada", Key: "k", Hash: [16]byte{7}, Run: Run(1)})
	move(b, 1, 2, true)
	move(a, 1, 3, false)
	if got := find(t, a, "ada", "k", Run(2)); got.Hash != [16]byte{7} {
		t.Errorf("the request is another: %+v", got)
	}
	move(a, 2, 1, true)
	if got, ok := claim(t, b, once.Claim{Owner: "ada", Key: "k", Hash: [16]byte{7}, Run: Run(9)}); ok || got.Run != Run(1) {
		t.Errorf("claimed again: %+v, %v", got, ok)
	}
}

func forgets(t *testing.T, _ Setup, a, b once.Keys) {
	forget := func(k once.Keys, run int) {
		t.Helper()
		if err := k.Forget(t.Context(), "ada", "k", Run(run)); err != nil {
			t.Error(err)
		}
	}
	forget(a, 1)
	for round := range 3 {
		if _, ok := claim(t, a, once.Claim{Owner: "ada", Key: "k", Run: Run(round)}); !ok {
			t.Fatalf("round %d: it is claimed", round)
		}
		forget(b, 77) // another run's
		find(t, b, "ada", "k", Run(round))
		forget(b, round)
		find(t, a, "ada", "k", "")
		forget(a, round)
	}
}

func checks(t *testing.T, _ Setup, a, _ once.Keys) {
	for name, c := range map[string]once.Claim{
		"no key": {Run: Run(1)}, "no run": {Key: "k"}, "too much said of it": {Key: "k", Run: Run(1), Of: make([]byte, once.MaxOf+1)},
	} {
		if _, ok, err := a.Claim(t.Context(), c); err == nil || ok {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func canceled(t *testing.T, _ Setup, a, b once.Keys) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client disconnected")
	cancel(why)
	if _, ok, err := a.Claim(ctx, once.Claim{Key: "k", Run: Run(1)}); ok || !errors.Is(err, why) {
		t.Errorf("claimed: %v, %v", ok, err)
	}
	if _, _, err := a.Find(ctx, "", "k"); !errors.Is(err, why) {
		t.Errorf("found: %v", err)
	}
	if _, ok := claim(t, b, once.Claim{Key: "k", Run: Run(2)}); !ok {
		t.Error("it is claimed")
	}
}

// retention is how long keys are known that expire. Times may be whole seconds: they are known for one second at least.
const retention = 2 * time.Second

func expires(t *testing.T, k once.Keys) {
	begin := time.Now()
	claim(t, k, once.Claim{Key: "k", Run: Run(1)})
	if got, ok, err := k.Find(t.Context(), "", "k"); err != nil || ok != (got.Run == Run(1)) || !ok && time.Since(begin) < retention-time.Second {
		t.Fatalf("after %v the key leads to %q, %v, %v", time.Since(begin), got.Run, ok, err)
	}
	for n := 2; ; n++ {
		got, ok := claim(t, k, once.Claim{Key: "k", Run: Run(n)})
		if ok {
			break
		}
		if got.Run != Run(1) {
			t.Fatalf("it leads to %s", got.Run)
		}
		if time.Since(begin) > time.Hour {
			t.Fatal("it is known for ever")
		}
		time.Sleep(10 * time.Millisecond) // until the servers' clocks have gone on
	}
}

// Bench measures claims.
func Bench(b *testing.B, k once.Keys) {
	for n := 0; b.Loop(); n++ {
		if _, ok, err := k.Claim(b.Context(), once.Claim{Owner: "ada", Key: Run(n), Run: Run(n), Of: []byte(`{"workflow":"encyclopedia"}`)}); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}
