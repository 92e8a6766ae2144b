package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lingserve/lingserve/config"
	"github.com/lingserve/lingserve/tape"
)

// copyFrom copies the sessions of another store, with their large results. Sessions that are there already are left as they are, so that a copy
// that was interrupted goes on when it is started again.
func (t *tapes) copyFrom(ctx context.Context, c *config.Config, shared *engine, from string, stderr io.Writer) (err error) {
	known := []string{"file", "postgres", config.EngineNATS}
	switch {
	case !slices.Contains(known, from):
		return fmt.Errorf("%s is none of the stores file, postgres and nats", show(from))
	case from == c.Tape.Store:
		return fmt.Errorf("the sessions are in the store %s already; say with --tape-store where they are to go", from)
	case from == "file" && c.Data == "":
		return fmt.Errorf("data (%s): there is no data folder, so there are no sessions in files", c.Source("data"))
	}
	other := *c
	other.Tape.Store = from
	source, err := openStore(&other, shared, newLog(stderr, c), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var sessions []tape.Info // before the first is copied, since a store need not list while it is written to
	for in, err := range source.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			return err
		}
		sessions = append(sessions, in)
	}
	copied, there := 0, 0
	for _, in := range slices.Backward(sessions) { // the one that was used last comes last
		_, err := tape.Copy(ctx, source, in, t.store)
		switch {
		case errors.Is(err, tape.ErrNotEmpty):
			there++
		case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrDeleted): // erased meanwhile
		case err != nil:
			return fmt.Errorf("%d of %d sessions are copied; session %s: %w; the command goes on from there when it is started again", copied+there, len(sessions), show(in.Session), err)
		default:
			copied++
		}
	}
	fmt.Fprintf(t.stdout, "copied %d sessions, %d were there already\n", copied, there)
	return nil
}
