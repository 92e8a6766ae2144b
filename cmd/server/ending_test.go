package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
)

// DN-11: the last line names the bot that failed the run.
func TestTheEndNamesTheBotThatFailed(t *testing.T) {
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
			"the run's own end",
			[]string{`{"code":"internal","message":"one","bot":"a","failed":true}`, `{"code":"too_large","message":"the limit","fatal":true}`},
			"failed", false,
			[]string{"lingserve: the run failed: the limit (too_large)"},
		},
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
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
