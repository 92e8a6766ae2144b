package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// Old is an event that an earlier version has kept.
type Old struct {
	Key     channel.EventKey
	At      time.Time
	Attempt int // with the turn that ran when the process ended

	// Of an event that waits:
	Raw   []byte
	Seen  channel.ReceiptState // what is known of its answer
	Shown channel.ShownText    // what people saw of its answer

	// Of an event that is settled:
	Settled bool
	Outcome channel.Outcome
	Until   time.Time // it is known until then
}

// What one write carries at most.
const (
	importPuts  = 256
	importBytes = 8 << 20
)

// Import puts events of an earlier version into the tables of an engine, the oldest first. What is there already stays. It returns how
// many events there were.
func Import(ctx context.Context, e store.Engine, keep time.Duration, events iter.Seq2[Old, error]) (n int, err error) {
	table, err := e.Table(ctx, Table)
	if err != nil {
		return 0, err
	}
	shown, err := e.Table(ctx, shownTable)
	if err != nil {
		return 0, err
	}
	j := &Inbox{o: Options{Keep: keep, now: time.Now}}
	var puts []store.Put
	bytes, last := 0, int64(0)
	flush := func() error {
		_, errs := table.Put(ctx, puts...)
		for _, err := range errs {
			if err != nil && !errors.Is(err, store.ErrMoved) {
				return err
			}
		}
		n += len(puts)
		puts, bytes = puts[:0], 0
		return nil
	}
	for old, err := range events {
		if err != nil {
			return n, err
		}
		r := old.record()
		if r.over(time.Now()) {
			continue
		}
		last = max(last+1, r.At)
		r.Behind = last - r.At
		t := owner.Token(r.Key)
		p := j.put(t, owner.NewID(), 0, r)
		if r.waits() {
			p.Body = append([]byte{}, old.Raw...)
		}
		if old.Shown.Turn != "" && r.waits() {
			text, err := json.Marshal(old.Shown)
			if err != nil {
				return n, err
			}
			_, errs := shown.Put(ctx, store.Put{Key: t, ID: owner.NewID(), After: store.AnyRev, Body: text, Life: keyLife})
			if errs[0] != nil {
				return n, errs[0]
			}
		}
		puts = append(puts, p)
		if bytes += len(p.Body) + len(p.Meta); len(puts) == importPuts || bytes > importBytes {
			if err := flush(); err != nil {
				return n, fmt.Errorf("store events: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return n, fmt.Errorf("store events: %w", err)
	}
	return n, nil
}

// record is the record of an event that no process has.
func (o *Old) record() record {
	r := record{State: accepted, Key: o.Key.String(), Brief: o.Key.Synthetic, At: o.At.UnixNano(), Attempt: o.Attempt}
	if o.Settled {
		r.State, r.Outcome, r.Until = settled, o.Outcome, o.Until.UnixNano()
		return r
	}
	r.Stored, r.Size = true, len(o.Raw)
	if o.Seen != channel.NotSent && o.Seen != channel.Suppressed {
		r.Mark = marks[o.Seen]
	}
	return r
}
