package inbox_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// BenchmarkInbox is accept, claim and commit of one event and its duplicate, from so many doors at once.
func BenchmarkInbox(b *testing.B) {
	raw := journaltest.Text(300)
	for _, doors := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("doors=", doors), func(b *testing.B) {
			e := ownertest.Folder(vfs.At(b.TempDir())).Open(b)
			j, err := inbox.Open(b.Context(), e, inbox.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = j.Close() })
			ctx := context.Background()
			b.ReportAllocs()
			b.SetParallelism(max(1, doors/runtime.GOMAXPROCS(0)))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					k := channel.EventKey{Channel: "fake", Conversation: "42", ID: fmt.Sprint(n.Add(1))}
					for range 2 {
						isNew, err := j.Accept(ctx, k, raw)
						if err != nil {
							b.Error(err)
							return
						}
						if !isNew {
							continue
						}
						c, _, err := j.Claim(ctx, k)
						if err != nil || c.Commit(ctx, channel.OutcomeVisible) != nil {
							b.Error(err)
							return
						}
					}
				}
			})
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkEngines is accept, claim and commit of one event.
func BenchmarkEngines(b *testing.B) { // CL-12
	raw := journaltest.Text(300)
	engines := map[string]func(*testing.B) (store.Engine, inbox.Options){
		"file": func(b *testing.B) (store.Engine, inbox.Options) {
			return ownertest.Folder(vfs.At(b.TempDir())).Open(b), inbox.Options{}
		},
		"postgres": func(b *testing.B) (store.Engine, inbox.Options) {
			p := ownertest.Postgres(b)
			return p.Open(b), inbox.Options{Owners: p.Owners}
		},
	}
	for _, name := range []string{"file", "postgres"} {
		for _, doors := range []int{1, 16} {
			b.Run(fmt.Sprint(name, "/doors=", doors), func(b *testing.B) {
				e, o := engines[name](b)
				j, err := inbox.Open(b.Context(), e, o)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = j.Close() })
				b.SetParallelism(max(1, doors/runtime.GOMAXPROCS(0)))
				var n atomic.Int64
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						k := key(int(n.Add(1)))
						isNew, err := j.Accept(b.Context(), k, raw)
						if err != nil || !isNew {
							b.Error(isNew, err)
							return
						}
						c, _, err := j.Claim(b.Context(), k)
						if err != nil || c.Commit(b.Context(), channel.OutcomeVisible) != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

func key(i int) channel.EventKey {
	return channel.EventKey{Channel: "fake", Conversation: fmt.Sprint("c", i%7), ID: fmt.Sprint(i)}
}
