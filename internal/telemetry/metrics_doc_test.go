package telemetry

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v4"
)

// pendingOf is what a kernel of channels says that waits.
func pendingOf(journal, outbox map[string]int) func(context.Context) (map[string]int, map[string]int, error) {
	return func(context.Context) (map[string]int, map[string]int, error) { return journal, outbox, nil }
}

const guide = "../../docs/operate/metrics.md"

// The names and labels of metrics are what dashboards and alerts of others are made of: the guide has all of them.
func TestTheGuideShowsTheMetrics(t *testing.T) {
	var want, got []string
	for _, f := range families(t) {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want = append(want, strings.Join(append([]string{f.GetName(), f.GetHelp()}, labels...), " "))
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^`(lingserve_[a-z_]+)(?:\\{(.*)\\})?` \\| (.*)$").FindAllStringSubmatch(string(text), -1) {
		list := []string{row[1], row[3]}
		if row[2] != "" {
			labels := strings.Split(row[2], ",")
			slices.Sort(labels)
			list = append(list, labels...)
		}
		got = append(got, strings.Join(list, " "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-) and the table in %s (+):\n%s", guide, diff)
	}
}

func TestMetricsAreNamedAsPrometheusWantsIt(t *testing.T) {
	for _, f := range families(t) {
		name, kind := f.GetName(), f.GetType().String()
		if !regexp.MustCompile("^lingserve_[a-z_]+$").MatchString(name) || (kind == "COUNTER") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is no name for a %s", name, kind)
		}
		if kind == "HISTOGRAM" && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s has no unit", name)
		}
		if help := f.GetHelp(); !strings.HasSuffix(help, ".") || strings.Contains(help, "|") {
			t.Errorf("%s: the help %q goes into a table: it needs a period at the end and no bar", name, help)
		}
	}
}

// families are the metrics of a server that has done everything, without those of Go and of the process.
func families(t *testing.T) (list []*dto.MetricFamily) {
	all, err := worked().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "lingserve_") {
			list = append(list, f)
		}
	}
	return list
}

// exported is what a server that has done everything exports: the labels by name, "le" and those of a scrape included.
func exported(t *testing.T) map[string][]string {
	families, err := worked().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{"up": {"job", "instance"}}
	for _, f := range families {
		labels := []string{"job", "instance"}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		names := []string{f.GetName()}
		if f.GetType().String() == "HISTOGRAM" {
			labels = append(labels, "le")
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for _, name := range names {
			all[name] = labels
		}
	}
	return all
}

var (
	metricIn   = regexp.MustCompile(`\b((?:lingserve|go|process)_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?`)
	labelIn    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	groupingIn = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	legendIn   = regexp.MustCompile(`\{\{\s*\$?(?:labels\.)?([a-z_]+)\s*\}\}`)
)

// checkExpr says what is wrong with an expression: metrics and labels that are not there, and names in a legend or a text that the
// result does not have.
func checkExpr(all map[string][]string, expr string, texts ...string) (wrong []string) {
	metrics := metricIn.FindAllStringSubmatch(expr, -1)
	if len(metrics) == 0 {
		return []string{"has no metric"}
	}
	have := map[string]bool{}
	for _, m := range metrics {
		labels, ok := all[m[1]]
		if !ok {
			wrong = append(wrong, m[1]+" does not exist")
		}
		for _, l := range labels {
			have[l] = true
		}
		for _, l := range labelIn.FindAllStringSubmatch(m[2], -1) {
			if ok && !slices.Contains(labels, l[1]) {
				wrong = append(wrong, m[1]+" has no label "+l[1])
			}
		}
	}
	grouped := map[string]bool{}
	for _, g := range groupingIn.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !have[label] {
				wrong = append(wrong, "none of them has the label "+label)
			}
			grouped[label] = true
		}
	}
	for _, text := range texts {
		for _, l := range legendIn.FindAllStringSubmatch(text, -1) {
			if l[1] != "value" && !have[l[1]] {
				wrong = append(wrong, "there is no label "+l[1]+" for a text")
			} else if len(grouped) > 0 && l[1] != "value" && !grouped[l[1]] {
				wrong = append(wrong, "the label "+l[1]+" of a text is summed away")
			}
		}
	}
	return wrong
}

func TestExpressionsAreLookedThrough(t *testing.T) {
	all := exported(t)
	for expr, want := range map[string]int{
		`sum by (kind) (rate(lingserve_runs_started_total{job="x"}[5m]))`:                              0,
		`histogram_quantile(0.9, sum by (le, name) (rate(lingserve_run_duration_seconds_bucket[5m])))`: 0,
		`lingserve_run_duration_seconds`:                                                               1,
		`lingserve_runs{kind="x"}`:                                                                     1,
		`lingserve_runs_running{model="x"}`:                                                            1,
		`sum by (model) (lingserve_runs_running)`:                                                      1,
		`1 + 1`:              1,
		`go_goroutines / up`: 0,
	} {
		if got := checkExpr(all, expr); len(got) != want {
			t.Errorf("%s: %v", expr, got)
		}
	}
	if got := checkExpr(all, `sum by (kind) (lingserve_runs_running)`, "{{name}}"); len(got) != 1 {
		t.Errorf("got %v of a legend that has a label that is summed away", got)
	}
}

// dashboard is what of one the test looks at.
type dashboard struct {
	UID    string
	Panels []struct {
		ID          int
		Title, Type string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, LegendFormat, RefID string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

func TestTheDashboardShowsMetricsThatAreThere(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/lingserve.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	all, used, ids := exported(t), map[string]bool{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q has no title, or the id or the place of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			// What Grafana puts in.
			expr := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr)
			for _, wrong := range checkExpr(all, expr, target.LegendFormat) {
				t.Errorf("panel %q: %s: %s", p.Title, target.Expr, wrong)
			}
			for _, m := range metricIn.FindAllStringSubmatch(expr, -1) {
				used[m[1]] = true
			}
		}
	}
	if len(d.Panels) < 20 || len(used) < 25 {
		t.Errorf("the dashboard has %d panels of %d metrics", len(d.Panels), len(used))
	}
}

func TestTheAlertsAreOfMetricsThatAreThere(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Load(text, &rules, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	all, seen := exported(t), map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("the alert %q is not told from another, or says too little", r.Alert)
			}
			seen[r.Alert] = true
			for _, wrong := range checkExpr(all, r.Expr, r.Annotations["summary"], r.Annotations["description"]) {
				t.Errorf("the alert %s: %s: %s", r.Alert, r.Expr, wrong)
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("there are %d alerts", len(seen))
	}
}
