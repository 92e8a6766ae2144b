package main

import (
	"io"
	"log/slog"

	"github.com/lingserve/lingserve/config"
)

// newLog makes the log that the settings ask for.
func newLog(w io.Writer, c config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
