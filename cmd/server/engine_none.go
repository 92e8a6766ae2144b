//go:build nonats

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web"
)

// engine is what replicas share. This binary has none: it is always nil.
type engine struct{}

// errNoNATS is of all that a server alone never asks for.
var errNoNATS = errors.New("this binary has no NATS support (build tag nonats)")

func openEngine(_ context.Context, c *config.Config, _ *slog.Logger) (*engine, error) {
	if err := c.CheckEngine(); err != nil {
		return nil, err
	}
	if c.Engine != config.EngineLocal {
		return nil, fmt.Errorf("engine (%s): %w; set engine to local, or use a binary with NATS", c.Source("engine"), errNoNATS)
	}
	return nil, nil
}

func openEngineWith(ctx context.Context, c *config.Config, log *slog.Logger) (*engine, error) {
	return openEngine(ctx, c, log)
}

func engineError(_ *config.Config, err error) error { return err }

func (*engine) close(*slog.Logger) {}

func (*engine) into(context.Context, *config.Config, *web.Options, *slog.Logger) error { return nil }

func (*engine) watched() func() telemetry.EngineLoad { return nil }

func (*engine) openTables() (store.Engine, error) { return nil, errNoNATS }

func (*engine) tapes(*slog.Logger, tape.Observer) (tape.Whole, error) { return nil, errNoNATS }

func (*engine) replicas() *replicas.Members { return nil }

func (*channels) share(context.Context, *config.Config, *engine, store.Engine, *slog.Logger) error {
	return errNoNATS
}
