//go:build nightly && unix

package faults

import (
	"bufio"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// DO-08: runs that wait for a slot say their position, which callers in turn get, and complete.
func TestDO_08RunsThatWaitForASlotSayTheirPosition(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 10), make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	const ann, bob = "ann-has-a-key-of-her-own", "bob-has-a-key-of-his-own"
	s := serve(t, serving{
		args:   []string{"--turn-concurrency", "1", "--auth-keys", "ann:" + ann + ":user,bob:" + bob + ":user"},
		config: "agents:\n  helper: {model: openai:m}\n",
		script: func(fakeproviders.Request) fakeproviders.Answer {
			asked <- struct{}{}
			<-release
			return fakeproviders.Answer{Text: "done"}
		},
	})
	t.Cleanup(let) // before the server's models are waited for
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// follow starts a run and returns a function that reads its lines until one contains text.
	follow := func(key string) (until func(text string) (seen string)) {
		resp, err := s.request(ctx, "POST", "/v1/runs", `{"agent":"helper","input":"hello"}`, "Accept: application/jsonl", "Authorization: Bearer "+key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		return func(text string) (seen string) {
			for lines.Scan() {
				if seen += lines.Text() + "\n"; strings.Contains(lines.Text(), text) {
					return seen
				}
			}
			t.Fatalf("%q did not come, but %s", text, seen)
			return ""
		}
	}
	runs := []func(string) string{follow(ann)}
	wait(t, "the model is asked", asked)
	for i, key := range []string{ann, ann, bob} {
		runs = append(runs, follow(key))
		runs[i+1](`"started"`) // it waits, behind those before
	}
	for i, position := range []string{"1", "3", "2"} { // the last one is of another caller
		runs[i+1](`"event":"waiting","data":{"position":` + position + `,"for":"slot"}`)
	}
	let()
	for i, until := range runs {
		if seen := until(`"finished"`); !strings.Contains(seen, `"status":"completed"`) || (i > 0) != strings.Contains(seen, `{"position":0}`) {
			t.Errorf("run %d: %s", i, seen)
		}
	}
	s.stop()
}
