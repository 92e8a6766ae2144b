// Package nats is a [store.Engine] and a [store.LogEngine] on NATS JetStream, which several servers share.
//
// # A space of logs is a stream
//
// Each log is a subject, and a revision is the sequence of a message. A batch is one message; a large one is several, which the servers
// store at once or not at all (their atomic publish). The headers of its last message say all that is known of the log without its entries,
// so a log is never read for that. In an Indexed space they also say where up to 64 batches before it are, so any entry is found by a few
// requests.
//
// A batch names the last sequence that its subject must have. If the answer of an attempt was lost, the message that is behind the expected
// one tells by its ID whether the batch is stored. A deleted log leaves a marker for an hour. A trim is a message that keeps the revision.
// In spaces that are neither Indexed nor Synced a large batch is several messages of which the last one counts: the servers do not have
// atomic publish together with the asynchronous writing that these spaces are for.
//
// What is in a log, is asked of the leader of the stream; messages that are known to exist are read from any server. A follower subscribes
// to what the servers republish, reads what is stored, and puts the two together by their sequences. Lists come from an index in memory,
// which follows the headers of the stream and is brought up to date with each call.
//
// The space "tapes" has the stream in which earlier versions kept tapes: their messages are read, and what is appended to them is a batch.
//
// # A table is a stream
//
// Each key is a subject, and a revision is the sequence of a message. The last message of a subject says what its key has. There are three
// kinds:
//
//   - A whole has a record with its body. It removes all earlier messages of its subject.
//   - A step has a record without its body, and the sequence of the whole that has the body. So a body is neither read nor written again.
//     A step of a record whose body is empty is a whole.
//   - A marker says that the record was deleted, and has the ID of the put that was deleted. It removes all earlier messages, and the
//     servers remove it after ten minutes.
//
// Metas are in the headers of messages, so that lists and watchers get them without the bodies. A body that is large is compressed; a
// message that is larger than the servers take is [store.ErrTooLarge].
//
// # Writing
//
// A put names the last sequence that its subject must have. If it was sent by an attempt whose answer was lost, the servers refuse it, and
// the ID of the message that is there says that it is stored. A create is one request. So is a change of a record that this process has
// read or written; otherwise the record is read first.
//
// # Reading
//
// Get asks the leader of the stream. That a record does not exist is confirmed by a [cluster.Barrier], as a former leader may not know it.
// Peek asks any server. Range and Watch use a consumer of the last messages and a barrier; see reading.
//
// # Lives
//
// The servers remove each message when its life is over. A whole whose body steps may refer to stays up to an hour longer, and a step stays
// for as long as the records before it would have lived: otherwise one of them would come back. Where neither is possible, the step is
// written as a whole.
//
// # Bounds
//
// A server that creates records in a table which is more than half full, or whose bounds are small, follows the table and knows the size of
// each record; see bounds. Other tables need no memory.
package nats

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// Options of an engine; zero is the default.
type Options struct {
	Log *slog.Logger
}

// Engine is a [store.Engine].
type Engine struct {
	c   *cluster.Cluster
	log *slog.Logger

	end     context.Context // of all calls and goroutines; its cause is store.ErrClosed
	stop    context.CancelCauseFunc
	running sync.WaitGroup

	waits waits

	starting sync.Mutex // held while a goroutine is started
	mu       sync.Mutex // held while a table or a space is opened
	tables   map[string]store.Table
	logs     map[string]store.Log
}

var _ store.Engine = (*Engine)(nil)

func init() {
	cluster.OpenTables = func(c *cluster.Cluster) store.Engine { return Open(c, Options{}) }
}

// Open makes an engine that uses a connection. The caller closes the engine before the connection.
func Open(c *cluster.Cluster, o Options) *Engine {
	e := &Engine{c: c, log: o.Log, waits: defaultWaits, tables: map[string]store.Table{}, logs: map[string]store.Log{}}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.end, e.stop = context.WithCancelCause(context.Background())
	return e
}

// Table implements [store.Engine].
func (e *Engine) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	return opened(ctx, e, e.tables, "table", o.Name, func(ctx context.Context) (store.Table, error) { return openTable(ctx, e, o) })
}

// opened returns what was opened before under a name, or opens it.
func opened[T any](
	ctx context.Context, e *Engine, all map[string]T, kind, name string, open func(context.Context) (T, error),
) (none T, err error) {
	if err := store.CheckKey(name); err != nil {
		return none, err
	}
	ctx, cancel := e.whileOpen(ctx)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return none, err
	}
	if t, ok := all[name]; ok {
		return t, nil
	}
	t, err := open(ctx)
	if err != nil {
		return none, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	all[name] = t
	return t, nil
}

// whileOpen ends a context when the engine is closed.
func (e *Engine) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if e.end.Err() != nil {
		cancel(context.Cause(e.end)) // at once: AfterFunc takes a moment
	}
	stop := context.AfterFunc(e.end, func() { cancel(context.Cause(e.end)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// start starts a goroutine that ends with the engine; false if that is closed.
func (e *Engine) start(do func()) bool {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.end.Err() != nil {
		return false
	}
	e.running.Go(do)
	return true
}

// Close implements [store.Engine]. Lazy puts are durable as others are.
func (e *Engine) Close() error {
	e.starting.Lock()
	e.stop(store.ErrClosed)
	e.starting.Unlock()
	e.running.Wait()
	return nil
}
