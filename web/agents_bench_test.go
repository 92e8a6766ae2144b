package web

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
)

// silent is a model that says one word at once.
type silent struct{}

func (silent) Model(string) (adapter.Model, error) { return silent{}, nil }
func (silent) Names() []string                     { return []string{"silent"} }

func (silent) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		_ = yield(adapter.Chunk{Model: "test:silent", Text: "yes"}, nil) && yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// BenchmarkAgent is what a run of an agent costs, from the request to the last event, each in a session of its own.
func BenchmarkAgent(b *testing.B) {
	be := newAgentBench(b, func(o *Options, ao *agent.Options) {
		o.Log, ao.Log, ao.Models, ao.Tools = nil, nil, silent{}, nil
		o.MemoryOfEnded = 1 << 10
	})
	defer be.s.Close()
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest("POST", "/v1/runs?format=sse", strings.NewReader(`{"agent":"assistant","input":"hello"}`))
		if err != nil {
			b.Fatal(err)
		}
		be.s.Handler().ServeHTTP(&discard{http.Header{}}, req)
	}
}
