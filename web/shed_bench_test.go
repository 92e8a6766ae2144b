package web

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// BenchmarkRefused is what a request costs that is refused: before its body is read, and after, beside one that is accepted.
func BenchmarkRefused(b *testing.B) {
	large := `{"workflow":"none","input":{"a":"` + strings.Repeat("many words ", 20_000) + `"}}`
	for _, body := range []struct{ name, text string }{{"small", `{"workflow":"none","input":{"a":"b"}}`}, {"large", large}} {
		for _, how := range []struct {
			name   string
			full   bool
			header string
		}{{"accepted", false, ""}, {"early", true, ""}, {"late", true, "Idempotency-Key"}} {
			b.Run(body.name+"/"+how.name, func(b *testing.B) {
				be := newBench(b, func(o *Options) {
					o.Log = nil
					o.Workflows.Register(flow.Func("none", "", nil, func(context.Context, *ling.Manager, map[string]any) error { return nil }))
					if how.full {
						o.MaxRuns = -1
					}
				})
				defer be.s.Close()
				b.ReportAllocs()
				for b.Loop() {
					req, err := http.NewRequest("POST", "/v1/runs?format=sse", strings.NewReader(body.text))
					if err != nil {
						b.Fatal(err)
					}
					req.Host = "localhost"
					if how.header != "" {
						req.Header.Set(how.header, "k")
					}
					be.s.Handler().ServeHTTP(&discard{http.Header{}}, req)
				}
			})
		}
	}
}

// BenchmarkPace is how late the events of streams come that go on, while there is nothing else to do, and while others ask for ten times
// as many runs as there may be and are refused.
func BenchmarkPace(b *testing.B) {
	const streams, every, events = 100, 20 * time.Millisecond, 50
	for _, overload := range []int{0, 10 * streams} {
		name := "alone"
		if overload > 0 {
			name = "overloaded"
		}
		b.Run(name, func(b *testing.B) {
			var late []time.Duration
			var refusals atomic.Int64
			var took time.Duration
			for b.Loop() {
				began := time.Now()
				late = append(late, pace(b, streams, events, every, overload, &refusals)...)
				took += time.Since(began)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "late-p50-ms")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "late-p99-ms")
			b.ReportMetric(float64(refusals.Load())/took.Seconds(), "refused/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// pace runs streams whose events say when they were sent, and returns how late each came.
func pace(b *testing.B, streams, events int, every time.Duration, overload int, refusals *atomic.Int64) (late []time.Duration) {
	be := newBench(b, func(o *Options) {
		o.Log, o.MaxRuns = nil, streams
		o.Workflows.Register(flow.Func("ticks", "", nil, func(ctx context.Context, m *ling.Manager, _ map[string]any) error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for range events {
				<-tick.C
				if _, err := m.Tube().Send(tube.Event{Kind: tube.Set, URI: []byte("at"), Value: []byte(strconv.Itoa(int(time.Now().UnixMicro())))}); err != nil {
					return err
				}
			}
			return nil
		}))
	}).serve()
	defer be.down()
	var mu sync.Mutex
	var all, others sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(streams)
	for range streams {
		all.Go(func() {
			resp, err := be.try(b.Context(), "POST", "/v1/runs?format=jsonl", `{"workflow":"ticks"}`)
			begun.Done()
			if err != nil || resp.StatusCode != 200 {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			var mine []time.Duration
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if _, at, ok := strings.Cut(lines.Text(), `"delta":`); ok {
					var micros int64
					for i := 0; i < len(at) && '0' <= at[i] && at[i] <= '9'; i++ {
						micros = 10*micros + int64(at[i]-'0')
					}
					mine = append(mine, time.Since(time.UnixMicro(micros)))
				}
			}
			mu.Lock()
			late = append(late, mine...)
			mu.Unlock()
		})
	}
	begun.Wait()
	ctx, cancel := context.WithCancel(b.Context())
	// Each of those who are refused comes back after a second, as they are told.
	for i := range overload {
		others.Go(func() {
			wait := time.Duration(i) * time.Second / time.Duration(overload)
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
				wait = time.Second
				resp, err := be.try(ctx, "POST", "/v1/runs?format=jsonl", `{"workflow":"ticks"}`)
				if err != nil {
					continue
				}
				if resp.StatusCode == 503 {
					refusals.Add(1)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	cancel()
	others.Wait()
	return late
}
