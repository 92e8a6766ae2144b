//go:build nightly && unix

package faults

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// selectorIn is a metric with its matchers, as Prometheus' language writes it.
var selectorIn = regexp.MustCompile(`\b((?:lingserve|process)_[a-z_]+)\b(?:\{([^}]*)\})?`)

// matcherIn is one matcher, and a label of a series.
var matcherIn = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)

// watchedExprs are the expressions of the alerts and of the dashboard.
func watchedExprs(t *testing.T) (alerts, panels []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Expr)
		}
	}
	if text, err = os.ReadFile("../../deploy/grafana/lingserve.json"); err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			panels = append(panels, target.Expr)
		}
	}
	if len(alerts) < 10 || len(panels) < 10 {
		t.Fatalf("there are %d alerts and %d panels", len(alerts), len(panels))
	}
	return alerts, panels
}

// scrape reads the metrics of a server: the labels of each series, by name.
func (s *server) scrape() map[string][]map[string]string {
	s.t.Helper()
	resp, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	all := map[string][]map[string]string{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		name, rest, _ := strings.Cut(lines.Text(), " ")
		if at := strings.IndexByte(lines.Text(), '{'); at >= 0 {
			name, rest = lines.Text()[:at], lines.Text()[at:]
		}
		labels := map[string]string{}
		for _, l := range matcherIn.FindAllStringSubmatch(rest, -1) {
			labels[l[1]] = l[3]
		}
		all[name] = append(all[name], labels)
	}
	if err := lines.Err(); err != nil && err != io.EOF {
		s.t.Fatal(err)
	}
	return all
}

// selects says whether the matchers of a selector take a series. Labels of the scrape, and variables of the dashboard, take each.
func selects(matchers string, labels map[string]string) bool {
	for _, m := range matcherIn.FindAllStringSubmatch(matchers, -1) {
		name, op, value := m[1], m[2], m[3]
		if name == "job" || name == "instance" || strings.Contains(value, "$") {
			continue
		}
		if !strings.HasSuffix(op, "~") {
			value = regexp.QuoteMeta(value)
		}
		if regexp.MustCompile("^(?:"+value+")$").MatchString(labels[name]) == strings.HasPrefix(op, "!") {
			return false
		}
	}
	return true
}

// DO-11: whatever alerts and the dashboard look at is there before the first request. A counter that begins with its first event begins
// at 1, and rate and increase do not see that event.
func TestDO_11_MetricsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	s := serve(t, serving{config: `
agents:
  assistant: {}
channels:
  shop:
    type: webhook
    secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz
    ack: result
    dm: {policy: open}
`})
	series := s.scrape()
	alerts, panels := watchedExprs(t)
	for _, expr := range append(alerts, panels...) {
	selectors:
		for _, m := range selectorIn.FindAllStringSubmatch(expr, -1) {
			for _, labels := range series[m[1]] {
				if selects(m[2], labels) {
					continue selectors
				}
			}
			t.Errorf("there is no series of %s, of %d with that name; it is used in %s", m[0], len(series[m[1]]), expr)
		}
	}
	for name, want := range map[string]map[string]string{
		"lingserve_http_refusals_total":              {"reason": "limit_all_runs"},
		"lingserve_http_requests_total":              {"route": "/v1/runs", "method": "POST", "status": "5xx"},
		"lingserve_channel_journal_pending":          {"channel": "shop"},
		"lingserve_channel_outbox_pending":           {"channel": "shop"},
		"lingserve_channel_turns_total":              {"channel": "shop", "outcome": "failed", "reason": ""},
		"lingserve_runs_ended_total":                 {"kind": "agent", "name": "assistant", "status": "failed", "code": "internal"},
		"lingserve_runs_started_total":               {"kind": "workflow", "name": "text"},
		"lingserve_run_first_delta_seconds_count":    {"kind": "workflow", "name": "other"},
		"lingserve_upstream_requests_total":          {"provider": "openai", "model": "m", "outcome": "upstream_auth"},
		"lingserve_upstream_slots":                   {"provider": "openai"},
		"lingserve_upstream_slots_refused_total":     {"provider": "openai"},
		"lingserve_tokens_total":                     {"provider": "openai", "model": "m", "direction": "input"},
		"lingserve_upstream_first_token_seconds_sum": {"provider": "openai", "model": "m"},
	} {
		found := false
		for _, labels := range series[name] {
			same := true
			for label, value := range want {
				same = same && labels[label] == value
			}
			found = found || same
		}
		if !found {
			t.Errorf("there is no %s with %v", name, want)
		}
	}
	n := 0
	for _, all := range series {
		n += len(all)
	}
	t.Logf("%d series", n)
	if n > 3000 {
		t.Errorf("a server that has done nothing has %d series", n)
	}
}
