//go:build nopostgres

package main

import (
	"errors"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
)

// openPostgres says that this binary cannot use a database.
func openPostgres(*config.Config, *engine, *slog.Logger, tape.Observer) (tape.Whole, error) {
	return nil, errors.New("this binary has no PostgreSQL support (build tag nopostgres)")
}
