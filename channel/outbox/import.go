package outbox

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

// Old is a block that an earlier version has kept.
type Old struct {
	Key     string // another one for each block
	At      time.Time
	Block   channel.Outbound
	Attempt int
	Sending bool // its last step says that an attempt has begun
}

// Import puts blocks of an earlier version into the table of an engine, in their order. What is there already stays. It returns how many
// blocks there were.
func Import(ctx context.Context, e store.Engine, blocks iter.Seq2[Old, error]) (n int, err error) {
	table, err := e.Table(ctx, Table)
	if err != nil {
		return 0, err
	}
	for old, err := range blocks {
		if err != nil {
			return n, err
		}
		text, err := json.Marshal(old.Block)
		if err != nil {
			return n, err
		}
		r := record{
			State: prepared, Left: true, At: old.At.UnixNano(), Size: channel.BlockSize(&old.Block), Target: channel.TargetName(&old.Block),
			Channel: old.Block.Channel, Sender: old.Block.Sender, Event: old.Block.Event, Session: owner.Token(old.Block.Session),
			Attempt: old.Attempt, Bytes: int64(len(text)),
		}
		if old.Sending {
			r.State = sending
		}
		// One after the other, so that their ids have their order. The engine makes them durable when it is closed.
		_, errs := table.Put(ctx, store.Put{Key: old.Key, ID: owner.NewID(), Meta: owner.Meta(&r), Body: text, Life: r.left(), Lazy: true})
		if errs[0] != nil && !errors.Is(errs[0], store.ErrMoved) {
			return n, fmt.Errorf("store a block: %w", errs[0])
		}
		n++
	}
	return n, nil
}
