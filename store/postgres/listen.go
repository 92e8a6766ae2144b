package postgres

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
)

const (
	listenPause = time.Second // between two connections
	listenEnd   = time.Second // to end one
	noticeTime  = time.Second // to send one: then watchers have read by themselves
)

// listen starts the goroutine that listens for notices, if none runs. e.mu is held.
func (e *Engine) listen() {
	if !e.listening {
		e.listening = true
		e.running.Go(e.hearAll) // ends when the engine closes
	}
}

// hearAll listens on one connection after another. Without one, feeds read each second.
func (e *Engine) hearAll() {
	lost := false
	for {
		if e.hear(lost) {
			lost = true
		}
		if !database.Sleep(e.end, e.end, listenPause) {
			return
		}
	}
}

// hear listens until the connection breaks. With again, there was another connection before: whatever has ended that one may have lost
// changes, too. It reports whether it has listened.
func (e *Engine) hear(again bool) (listened bool) {
	ctx := e.end
	conn, err := e.db.Connect(ctx)
	if err != nil {
		return false
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), listenEnd)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+e.channel); err != nil {
		return false
	}
	if again {
		e.epoch.Add(1)
	}
	e.mu.Lock()
	for _, t := range e.tables {
		t.nudge() // for what has changed before
	}
	if e.bus != nil {
		e.bus.nudge()
	}
	e.mu.Unlock()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		e.notice(n.Payload)
	}
}

// notice reads what a notice says: a table, and perhaps its revision; or a replica that has messages.
func (e *Engine) notice(payload string) {
	if replica, ok := strings.CutPrefix(payload, busNotice); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.bus != nil && e.bus.replica == replica {
			e.bus.nudge()
		}
		return
	}
	table, revision, found := strings.Cut(payload, " ")
	id, err := strconv.ParseInt(table, 10, 32)
	rev := uint64(math.MaxUint64)
	if found && err == nil {
		rev, err = strconv.ParseUint(revision, 10, 64)
	}
	if err != nil {
		return // of another program
	}
	e.mu.Lock()
	t := e.byID[int32(id)]
	e.mu.Unlock()
	if t != nil {
		t.heard(rev)
	}
}

// notices are what durable transactions have changed. One goroutine sends them, as many as there are at once: a transaction that
// notifies holds a lock of the whole database until it is committed, so the notice is not part of one that waits for the disk. If a notice
// is lost, watchers read within a second.
type notices struct {
	mu      sync.Mutex
	waiting map[string]bool
	busy    bool // a goroutine sends
}

// notify tells other processes what has changed.
func (e *Engine) notify(notice string) {
	n := &e.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[string]bool{}
	}
	n.waiting[notice] = true
	if !n.busy {
		n.busy = true
		e.running.Go(e.sendNotices) // ends when there are none; the goroutine that writes, which is counted, has started it
	}
}

func (e *Engine) sendNotices() {
	n := &e.notices
	for {
		n.mu.Lock()
		payloads := slices.Collect(maps.Keys(n.waiting))
		clear(n.waiting)
		n.busy = len(payloads) > 0
		n.mu.Unlock()
		if len(payloads) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
		_ = e.db.Once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, e.sql.notify, e.channel, payloads)
			return err
		})
		cancel()
	}
}
