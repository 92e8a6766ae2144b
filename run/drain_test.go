package run

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// RU-15: a drain returns 5 s after its time, also when work ignores its cancellation, and the log names that work.
func TestRU_15_ADrainDoesNotWaitForWorkThatIgnoresItsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		workflows := new(flow.Registry)
		workflows.Register(flow.Func("deaf", "", nil, func(context.Context, *ling.Manager, map[string]any) error {
			<-goOn
			return nil
		}))
		log := new(logBuffer)
		o := Options{
			Workflows: workflows, Models: new(adapter.Registry), Files: noFiles{}, Log: slog.New(slog.NewTextHandler(log, nil)),
		}
		d := openDB(t)
		defer d.Close()
		o.Store = d.Runs()
		s := bareService(o)
		r, _, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: "deaf"}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Drain(ctx); err != nil || time.Since(begin) != 6*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if text := log.String(); !strings.Contains(text, r.ID) || !strings.Contains(text, "a run ignores its cancellation") || !strings.Contains(text, "workflow=deaf") {
			t.Errorf("the log has %s", text)
		}
		close(goOn)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
