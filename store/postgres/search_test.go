package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
)

// talk makes entries of all kinds: what is said has rare words in it, calls and results are of searches, too, and steps are short and long.
func talk(r *rand.Rand, n int) []tape.Entry {
	words := []string{"the", "weather", "is", "fine", "go", "x", "今天", "天气", "很好", "北京", "ＮＥＥＤＬＥ", "Straße", "ｶﾞ", "한국어", "it's", `back\slash`, "e\u0301", "nul\x00l", "😀😀"}
	text := func() string {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteString([]string{" ", "", "\n", "\u3000"}[r.IntN(4)])
		}
		if r.IntN(150) == 0 {
			b.WriteString([]string{"heliotrope", "紫水晶", "z9", "龘"}[r.IntN(4)])
		}
		return b.String()
	}
	var all []tape.Entry
	for len(all) < n {
		switch r.IntN(8) {
		case 0:
			tool := []string{"tape.search", "weather"}[r.IntN(2)]
			calls := make([]tape.Call, 1+r.IntN(3))
			var named []string
			var results []any
			for i := range calls {
				calls[i] = tape.Call{ID: fmt.Sprint("c", i), Function: tape.FunctionCall{Name: tool, Arguments: `{"q":"` + []string{"a", "heliotrope", "z9"}[r.IntN(3)] + `"}`}}
				named, results = append(named, calls[i].ID), append(results, text())
			}
			if r.IntN(2) == 0 {
				named = nil
			}
			all = append(all, tape.NewToolCall(text(), calls...))
			for range r.IntN(3) {
				all = append(all, tape.NewEvent("e", text()))
			}
			all = append(all, tape.NewToolResult(named, results...))
			if r.IntN(60) == 0 { // more than a block has, and than is held back
				for range 200 {
					all = append(all, tape.NewToolResult(nil, text()))
				}
			}
		case 1:
			all = append(all, tape.NewError("internal", text()))
		case 2:
			all = append(all, tape.NewAnchor("phase", text()))
		case 3:
			all = append(all, tape.NewSystem(text()), tape.NewReasoning(text()))
		case 4:
			all = append(all, tape.NewToolResult(nil, text()))
		default:
			all = append(all, tape.NewMessage("user", text()))
		}
	}
	return all
}

// TA-24: with the index or without, a search finds the same.
func TestAnIndexedSearchFindsWhatALongLookFinds(t *testing.T) {
	t.Parallel()
	const name = "a"
	s := tapesOf(t, Options{})
	plain := tape.NewMemory(nil)
	defer plain.Close()
	r := rand.New(rand.NewPCG(1, 2))
	entries := talk(r, longtest.Times(600, 2500))
	id := int64(0)
	for begun := false; len(entries) > 0; begun = true {
		n := min(len(entries), 1+r.IntN(400))
		some := slices.Clone(entries[:n])
		for i := range some {
			id += 1 + int64(r.IntN(2)) // with gaps, as an import may have them
			some[i].ID, some[i].Date = id, day.AddDate(0, 0, int(id%7))
		}
		for _, to := range []tape.Store{s, plain} {
			if _, err := to.Append(t.Context(), name, tape.Batch{Create: !begun, KeepIDs: true, Entries: some}); err != nil {
				t.Fatal(err)
			}
		}
		entries = entries[n:]
	}
	x := indexed(t, s, name)
	if x.Last < uint64(id)/2 || x.Behind != int64(len(mustRead(t, s, name, tape.Query{After: int64(x.Last)}))) {
		t.Fatalf("the index goes up to %d of %d, and %d entries are said to follow", x.Last, id, x.Behind)
	}
	found := 0
	check := func(q tape.Query) {
		t.Helper()
		want := mustRead(t, plain, name, q)
		got := mustRead(t, s, name, q)
		if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
			t.Fatalf("%+v (-without +with the index):\n%s", q, diff)
		}
		found += len(got)
	}
	words := []string{"heliotrope", "紫水晶", "紫水", "晶", "z9", "9", "龘", "HELIO trope", "天气", "今天天气", "北京 heliotrope", "needle", "strasse", "ガ", "한국", "it's", `k\s`, "é", "l\x00l", "😀", "nothing like it", "天气 z9", "e", "go", `\u`, "' & 'x", "the weather is fine"}
	for _, text := range words {
		for _, newest := range []bool{true, false} {
			check(tape.Query{Text: text, Newest: newest})
			check(tape.Query{Text: text, Newest: newest, Limit: 3})
			for range longtest.Times(1, 2) {
				q := tape.Query{Text: text, Newest: newest, After: r.Int64N(id), Limit: r.IntN(3)}
				q.Before = q.After + r.Int64N(id)
				if r.IntN(2) == 0 {
					q.Kinds = []tape.Kind{tape.KindToolResult, tape.KindError}
				}
				if r.IntN(3) == 0 {
					q.From, q.To = day, day.AddDate(0, 0, r.IntN(7))
				}
				check(q)
			}
		}
	}
	if found < longtest.Times(400, 2000) {
		t.Errorf("only %d entries were found in all: the test tests nothing", found)
	}
}

// TA-41: a search that is under way ends with ErrDeleted where the session is erased, also while it looks into the index.
func TestASearchOfAnErasedSession(t *testing.T) {
	s := tapesOf(t, Options{})
	var entries []tape.Entry
	for i := range 3000 {
		entries = append(entries, tape.NewMessage("user", fmt.Sprint("天气 ", i)))
	}
	create(t, s, "a", entries...)
	indexed(t, s, "a")
	n := 0
	var end error
	for _, err := range s.Read(t.Context(), "a", tape.Query{Text: "天气"}) {
		if err != nil {
			end = err
			break
		}
		if n++; n == 1 {
			if err := s.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !errors.Is(end, tape.ErrDeleted) {
		t.Errorf("after %d entries: %v", n, end)
	}
	for _, table := range []string{"logs", "batches", "terms"} {
		var rows int
		if err := s.e.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows of %s are left, %v", rows, table, err)
		}
	}
}
