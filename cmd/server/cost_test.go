package main

import (
	"log/slog"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// MO-41: dollars of the settings are millionths, of which none is lost or made up.
func TestDollarsBecomeMillionths(t *testing.T) {
	for dollars, want := range map[float64]int64{0: 0, 0.5: 500_000, 0.1: 100_000, 1.1: 1_100_000, 0.0000001: 1, 20: 20_000_000, 1e300: 1 << 53} {
		if got := micro(dollars); got != want {
			t.Errorf("%v dollars are %d, expected %d", dollars, got, want)
		}
	}
}

// MO-40, MO-41: a server's budget counts on with what a session's tape says, and stores what was spent today.
func TestTheServersBudget(t *testing.T) {
	store := tapetest.NewMemory(nil)
	defer store.Close()
	c := &config.Config{Data: t.TempDir(), Workspace: "w", Limit: config.Limit{Cost: config.Cost{Session: 0.5}}}
	talk, err := tape.Open(t.Context(), store, "w", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := talk.Append(t.Context(), tape.NewEvent("turn.end", map[string]any{"status": "ok", "usage": adapter.Usage{TotalTokens: 1, Cost: 499_000}})); err != nil {
		t.Fatal(err)
	}
	call := func(b *adapter.Budget, session string) error {
		models := &adapter.Registry{Budget: b, Prices: func(string, string) (adapter.Price, bool) { return adapter.Price{Input: 10, Output: 10}, true }}
		models.Register("demo", demo.New(&demo.Options{Pace: -1}))
		m, err := models.Model("demo:demo")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Stream(trail.With(t.Context(), trail.Trail{Run: session, Session: session, Caller: "me"}), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "hi"}}}) {
			err = e
		}
		return err
	}
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := newBudget(c, store, d.Usage(), slog.New(slog.DiscardHandler))
	if err := call(b, "s"); adapter.AsError(err).Code != adapter.CodeBudget {
		t.Errorf("a session that has cost all: %v", err)
	}
	if err := call(b, "another"); err != nil {
		t.Error(err)
	}
	spent := b.Today()
	if spent.Cost == 0 || spent.Callers["me"] != spent.Cost {
		t.Errorf("%+v", spent)
	}
	b.Close()
	if got := newBudget(c, nil, d.Usage(), slog.New(slog.DiscardHandler)).Today(); got.Cost != spent.Cost && got.Day == spent.Day {
		t.Errorf("after a restart: %+v", got)
	}
}
