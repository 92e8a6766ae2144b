package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/internal/config"
)

// dbCommand checks and copies the database. A server may use it at the same time.
func dbCommand(s streams) *cobra.Command {
	var settings config.Flags
	// action opens the database, and prints "ok" if do succeeds.
	action := func(path string, do databaseAction) *cobra.Command {
		return withDatabase(path, &settings, openExisting, func(ctx context.Context, d *database, args []string) error {
			err := do(ctx, d, args)
			if err == nil {
				fmt.Fprintln(s.out, "ok")
			}
			return err
		})
	}
	cmd := newCommand("db", nil,
		action("db check", func(ctx context.Context, d *database, _ []string) error {
			damages, err := d.Check(ctx)
			for _, damage := range damages {
				fmt.Fprintln(s.out, damage)
			}
			if err == nil && len(damages) > 0 {
				return exitStatus(exitFailed)
			}
			return err
		}),
		action("db backup", func(ctx context.Context, d *database, args []string) error { return d.Backup(ctx, args[0]) }),
	)
	addSettings(cmd.PersistentFlags(), &settings)
	return cmd
}

// databaseAction is what a command does with the database.
type databaseAction func(ctx context.Context, d *database, args []string) error

// opener opens a database; see [openExisting] and [openDurable].
type opener func(*config.Config) (*database, error)

// withDatabase returns a command that opens the database.
func withDatabase(path string, settings *config.Flags, open opener, do databaseAction, actions ...*cobra.Command) *cobra.Command {
	return configured(path, settings, func(ctx context.Context, c *config.Config, args []string) error {
		d, err := open(c)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, d, args), d.Close())
	}, actions...)
}

// openExisting opens the database, which must exist. Its error is for the user.
func openExisting(c *config.Config) (*database, error) {
	if _, err := os.Stat(c.DatabaseFile()); c.DatabaseFile() != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, databaseError(c, errors.New("the file does not exist"))
	}
	return openDurable(c)
}

// openDurable opens a database that stores something, without a log: its error, which is for the user, says what is wrong.
func openDurable(c *config.Config) (*database, error) {
	if c.Database == config.InMemory {
		return nil, fmt.Errorf("database (%s): nothing is stored with database memory; name a database", c.Source("database"))
	}
	return openDatabase(c, slog.New(slog.DiscardHandler))
}
