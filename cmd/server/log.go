package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
)

// flushTime is how long the end of the program waits for a collector to take the last spans.
const flushTime = 5 * time.Second

// openTraces starts to send spans if the environment says so. stop sends the last of them; call it when all work has ended.
func openTraces(c *config.Config, log *slog.Logger) (traces *telemetry.Traces, stop func(), err error) {
	traces, err = telemetry.OpenTraces(context.Background(), telemetry.TraceOptions{Log: log, Version: build().version, Secrets: secretsOf(c), ProxyEnv: c.Upstream.ProxyEnv})
	if err != nil {
		return nil, nil, err
	}
	if to := traces.To(); to != "" {
		log.Info("sending traces", "to", to)
	}
	for _, name := range c.Traces.Propagate {
		_, provider := c.Provider(name)
		if !provider && !slices.ContainsFunc(c.MCP, func(s *config.MCPServer) bool { return s.Name == name }) {
			log.Warn("traces.propagate names an unknown provider or MCP server", "name", name)
		}
	}
	return traces, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := traces.Close(ctx); err != nil {
			log.WarnContext(ctx, "last traces not sent", "error", err)
		}
	}, nil
}

// secretsOf are the secrets of the settings, and the headers that a collector is sent.
func secretsOf(c *config.Config) []string {
	secrets := c.Secrets()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		secrets = append(secrets, telemetry.HeaderValues(os.Getenv(name))...)
	}
	return secrets
}

// propagated reports whether a provider or an MCP server gets the ids of traces.
func propagated(c *config.Config, name string) bool { return slices.Contains(c.Traces.Propagate, name) }

// newLog makes the log of the settings. It never has their secrets.
func newLog(w io.Writer, c *config.Config) *slog.Logger {
	return telemetry.NewLog(w, telemetry.LogOptions{Level: c.Log.Level, JSON: c.Log.Format == "json", Secrets: secretsOf(c)})
}
