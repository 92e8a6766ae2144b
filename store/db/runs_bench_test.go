package db

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

func BenchmarkAppendRuns(b *testing.B) { benchmarkAppendRuns(b, openBench(b)) }

// benchmarkAppendRuns appends a batch of ten events to each of 400 runs.
func benchmarkAppendRuns(b *testing.B, db *DB) {
	b.Helper()
	const runs, events = 400, 10
	r := db.Runs()
	batches := make([]store.RunBatch, runs)
	text := bytes.Repeat([]byte(`{"seq":123456,"uri":"/reply/text","delta":"word "}`+"\n"), events)
	for i := range batches {
		batches[i] = store.RunBatch{Run: fmt.Sprint("run_", i), Attempt: 1, Events: text}
		startRun(b, r, store.Run{ID: batches[i].Run, Replica: "A", Attempt: 1, State: store.RunRunning})
	}
	var took []time.Duration
	before := processorTime(b)
	for b.Loop() {
		for i := range batches {
			batches[i].Seq++
			batches[i].First += events
		}
		began := time.Now()
		if moved, err := r.Append(b.Context(), "A", batches); len(moved) > 0 || err != nil {
			b.Fatal(moved, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(len(took)*runs*events), "cpu-µs/event")
}

func BenchmarkPageOfRuns(b *testing.B) { benchmarkPageOfRuns(b, openBench(b)) }

// benchmarkPageOfRuns reads pages in the middle of 100 000 runs, or as many as LINGSERVE_RUNS says.
func benchmarkPageOfRuns(b *testing.B, db *DB) {
	b.Helper()
	runs, _ := strconv.Atoi(os.Getenv("LINGSERVE_RUNS"))
	if runs == 0 {
		runs = 100_000
	}
	for first := 0; first < runs; first += 10_000 { // every tenth is a session's, one of 1000 is live; ten owners
		must(b, db.Update(b.Context(), func(tx *Tx) {
			tx.exec(`INSERT INTO runs (`+runColumns+`) WITH RECURSIVE n(i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				SELECT 'run_' || i, 'w', '', 'owner' || (i % 10), CASE WHEN i % 10 = 0 THEN 's' || (i % 1000) ELSE '' END, 'A', 1, 0,
				CASE WHEN i % 1000 = 0 THEN 'running' ELSE 'completed' END, i, CASE WHEN i % 1000 = 0 THEN 0 ELSE i END, 9223372036854775807, 4000, 0,
				'{"input": "what is the weather like today in this city?"}', '"fine"' FROM n`, first, first+9_999)
		}))
	}
	if db.network {
		analyze(b, db, "runs")
	}
	owner := "owner3"
	for _, test := range []struct {
		name string
		q    store.RunQuery
	}{
		{"all", store.RunQuery{}}, {"owner", store.RunQuery{Owner: &owner}}, {"session", store.RunQuery{Session: "s500"}}, {
			"live",
			store.RunQuery{States: []string{store.RunRunning}},
		},
	} {
		b.Run(test.name, func(b *testing.B) {
			q := test.q
			_, middle, err := db.Runs().List(b.Context(), store.RunQuery{To: time.UnixMicro(int64(runs / 2)), Limit: 1})
			must(b, err)
			for q.Cursor = middle; b.Loop(); {
				if list, _, err := db.Runs().List(b.Context(), q); len(list) != 50 || err != nil {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
