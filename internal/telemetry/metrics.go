package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web"
)

// Metrics counts what a server does, in its own registry. It is the observer of requests, models, tapes and channels.
//
// # Guarantees
//   - No label has an id, an address, or anything that anybody says.
//   - The number of series is bounded: names that callers could have made up are "other".
//   - A delta costs no allocation and no look-up of a label.
type Metrics struct {
	registry *prometheus.Registry
	sources  sources
	known    MetricNames

	runs     runMetrics
	upstream upstreamMetrics
	streams  map[string]*streamMetrics
	resumes  *prometheus.CounterVec
	http     httpMetrics
	tapes    tapeMetrics
	channel  channelMetrics
}

var (
	_ web.Observer     = (*Metrics)(nil)
	_ adapter.Observer = (*Metrics)(nil)
	_ tape.Observer    = (*Metrics)(nil)
	_ channel.Observer = (*Metrics)(nil)
)

// MetricNames report which names are the operator's and may be labels. All are called concurrently; nil knows no names.
type MetricNames struct {
	Workflow func(name string) bool
	Agent    func(name string) bool
	Model    func(name string) bool // "provider:model"
}

// namespace begins the names of all metrics that are ours.
const namespace = "lingserve"

// Buckets of durations, in seconds. Answers of models take from a tenth of a second to minutes, a disk and a document milliseconds.
var (
	slow = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	wait = []float64{0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30, 60}
	fast = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600}
)

// NewMetrics makes the metrics of one server; version and commit are those of the binary.
func NewMetrics(version, commit string, names MetricNames) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), known: names}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.runs.make(m)
	m.upstream.make(m)
	m.makeStreams()
	m.http.make(m)
	m.tapes.make(m)
	m.channel.make(m)
	m.registry.MustRegister(&m.sources)
	m.gauges("build_info", "Always 1; the labels tell the build.", "version", "commit", "goversion").WithLabelValues(version, commit, runtime.Version()).Set(1)
	return m
}

// Handler answers with the metrics as Prometheus reads them.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// An error of one metric does not hide the others.
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4, // to gather is work
	})
}

// The helpers below make and register metrics.

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(m.registry).NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(m.registry).NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// Other is the label of all names that are not the operator's.
const Other = "other"

// label returns the value of a label for a name that a caller may have made up.
func label(known func(string) bool, name string) string {
	if known != nil && known(name) {
		return name
	}
	return Other
}

// since is the time since then, in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
