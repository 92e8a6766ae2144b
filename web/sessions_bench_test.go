package web

import (
	"net/http"
	"testing"

	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// BenchmarkGetSessions is GET /v1/sessions with 100 000 sessions on files, or 1000 with -short, without the network. DO-03: a page takes at most 5 ms.
func BenchmarkGetSessions(b *testing.B) {
	store, err := logs.OpenFolder(b.TempDir(), logs.FolderOptions{Sync: logs.SyncNone})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	tapetest.FillSessions(b, store)
	be := newBench(b, func(o *Options) { o.Tapes, o.Workspace, o.Log = store, tapetest.PagesWorkspace, nil })
	defer be.s.Close()
	get := func(b *testing.B, query string) {
		req, err := http.NewRequest("GET", "/v1/sessions?"+query, nil)
		if err != nil {
			b.Fatal(err)
		}
		w := &lengthOnly{header: http.Header{}}
		be.s.Handler().ServeHTTP(w, req)
		if w.bytes < 100 {
			b.Fatalf("the answer has %d bytes", w.bytes)
		}
	}
	get(b, "limit=1") // the first list of a process reads all sessions
	for _, query := range []string{"limit=1", "limit=50", "limit=100"} {
		b.Run(query, func(b *testing.B) {
			for b.Loop() {
				get(b, query)
			}
		})
	}
}

// lengthOnly is an http.ResponseWriter that counts what is written.
type lengthOnly struct {
	header http.Header
	bytes  int
}

func (c *lengthOnly) Header() http.Header { return c.header }
func (c *lengthOnly) WriteHeader(int)     {}

func (c *lengthOnly) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}
