package nats_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

func openTexts(t testing.TB, c *cluster.Cluster, o nats.TextsOptions) *nats.Texts {
	t.Helper()
	s, err := nats.OpenTexts(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTexts(t *testing.T) { // CL-02, CH-90
	s := clustertest.One(t)
	c, other := s.Open(t), s.Open(t)
	var mu sync.Mutex
	opened := map[channel.WindowStore]string{}
	var n atomic.Int64
	journaltest.RunTexts(t, journaltest.Texts{
		Open: func(t testing.TB) channel.WindowStore {
			name := fmt.Sprint("WINDOWS", n.Add(1))
			s := openTexts(t, c, nats.TextsOptions{Name: name, Bytes: 1 << 20})
			mu.Lock()
			defer mu.Unlock()
			opened[s] = name
			return s
		},
		Again: func(t testing.TB, was channel.WindowStore) channel.WindowStore {
			mu.Lock()
			defer mu.Unlock()
			s := openTexts(t, other, nats.TextsOptions{Name: opened[was], Bytes: 1 << 20})
			opened[s] = opened[was]
			return s
		},
	})
}

func TestTextsAreBounded(t *testing.T) { // CH-90
	c := clustertest.One(t).Open(t)
	s := openTexts(t, c, nats.TextsOptions{Name: "WINDOWS", Bytes: 64 << 10, Life: time.Hour})
	for i := range 100 {
		if err := s.Save(t.Context(), fmt.Sprint(i), []byte(strings.Repeat("x", 2000))); err != nil {
			t.Fatal(err)
		}
	}
	names, err := s.Names(t.Context())
	if err != nil || len(names) == 0 || len(names) > 32 || names[len(names)-1] != "99" {
		t.Errorf("%d texts are there, %v", len(names), err)
	}
	if err := s.Save(t.Context(), "big", make([]byte, 600<<10)); err == nil {
		t.Error("a text that is too large is saved")
	}
}

func TestSessionsAreKnownByAllReplicas(t *testing.T) { // CL-02, CH-23
	s := clustertest.One(t)
	open := func() *file.Sessions {
		return file.ShareSessions(openTexts(t, s.Open(t), nats.TextsOptions{Name: "SESSIONS", Bytes: 1 << 20}), file.SessionsOptions{})
	}
	a, b := open(), open()
	row := func(sender string) channel.Row {
		return channel.Row{
			SessionKey: "s", Channel: "fake", Account: "x", Sender: sender, At: time.Unix(1, 0).UTC(),
			Route:        channel.RouteFacts{MainSessionKey: "main"},
			Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender},
			Reply:        channel.ReplyPlanFacts{To: sender},
		}
	}
	var wg sync.WaitGroup
	for i, s := range []*file.Sessions{a, b, a, b} {
		wg.Go(func() {
			r := row(fmt.Sprint("p", i))
			if err := errors.Join(s.Record(t.Context(), r), s.LastRoute(t.Context(), r)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	one, err := a.Owner(t.Context(), "main")
	if other, err2 := b.Owner(t.Context(), "main"); one == "" || one != other || err != nil || err2 != nil {
		t.Errorf("the main session is of %q here and %q there, %v, %v", one, other, err, err2)
	}
	if places, err := b.Places(t.Context(), "s"); err != nil || len(places) != 4 {
		t.Errorf("%d places are known of 4, %v", len(places), err)
	}
	if err := a.LastRoute(t.Context(), row("ann")); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := b.Last(t.Context(), "s"); err != nil || !ok || r.Reply.To != "ann" {
		t.Errorf("the last route is %q, %v, %v", r.Reply.To, ok, err)
	}
	if err := b.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := a.Last(t.Context(), "s"); ok || err != nil {
		t.Errorf("a session that was forgotten is known: %v", err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}
