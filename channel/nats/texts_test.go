package nats_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
)

// tables is the engine of one replica.
func tables(t testing.TB, c *cluster.Cluster) store.Engine {
	t.Helper()
	e := storenats.Open(c, storenats.Options{})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func openTexts(t testing.TB, e store.Engine, o channel.TextTable) channel.Texts {
	t.Helper()
	s, err := channel.OpenTexts(t.Context(), e, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTexts(t *testing.T) { // CL-02, CH-90
	s := clustertest.One(t)
	first, second := tables(t, s.Open(t)), tables(t, s.Open(t))
	var mu sync.Mutex
	opened := map[channel.Texts]channel.TextTable{}
	var n atomic.Int64
	for _, of := range []channel.TextTable{channel.WindowTable, channel.PairTable} {
		t.Run(of.Name, func(t *testing.T) {
			open := func(t testing.TB, e store.Engine, o channel.TextTable) channel.Texts {
				s := openTexts(t, e, o)
				mu.Lock()
				defer mu.Unlock()
				opened[s] = o
				return s
			}
			journaltest.RunTexts(t, journaltest.Texts{
				Open: func(t testing.TB) channel.Texts {
					o := of
					o.Name = fmt.Sprint(of.Name, n.Add(1))
					return open(t, first, o)
				},
				Again: func(t testing.TB, was channel.Texts) channel.Texts {
					mu.Lock()
					o := opened[was]
					mu.Unlock()
					return open(t, second, o)
				},
			})
		})
	}
}

// CL-02: while the servers are away, a caller is told to try again later, soon.
func TestTextsWhileTheServersAreAway(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	texts := openTexts(t, tables(t, s.Open(t)), channel.PairTable)
	s.Kill(0)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	_, err := texts.Load(ctx, "pair-x")
	if coded, ok := err.(interface{ ErrorCode() string }); !ok || coded.ErrorCode() != "overloaded" {
		t.Errorf("got %v", err)
	}
	s.Restart(0)
}

// CH-182, CL-09: what was answered at one replica is known at another, whatever its size, until its session is erased.
func TestAnswersAreKnownToAllReplicas(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	var all []*webhook.TableResults
	for range 2 {
		r, err := webhook.OpenResults(t.Context(), tables(t, s.Open(t)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	a, b := all[0], all[1]
	save := func(r *webhook.TableResults, message, session string, answer []byte) {
		t.Helper()
		if err := r.Save(t.Context(), message, session, answer); err != nil {
			t.Fatal(err)
		}
	}
	large := bytes.Repeat([]byte(`{"text":"words"}`), 100_000) // more than a message has
	save(a, "hook/1", "one", []byte("first"))
	save(a, "hook/2", "two", large)
	save(b, "hook/1", "one", []byte("newer"))
	for message, want := range map[string]string{"hook/1": "newer", "hook/2": string(large), "hook/3": ""} {
		for i, r := range all {
			if got, err := r.Load(t.Context(), message); err != nil || string(got) != want || (got == nil) != (want == "") {
				t.Errorf("%s at replica %d has %d bytes, %v, expected %d", message, i, len(got), err, len(want))
			}
		}
	}
	if err := a.Save(t.Context(), "hook/4", "one", random(3<<20)); err == nil {
		t.Error("one that no message has room for is kept")
	}
	if err := b.Erase(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	for message, there := range map[string]bool{"hook/1": false, "hook/2": true} {
		if got, err := a.Load(t.Context(), message); err != nil || (got != nil) != there {
			t.Errorf("%s is there: %v, %v", message, got != nil, err)
		}
	}
}
