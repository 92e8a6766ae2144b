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
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

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

// Traces are where the spans of this program go. The zero value and nil are nowhere.
type Traces struct {
	provider *sdk.TracerProvider
	stop     context.CancelFunc // ends what is still being sent
	to       string
}

// OpenTraces reads the variables of OpenTelemetry and begins to send spans where they say so: to a collector, by OTLP over HTTP,
// where OTEL_TRACES_EXPORTER is otlp, or is not set and an endpoint is; to the log, where it is console. Without any of that nothing
// is sent and the result is nil. Errors, which name the variable: a value that is not known. The standard takes such for the
// default; this does not, since whoever sets it would wait for what never comes.
//
// Nobody waits for a collector: what it does not take in time is dropped, and the log says so once in a while.
func OpenTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	exporters, err := traceExporters()
	if err != nil || len(exporters) == 0 {
		return nil, err
	}
	// The library tells of its troubles in places of its own, which would be lines between those of the log.
	otel.SetLogger(logr.Discard())
	told := &seldom{log: o.Log, every: tellEvery}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { told.failed(0, err) }))

	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "lingserve"), attribute.String("service.version", cmp.Or(o.Version, "dev"))),
		resource.WithFromEnv(), // which goes over the name
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: expected NAME=VALUE,NAME=VALUE: %w", adapter.RedactError(err, o.Secrets...))
	}
	sending, stop := context.WithCancel(context.Background())
	options := []sdk.TracerProviderOption{sdk.WithResource(about), sdk.WithRawSpanLimits(spanLimits())}
	clean := newCleaner(o.Secrets)
	t := &Traces{stop: stop}
	for _, name := range exporters {
		switch name {
		case "otlp":
			e, err := otlptracehttp.New(ctx, otlptracehttp.WithProxy(func(r *http.Request) (*url.URL, error) {
				if proxy := egress.Proxy(o.ProxyEnv); proxy != nil {
					return proxy(r)
				}
				return nil, nil // without a function of ours it would use the environment's
			}))
			if err != nil {
				stop()
				return nil, fmt.Errorf("traces: the exporter cannot be made: %w", adapter.RedactError(err, o.Secrets...))
			}
			t.to = endpoint()
			options = append(options, sdk.WithBatcher(&exporter{SpanExporter: e, clean: clean, told: told, ctx: sending}))
		case "console":
			options = append(options, sdk.WithSyncer(&exporter{SpanExporter: console{o.Log}, clean: clean, told: told, ctx: sending}))
		}
	}
	t.provider = sdk.NewTracerProvider(options...)
	return t, nil
}

// Provider makes tracers; nil where spans go nowhere.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil || t.provider == nil {
		return nil
	}
	return t.provider
}

// To says where spans go, without anything secret, for the log; "" is the log itself, or nowhere.
func (t *Traces) To() string {
	if t == nil {
		return ""
	}
	return t.to
}

// Close sends what has not been sent, for as long as ctx lasts. Spans that end afterwards are dropped.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil || t.provider == nil {
		return nil
	}
	defer t.stop() // whatever is still being sent ends now
	defer context.AfterFunc(ctx, t.stop)()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("traces: the last spans were not sent: %w", adapter.RedactError(err))
	}
	return nil
}

// spanLimits bound what a span has, where the environment says nothing else.
func spanLimits() sdk.SpanLimits {
	l := sdk.NewSpanLimits() // of the environment
	if l.AttributeValueLengthLimit < 0 {
		l.AttributeValueLengthLimit = 1 << 10
	}
	return l
}

// variable is the first of these variables that is set, and its value.
func variable(names ...string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

// Variables that say where to and how.
var (
	endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
	protocols = []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
)

// traceExporters says what the environment asks for: otlp, console, both or nothing.
func traceExporters() (list []string, err error) {
	if _, off := variable("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return nil, nil
	}
	_, to := variable(endpoints...)
	switch name, asked := variable("OTEL_TRACES_EXPORTER"); {
	case asked == "" && to == "":
		return nil, nil
	case asked == "":
		list = []string{"otlp"}
	default:
		for one := range strings.SplitSeq(asked, ",") {
			switch one = strings.ToLower(strings.TrimSpace(one)); one {
			case "none":
			case "otlp", "console":
				list = append(list, one)
			default:
				return nil, fmt.Errorf("%s: expected otlp, console or none, got %q", name, one)
			}
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, errors.Join(checkProtocol(), checkEndpoints(), checkSampler())
}

func checkProtocol() error {
	switch name, value := variable(protocols...); value {
	case "", "http/protobuf":
		return nil
	case "grpc":
		return fmt.Errorf("%s: grpc is not supported; set http/protobuf, and the endpoint to the collector's port for HTTP, which is mostly 4318 and not 4317", name)
	default:
		return fmt.Errorf("%s: expected http/protobuf, got %q", name, value)
	}
}

// checkEndpoints names no address in what it says: there may be a password in it.
func checkEndpoints() error {
	var errs []error
	for _, name := range endpoints {
		_, value := variable(name)
		if value == "" {
			continue
		}
		if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("%s: expected an address such as http://127.0.0.1:4318", name))
		}
	}
	return errors.Join(errs...)
}

func checkSampler() error {
	name, value := variable("OTEL_TRACES_SAMPLER")
	switch strings.ToLower(value) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
	default:
		return fmt.Errorf("%s: expected always_on, always_off, traceidratio or one of these behind parentbased_, got %q", name, value)
	}
	name, value = variable("OTEL_TRACES_SAMPLER_ARG")
	if ratio, err := strconv.ParseFloat(value, 64); value != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
		return fmt.Errorf("%s: expected a number from 0 to 1, got %q", name, value)
	}
	return nil
}

// HeaderValues are the values of headers as OTEL_EXPORTER_OTLP_HEADERS has them: NAME=VALUE, separated by commas. They are keys mostly.
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

// endpoint is where the collector is, as the log may have it.
func endpoint() string {
	_, value := variable(endpoints...)
	u, err := url.Parse(cmp.Or(value, "http://localhost:4318"))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// tellEvery is how seldom the log says that spans are not taken.
const tellEvery = 5 * time.Minute
