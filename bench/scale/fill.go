package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	runlogs "github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store"
	storenats "github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/once"
	oncetable "github.com/lingserve/lingserve/web/once/table"
)

// replica is what a replica has of the servers.
type replica struct {
	cluster *cluster.Cluster
	tapes   *logs.Store
	runs    *runlogs.Log
	tables  *storenats.Engine
	keys    *oncetable.Keys
}

// keep is that of a server with the settings as they are unless set: run.timeout and run.key_retention.
const keep = 30*time.Minute + 24*time.Hour

func tubeOptions() *tube.Options {
	return &tube.Options{Held: true, Document: func() tube.Document { return new(jsonuri.Document) }}
}

// join connects with servers.
func join(ctx context.Context, all []*node) (r *replica, err error) {
	var urls []string
	for _, n := range all {
		urls = append(urls, n.url())
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // servers that have just started read what they have
	defer cancel()
	r = new(replica)
	defer func() {
		if err != nil {
			r.leave()
		}
	}()
	o := cluster.Options{Servers: strings.Join(urls, ",")}
	if len(all) > 1 {
		o.Copies = 3
	}
	if r.cluster, err = cluster.Open(ctx, o); err != nil {
		return nil, err
	}
	if _, err = storenats.Join(ctx, r.cluster); err != nil {
		return nil, err
	}
	r.tables = storenats.Open(r.cluster, storenats.Options{})
	bus, err := r.cluster.Bus()
	if err != nil {
		return nil, err
	}
	if r.runs, err = runlogs.Open(ctx, runlogs.Options{
		Logs: r.tables, Tables: r.tables, Bus: bus, Replica: r.cluster.Replica(), Keep: keep, Tube: tubeOptions,
	}); err != nil {
		return nil, err
	}
	leases, err := storenats.Leases(ctx, r.cluster, "tape")
	if err != nil {
		return nil, err
	}
	tapes := logs.Options{Durability: store.Synced, Leases: leases, Replica: r.cluster.Replica()}
	if r.tapes, err = logs.Open(ctx, r.tables, tapes); err != nil {
		return nil, err
	}
	if r.keys, err = oncetable.Open(ctx, r.tables, oncetable.Options{Most: 1 << 40}); err != nil {
		return nil, err
	}
	return r, nil
}

// leave says nothing of errors: what was to be measured is measured.
func (r *replica) leave() {
	if r.keys != nil {
		_ = r.keys.Close()
	}
	if r.tapes != nil {
		_ = r.tapes.Close()
	}
	if r.runs != nil {
		_ = r.runs.Close()
	}
	if r.tables != nil {
		_ = r.tables.Close()
	}
	if r.cluster != nil {
		_ = r.cluster.Close()
	}
}

// session is the id of one, and name that of its tape.
func session(i int) string { return fmt.Sprintf("telegram:%d", 100_000_000+i) }

func name(i int) string { return tape.Name(workspace, session(i)) }

const workspace = "/srv/lingserve"

// What people say, and what they are told: as long as a short question and its answer of a hundred words.
var (
	question = "what is the weather like today in this city, and will it rain tomorrow?"
	answer   = strings.Repeat("it will be cloudy, ", 32)
)

// writers fill the servers at once.
const writers = 128

// each does something for all numbers from first to before end, many at a time.
func each(first, end int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := first + w; i < end && ctx.Err() == nil; i += writers {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// makeSessions makes sessions that have been appended to so many times.
func (r *replica) makeSessions(ctx context.Context, first, end, batches int) error {
	return each(first, end, func(i int) error { return r.makeSession(ctx, i, batches) })
}

func (r *replica) makeSession(ctx context.Context, i, batches int) error {
	start := tape.NewAnchor(tape.AnchorStart, nil).With(tape.Meta{Session: session(i), Workspace: workspace})
	batch := tape.Batch{Create: true, Entries: []tape.Entry{start, tape.NewMessage("user", question)}}
	for range batches {
		if _, err := r.tapes.Append(ctx, name(i), batch); err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
		batch = tape.Batch{Entries: []tape.Entry{tape.NewMessage("assistant", answer)}}
	}
	return nil
}

// runID is like those of package web: 26 characters.
func runID(i int) string { return fmt.Sprintf("run%023d", i) }

// makeRuns makes runs that have ended, of one message each.
func (r *replica) makeRuns(ctx context.Context, first, end int) error {
	const atOnce = 1000
	for ; first < end; first += atOnce {
		for i := first; i < min(end, first+atOnce); i++ {
			t := tube.New(runID(i), tubeOptions())
			if _, err := t.Send(tube.Event{URI: []byte("answer/text"), Value: []byte(answer)}); err != nil {
				return err
			}
			if err := t.Close("completed"); err != nil {
				return err
			}
			r.runs.Keep(runlog.Run{ID: runID(i), Opening: opening(i), Tube: t}).End([]byte(`{"status":"completed"}`))
		}
		if err := r.runs.Flush(ctx); err != nil {
			return fmt.Errorf("runs: %w", err)
		}
	}
	return nil
}

// opening is as long as that of a run in a session.
func opening(i int) []byte {
	return fmt.Appendf(nil, `{"run":%q,"workflow":"chat","session":%q,"input":%q,"keyed":true,"began":"2026-01-02T03:04:05.678Z"}`, runID(i), session(i), question)
}

// makeKeys makes keys that have started runs.
func (r *replica) makeKeys(ctx context.Context, first, end int) error {
	return each(first, end, func(i int) error {
		_, _, err := r.keys.Claim(ctx, once.Claim{Owner: "somebody", Key: session(i), Run: runID(i), Of: opening(i)})
		return err
	})
}

// timed does something some times and returns the middle and the 99th of a hundred.
func timed(times int, do func(i int) error) (p50, p99 time.Duration, err error) {
	took := make([]time.Duration, times)
	for i := range took {
		began := time.Now()
		if err := do(i); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[times/2], took[times*99/100], nil
}
