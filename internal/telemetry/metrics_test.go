package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
	"github.com/lingserve/lingserve/web/wire"
)

// known are the names of an operator.
var known = MetricNames{
	Workflow: func(name string) bool { return name == "encyclopedia" },
	Agent:    func(name string) bool { return name == "assistant" },
	Model:    func(name string) bool { return name == "demo:demo" },
}

// worked returns the metrics of a server that has done some of everything.
func worked() *Metrics {
	m := NewMetrics("v1.2.3", "abcdef", known)
	m.Watch(Sources{
		Server: func() web.Load {
			return web.Load{Connections: 7, TurnedAway: 6, Overloaded: []string{"memory"}, Load: run.Load{InMemory: 2, MemoryBytes: 8192}, Memory: adapter.Holdings{Bytes: 512, Waiting: 9, Refused: 8}}
		},
		Lanes: func() turn.Lanes {
			return turn.Lanes{Running: 1, Waiting: 2, Refused: turn.Refusals{Busy: 3, Full: 4, Draining: 5}}
		},
		Approvals: func() int { return 1 },
		Providers: func() []adapter.Load { return []adapter.Load{{Provider: "demo", Max: 10, Refused: 1}} },
		Channels:  pendingOf(map[string]int{"telegram": 1}, map[string]int{"telegram": 2}),
		Database:  func() DatabaseLoad { return DatabaseLoad{Up: true, Replicas: 3} },
	})
	for _, of := range []struct{ workflow, agent string }{{"encyclopedia", ""}, {"", "assistant"}} {
		r := m.Run(of.workflow, of.agent)
		r.First()
		r.End("completed", "")
		m.Run(of.workflow, of.agent).End("failed", adapter.CodeTimeout)
		m.Run(of.workflow, of.agent) // goes on
	}
	for n, outcome := range []string{adapter.CodeUnavailable, adapter.Complete} {
		a := m.Ask("demo", "demo", n+1)
		a.Sent()
		a.First()
		a.End(outcome, adapter.Usage{PromptTokens: 4, CompletionTokens: 6, CachedTokens: 3, CacheWriteTokens: 1, ReasoningTokens: 2, AudioTokens: 1, Cost: 1500})
	}
	m.Ask("demo", "demo", 1).End(adapter.CodeOverloaded, adapter.Usage{}) // got no slot
	m.Ask("demo", "demo", 1).Sent()                                       // goes on
	for kind := range m.streams {
		for _, end := range []string{wire.StreamComplete, wire.StreamLeft, wire.StreamSlow, wire.StreamStopped, wire.StreamRevoked} {
			s := m.Stream(kind)
			if kind == wire.StreamJSON { // has no events
				s.End(end, 0)
				continue
			}
			s.Wrote(2, 100)
			s.End(end, 1)
		}
		m.Stream(kind)
	}
	m.Resumed(wire.ResumeFollowed)
	m.Requested(web.Exchange{Method: "POST", Route: "/v1/runs", Status: 200, Bytes: 100, Took: time.Second})
	m.Requested(web.Exchange{Method: "POST", Route: "/v1/runs", Status: 503, Reason: "limit_memory"})
	m.Requested(web.Exchange{Method: "GET", Route: "/v1/runs/{run}/events", Status: 200, Broken: true})
	m.Appended(2, 300, nil)
	m.Appended(1, 0, fmt.Errorf("tape x: %w", tape.ErrMoved))
	m.Appended(1, 0, &fs.PathError{Op: "write", Path: "x", Err: errors.New("no space left on device")})
	m.Observe(context.Background(), channel.Trace{Channel: "telegram", Stage: channel.StageDispatch, Duration: time.Millisecond})
	m.Observe(context.Background(), channel.Trace{Channel: "telegram", Stage: channel.StageFinalize, Outcome: channel.OutcomeVisible})
	blocked := channel.Trace{Channel: "telegram", Stage: channel.StageFinalize, Outcome: channel.OutcomeBlocked}
	blocked.Admission.Reason = "dedupe"
	m.Observe(context.Background(), blocked)
	return m
}

// gathered are the values of all series that are ours, by name and labels; of histograms, the count.
func gathered(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace) {
			continue
		}
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount()) // it is one of them
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

func TestWhatHappensIsCounted(t *testing.T) {
	got := gathered(t, worked())
	for series, want := range map[string]float64{
		"lingserve_build_info{commit=abcdef,goversion=" + runtime.Version() + ",version=v1.2.3}":    1,
		"lingserve_runs_started_total{kind=workflow,name=encyclopedia}":                             3,
		"lingserve_runs_running{kind=agent,name=assistant}":                                         1,
		"lingserve_runs_ended_total{code=,kind=workflow,name=encyclopedia,status=completed}":        1,
		"lingserve_runs_ended_total{code=upstream_timeout,kind=agent,name=assistant,status=failed}": 1,
		"lingserve_run_first_delta_seconds{kind=workflow,name=encyclopedia}":                        1,
		"lingserve_run_duration_seconds{kind=workflow,name=encyclopedia}":                           2,
		"lingserve_upstream_requests_total{model=demo,outcome=ok,provider=demo}":                    1,
		"lingserve_upstream_requests_total{model=demo,outcome=upstream_unavailable,provider=demo}":  1,
		"lingserve_upstream_requests_total{model=demo,outcome=overloaded,provider=demo}":            1,
		"lingserve_upstream_retries_total{model=demo,provider=demo}":                                1,
		"lingserve_upstream_waiting{model=demo,provider=demo}":                                      0,
		"lingserve_upstream_in_flight{model=demo,provider=demo}":                                    1,
		"lingserve_upstream_queue_seconds{model=demo,provider=demo}":                                3,
		"lingserve_upstream_first_token_seconds{model=demo,provider=demo}":                          2,
		"lingserve_upstream_request_duration_seconds{model=demo,provider=demo}":                     2,
		"lingserve_tokens_total{direction=input,model=demo,provider=demo}":                          8,
		"lingserve_tokens_total{direction=output,model=demo,provider=demo}":                         12,
		"lingserve_streams_open{kind=sse}":                                                          1,
		"lingserve_streams_ended_total{end=slow,kind=agui}":                                         1,
		"lingserve_stream_events_total{kind=ui}":                                                    10,
		"lingserve_stream_bytes_total{kind=jsonl}":                                                  500,
		"lingserve_stream_snapshots_total{kind=openai}":                                             5,
		"lingserve_resumes_total{outcome=followed}":                                                 1,
		"lingserve_http_requests_total{method=POST,route=/v1/runs,status=2xx}":                      1,
		"lingserve_http_requests_total{method=POST,route=/v1/runs,status=5xx}":                      1,
		"lingserve_http_broken_total{route=/v1/runs/{run}/events}":                                  1,
		"lingserve_http_refusals_total{reason=limit_memory}":                                        1,
		"lingserve_http_response_bytes_total{route=/v1/runs}":                                       100,
		"lingserve_tape_appends_total{outcome=ok}":                                                  1,
		"lingserve_tape_appends_total{outcome=refused}":                                             1,
		"lingserve_tape_appends_total{outcome=failed}":                                              1,
		"lingserve_tape_entries_total{}":                                                            2,
		"lingserve_tape_bytes_total{}":                                                              300,
		"lingserve_turns_running{}":                                                                 1,
		"lingserve_turns_waiting{}":                                                                 2,
		"lingserve_turns_refused_total{reason=full}":                                                4,
		"lingserve_approvals_waiting{}":                                                             1,
		"lingserve_upstream_slots{provider=demo}":                                                   10,
		"lingserve_channel_turns_total{channel=telegram,outcome=blocked,reason=dedupe}":             1,
		"lingserve_channel_stage_seconds{channel=telegram,stage=dispatch}":                          1,
		"lingserve_channel_journal_pending{channel=telegram}":                                       1,
		"lingserve_channel_outbox_pending{channel=telegram}":                                        2,
		"lingserve_ended_runs_bytes{}":                                                              8192,
		"lingserve_overloaded{limit=memory}":                                                        1,
		"lingserve_overloaded{limit=streams}":                                                       0,
		"lingserve_connections{}":                                                                   7,
		"lingserve_runs_memory_bytes{}":                                                             512,
		"lingserve_runs_memory_waiting{}":                                                           9,
		"lingserve_runs_memory_refused_total{}":                                                     8,
		"lingserve_connections_turned_away_total{}":                                                 6,
		"lingserve_draining{}":                                                                      0,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), expected %v", series, value, ok, want)
		}
	}
}

// Whoever sends requests chooses the names of models and, with workflows of his own, of workflows.
func TestNamesThatCallersMakeUpAddNoSeries(t *testing.T) {
	m := worked()
	odd := func(i int) string { return fmt.Sprintf("made-up-%d", i) }
	send := func(i int) {
		m.Run(odd(i), "").End("failed", adapter.CodeTimeout)
		m.Run("", odd(i)).End("completed", "")
		a := m.Ask("demo", odd(i), 1+i%2)
		a.Sent()
		a.First()
		a.End(adapter.Complete, adapter.Usage{PromptTokens: 1, CompletionTokens: 1})
		m.Requested(web.Exchange{Method: "GET", Route: "other", Status: 404})
	}
	const callers = 1000
	for i := range callers {
		send(i)
	}
	for series := range gathered(t, m) {
		if strings.Contains(series, "made-up") {
			t.Fatalf("%s has a name that a caller has made up", series)
		}
	}
	if n := gathered(t, m)["lingserve_runs_started_total{kind=workflow,name=other}"]; n != callers {
		t.Errorf("%v runs are of others", n)
	}
}

func TestTheMetricsAreReadAsPrometheusDoes(t *testing.T) {
	w := httptest.NewRecorder()
	worked().Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		"# TYPE lingserve_runs_started_total counter",
		`lingserve_runs_running{kind="agent",name="assistant"} 1`,
		`lingserve_run_duration_seconds_bucket{kind="agent",name="assistant",le="+Inf"} 2`,
		"# TYPE go_goroutines gauge",
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
}

// A gauge that never comes back to 0 would look like a leak.
func TestWhatHasEndedIsNoLongerGoingOn(t *testing.T) {
	m := NewMetrics("", "", known)
	m.Run("encyclopedia", "").End("completed", "")
	a := m.Ask("demo", "demo", 1)
	a.Sent()
	a.End(adapter.Left, adapter.Usage{CompletionTokens: -1})
	m.Ask("demo", "demo", 1).End(adapter.Left, adapter.Usage{})
	m.Stream(wire.StreamUI).End(wire.StreamLeft, 0)
	for series, v := range gathered(t, m) {
		for _, gauge := range []string{"lingserve_runs_running", "lingserve_upstream_waiting", "lingserve_upstream_in_flight", "lingserve_streams_open"} {
			if strings.HasPrefix(series, gauge+"{") && v != 0 {
				t.Errorf("%s is %v", series, v)
			}
		}
	}
}
