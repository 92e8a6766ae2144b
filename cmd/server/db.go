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
	action := func(path string, do func(ctx context.Context, d *database, args []string) error) *cobra.Command {
		return configured(path, &settings, func(ctx context.Context, c *config.Config, args []string) error {
			d, err := openExisting(c)
			if err != nil {
				return err
			}
			if err := errors.Join(do(ctx, d, args), d.Close()); err != nil {
				return err
			}
			fmt.Fprintln(s.out, "ok")
			return nil
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
