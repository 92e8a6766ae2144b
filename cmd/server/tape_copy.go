package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/tape"
)

// copyFrom copies the sessions of another store, with their large results. Sessions that are there already are left as they are, so that a copy
// that was interrupted goes on when it is started again.
func (t *tapes) copyFrom(ctx context.Context, c *config.Config, shared *engine, from string, stderr io.Writer) (err error) {
	known := []string{"file", "postgres", config.EngineNATS}
	switch {
	case !slices.Contains(known, from):
		return fmt.Errorf("unknown store %s; expected file, postgres or nats", show(from))
	case from == c.Tape.Store:
		return fmt.Errorf("the source and the target are both the store %s; choose the target with --tape-store", from)
	case from == "file" && c.Data == "":
		return fmt.Errorf("data (%s): the store file needs a data folder, but none is set", c.Source("data"))
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
			return fmt.Errorf("copied %d of %d sessions; session %s: %w; repeat the command to continue", copied+there, len(sessions), show(in.Session), err)
		default:
			copied++
		}
	}
	fmt.Fprintf(t.stdout, "copied %d sessions, skipped %d existing ones\n", copied, there)
	return nil
}
