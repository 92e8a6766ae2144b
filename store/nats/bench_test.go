package nats_test

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest"
)

// BenchmarkTables measures calls of one caller. BenchmarkOneNode of package web/once/table adds what a claim costs.
func BenchmarkTables(b *testing.B) {
	for name, servers := range map[string]func(testing.TB) *clustertest.Servers{"one": clustertest.One, "three": clustertest.Three} {
		b.Run(name, func(b *testing.B) { benchTables(b, newPlace(servers(b))) })
	}
}

func benchTables(b *testing.B, p *place) {
	tab := things(b, p.Open(b), store.TableOptions{})
	meta := []byte(`{"run":"00000000000000000000000001","workflow":"encyclopedia"}`)
	n := 0
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			n++
			mustPut(b, tab, store.Put{Key: fmt.Sprintf("%032d", n), Meta: meta})
		}
	})
	const batch = 100
	b.Run("create 100 at once", func(b *testing.B) {
		for b.Loop() {
			var puts []store.Put
			for range batch {
				n++
				puts = append(puts, store.Put{Key: fmt.Sprintf("%032d", n), ID: storetest.NewID(), Meta: meta})
			}
			_, errs := tab.Put(b.Context(), puts...)
			for _, err := range errs {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	r := mustPut(b, tab, store.Put{Key: "k", Meta: meta, Body: make([]byte, 1000)})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			r = mustPut(b, tab, store.Put{Key: "k", After: r.Rev, Meta: meta, Body: make([]byte, 1000)})
		}
	})
	read := func(name string, do func() (store.Record, error)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got, err := do(); err != nil || len(got.Body) != 1000 {
					b.Fatal(err)
				}
			}
		})
	}
	get := func() (store.Record, error) { return tab.Get(b.Context(), "k") }
	peek := func() (store.Record, error) { return tab.Peek(b.Context(), "k") }
	read("get", get)
	read("peek", peek)
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			r = mustPut(b, tab, store.Put{Key: "k", After: r.Rev, Meta: meta})
		}
	})
	read("get a step", get)
	read("peek a step", peek)
	b.Run("get what is absent", func(b *testing.B) {
		for b.Loop() {
			absent(b, tab, "absent")
		}
	})
	few, err := p.Open(b).Table(b.Context(), store.TableOptions{Name: "few"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		mustPut(b, few, store.Put{Key: fmt.Sprint("few/", i)})
	}
	b.Run("range of 100", func(b *testing.B) {
		for b.Loop() {
			found := 0
			for _, err := range few.Range(b.Context(), "few/", false) {
				if err != nil {
					b.Fatal(err)
				}
				found++
			}
			if found != 100 {
				b.Fatal(found)
			}
		}
	})
}
