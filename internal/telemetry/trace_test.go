package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/lingserve/lingserve/internal/telemetry"
)

// environment sets the variables of OpenTelemetry, and no others of them.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_EXPORTER_OTLP_COMPRESSION",
	} {
		t.Setenv(name, set[name])
	}
	// No proxy of the machine that tests run on stands between.
	t.Setenv("NO_PROXY", "127.0.0.1")
}

func open(t *testing.T, log *bytes.Buffer) *telemetry.Traces {
	t.Helper()
	traces, err := telemetry.OpenTraces(t.Context(), telemetry.TraceOptions{
		Log: telemetry.NewLog(log, telemetry.LogOptions{Level: slog.LevelDebug}), Version: "1.2.3", Secrets: []string{"a-plain-CANARY"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

func TestNothingIsSentUnlessTheEnvironmentSaysSo(t *testing.T) {
	for _, row := range []struct {
		name string
		set  map[string]string
	}{
		{"nothing is set", nil},
		{"no exporter is wanted", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		{"all of it is off", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		{"only a name is set", map[string]string{"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			environment(t, row.set)
			traces := open(t, new(bytes.Buffer))
			if traces.Provider() != nil || traces.Channels() != nil || traces.To() != "" || traces.Close(t.Context()) != nil {
				t.Errorf("%+v", traces)
			}
		})
	}
}

func TestAVariableThatIsNotKnownIsAnErrorThatNamesIt(t *testing.T) {
	for _, row := range []struct{ name, variable, value, says string }{
		{"another exporter", "OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER: expected otlp or none, got "zipkin"`},
		{"gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, got "grpc"`},
		{"gRPC for traces", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: expected http/protobuf, got "grpc"`},
		{"JSON", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", `expected http/protobuf, got "http/json"`},
		{"an address without a scheme", "OTEL_EXPORTER_OTLP_ENDPOINT", "user:CANARY@collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT: expected an address such as"},
		{"an address of traces without one", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: expected an address"},
		{"a sampler", "OTEL_TRACES_SAMPLER", "sometimes", "OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG: unsupported sampler: sometimes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", row.variable: row.value})
			_, err := telemetry.OpenTraces(t.Context(), telemetry.TraceOptions{Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%v", err)
			}
		})
	}
	for _, arg := range []string{"2", "-1", "a tenth", "1e999"} {
		environment(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": arg})
		_, err := telemetry.OpenTraces(t.Context(), telemetry.TraceOptions{Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.HasPrefix(err.Error(), "OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG: ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestACollectorGetsSpansWithoutSecrets(t *testing.T) {
	c := newCollector(t)
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-team=ling,authorization=Bearer%20k", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_SERVICE_NAME": "front", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
	})
	var log bytes.Buffer
	traces := open(t, &log)
	if traces.To() != c.URL {
		t.Errorf("to %s", traces.To())
	}
	tracer := traces.Provider().Tracer("test")
	ctx, outer := tracer.Start(t.Context(), "outer a-plain-CANARY")
	_, inner := tracer.Start(ctx, "inner")
	inner.SetAttributes(attribute.String("a", "sk-CANARY-0123456789"), attribute.StringSlice("b", []string{"x", "a-plain-CANARY"}), attribute.Int("n", 7))
	inner.AddEvent("happened")
	inner.SetStatus(codes.Error, "with a-plain-CANARY")
	inner.RecordError(errors.New("Authorization: Bearer CANARY"))
	inner.End()
	outer.End()
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "outer ***\n  inner a=sk-*** b=x,*** n=7 (happened) (exception) ERROR with ***\n"
	if got := c.tree("a", "b", "n"); got != want {
		t.Errorf("%s", got)
	}
	if bytes.Contains(c.raw, []byte("CANARY")) {
		t.Error("a secret was sent")
	}
	for name, value := range map[string]string{"service.name": "front", "service.version": "1.2.3", "deployment.environment.name": "test"} {
		if c.resource[name] != value {
			t.Errorf("%s: %q", name, c.resource[name])
		}
	}
	if c.header.Get("X-Team") != "ling" || c.header.Get("Authorization") != "Bearer k" {
		t.Errorf("%v", c.header)
	}
	if log.Len() > 0 {
		t.Errorf("the log: %s", log.String())
	}
}

func TestTheSamplerOfTheEnvironmentCounts(t *testing.T) {
	c := newCollector(t)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"})
	traces := open(t, new(bytes.Buffer))
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "dropped")
	if span.IsRecording() {
		t.Error("it is kept")
	}
	span.End()
	if err := traces.Close(t.Context()); err != nil || c.asked != 0 {
		t.Errorf("%v, asked %d times", err, c.asked)
	}
}

// What a collector does wrong costs a line of the log, and the end of the program no longer than it is given.
func TestACollectorThatDoesNotWorkCostsOneLine(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing := newCollector(t)
	refusing.refuse = 403
	for _, row := range []struct {
		name, address string
		line          bool
	}{
		{"nobody is there", "http://user:CANARY@127.0.0.1:1", true},
		{"it says nothing", "http://" + silent.Addr().String(), true},
		{"it refuses", refusing.URL, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": row.address})
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
			var log syncBuffer
			traces, err := telemetry.OpenTraces(t.Context(), telemetry.TraceOptions{Log: telemetry.NewLog(&log, telemetry.LogOptions{})})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(traces.To(), "CANARY") {
				t.Error(traces.To())
			}
			for range 3000 { // more than the queue takes
				_, span := traces.Provider().Tracer("test").Start(t.Context(), "s")
				span.End()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_ = traces.Close(ctx)
			deadline := time.Now().Add(time.Hour)
			for strings.Count(log.String(), "\n") == 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if text := log.String(); strings.Count(text, "cannot send traces; their spans are lost") != 1 || strings.Contains(text, "CANARY") {
				t.Errorf("the log: %s", text)
			}
		})
	}
}
