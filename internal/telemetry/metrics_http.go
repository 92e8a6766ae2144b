package telemetry

import (
	"context"

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

// createStreams creates the series of streams, so that a frame looks none up.
func (m *Metrics) createStreams() {
	m.streams = map[string]*streamMetrics{}
	for _, kind := range []string{wire.StreamSSE, wire.StreamJSONL, wire.StreamUI, wire.StreamAGUI, wire.StreamOpenAI, wire.StreamJSON} {
		s := &streamMetrics{open: m.gauge("streams_open", kind), ended: map[string]prometheus.Counter{}}
		if kind != wire.StreamJSON { // which has no events
			s.events, s.bytes, s.snapshots = m.count("stream_events_total", kind), m.count("stream_bytes_total", kind), m.count("stream_snapshots_total", kind)
		}
		for _, end := range []string{wire.StreamComplete, wire.StreamLeft, wire.StreamSlow, wire.StreamStopped, wire.StreamRevoked} {
			s.ended[end] = m.count("streams_ended_total", kind, end)
		}
		m.streams[kind] = s
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
func (m *Metrics) Resumed(outcome string) { m.count("resumes_total", outcome).Inc() }

// classes of statuses.
var classes = [...]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Requested implements [web.Observer].
func (m *Metrics) Requested(e web.Exchange) {
	class := Other
	if i := e.Status / 100; i >= 0 && i < len(classes) {
		class = classes[i]
	}
	m.count("http_requests_total", e.Route, e.Method, class).Inc()
	m.times("http_request_duration_seconds", e.Route).Observe(e.Took.Seconds())
	m.count("http_response_bytes_total", e.Route).Add(float64(e.Bytes))
	if e.Broken {
		m.count("http_broken_total", e.Route).Inc()
	}
	if e.Reason != "" {
		m.count("http_refusals_total", e.Reason).Inc()
	}
}

// Appended implements [tape.Observer].
func (m *Metrics) Appended(entries int, bytes int64, err error) {
	switch {
	case err == nil:
		m.count("tape_appends_total", "ok").Inc()
		m.count("tape_entries_total").Add(float64(entries))
		m.count("tape_bytes_total").Add(float64(max(bytes, 0)))
	case tape.Refused(err):
		m.count("tape_appends_total", "refused").Inc()
	default:
		m.count("tape_appends_total", "failed").Inc()
	}
}

// Observe implements [channel.Observer].
func (m *Metrics) Observe(_ context.Context, t channel.Trace) {
	if t.Phase == channel.PhaseStart || t.Phase == channel.PhaseWarning {
		return
	}
	m.times("channel_stage_seconds", t.Channel, string(t.Stage)).Observe(t.Duration.Seconds())
	if t.Stage == channel.StageFinalize {
		m.count("channel_turns_total", t.Channel, string(t.Outcome), string(t.Admission.Reason)).Inc()
	}
}
