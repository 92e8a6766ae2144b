//go:build !nonats

package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/web"
)

// CL-03: what a run has sent is kept for longer than a run may take, and is to be found behind its end, so that no reader comes too late for
// its beginning, however long it waits for somebody's approval.
func TestARunDoesNotOutliveItsBeginning(t *testing.T) {
	for name, tt := range map[string]struct{ timeout, retention, keys string }{
		"as it is unless set":                {"30m", "5m", "24h"},
		"runs that wait for days":            {"168h", "5m", "1h"},
		"runs of a moment":                   {"10ms", "10ms", "10ms"},
		"runs that are to be found for days": {"30m", "96h", "24h"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(nil, []string{
				"LINGSERVE_CONFIG=", "LINGSERVE_DATA=" + t.TempDir(), "LINGSERVE_ENGINE=nats", "LINGSERVE_NATS_SERVERS=embedded",
				"LINGSERVE_RUN_TIMEOUT=" + tt.timeout, "LINGSERVE_RUN_RETENTION=" + tt.retention, "LINGSERVE_RUN_KEY_RETENTION=" + tt.keys,
			})
			if err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			e, err := openEngine(ctx, c, log)
			if err != nil {
				t.Fatal(err)
			}
			defer e.close(log)
			if err := e.into(ctx, c, new(web.Options), log); err != nil {
				t.Fatal(err)
			}
			found := max(c.Run.Retention, c.Run.KeyRetention)
			for _, name := range []string{"LOG_runs", "LOG_pages"} {
				s, err := e.cluster.JetStream().Stream(ctx, e.cluster.Name(name))
				if err != nil {
					t.Fatal(err)
				}
				if kept := s.CachedInfo().Config.MaxAge; kept < c.Run.Timeout+found {
					t.Errorf("%s keeps messages for %v: a run takes up to %v, and is found for %v", name, kept, c.Run.Timeout, found)
				}
			}
		})
	}
}
