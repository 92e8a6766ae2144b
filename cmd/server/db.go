package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/lingserve/lingserve/internal/config"
)

// dbCommand checks and copies the database. A server may use it at the same time.
func dbCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	set, settings := newFlags("db")
	rest, status, ok := arguments(set, args, stdout, stderr)
	switch {
	case !ok:
		return status
	case len(rest) == 0:
		return usage(stderr, "db", "the action is missing; expected one of check, backup")
	case rest[0] != "check" && rest[0] != "backup":
		return usage(stderr, "db", "unknown action %q%s", rest[0], didYouMean(rest[0], []string{"check", "backup"}, ""))
	case rest[0] == "backup" && len(rest) < 2:
		return usage(stderr, "db", "the file for the copy is missing")
	case len(rest) > 2 || rest[0] == "check" && len(rest) > 1:
		return usage(stderr, "db", "unexpected argument %q", rest[len(rest)-1])
	}
	c, err := config.Load(settings, os.Environ())
	if err != nil {
		return fail(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	damages, err := careFor(ctx, c, rest)
	if err != nil {
		return fail(stderr, err)
	}
	for _, what := range damages {
		fmt.Fprintln(stdout, what)
	}
	if len(damages) > 0 {
		return exitFailed
	}
	fmt.Fprintln(stdout, "ok")
	return exitOK
}

// careFor checks or copies the database. Its error is for the user.
func careFor(ctx context.Context, c *config.Config, action []string) (damages []string, err error) {
	if err := checkDurable(c); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.DatabaseFile()); !c.Replicas() && errors.Is(err, fs.ErrNotExist) {
		return nil, databaseError(c, errors.New("the file does not exist"))
	}
	d, err := openDatabase(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if action[0] == "backup" {
		return nil, d.Backup(ctx, action[1])
	}
	return d.Check(ctx)
}
