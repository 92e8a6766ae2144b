package cluster_test

import (
	"fmt"
	"testing"

	storenats "github.com/lingserve/lingserve/store/nats"
)

// BenchmarkLease times taking a lease and giving it back: another one each time, and the same one.
func BenchmarkLease(b *testing.B) {
	for _, kind := range servers {
		for name, key := range map[string]func(i int) string{
			"another":  func(i int) string { return fmt.Sprint("s", i) },
			"the same": func(int) string { return "s" },
		} {
			b.Run(kind.name+"/"+name, func(b *testing.B) {
				l, err := storenats.Leases(b.Context(), kind.start(b).Open(b), "sessions")
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; b.Loop(); i++ {
					lease, err := l.Lease(b.Context(), key(i), true)
					if err != nil {
						b.Fatal(err)
					}
					lease.Release()
				}
			})
		}
	}
}
