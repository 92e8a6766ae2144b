package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"
	"strings"
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

	counters   map[string]*prometheus.CounterVec // these by name
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	streams    map[string]*streamMetrics
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

// NewMetrics makes the metrics of one server; version and commit are those of the binary.
func NewMetrics(version, commit string, names MetricNames) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), known: names,
		counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{}, histograms: map[string]*prometheus.HistogramVec{},
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &m.sources)
	register := promauto.With(m.registry)
	for _, d := range counters {
		m.counters[d.name] = register.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: d.name, Help: d.help}, strings.Fields(d.labels))
	}
	for _, d := range gauges {
		m.gauges[d.name] = register.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: d.name, Help: d.help}, strings.Fields(d.labels))
	}
	for _, d := range histograms {
		o := prometheus.HistogramOpts{Namespace: namespace, Name: d.name, Help: d.help, Buckets: d.buckets}
		m.histograms[d.name] = register.NewHistogramVec(o, strings.Fields(d.labels))
	}
	m.gauge("build_info", version, commit, runtime.Version()).Set(1)
	m.createStreams()
	return m
}

// Handler answers with the metrics as Prometheus reads them.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// An error of one metric does not hide the others.
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4, // to gather is work
	})
}

// count returns the counter with these values of its labels. It begins at 0.
func (m *Metrics) count(name string, labels ...string) prometheus.Counter {
	return m.counters[name].WithLabelValues(labels...)
}

// gauge returns the gauge with these values of its labels.
func (m *Metrics) gauge(name string, labels ...string) prometheus.Gauge {
	return m.gauges[name].WithLabelValues(labels...)
}

// times returns the histogram of durations with these values of its labels.
func (m *Metrics) times(name string, labels ...string) prometheus.Observer {
	return m.histograms[name].WithLabelValues(labels...)
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
