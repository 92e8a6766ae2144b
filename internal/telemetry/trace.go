package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/egress"
)

// TraceOptions are what traces need beside the environment. Only Log is required.
type TraceOptions struct {
	Log     *slog.Logger
	Version string   // of this program
	Secrets []string // texts that no span may have; see [LogOptions]
	// ProxyEnv has a collector reached through the proxy that the environment names.
	ProxyEnv bool
}

// Traces sends the spans of this program. A nil one sends none.
type Traces struct {
	provider *sdk.TracerProvider
	to       string
	cleaner  *cleaner
}

// OpenTraces starts to send spans as the variables of OpenTelemetry say: to a collector by OTLP over HTTP if OTEL_TRACES_EXPORTER is otlp, or
// is unset and there is an endpoint. Otherwise it returns nil. A value that is unknown is an error, although
// the standard ignores it: the operator would wait for spans that never come. Spans that a collector does not accept in time are lost.
//
// The package autoexport chooses exporters by the same variables, but its exporter uses the environment's proxy in any case.
func OpenTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	if on, err := sendsTraces(); err != nil || !on {
		return nil, err
	}
	otel.SetLogger(logr.Discard()) // the library would write other lines
	lost := &lostSpans{log: o.Log, seldom: rate.Sometimes{Interval: lostEvery}}
	clean := newCleaner(o.Secrets)
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "lingserve"), attribute.String("service.version", cmp.Or(o.Version, "dev"))),
		resource.WithFromEnv(), // after the default of the name, which it replaces
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: expected NAME=VALUE,NAME=VALUE: %w", adapter.RedactError(err, o.Secrets...))
	}
	limits := sdk.NewSpanLimits() // of the environment
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = 1 << 10
	}
	proxy := egress.Proxy(o.ProxyEnv)
	if proxy == nil { // without a function, the exporter would use the environment's proxy
		proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	e, err := otlptracehttp.New(ctx, otlptracehttp.WithProxy(proxy))
	if err != nil {
		return nil, fmt.Errorf("cannot make the exporter of traces: %w", adapter.RedactError(err, o.Secrets...))
	}
	t := &Traces{cleaner: clean, to: collector()}
	// The library reports an invalid sampler in this way, and then uses its default.
	var invalid error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { invalid = err }))
	t.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithRawSpanLimits(limits), sdk.WithBatcher(&exporter{e, clean, lost}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { lost.report(0, err) }))
	if invalid != nil {
		return nil, errors.Join(fmt.Errorf("OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG: %w", invalid), t.provider.Shutdown(ctx))
	}
	return t, nil
}

// Provider makes tracers. It is nil if no spans are sent.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// To returns the address of the collector, for the log, or "".
func (t *Traces) To() string {
	if t == nil {
		return ""
	}
	return t.to
}

// HideSecrets takes more secrets out of spans.
func (t *Traces) HideSecrets(secrets []string) {
	if t != nil {
		t.cleaner.add(secrets)
	}
}

// Close sends the remaining spans until ctx is done.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("traces: the last spans were not sent: %w", adapter.RedactError(err))
	}
	return nil
}

// variable returns the first of these variables that is set, and its value.
func variable(names ...string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// sendsTraces reports whether the environment asks for traces.
func sendsTraces() (on bool, err error) {
	if _, off := variable("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return false, nil
	}
	_, to := variable(endpoints...)
	switch name, requested := variable("OTEL_TRACES_EXPORTER"); {
	case requested == "" && to == "", requested == "none":
		return false, nil
	case requested != "" && requested != "otlp":
		return false, fmt.Errorf("%s: expected otlp or none, got %q", name, requested)
	}
	if name, value := variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); value != "" && value != "http/protobuf" {
		return false, fmt.Errorf("%s: expected http/protobuf, got %q; the collector's port for it is mostly 4318 and not 4317", name, value)
	}
	for _, name := range endpoints {
		_, value := variable(name)
		if u, err := url.Parse(value); value != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return false, fmt.Errorf("%s: expected an address such as http://127.0.0.1:4318", name) // it may contain a password
		}
	}
	return true, nil
}

// collector returns the address of the collector without what may be secret.
func collector() string {
	_, value := variable(endpoints...)
	u, err := url.Parse(cmp.Or(value, "http://localhost:4318"))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// HeaderValues returns the values of a list of headers as in OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE,NAME=VALUE. Most are keys.
func HeaderValues(list string) (values []string) {
	for one := range strings.SplitSeq(list, ",") {
		_, value, _ := strings.Cut(one, "=")
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		values = append(values, value)
		if plain, err := url.PathUnescape(value); err == nil && plain != value {
			values = append(values, plain)
		}
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer …
			values = append(values, token)
		}
	}
	return values
}
