package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/database"
)

const (
	listenPause = time.Second // between two connections
	listenEnd   = time.Second // to end one
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
	e.mu.Unlock()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		e.notice(n.Payload)
	}
}

// notice reads what a notice says: a table, and its revision.
func (e *Engine) notice(payload string) {
	table, revision, _ := strings.Cut(payload, " ")
	id, err := strconv.ParseInt(table, 10, 32)
	rev, revErr := strconv.ParseUint(revision, 10, 64)
	if err != nil || revErr != nil {
		return // of another program
	}
	e.mu.Lock()
	t := e.byID[int32(id)]
	e.mu.Unlock()
	if t != nil {
		t.heard(rev)
	}
}
