package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/once"
)

// measurement is what is measured, and the servers that it is measured at.
type measurement struct {
	sizes                 []int
	nodes, batches, turns int
	dir                   string
	out                   io.Writer

	servers []*node
	replica *replica
}

// The streams that grow, as package cluster calls them.
var streams = []string{"TAPES", "LOG_runs", "TABLE_keys"}

const (
	samples = 500 // of what takes milliseconds
	pace    = 50  // tokens a second of a run
	tokens  = 200 // of a run
	listed  = 20  // sessions
)

func (m *measurement) run(ctx context.Context) (err error) {
	if m.dir == "" {
		if m.dir, err = os.MkdirTemp("", "scale"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	}
	if m.servers, err = nodes(m.nodes, m.dir); err != nil {
		return err
	}
	defer func() {
		if m.replica != nil {
			m.replica.leave()
		}
		for _, n := range m.servers {
			n.kill()
		}
	}()
	if err := m.startAll(); err != nil {
		return err
	}
	if m.replica, err = join(ctx, m.servers); err != nil {
		return err
	}
	rss, inUse, err := m.servers[0].memory()
	if err != nil {
		return err
	}
	fmt.Fprintf(m.out, "%d NATS server(s), empty: %s of memory, %s of it in use\n", m.nodes, bytes(rss), bytes(inUse))
	had := 0
	for _, n := range m.sizes {
		if err := m.size(ctx, had, n); err != nil {
			return fmt.Errorf("%d sessions: %w", n, err)
		}
		had = n
	}
	return m.work(ctx)
}

func (m *measurement) startAll() error {
	errs := make([]error, len(m.servers))
	var wg sync.WaitGroup
	for i, n := range m.servers {
		wg.Go(func() { errs[i] = n.start() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// size grows what there is from so many sessions to n, and looks.
func (m *measurement) size(ctx context.Context, had, n int) error {
	fmt.Fprintf(m.out, "\n%d sessions, a run and an Idempotency-Key of each\n", n)
	_, before, err := m.servers[0].memory()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		stream string
		fill   func() error
	}{
		{"TAPES", func() error { return m.replica.makeSessions(ctx, had, n, m.batches) }},
		{"LOG_runs", func() error { return m.replica.makeRuns(ctx, had, n) }},
		{"TABLE_keys", func() error { return m.replica.makeKeys(ctx, had, n) }},
	} {
		began := time.Now()
		if err := part.fill(); err != nil {
			return err
		}
		took := time.Since(began)
		state, err := m.state(ctx, part.stream)
		if err != nil {
			return err
		}
		disk, err := m.disk(part.stream)
		if err != nil {
			return err
		}
		_, after, err := m.servers[0].memory()
		if err != nil {
			return err
		}
		fmt.Fprintf(m.out, "  %-10s %9d subjects %9d messages %10s on disk of each server; in use: %d B a subject; filled with %.0f a second\n", part.stream,
			state.NumSubjects, state.Msgs, bytes(disk), (int64(after)-int64(before))/int64(n-had), float64(n-had)/took.Seconds())
		before = after
	}
	if err := m.memory(); err != nil {
		return err
	}
	if err := m.calls(ctx, n); err != nil {
		return err
	}
	return m.restarts(ctx)
}

func (m *measurement) memory() error {
	for _, s := range m.servers {
		rss, inUse, err := s.memory()
		if err != nil {
			return err
		}
		fmt.Fprintf(m.out, "  server %s: %s of memory, %s of it in use\n", s.options.Name, bytes(rss), bytes(inUse))
	}
	return nil
}

// name is what the servers call a stream.
func (m *measurement) name(stream string) string {
	if bucket, ok := strings.CutPrefix(stream, "KV_"); ok {
		return "KV_" + m.replica.cluster.Name(bucket)
	}
	return m.replica.cluster.Name(stream)
}

func (m *measurement) state(ctx context.Context, stream string) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // one that goes to a leader that has died is never answered
	defer cancel()
	s, err := m.replica.cluster.JetStream().Stream(ctx, m.name(stream))
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("%s: %w", stream, err)
	}
	return s.CachedInfo().State, nil
}

// disk is what the files of a stream have on the first server.
func (m *measurement) disk(stream string) (size uint64, err error) {
	part := string(filepath.Separator) + m.replica.cluster.Name(stream) + string(filepath.Separator)
	err = filepath.WalkDir(m.servers[0].options.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a server erases files all the time
			return nil
		}
		if err != nil || d.IsDir() || !strings.Contains(path, part) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += uint64(info.Size())
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return size, err
}

// calls are what requests have to wait for.
func (m *measurement) calls(ctx context.Context, sessions int) error {
	r := m.replica
	draw := rand.New(rand.NewPCG(1, uint64(sessions)))
	var e runlog.Entry
	for _, call := range []struct {
		what string
		do   func(int) error
	}{
		{"append to a session that was not used lately", func(int) error {
			_, err := r.tapes.Append(ctx, name(draw.IntN(sessions)), tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", question)}})
			return err
		}},
		{"what is known of a session", func(int) error { _, err := r.tapes.Info(ctx, name(draw.IntN(sessions))); return err }},
		{"its last entries", func(int) error {
			for _, err := range r.tapes.Read(ctx, name(draw.IntN(sessions)), tape.Query{Newest: true, Limit: 50}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"take and give back its lease", func(int) error {
			l, err := r.tapes.Lease(ctx, name(draw.IntN(sessions)), false)
			if err == nil {
				l.Release()
			}
			return err
		}},
		{"claim a key", func(i int) error {
			key := fmt.Sprintf("%d of %d", i, sessions)
			_, _, err := r.keys.Claim(ctx, once.Claim{Owner: "somebody", Key: key, Run: runID(i), Of: opening(i)})
			return err
		}},
		{"begin a run", func(i int) error {
			t := tube.New(fmt.Sprintf("new%d-%d", sessions, i), tubeOptions())
			if _, err := t.Send(tube.Event{URI: []byte("a"), Value: []byte("word")}); err != nil {
				return err
			}
			if err := t.Close("completed"); err != nil {
				return err
			}
			e = r.runs.Keep(runlog.Run{ID: t.Run(), Opening: opening(i), Tube: t})
			e.End(nil)
			return r.runs.Flush(ctx)
		}},
		{"find a run", func(int) error { _, err := r.runs.Find(ctx, runID(draw.IntN(sessions))); return err }},
	} {
		p50, p99, err := timed(samples, call.do)
		if err != nil {
			return fmt.Errorf("%s: %w", call.what, err)
		}
		fmt.Fprintf(m.out, "  %-46s %8.2f ms, 99 of 100 within %.1f ms\n", call.what, ms(p50), ms(p99))
	}
	if err := m.listings(ctx, sessions); err != nil {
		fmt.Fprintf(m.out, "  a listing at a replica that has just come fails: %v\n", err)
	}
	return nil
}

// listings are measured at a replica that has just come.
func (m *measurement) listings(ctx context.Context, sessions int) error {
	r, err := join(ctx, m.servers)
	if err != nil {
		return err
	}
	defer r.leave()
	page := func(int) error {
		n := 0
		for _, err := range r.tapes.Sessions(ctx, tape.SessionQuery{Limit: listed}) {
			if n++; err != nil {
				return err
			}
		}
		if n != min(listed, sessions) {
			return fmt.Errorf("%d sessions are listed", n)
		}
		return nil
	}
	before := live()
	began := time.Now()
	if err := page(0); err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	first := time.Since(began)
	after := live()
	p50, p99, err := timed(20, page)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	fmt.Fprintf(m.out, "  %-46s %8.2f ms, the slowest %.1f ms; the first after %.2f s; the index has %d B a session at each replica\n",
		"list 20 sessions", ms(p50), ms(p99), first.Seconds(), (int64(after)-int64(before))/int64(sessions))
	began = time.Now()
	n, err := r.tapes.Count(ctx)
	if err != nil || n != sessions {
		return fmt.Errorf("%d sessions are counted, %w", n, err)
	}
	fmt.Fprintf(m.out, "  %-46s %8.2f ms\n", "count sessions", ms(time.Since(began)))
	runtime.KeepAlive(r)
	return nil
}

// restarts are of one server, which has to read what it has and to fetch what it lacks. It writes down what it knows of its files every two
// minutes, and when it is told to end; what is missing there it reads from the messages.
func (m *measurement) restarts(ctx context.Context) error {
	s := m.servers[0]
	for _, way := range []struct {
		what string
		end  func() error
	}{
		{"a server that was killed is back after", func() error { s.kill(); return nil }},
		{"one that was told to end, after", s.stop},
		{"one that was killed and has lost what it knew", func() error { s.kill(); return m.forget() }},
	} {
		had, err := m.had(ctx)
		if err != nil {
			return err
		}
		if err := way.end(); err != nil {
			return fmt.Errorf("end a server: %w", err)
		}
		began := time.Now()
		if err := s.start(); err != nil {
			return err
		}
		listens := time.Since(began)
		if err := m.current(ctx, s, had); err != nil {
			return err
		}
		back := time.Since(began)
		rss, err := resident(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		fmt.Fprintf(m.out, "  %-46s %8.2f s, listens after %.2f s; it has %s of memory then\n", way.what, back.Seconds(), listens.Seconds(), bytes(rss))
	}
	_, err := m.had(ctx)
	return err
}

// had is the last sequence of each stream. Right after a server has come back, the others may still be electing.
func (m *measurement) had(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	all := map[string]uint64{}
	for _, stream := range append([]string{leases}, streams...) {
		for {
			state, err := m.state(ctx, stream)
			if err == nil {
				all[m.name(stream)] = state.LastSeq
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil, err
			}
		}
	}
	return all, nil
}

// forget erases what the first server has written down of the streams, so that it has to read all messages.
func (m *measurement) forget() error {
	return filepath.WalkDir(m.servers[0].options.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			err = os.Remove(path)
		}
		return err
	})
}

// current waits until a server has all that the streams had.
func (m *measurement) current(ctx context.Context, n *node, had map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		has, err := n.sequences()
		if err != nil {
			return err
		}
		all := true
		for name, last := range had {
			all = all && has[name] >= last
		}
		if all {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server %s is not back: %w", n.options.Name, context.Cause(ctx))
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bytes is a size for people.
func bytes(n uint64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}
