package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web"
	"github.com/lingserve/lingserve/web/wire"
)

// streamMetrics are those of one kind of streams. All streams of the kind share them as their observer: it costs nothing to count one
// more.
type streamMetrics struct {
	open      prometheus.Gauge
	events    prometheus.Counter
	bytes     prometheus.Counter
	snapshots prometheus.Counter
	ended     map[string]prometheus.Counter // by end
}

// makeStreams makes the series of all kinds of streams, so that those that have had none are 0 and not missing.
func (m *Metrics) makeStreams() {
	open := m.gauges("streams_open", "Clients that follow a run; kind json waits for a whole document.", "kind")
	events := m.counters("stream_events_total", "Events sent to clients.", "kind")
	bytes := m.counters("stream_bytes_total", "Bytes of events sent to clients.", "kind")
	snapshots := m.counters("stream_snapshots_total", "Snapshots sent to clients that had fallen behind.", "kind")
	ended := m.counters("streams_ended_total",
		"Ended streams: complete, left, slow, stopped or revoked.", "kind", "end")
	m.streams = map[string]*streamMetrics{}
	for _, kind := range []string{wire.StreamSSE, wire.StreamJSONL, wire.StreamUI, wire.StreamAGUI, wire.StreamOpenAI, wire.StreamJSON} {
		s := &streamMetrics{open: open.WithLabelValues(kind), ended: map[string]prometheus.Counter{}}
		if kind != wire.StreamJSON { // which has no events
			s.events, s.bytes, s.snapshots = events.WithLabelValues(kind), bytes.WithLabelValues(kind), snapshots.WithLabelValues(kind)
		}
		for _, end := range []string{wire.StreamComplete, wire.StreamLeft, wire.StreamSlow, wire.StreamStopped, wire.StreamRevoked} {
			s.ended[end] = ended.WithLabelValues(kind, end)
		}
		m.streams[kind] = s
	}
	m.resumes = m.counters("resumes_total",
		"Clients that resumed with an event id: followed, complete (nothing missing), gone or invalid.",
		"outcome")
	for _, outcome := range []string{wire.ResumeFollowed, wire.ResumeComplete, wire.ResumeGone, wire.ResumeInvalid} {
		m.resumes.WithLabelValues(outcome)
	}
}

// Stream implements [wire.Observer].
func (m *Metrics) Stream(kind string) wire.StreamObserver {
	s := m.streams[kind]
	s.open.Inc()
	return s
}

// Wrote implements [wire.StreamObserver].
func (s *streamMetrics) Wrote(events, bytes int) {
	s.events.Add(float64(events))
	s.bytes.Add(float64(bytes))
}

// End implements [wire.StreamObserver].
func (s *streamMetrics) End(end string, snapshots int) {
	s.open.Dec()
	s.ended[end].Inc()
	if snapshots > 0 {
		s.snapshots.Add(float64(snapshots))
	}
}

// Resumed implements [wire.Observer].
func (m *Metrics) Resumed(outcome string) { m.resumes.WithLabelValues(outcome).Inc() }

// httpMetrics are those of requests of clients.
type httpMetrics struct {
	requests *prometheus.CounterVec
	broken   *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refusals *prometheus.CounterVec
}

func (h *httpMetrics) make(m *Metrics) {
	h.requests = m.counters("http_requests_total", "Ended requests by status class; 0xx had no answer.", "route", "method", "status")
	h.broken = m.counters("http_broken_total", "Answers without a clean end.", "route")
	h.bytes = m.counters("http_response_bytes_total", "Bytes of answer bodies.", "route")
	h.duration = m.histograms("http_request_duration_seconds", "Time to the end of an answer or stream.", fast, "route")
	h.refusals = m.counters("http_refusals_total", "Requests refused by access control or a limit.", "reason")
	for _, reason := range web.Reasons() {
		h.refusals.WithLabelValues(reason)
	}
}

// classes of statuses.
var classes = [...]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Requested implements [web.Observer].
func (m *Metrics) Requested(e web.Exchange) {
	class := Other
	if i := e.Status / 100; i >= 0 && i < len(classes) {
		class = classes[i]
	}
	m.http.requests.WithLabelValues(e.Route, e.Method, class).Inc()
	m.http.duration.WithLabelValues(e.Route).Observe(e.Took.Seconds())
	m.http.bytes.WithLabelValues(e.Route).Add(float64(e.Bytes))
	if e.Broken {
		m.http.broken.WithLabelValues(e.Route).Inc()
	}
	if e.Reason != "" {
		m.http.refusals.WithLabelValues(e.Reason).Inc()
	}
}

// tapeMetrics are those of what sessions remember.
type tapeMetrics struct {
	appended, refused, failed prometheus.Counter
	entries                   prometheus.Counter
	bytes                     prometheus.Counter
}

func (t *tapeMetrics) make(m *Metrics) {
	appends := m.counters("tape_appends_total", "Batches for tapes: ok, refused (conflict) or failed (disk).", "outcome")
	t.appended, t.refused, t.failed = appends.WithLabelValues("ok"), appends.WithLabelValues("refused"), appends.WithLabelValues("failed")
	t.entries = m.counters("tape_entries_total", "Entries appended to tapes.").WithLabelValues()
	t.bytes = m.counters("tape_bytes_total", "Bytes appended to tapes.").WithLabelValues()
}

// Appended implements [tape.Observer].
func (m *Metrics) Appended(entries int, bytes int64, err error) {
	t := &m.tapes
	switch {
	case err == nil:
		t.appended.Inc()
		t.entries.Add(float64(entries))
		t.bytes.Add(float64(max(bytes, 0)))
	case tape.Refused(err):
		t.refused.Inc()
	default:
		t.failed.Inc()
	}
}

// channelMetrics are those of what comes through channels.
type channelMetrics struct {
	turns  *prometheus.CounterVec
	stages *prometheus.HistogramVec
}

func (c *channelMetrics) make(m *Metrics) {
	c.turns = m.counters("channel_turns_total", "Messages of channels by outcome.", "channel", "outcome", "reason")
	c.stages = m.histograms("channel_stage_seconds", "Time of a stage of a channel's turn.", fast, "channel", "stage")
}

// Observe implements [channel.Observer].
func (m *Metrics) Observe(_ context.Context, t channel.Trace) {
	if t.Phase == channel.PhaseStart || t.Phase == channel.PhaseWarning {
		return
	}
	m.Stage(t.Channel, t.Stage, t.Duration)
	if t.Stage == channel.StageFinalize {
		m.Turn(t.Channel, t.Outcome, t.Admission.Reason)
	}
}

// Turn counts a turn of a channel that has ended.
func (m *Metrics) Turn(name string, o channel.Outcome, r channel.Reason) {
	m.channel.turns.WithLabelValues(name, string(o), string(r)).Inc()
}

// Stage records the duration of a stage of a channel's turn.
func (m *Metrics) Stage(name string, s channel.Stage, d time.Duration) {
	m.channel.stages.WithLabelValues(name, string(s)).Observe(d.Seconds())
}
