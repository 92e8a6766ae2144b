package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
)

// DN-11: the last line names the bot that failed the run, and nothing is left out in silence.
func TestTheEndNamesTheBotThatFailed(t *testing.T) {
	many := make([]string, maxProblems+2)
	for i := range many {
		many[i] = fmt.Sprintf(`{"code":"output_invalid","message":"misfit %d","bot":"plan","pointer":"/trip/%d"}`, i, i)
	}
	for _, test := range []struct {
		name   string
		errors []string
		status string
		tell   bool
		want   []string
	}{
		{"a bot that completed reports later", []string{
			`{"code":"upstream_unavailable","message":"it broke","bot":"a","failed":true}`,
			`{"code":"output_invalid","message":"misfit","bot":"b","pointer":"/b/x"}`,
		}, "failed", false, []string{"lingserve: the run failed: a: it broke (upstream_unavailable)"}},
		{"with the text", []string{
			`{"code":"upstream_unavailable","message":"it broke","bot":"a","failed":true}`,
			`{"code":"output_invalid","message":"misfit","bot":"b","pointer":"/b/x"}`,
			`{"code":"internal","message":"another","bot":"c","failed":true,"handled":true}`,
		}, "failed", true, []string{
			"lingserve: b: misfit (output_invalid at /b/x)", "lingserve: c: another (internal), which was handled", "lingserve: the run failed: a: it broke (upstream_unavailable)",
		}},
		{
			"a server that does not say which failed",
			[]string{`{"code":"internal","message":"one","bot":"a"}`, `{"code":"internal","message":"two","bot":"b"}`},
			"failed", false,
			[]string{"lingserve: the run failed: b: two (internal)"},
		},
		{
			"the run's own end",
			[]string{`{"code":"internal","message":"one","bot":"a","failed":true}`, `{"code":"too_large","message":"the limit","fatal":true}`},
			"failed", false,
			[]string{"lingserve: the run failed: the limit (too_large)"},
		},
		{"many", many, "completed", true, []string{"lingserve: plan: misfit 0 (output_invalid at /trip/0)", "lingserve: and 2 more errors; --format jsonl has them all"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &output{}
			for _, data := range test.errors {
				o.named(tube.Event{Kind: tube.Named, Name: "error", Value: []byte(data)})
			}
			o.named(tube.Event{Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"` + test.status + `"}`)})
			var stderr strings.Builder
			_ = o.end.report(&stderr, test.tell)
			got := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
			if test.name == "many" {
				got = []string{got[0], got[len(got)-1]}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
