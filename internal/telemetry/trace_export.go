package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter hands spans on, without secrets, and tells the log of what is not taken, but not each time.
type exporter struct {
	sdk.SpanExporter
	clean *cleaner
	told  *seldom
	ctx   context.Context // of everything that is sent
}

// ExportSpans returns no error: the library would tell of it once more.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	out := make([]sdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = e.clean.span(s)
	}
	if err := e.SpanExporter.ExportSpans(ctx, out); err != nil {
		e.told.failed(len(spans), err)
		return nil
	}
	e.told.worked()
	return nil
}

// seldom tells the log of failures that come again and again: of the first at once, and of the others by their number.
type seldom struct {
	log   *slog.Logger
	every time.Duration

	mu     sync.Mutex
	silent bool
	last   time.Time
	lost   int // spans since then
}

func (s *seldom) failed(spans int, err error) {
	s.mu.Lock()
	s.lost += spans
	lost, due := s.lost, !s.silent || time.Since(s.last) >= s.every
	if due {
		s.silent, s.last, s.lost = true, time.Now(), 0
	}
	s.mu.Unlock()
	if due {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot send traces; their spans are lost",
			slog.Int("spans", lost), slog.Any("error", err))
	}
}

func (s *seldom) worked() {
	s.mu.Lock()
	again, lost := s.silent, s.lost
	s.silent, s.lost = false, 0
	s.mu.Unlock()
	if again {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "sending traces again", slog.Int("spans", lost))
	}
}

// console writes spans to the log.
type console struct{ log *slog.Logger }

func (c console) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	for _, s := range spans {
		attrs := make([]slog.Attr, 0, 8+len(s.Attributes()))
		attrs = append(attrs,
			slog.String("name", s.Name()), slog.String("kind", s.SpanKind().String()), slog.Duration("took", s.EndTime().Sub(s.StartTime())),
			slog.String(attrTrace, s.SpanContext().TraceID().String()), slog.String(attrSpan, s.SpanContext().SpanID().String()))
		if s.Parent().IsValid() {
			attrs = append(attrs, slog.String("parent_id", s.Parent().SpanID().String()))
		}
		if s.Status().Code != codes.Unset {
			attrs = append(attrs, slog.String("status", s.Status().Code.String()))
		}
		for _, a := range s.Attributes() {
			attrs = append(attrs, slog.String(string(a.Key), a.Value.String()))
		}
		c.log.LogAttrs(ctx, slog.LevelInfo, "span", attrs...)
	}
	return nil
}

func (console) Shutdown(context.Context) error { return nil }

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

// span is a span as it may be read. No span is given a secret; this is for the mistake of somebody who does.
func (c *cleaner) span(s sdk.ReadOnlySpan) sdk.ReadOnlySpan {
	out := &cleaned{ReadOnlySpan: s, name: c.text(s.Name(), maxLogText), status: s.Status(), events: s.Events()}
	out.status.Description = c.text(out.status.Description, maxLogText)
	out.attrs = c.attributes(s.Attributes())
	for i, e := range out.events {
		e.Attributes = c.attributes(e.Attributes)
		if i == 0 {
			out.events = append([]sdk.Event(nil), out.events...) // the span's own stay as they are
		}
		out.events[i] = e
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
