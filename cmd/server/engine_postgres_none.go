//go:build !nonats && nopostgres

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
)

// openSharedPostgres says that this binary cannot use a database.
func openSharedPostgres(context.Context, *config.Config, *slog.Logger) (*engine, error) {
	return nil, errors.New("this binary has no PostgreSQL support (build tag nopostgres)")
}
