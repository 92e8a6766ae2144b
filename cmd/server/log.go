package main

import (
	"io"
	"log/slog"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
)

// newLog makes the log that the settings ask for. None of their secrets is ever in it.
func newLog(w io.Writer, c *config.Config) *slog.Logger {
	return telemetry.NewLog(w, telemetry.LogOptions{Level: c.Log.Level, JSON: c.Log.Format == "json", Secrets: secretsOf(c)})
}
