package recent_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/internal/recent"
)

// TestPagesAreThoseOfASortedList compares rows with a list that is sorted for each page.
func TestPagesAreThoseOfASortedList(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var rows recent.Rows[int]
		model := map[string]recent.Row[int]{}
		names := rapid.Custom(func(r *rapid.T) string {
			return fmt.Sprint(rapid.SampledFrom([]string{"", "b/"}).Draw(r, "folder"), rapid.IntRange(0, 2000).Draw(r, "name"))
		})
		r.Repeat(map[string]func(*rapid.T){
			"many": func(r *rapid.T) {
				from := rapid.IntRange(0, 1000).Draw(r, "from")
				for i := range rapid.IntRange(1, 900).Draw(r, "count") {
					one := recent.Row[int]{Name: fmt.Sprint(from + i), Label: fmt.Sprint(i % 3), Updated: int64(i * 7 % 500), Value: i}
					rows.Put(one)
					model[one.Name] = one
				}
			},
			"put": func(r *rapid.T) {
				one := recent.Row[int]{
					Name: names.Draw(r, "name"), Label: rapid.SampledFrom([]string{"", "1", "2"}).Draw(r, "label"),
					Updated: int64(rapid.IntRange(0, 500).Draw(r, "updated")), Value: rapid.Int().Draw(r, "value"),
				}
				rows.Put(one)
				model[one.Name] = one
			},
			"remove": func(r *rapid.T) {
				name := names.Draw(r, "name")
				rows.Remove(name)
				delete(model, name)
			},
			"page": func(r *rapid.T) {
				l := store.Listing{
					Prefix: rapid.SampledFrom([]string{"", "1", "b/"}).Draw(r, "prefix"), Label: rapid.SampledFrom([]string{"", "1", "9"}).Draw(r, "label"),
				}
				var want []recent.Row[int]
				for _, one := range model {
					if l.Has(store.Info{Name: one.Name, Label: one.Label}) {
						want = append(want, one)
					}
				}
				slices.SortFunc(want, func(a, b recent.Row[int]) int {
					return cmp.Or(cmp.Compare(b.Updated, a.Updated), strings.Compare(a.Name, b.Name))
				})
				if n := rows.Count(&l); n != len(want) {
					r.Fatalf("%d logs, want %d", n, len(want))
				}
				if len(want) > 0 && rapid.Bool().Draw(r, "behind one") {
					at := rapid.IntRange(0, len(want)-1).Draw(r, "at")
					l.After, want = want[at].After(), want[at+1:]
				}
				most := rapid.IntRange(0, 30).Draw(r, "most")
				if most > 0 {
					want = want[:min(most, len(want))]
				}
				if got := rows.Page(&l, most); !slices.Equal(got, want) {
					r.Fatalf("%v, want %v", got, want)
				}
				if rows.Len() != len(model) {
					r.Fatalf("%d rows, want %d", rows.Len(), len(model))
				}
			},
		})
	})
}
