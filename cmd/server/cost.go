package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
)

// newBudget makes the budget that the settings describe. What a session has cost is on its tape; without a store, sessions begin at nothing.
// Only a server keeps what was spent today: two processes would overwrite each other's file.
func newBudget(c *config.Config, store tape.Store, keep bool, log *slog.Logger) *adapter.Budget {
	o := adapter.BudgetOptions{Run: micro(c.Cost.Run), Session: micro(c.Cost.Session), Caller: micro(c.Cost.Caller), Day: micro(c.Cost.Day), Log: log}
	if keep && c.Data != "" {
		o.File = filepath.Join(c.Data, "cost.json")
	}
	if store != nil {
		o.Spent = func(ctx context.Context, session string) (int64, error) {
			t, err := tape.Lookup(ctx, store, c.Workspace, session)
			if errors.Is(err, tape.ErrNotFound) {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			used, err := agent.Usage(ctx, t)
			return used.Cost, err
		}
	}
	return adapter.NewBudget(o)
}

// micro is dollars in millionths.
func micro(dollars float64) int64 {
	return int64(min(math.Ceil(math.Round(dollars*1e9)/1e3), 1<<53))
}

// cost tells what was spent today, in millionths of a dollar: by all, and by each caller.
func (a *admin) cost(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.budget.Today()) // the client may have gone away
}
