//go:build nightly && unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/longtest"
)

// DO-08: many agent runs at once say that they wait while they do, and all complete. It logs the times to the first delta.
func TestDO_08ManyAgentRunsAtOnceSayThatTheyWait(t *testing.T) {
	longtest.Only(t, "2000 agent runs at once")
	const n = 2000
	for _, row := range []struct {
		name        string
		concurrency int
		pace        float64
	}{
		{"a slot for each, models that answer at once", n, 0},
		{"a slot for each, 1 s a run", n, 50},
		{"a slot for one of eight, models that answer at once", n / 8, 0},
		{"a slot for one of eight, 1 s a run", n / 8, 50},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, serving{
				args:   []string{"--turn-concurrency", fmt.Sprint(row.concurrency), "--limit-streams", fmt.Sprint(2 * n)},
				config: "agents:\n  helper: {model: openai:m}\n",
				script: func(fakeproviders.Request) fakeproviders.Answer {
					return fakeproviders.Answer{Text: strings.Repeat("word", 50), Pace: row.pace}
				},
			})
			s.unbounded()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var mu sync.Mutex
			var firsts []time.Duration
			silent, told := 0, 0
			began := time.Now()
			var runs sync.WaitGroup
			for range n {
				runs.Go(func() {
					resp, err := s.request(ctx, "POST", "/v1/runs", `{"agent":"helper","input":"hello"}`, "Accept: application/jsonl")
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					var started, first time.Duration
					waited, completed, last := false, false, ""
					for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
						last = lines.Text()
						switch {
						case started == 0 && strings.Contains(last, `"event":"started"`):
							started = time.Since(began)
						case strings.Contains(last, `"event":"waiting"`):
							waited = true
						case first == 0 && strings.Contains(last, `word`):
							first = time.Since(began)
						}
						completed = strings.Contains(last, `"completed"`)
					}
					mu.Lock()
					defer mu.Unlock()
					if !completed || first == 0 {
						t.Errorf("a run ended with status %d and %s", resp.StatusCode, last)
						return
					}
					firsts = append(firsts, first)
					if waited {
						told++
					} else if row.pace > 0 && row.concurrency < n && first-started > 3*time.Second { // it is told after half a second; the machine is busy
						silent++
					}
				})
			}
			runs.Wait()
			if t.Failed() {
				return
			}
			slices.Sort(firsts)
			var sum time.Duration
			for _, d := range firsts {
				sum += d
			}
			t.Logf("%d runs, %d slots: first delta after %v (median), %v (mean), %v (p99); all ended after %v; %d said that they wait",
				n, row.concurrency, ms(firsts[n/2]), ms(sum/time.Duration(n)), ms(firsts[n*99/100]), ms(time.Since(began)), told)
			if silent > 0 {
				t.Errorf("%d runs waited and did not say so", silent)
			}
			if row.pace > 0 && row.concurrency < n && told < n-2*row.concurrency {
				t.Errorf("only %d of %d runs said that they wait", told, n)
			}
			s.stop()
		})
	}
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
