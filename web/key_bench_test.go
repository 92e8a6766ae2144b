package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
)

// BenchmarkRunWithAKey is what a run costs that does next to nothing, on a server with a data folder, with an Idempotency-Key and without.
func BenchmarkRunWithAKey(b *testing.B) {
	for _, keyed := range []bool{false, true} {
		b.Run(fmt.Sprint("key=", keyed), func(b *testing.B) {
			be := newBench(b, func(o *Options) {
				o.Log, o.Data = nil, b.TempDir()
				o.Workflows.Register(flow.Func("none", "", nil, func(context.Context, *ling.Manager, map[string]any) error { return nil }))
			})
			defer be.s.Close()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				req, err := http.NewRequest("POST", "/v1/runs?format=sse", strings.NewReader(`{"workflow":"none","input":{"a":"b"}}`))
				if err != nil {
					b.Fatal(err)
				}
				if keyed {
					req.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
				}
				be.s.Handler().ServeHTTP(&discard{http.Header{}}, req)
			}
		})
	}
}
