package telemetry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// written is what a log of these options has of what do says, in both formats.
func written(o telemetry.LogOptions, do func(*slog.Logger)) (asJSON, asText string) {
	if o.Level == nil {
		o.Level = slog.LevelDebug
	}
	var j, t bytes.Buffer
	o.JSON = true
	do(telemetry.NewLog(&j, o))
	o.JSON = false
	do(telemetry.NewLog(&t, o))
	return j.String(), t.String()
}

// oneLine reads a line of JSON; the time is left out.
func oneLine(t *testing.T, line string) map[string]any {
	t.Helper()
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Fatalf("expected one line: %q", line)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	delete(m, "time")
	return m
}

func spanContext(t testing.TB) trace.SpanContext {
	t.Helper()
	traceID, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	spanID, err2 := trace.SpanIDFromHex("b7ad6b7169203331")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled})
}

func TestALineSaysWhatItsContextKnows(t *testing.T) {
	ids := map[string]any{"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}
	for _, row := range []struct {
		name string
		of   trail.Trail
		span bool
		do   func(context.Context, *slog.Logger)
		want map[string]any
	}{
		{"nothing", trail.Trail{}, false, nil, map[string]any{}},
		{"a run", trail.Trail{Run: "r"}, false, nil, map[string]any{"run": "r"}},
		{
			"a turn of another name, in a session",
			trail.Trail{Run: "r", Turn: "t", Session: "alice"},
			false, nil,
			map[string]any{"run": "r", "turn": "t", "session": tape.Tag("alice")},
		},
		{"a turn that is a run", trail.Trail{Run: "r", Turn: "r"}, false, nil, map[string]any{"run": "r"}},
		{"a span", trail.Trail{}, true, nil, ids},
		{
			"what With has said stands once",
			trail.Trail{Run: "r", Session: "alice"},
			false,
			func(ctx context.Context, log *slog.Logger) { log.With("run", "r").InfoContext(ctx, "m") },
			map[string]any{"run": "r", "session": tape.Tag("alice")},
		},
		{
			"what the line says stands once",
			trail.Trail{Run: "r", Session: "alice"},
			false,
			func(ctx context.Context, log *slog.Logger) {
				log.LogAttrs(ctx, slog.LevelInfo, "m", slog.String("session", "alice"), slog.String("run", "other"))
			},
			map[string]any{"run": "other", "session": tape.Tag("alice")},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := trail.With(t.Context(), row.of)
			if row.span {
				ctx = trace.ContextWithSpanContext(ctx, spanContext(t))
			}
			if row.do == nil {
				row.do = func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m") }
			}
			asJSON, asText := written(telemetry.LogOptions{}, func(log *slog.Logger) { row.do(ctx, log) })
			row.want["level"], row.want["msg"] = "INFO", "m"
			if diff := cmp.Diff(row.want, oneLine(t, asJSON)); diff != "" {
				t.Error(diff)
			}
			for key, value := range row.want {
				if want := fmt.Sprintf("%s=%v", key, value); strings.Count(asText, want) != 1 {
					t.Errorf("not once %s: %s", want, asText)
				}
			}
			if strings.Contains(asJSON+asText, "alice") {
				t.Errorf("the session's id: %s", asText)
			}
		})
	}
}

type lazy struct{ text string }

func (l lazy) LogValue() slog.Value { return slog.StringValue(l.text) }

type broken struct{}

func (broken) Error() string { panic("no") }

type fields struct{ A, B string }

// SE-06: whatever way a secret takes into a line, it is not in it.
func TestNoSecretIsInALine(t *testing.T) {
	const key, plain = "sk-CANARY-0123456789abcdef", `CANARY "pass/word"` // one that looks like a key, and one that does not
	quoted, _ := json.Marshal(plain)
	for _, row := range []struct {
		name string
		do   func(*slog.Logger)
	}{
		{"the message", func(l *slog.Logger) { l.Info("failed with " + key + " and " + plain) }},
		{"a text", func(l *slog.Logger) { l.Info("m", "a", key, "b", plain) }},
		{"an error", func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("x: %w", errors.New("Bearer "+key+" "+plain))) }},
		{"a list", func(l *slog.Logger) { l.Info("m", "list", []string{"a", key, plain}) }},
		{"bytes", func(l *slog.Logger) { l.Info("m", "body", []byte(`{"key":"`+key+`","p":`+string(quoted)+`}`)) }},
		{"JSON", func(l *slog.Logger) { l.Info("m", "body", json.RawMessage(`{"p":`+string(quoted)+`}`)) }},
		{"a struct", func(l *slog.Logger) { l.Info("m", "of", fields{key, plain}) }},
		{"a pointer to one", func(l *slog.Logger) { l.Info("m", "of", &fields{key, plain}) }},
		{"a map", func(l *slog.Logger) { l.Info("m", "of", map[string]any{key: plain}) }},
		{"a value that is made late", func(l *slog.Logger) { l.Info("m", "of", lazy{key + plain}) }},
		{"a group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", key, "b", lazy{plain})) }},
		{"With", func(l *slog.Logger) { l.With("a", key, "b", plain).Info("m") }},
		{"WithGroup", func(l *slog.Logger) { l.WithGroup("g").With("a", key).Info("m", "b", plain) }},
		{"an address", func(l *slog.Logger) {
			l.Info("m", "url", "https://user:"+url.PathEscape(plain)+"@host/v1?key="+key+"&p="+url.QueryEscape(plain))
		}},
		{"basic authentication", func(l *slog.Logger) { l.Info("m", "h", "X-Key: "+base64.StdEncoding.EncodeToString([]byte(plain))) }},
		{"a name that says so", func(l *slog.Logger) {
			l.Info("m", "token", "CANARY1", "password", "CANARY2", "authorization", "CANARY3")
		}},
		{"a stack", func(l *slog.Logger) { l.Info("m", "stack", "main.f("+key+")\n"+plain) }},
		{"behind a long text", func(l *slog.Logger) { l.Info("m", "a", strings.Repeat("x", 2<<10-12)+" "+key) }},
		{"where a text is cut", func(l *slog.Logger) { l.Info("m", "a", strings.Repeat("x", 8<<10-9)+plain+strings.Repeat("y", 99)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			asJSON, asText := written(telemetry.LogOptions{Secrets: []string{plain, "short"}}, row.do)
			oneLine(t, asJSON)
			if strings.Contains(asJSON+asText, "CANARY") {
				t.Errorf("%s%s", asJSON, asText)
			}
		})
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	asJSON, _ := written(telemetry.LogOptions{Secrets: []string{"short", ""}}, func(l *slog.Logger) {
		l.Info("a short line", "n", 7, "none", nil, "error", nil, "list", []string{"a", "b"}, "path", "/v1/runs/abc", "of", errors.New("a short error"))
	})
	want := map[string]any{
		"level": "INFO", "msg": "a short line", "n": 7.0, "none": nil, "error": nil, "list": []any{"a", "b"}, "path": "/v1/runs/abc", "of": "a short error",
	}
	if diff := cmp.Diff(want, oneLine(t, asJSON)); diff != "" {
		t.Error(diff)
	}
}

func TestAValueThatBreaksDownIsSaidToBeSo(t *testing.T) {
	asJSON, _ := written(telemetry.LogOptions{}, func(l *slog.Logger) { l.Info("m", "error", broken{}) })
	if got := oneLine(t, asJSON)["error"]; !strings.Contains(fmt.Sprint(got), "PANIC=Error method") {
		t.Error(got)
	}
}

func TestATextIsCutWhereItWouldFillTheDisk(t *testing.T) {
	asJSON, asText := written(telemetry.LogOptions{}, func(l *slog.Logger) {
		l.Info(strings.Repeat("m", 1<<20), "error", errors.New(strings.Repeat("é", 1<<20)), "stack", strings.Repeat("s", 1<<20))
	})
	m := oneLine(t, asJSON)
	for key, most := range map[string]int{"msg": 2 << 10, "error": 2 << 10, "stack": 16 << 10} {
		if text := m[key].(string); len(text) > most+len("…") || len(text) < most-4 || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes", key, len(text))
		}
	}
	if len(asText) > 24<<10 {
		t.Errorf("%d bytes", len(asText))
	}
}

// Whatever is said, a record is one line, and as JSON it can be read.
func TestARecordIsOneLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{"a\nlevel=ERROR msg=forged", "a\r\n{\"level\":\"ERROR\"}", "\u2028\u2029\u0085", "\x1b[2J", "\x00"}))
		message, value := text.Draw(rt, "message"), text.Draw(rt, "value")
		asJSON, asText := written(telemetry.LogOptions{}, func(l *slog.Logger) {
			l.With("w", value).Info(message, "a", value, "e", errors.New(value), slog.Group("g", "a", value))
		})
		for _, line := range []string{asJSON, asText} {
			if strings.Count(line, "\n") != 1 || strings.Contains(line, "\r") {
				rt.Errorf("no line: %q", line)
			}
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(asJSON), &m); err != nil {
			rt.Errorf("%v: %q", err, asJSON)
		}
	})
}

// What a line costs, such as there are two of for each run.
func BenchmarkLine(b *testing.B) {
	attrs := []slog.Attr{
		slog.String("workflow", "encyclopedia"), slog.String("status", "completed"), slog.Duration("took", 1234567), slog.Uint64("events", 824),
	}
	for _, row := range []struct {
		name string
		log  *slog.Logger
	}{
		{"plain", slog.New(slog.NewJSONHandler(io.Discard, nil))},
		{"telemetry", telemetry.NewLog(io.Discard, telemetry.LogOptions{JSON: true, Level: slog.LevelInfo, Secrets: []string{"a-secret-of-the-settings", "another-secret"}})},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := trail.With(b.Context(), trail.Trail{Run: "v27ioztmbf2a4qhq6btowvt44a", Session: "s-42"})
			for b.Loop() {
				row.log.LogAttrs(ctx, slog.LevelInfo, "run ended", attrs...)
			}
		})
	}
}
