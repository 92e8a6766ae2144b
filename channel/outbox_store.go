package channel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// OutboxStore keeps the blocks of an [Outbox], and the steps that they take. What it does for different blocks may be asked of it at the
// same time; for one block it is asked for one thing after the other.
//
// Several processes may share one. Then each block is somebody's to send: the process that has put it in or has stored its last step.
// When that has died or ended, all others are told, and whoever stores the next step has the block.
type OutboxStore interface {
	// Start is called once, before all others. Before it returns it tells of the blocks that are there; later, until Close has returned,
	// of what becomes of those that other processes have. tell does not block.
	Start(tell func(BlockNews)) error
	// Put stores a block that is prepared. It is durable when Put returns, and all blocks with smaller ids have been told of. Where there
	// is no room, the error is [ErrOutboxFull], and nothing is stored.
	Put(context.Context, StoredBlock) (id uint64, err error)
	// Load reads a block that was told of without it; nil is one that has gone.
	Load(_ context.Context, id uint64) (*Outbound, error)
	// Step stores that an attempt to send a block begins or, where sending is false, that the last one came to nothing. It is durable when
	// Step returns. [ErrBlockTaken] is of a block that is another process's, and of one that has gone.
	Step(_ context.Context, id uint64, sending bool, attempt int) error
	// End lets a block go, whatever it came to. That need not be durable when it returns: a block that seems to be on its way after a
	// crash is not sent again. Of one that another process has taken over it does nothing.
	End(_ context.Context, id uint64, came ReceiptState) error
	// Erase removes the blocks of a session, whoever has them, and what is still there of those that have gone.
	Erase(_ context.Context, session string) error
	// Close lets other processes have the blocks that are left.
	Close() error
}

// StoredBlock is a block as it is put in.
type StoredBlock struct {
	At     time.Time
	Size   int64  // what it counts for
	Target string // where it goes; what goes to one target keeps its order
	Block  Outbound
}

// BlockNews is what a store tells of a block that its outbox has not put in, or has no longer.
type BlockNews struct {
	ID      uint64
	At      time.Time // when it was put in
	Size    int64
	Target  string
	Block   *Outbound // nil: it is to be loaded, and what follows is what is known of it
	Channel string
	Sender  string
	Event   string

	Attempt int
	Sending bool // its last step says that an attempt has begun
	Alive   bool // another process has it, and is there
	Left    bool // the process that has put it in is not there any more
	Gone    bool
	Came    ReceiptState // of one that has gone: what it came to
}

// ErrBlockTaken says of a block that it is another process's to send, or that nobody is to send it any more.
var ErrBlockTaken = errors.New("channel: another process has the block, or the block is gone")

// ErrOutboxFull says that there is no room for a block.
var ErrOutboxFull = errors.New("channel: the outbox is full, because the platform was unreachable for too long")

// BlockSize is what a block counts for, as [StoredBlock.Size] has it.
func BlockSize(out *Outbound) int64 { return int64(len(out.Block.Text)) + 512 }

// unstored is an [OutboxStore] that keeps nothing: its outbox has the blocks in memory.
type unstored struct{ last atomic.Uint64 }

func (*unstored) Start(func(BlockNews)) error { return nil }

func (s *unstored) Put(context.Context, StoredBlock) (id uint64, err error) {
	return s.last.Add(1), nil
}

func (*unstored) Load(context.Context, uint64) (*Outbound, error) { return nil, nil }

func (*unstored) Step(context.Context, uint64, bool, int) error { return nil }

func (*unstored) End(context.Context, uint64, ReceiptState) error { return nil }

func (*unstored) Erase(context.Context, string) error { return nil }

func (*unstored) Close() error { return nil }
