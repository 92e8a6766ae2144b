package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/team"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool/mcp"
	"github.com/lingserve/lingserve/turn"
)

// core has the parts that "lingserve serve" and "lingserve chat" share, in the order in which they are opened.
type core struct {
	c         *config.Config
	log       *slog.Logger
	closers   []func()
	models    *adapter.Registry
	keys      *providers.Keys // of the models' providers
	workflows *flow.Registry
	from      string // where the workflows come from
	database  *database
	shared    *replicas // nil without replicas
	tapes     tape.Store
	servers   *mcp.Client
	turns     *turn.Framework
	agents    *team.Team
}

// atClose adds a function that close calls, before those that were added earlier.
func (s *core) atClose(f func()) { s.closers = append(s.closers, f) }

func (s *core) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

// openModels opens the models and the workflows.
func (s *core) openModels() (err error) {
	models, keys, stop, err := providers.New(s.c)
	if err != nil {
		return err
	}
	s.models, s.keys = models, keys
	s.models.Log = s.log
	s.atClose(stop)
	s.workflows, s.from, err = openWorkflows(s.c)
	return err
}

// openDatabase opens the database and joins the other replicas that use it.
func (s *core) openDatabase() (err error) {
	if s.database, err = openDatabase(s.c, s.log); err != nil {
		return err
	}
	s.atClose(func() { _ = s.database.Close() })
	// To join the others may take a minute, in which a signal ends the start.
	starting, started := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer started()
	if s.shared, err = joinReplicas(starting, s.c, s.database, s.log); err == nil {
		s.atClose(func() { s.shared.close(s.log) })
	}
	if starting.Err() != nil {
		return errAtStart
	}
	return err
}

// openTapes opens the sessions, and the budget of models, which reads what they have cost.
func (s *core) openTapes(observer tape.Observer, spending adapter.SpendingStore) (err error) {
	if s.tapes, err = boundTapes(s.c, s.database.tapes(s.shared, observer)); err != nil {
		return err
	}
	s.atClose(func() { _ = s.tapes.Close() })
	s.models.Budget = newBudget(s.c, s.tapes, spending, s.log)
	s.atClose(func() { s.models.Budget.Close() })
	return nil
}
