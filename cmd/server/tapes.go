package main

import (
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
)

// openTapes opens the store of sessions. The observer may be nil. Its error is for the user.
func openTapes(c *config.Config, shared *replicas, log *slog.Logger, observer tape.Observer) (tape.Store, error) {
	store, err := openStore(c, shared, log, observer)
	if err != nil {
		return nil, err
	}
	bounded, err := boundTapes(c, store)
	if err != nil {
		return nil, databaseError(c, err)
	}
	return bounded, nil
}

// openStore opens the store as it is, without a bound.
func openStore(c *config.Config, shared *replicas, log *slog.Logger, observer tape.Observer) (tape.Store, error) {
	d, err := openDatabase(c, log)
	if err != nil {
		return nil, err
	}
	if shared == nil {
		return databaseTapes{d.Tapes(observer), d}, nil
	}
	return databaseTapes{d.SharedTapes(shared.leases, observer), d}, nil
}
