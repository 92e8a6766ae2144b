package web

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
)

// discard is an http.ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) Flush()                      {}

// BenchmarkRun is what a run costs that does next to nothing, from the request to the last event.
func BenchmarkRun(b *testing.B) {
	be := newBench(b, func(o *Options) {
		o.Log = nil
		o.Workflows.Register(flow.Func("none", "", nil, func(context.Context, *ling.Manager, map[string]any) error { return nil }))
	})
	defer be.s.Close()
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest("POST", "/v1/runs?format=sse", strings.NewReader(`{"workflow":"none","input":{"a":"b"}}`))
		if err != nil {
			b.Fatal(err)
		}
		be.s.Handler().ServeHTTP(&discard{http.Header{}}, req)
	}
}

// BenchmarkResume is a client that comes back after a thousand events of an ended run.
func BenchmarkResume(b *testing.B) {
	be := newBench(b, func(o *Options) {
		o.Log = nil
		o.Workflows.Register(flow.Func("thousand", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
			for range 2000 {
				if _, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("article/body"), Value: []byte("word ")}); err != nil {
					return err
				}
			}
			return nil
		}))
	}).serve()
	defer be.down()
	id := be.do("POST", "/v1/runs", `{"workflow":"thousand"}`).Header.Get("X-Run-Id")
	<-be.runOf(id).Done()
	b.ReportAllocs()
	for b.Loop() {
		resp, err := be.try(b.Context(), "GET", "/v1/runs", "", "Last-Event-ID: "+id+":1000", "Accept: text/event-stream")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 50_000 {
			b.Fatal(n, err)
		}
		resp.Body.Close()
	}
}

// BenchmarkDoor is what it costs to find out who asks, beside a request that does next to nothing.
func BenchmarkDoor(b *testing.B) {
	k := newKeyring(b, "ann:user")
	hosts, err := access.NewHosts([]string{"chat.example.com"})
	if err != nil {
		b.Fatal(err)
	}
	limits := access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: 1 << 30}})
	for name, a := range map[string]Access{
		"open": {}, "keys": {Door: k.door}, "everything": {Door: k.door, Hosts: hosts, Limits: limits, Wrong: limits},
	} {
		b.Run(name, func(b *testing.B) {
			be := newBench(b, func(o *Options) { o.Log, o.Access, o.AccessLog = nil, a, AccessLogOff })
			defer be.s.Close()
			req, err := http.NewRequest("GET", "http://chat.example.com/v1/runs/"+run.NewID(), nil)
			if err != nil {
				b.Fatal(err)
			}
			_, value, _ := strings.Cut(k.bearer["ann"], ": ")
			req.Header.Set("Authorization", value)
			b.ReportAllocs()
			for b.Loop() {
				be.s.Handler().ServeHTTP(&discard{http.Header{}}, req)
			}
		})
	}
}
