package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/memlimit"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web"
)

// limitsOf returns the limits of the server. The machine has those that the settings leave open.
func limitsOf(c *config.Config, log *slog.Logger) web.Limits {
	l := c.Limit.Limits
	if l.Images == 0 {
		l.Images = -1 // to the server, 0 is its default
	}
	files := memlimit.OpenFiles()
	switch {
	case l.Connections == 0:
		l.Connections = memlimit.Connections(files)
	case files > 0 && uint64(l.Connections) > files:
		log.Warn("limit.connections exceeds the open file limit",
			"limit.connections", l.Connections, "files", files)
	}
	var from string
	l.Memory, from = memlimit.Set(l.Memory)
	log.Debug("limits", "memory", l.Memory, "memory_from", from, "connections", l.Connections, "files", files)
	return l
}

// boundTapes bounds the number of sessions of a store, if the settings do. Its error is for the user.
func boundTapes(c *config.Config, store tape.Store) (tape.Store, error) {
	share := cmp.Or(c.Limit.SessionsPerCaller, (c.Limit.Sessions+1)/2)
	if c.Limit.Sessions == 0 && share == 0 {
		return store, nil
	}
	bounded, err := tape.Bound(context.Background(), store, c.Limit.Sessions, share)
	if err != nil {
		return nil, databaseError(c, errors.Join(err, store.Close()))
	}
	return bounded, nil
}

// newBudget makes the budget of the settings. The tape of a session has its cost; without a store, sessions begin at 0. Only a server stores the
// spending.
func newBudget(c *config.Config, store tape.Store, spending adapter.SpendingStore, log *slog.Logger) *adapter.Budget {
	cost := c.Limit.Cost
	o := adapter.BudgetOptions{Run: micro(cost.Run), Session: micro(cost.Session), Caller: micro(cost.Caller), Day: micro(cost.Day), Log: log}
	o.Store = spending
	if store != nil {
		o.Spent = func(ctx context.Context, session string) (int64, error) {
			t, err := tape.Lookup(ctx, store, c.Workspace, session)
			if errors.Is(err, tape.ErrNotFound) {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			used, _, err := agent.Usage(ctx, t)
			return used.Cost, err
		}
	}
	return adapter.NewBudget(o)
}

// micro is dollars in millionths.
func micro(dollars float64) int64 {
	return int64(min(math.Ceil(math.Round(dollars*1e9)/1e3), 1<<53))
}
