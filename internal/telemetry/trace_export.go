package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// lostEvery is the minimum time between two lines of the log about lost spans.
const lostEvery = 5 * time.Minute

// lostSpans reports lost spans to the log.
type lostSpans struct {
	log    *slog.Logger
	seldom rate.Sometimes
	count  atomic.Int64 // since the last report
}

func (l *lostSpans) report(spans int, err error) {
	l.count.Add(int64(spans))
	l.seldom.Do(func() { l.log.Warn("cannot send traces; their spans are lost", "spans", l.count.Swap(0), "error", err) })
}

// exporter removes secrets from spans before it exports them.
type exporter struct {
	sdk.SpanExporter
	clean *cleaner
	lost  *lostSpans
}

// ExportSpans reports an error itself. If it returned it, the library would report it again.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	out := make([]sdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = e.clean.span(s)
	}
	if err := e.SpanExporter.ExportSpans(ctx, out); err != nil {
		e.lost.report(len(spans), err)
	}
	return nil
}

// cleaned is a span without secrets.
type cleaned struct {
	sdk.ReadOnlySpan
	name   string
	attrs  []attribute.KeyValue
	events []sdk.Event
	status sdk.Status
}

func (c *cleaned) Name() string                     { return c.name }
func (c *cleaned) Attributes() []attribute.KeyValue { return c.attrs }
func (c *cleaned) Events() []sdk.Event              { return c.events }
func (c *cleaned) Status() sdk.Status               { return c.status }

// span returns a span without secrets. No span should contain one; this is for mistakes.
func (c *cleaner) span(s sdk.ReadOnlySpan) sdk.ReadOnlySpan {
	out := &cleaned{s, c.text(s.Name(), maxLogText), c.attributes(s.Attributes()), slices.Clone(s.Events()), s.Status()}
	out.status.Description = c.text(out.status.Description, maxLogText)
	for i := range out.events {
		out.events[i].Attributes = c.attributes(out.events[i].Attributes)
	}
	return out
}

func (c *cleaner) attributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(attrs))
	for i, a := range attrs {
		switch a.Value.Type() {
		case attribute.STRING:
			a.Value = attribute.StringValue(c.text(a.Value.AsString(), maxLogText))
		case attribute.STRINGSLICE:
			list := a.Value.AsStringSlice()
			for j, text := range list {
				list[j] = c.text(text, maxLogText)
			}
			a.Value = attribute.StringSliceValue(list)
		}
		out[i] = a
	}
	return out
}
