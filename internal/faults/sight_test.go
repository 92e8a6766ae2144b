//go:build nightly

package faults

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/web"
)

// sight is what whoever runs the server sees of a run beside its answer: the log as the program writes it, at its most talkative, and
// the spans.
type sight struct {
	json, text text
	spans      *tracetest.InMemoryExporter
	provider   *sdk.TracerProvider
}

// overlooked lets a product be looked at. Its own log stays, which has no handler that takes anything out.
func overlooked(s *setup) *sight {
	w := &sight{spans: tracetest.NewInMemoryExporter()}
	w.provider = sdk.NewTracerProvider(sdk.WithSyncer(w.spans))
	before := s.web
	s.web = func(o *web.Options) {
		if before != nil {
			before(o)
		}
		o.Tracer = w.provider
		log := func(to *text, json bool) slog.Handler {
			return telemetry.NewLog(to, telemetry.LogOptions{Level: slog.LevelDebug, JSON: json, Secrets: []string{canary}}).Handler()
		}
		o.Log = slog.New(slog.NewMultiHandler(o.Log.Handler(), log(&w.json, true), log(&w.text, false)))
	}
	return w
}

// look finds nothing of a key, of what a model's server said or of where it is, in what may be sent away or kept (SE-06), and finds what
// is to be there.
func (w *sight) look(t *testing.T, p *product, words string, a *answer) {
	t.Helper()
	var stubs tracetest.SpanStubs
	eventually(t, "the run's span has ended", func() bool { // an answer can be there a moment before
		stubs = w.spans.GetSpans()
		return slices.ContainsFunc(stubs, func(s tracetest.SpanStub) bool { return !s.Parent.IsValid() })
	})
	spans := strings.ReplaceAll(fmt.Sprintf("%+v", stubs), a.run, "") // in which chance may write a word
	for _, secret := range []string{"CANARY", p.modelAddr, "rubbish", "<h1>", "died", "event interval", words, "blue"} {
		if i := strings.Index(spans, secret); i >= 0 {
			t.Errorf("%q is in a span: %s", secret, around(spans, i))
		}
	}
	logs := w.json.String()
	for _, log := range []string{logs, w.text.String()} {
		if i := strings.Index(log, "CANARY"); i >= 0 {
			t.Errorf("the key is in the log: %s", around(log, i))
		}
	}
	ended := false
	for line := range strings.Lines(logs) {
		var l struct {
			Msg, Run string
			Trace    string `json:"trace_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("a line is no JSON: %v: %s", err, clip(line))
		}
		if l.Msg == "run ended" {
			ended = true
			if l.Run != a.run || len(l.Trace) != 32 {
				t.Errorf("a line without its run and trace: %s", line)
			}
		}
	}
	if !ended {
		t.Errorf("the log does not know of the run: %s", clip(logs))
	}
	w.tree(t, p, stubs, a)
}

// tree holds the spans to what happened: one run, all else below it, one request for each that the model's server was asked, and what
// failed says so by its code.
func (w *sight) tree(t *testing.T, p *product, stubs tracetest.SpanStubs, a *answer) {
	t.Helper()
	roots, requests, failed := 0, 0, false
	known := map[string]bool{}
	for _, s := range stubs {
		known[s.SpanContext.SpanID().String()] = true
	}
	for _, s := range stubs {
		of := map[string]string{}
		for _, kv := range s.Attributes {
			of[string(kv.Key)] = kv.Value.String()
		}
		switch {
		case !s.Parent.IsValid():
			roots++
			if of["lingserve.run.id"] != a.run {
				t.Errorf("the root is not the run: %s %v", s.Name, of)
			}
		case !known[s.Parent.SpanID().String()]:
			t.Errorf("%s has a parent that there is not", s.Name)
		}
		if of["gen_ai.operation.name"] == "chat" {
			requests++
		}
		if s.Status.Code == codes.Error && of["error.type"] == "" {
			t.Errorf("%s has failed of nothing: %v", s.Name, of)
		}
		failed = failed || a.code() != "" && of["error.type"] == a.code()
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ended before it began", s.Name)
		}
	}
	if roots != 1 {
		t.Errorf("%d roots in %d spans", roots, len(stubs))
	}
	if requests == 0 {
		t.Error("no request has a span")
	}
	if a.state == "failed" && !failed {
		t.Errorf("no span has failed of %q", a.code())
	}
}
