package telemetry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// LogOptions say what is logged and how.
type LogOptions struct {
	Level slog.Leveler
	JSON  bool // one JSON object a line; else key=value
	// Secrets are removed from all lines, such as the keys of the configuration. Those shorter than 8 bytes are ignored, because they may be
	// words.
	Secrets []string
}

// NewLog returns a log that can be stored:
//   - a line says which run, turn and session it is about, and the trace and span, where the context knows;
//   - a session is shown by its tag ([tape.Tag]), since its id may be a name;
//   - what looks like a key, and all Secrets, are taken out of every text;
//   - no text is longer than 2 KiB, a stack 16 KiB, so that one line cannot fill a disk.
//
// A record is one line in both formats.
func NewLog(w io.Writer, o LogOptions) *slog.Logger {
	c := newCleaner(o.Secrets)
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: c.attr}
	if o.JSON {
		return slog.New(&logHandler{next: slog.NewJSONHandler(w, options), cleaner: c})
	}
	return slog.New(&logHandler{next: slog.NewTextHandler(w, options), cleaner: c})
}

// HideSecrets takes more secrets out of the lines of a log that [NewLog] made, such as those of settings that were read again.
func HideSecrets(log *slog.Logger, secrets []string) {
	if h, ok := log.Handler().(*logHandler); ok {
		h.cleaner.add(secrets)
	}
}

// Attributes that a line gets of its context.
const (
	attrRun     = "run"
	attrTurn    = "turn"
	attrSession = "session"
	attrTrace   = "trace_id"
	attrSpan    = "span_id"
)

// logHandler adds what the context knows.
type logHandler struct {
	next    slog.Handler
	keys    []string // of the attributes of With
	cleaner *cleaner
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	t, span := trail.Of(ctx), trace.SpanContextFromContext(ctx)
	if t == (trail.Trail{}) && !span.IsValid() {
		return h.next.Handle(ctx, r)
	}
	if t.Turn == t.Run {
		t.Turn = "" // a run that is a turn has one id
	}
	r = r.Clone()
	for _, a := range [...]struct{ key, value string }{{attrRun, t.Run}, {attrTurn, t.Turn}, {attrSession, t.Session}} {
		if a.value != "" && !h.hasAttr(&r, a.key) {
			r.AddAttrs(slog.String(a.key, a.value))
		}
	}
	if span.IsValid() {
		r.AddAttrs(slog.String(attrTrace, span.TraceID().String()), slog.String(attrSpan, span.SpanID().String()))
	}
	return h.next.Handle(ctx, r)
}

// hasAttr reports whether a record or With has an attribute.
func (h *logHandler) hasAttr(r *slog.Record, key string) (found bool) {
	if slices.Contains(h.keys, key) {
		return true
	}
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	keys := slices.Clip(h.keys)
	for _, a := range attrs {
		keys = append(keys, a.Key)
	}
	return &logHandler{next: h.next.WithAttrs(attrs), keys: keys, cleaner: h.cleaner}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{next: h.next.WithGroup(name), cleaner: h.cleaner} // earlier attributes are outside of the group
}

// Bounds of what a line has, in bytes.
const (
	maxLogText  = 2 << 10
	maxLogStack = 16 << 10
	minSecret   = 8
)

// cleaner removes secrets from texts. It is safe for concurrent use.
type cleaner struct {
	mu      sync.Mutex // of add
	secrets atomic.Pointer[[]string]
}

func newCleaner(secrets []string) *cleaner {
	c := &cleaner{}
	c.add(secrets)
	return c
}

// add adds secrets.
func (c *cleaner) add(secrets []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	if before := c.secrets.Load(); before != nil {
		all = slices.Clone(*before)
	}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			continue
		}
		// The text, and its forms in addresses, in JSON and in headers of basic authentication.
		quoted, _ := json.Marshal(s)
		all = append(all, s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`),
			base64.StdEncoding.EncodeToString([]byte(s)))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	// Long ones first, because one may contain another.
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	c.secrets.Store(&all)
}

// text is text without secrets, and of a length that is bounded.
func (c *cleaner) text(text string, most int) string {
	return adapter.RedactTo(most, text, *c.secrets.Load()...)
}

// attr makes an attribute fit to be read; a handler calls it for each, and for the message.
func (c *cleaner) attr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(c.value(a.Key, a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case nil, slog.Level, *slog.Source:
		case []string:
			list := make([]string, len(v))
			for i, text := range v {
				list[i] = c.value(a.Key, text)
			}
			a.Value = slog.AnyValue(list)
		default:
			a.Value = slog.StringValue(c.value(a.Key, textOf(v)))
		}
	}
	return a
}

// value is the text of an attribute as it may be read.
func (c *cleaner) value(key, text string) string {
	switch key {
	case attrSession:
		return tape.Tag(text)
	case "stack":
		return c.text(text, maxLogStack)
	case "authorization", "cookie", "key", "password", "secret", "token":
		if text != "" {
			return "***"
		}
	}
	return c.text(text, maxLogText)
}

// textOf returns a value as text. If its own method panics, package fmt says so.
func textOf(v any) string {
	switch v.(type) {
	case []byte, json.RawMessage:
		return fmt.Sprintf("%s", v)
	}
	return fmt.Sprintf("%+v", v)
}
