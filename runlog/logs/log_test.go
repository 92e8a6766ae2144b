package logs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/store/storetest"
	"github.com/lingserve/lingserve/store/storetest/file"
)

const longWait = time.Hour // the deadline of the tests ends what hangs

// place is where replicas keep runs.
type place interface {
	// open returns what a replica has of it. close closes that.
	open(t testing.TB) (o logs.Options, close func() error)
}

var replicaNumber, schemaNumber atomic.Int64

func newReplica() string { return fmt.Sprint("replica-", replicaNumber.Add(1)) }

func newSchema() string { return fmt.Sprint("runs_", schemaNumber.Add(1)) }

// start opens a replica.
func start(t testing.TB, p place, change func(*logs.Options)) (*logs.Log, string, func()) {
	t.Helper()
	o, closePlace := p.open(t)
	o.Tube, o.Keep = runlogtest.Tube, time.Hour
	if change != nil {
		change(&o)
	}
	l, err := logs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	crash := func() {
		once.Do(func() {
			logs.Crash(l)
			if err := closePlace(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(crash)
	return l, o.Replica, crash
}

// replicasOf makes what opens replicas, which take over what all others have left if they adopt.
func replicasOf(p func(testing.TB) place, adopts bool) func(testing.TB) func(testing.TB) *runlogtest.Replica {
	return func(t testing.TB) func(testing.TB) *runlogtest.Replica {
		here := p(t)
		return func(t testing.TB) *runlogtest.Replica {
			l, name, crash := start(t, here, nil)
			r := &runlogtest.Replica{Log: l, Name: name, Crash: crash}
			if adopts {
				adoptAll(t, l, r)
			}
			return r
		}
	}
}

func adoptAll(t testing.TB, l *logs.Log, r *runlogtest.Replica) {
	t.Helper()
	all, err := l.Running(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		ctx, cancel := context.WithTimeout(t.Context(), longWait)
		left, err := l.Adopt(ctx, g.ID, g.Replica)
		for ctx.Err() == nil && (errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrAway)) {
			// By a batch of its replica that was still on its way, perhaps; or there was no answer in time, on a busy machine.
			if f, err := l.Find(ctx, g.ID); err == nil && (f.Ended || f.Replica != g.Replica) || errors.Is(err, runlog.ErrUnknown) {
				break
			}
			left, err = l.Adopt(ctx, g.ID, g.Replica)
		}
		switch {
		case err == nil:
			r.Left = append(r.Left, left)
		case !errors.Is(err, runlog.ErrEnded) && !errors.Is(err, runlog.ErrUnknown) && !errors.Is(err, runlog.ErrFenced):
			t.Fatalf("adopt %s: %v", g.ID, err)
		}
		cancel()
	}
}

// memory is a store in memory, and a bus in this process.
type memory struct {
	tables  *file.Engine
	written *storetest.Model
	bus     *memoryBus
}

func inMemory(t testing.TB) place {
	e, err := file.Open(vfs.InMemory(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &memory{e, storetest.NewModel(), &memoryBus{serve: map[string]func(replicas.Message, func(replicas.Message)){}}}
}

func (m *memory) open(testing.TB) (logs.Options, func() error) {
	id := newReplica()
	return logs.Options{Logs: m.written, Tables: m.tables, Bus: m.bus.of(id), Replica: id}, func() error { return nil }
}

// memoryBus is between replicas in this process.
type memoryBus struct {
	mu    sync.Mutex
	serve map[string]func(replicas.Message, func(replicas.Message))
	lose  func(from, to string, m replicas.Message) bool // what is true of is not sent
	asked atomic.Int64
}

func (b *memoryBus) of(replica string) replicas.Bus { return &memoryEnd{b, replica} }

type memoryEnd struct {
	bus     *memoryBus
	replica string
}

func (e *memoryEnd) Ask(ctx context.Context, replica string, m replicas.Message) (replicas.Message, error) {
	b := e.bus
	b.asked.Add(1)
	b.mu.Lock()
	serve, lose := b.serve[replica], b.lose
	b.mu.Unlock()
	if lose != nil && lose(e.replica, replica, m) {
		<-ctx.Done()
		return replicas.Message{}, context.Cause(ctx)
	}
	if serve == nil {
		return replicas.Message{}, replicas.ErrNobody
	}
	answers := make(chan replicas.Message, 1)
	serve(m, func(a replicas.Message) { answers <- a })
	select {
	case a := <-answers:
		return a, a.Nobody()
	case <-ctx.Done():
		return replicas.Message{}, context.Cause(ctx)
	}
}

func (e *memoryEnd) Serve(serve func(replicas.Message, func(replicas.Message))) (func(), error) {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	e.bus.serve[e.replica] = serve
	return func() {
		e.bus.mu.Lock()
		defer e.bus.mu.Unlock()
		delete(e.bus.serve, e.replica)
	}, nil
}

func TestInMemory(t *testing.T) {
	t.Run("log", func(t *testing.T) { runlogtest.Test(t, replicasOf(inMemory, true)) })
	t.Run("shared", func(t *testing.T) { runlogtest.TestShared(t, replicasOf(inMemory, false)) })
}
