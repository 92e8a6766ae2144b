package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// outboxLines is an [OutboxStore] of one process at a time: a file of lines. Without a folder it keeps nothing.
type outboxLines struct {
	root vfs.Folder // nil: in memory
	log  *slog.Logger

	mu     sync.Mutex // the blocks, and the order of the file's lines
	file   *lineLog
	blocks map[uint64]*storedLine
	bytes  int64 // of them
	last   uint64
}

// storedLine is a block as the file would have it if it were written anew.
type storedLine struct {
	outboxLine
	size int64
}

// outboxLine is a line of the file: a block that is new, or a step that one has taken.
type outboxLine struct {
	ID      uint64    `json:"id"`
	At      time.Time `json:"at,omitzero"`
	Block   *Outbound `json:"block,omitempty"`
	Step    string    `json:"step,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
}

// The steps of a block as they are written. A block without one is prepared; any other but these two is its end.
const (
	stepPrepared = "prepared" // again, after an attempt that came to nothing
	stepSending  = "sending"
)

const outboxFile = "outbox.jsonl"

// openOutboxLines opens what is kept in a folder; "" is in memory. log is told of lines that cannot be read; nil is silent.
func openOutboxLines(dir string, log *slog.Logger) (s *outboxLines, err error) {
	if dir == "" {
		return &outboxLines{log: log, blocks: map[uint64]*storedLine{}}, nil
	}
	return openOutboxLinesIn(vfs.At(dir), log)
}

func openOutboxLinesIn(dir vfs.Dir, log *slog.Logger) (s *outboxLines, err error) {
	s = &outboxLines{log: log, blocks: map[uint64]*storedLine{}}
	if s.root, err = dir.Open(); err != nil {
		return nil, err
	}
	if s.file, err = openLineLog(s.root, outboxFile, log, s.replay); err != nil {
		return nil, errors.Join(err, s.root.Close())
	}
	return s, nil
}

// replay takes a line of the file.
func (s *outboxLines) replay(line []byte) {
	var l outboxLine
	if json.Unmarshal(line, &l) != nil || l.ID == 0 {
		if s.log != nil {
			s.log.Error("skipped an unknown line of the outbox")
		}
		return
	}
	s.last = max(s.last, l.ID)
	if l.Block != nil && s.blocks[l.ID] == nil {
		s.blocks[l.ID] = &storedLine{outboxLine{ID: l.ID, At: l.At, Block: l.Block}, int64(len(line))}
		s.bytes += int64(len(line))
	}
	b := s.blocks[l.ID]
	switch {
	case b == nil || l.Block != nil && l.Step == "":
	case l.Step == stepSending || l.Step == stepPrepared:
		b.Step, b.Attempt = l.Step, l.Attempt
	default:
		s.removeLocked(b)
	}
}

func (s *outboxLines) removeLocked(b *storedLine) {
	delete(s.blocks, b.ID)
	s.bytes -= b.size
}

// Start implements [OutboxStore].
func (s *outboxLines) Start(tell func(BlockNews)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sortedIDs(s.blocks) {
		b := s.blocks[id]
		tell(BlockNews{
			ID: id, At: b.At, Size: b.size, Target: targetOf(b.Block), Block: b.Block, Attempt: b.Attempt, Sending: b.Step == stepSending, Left: true,
		})
	}
	return nil
}

// Put implements [OutboxStore].
func (s *outboxLines) Put(_ context.Context, p StoredBlock) (id uint64, err error) {
	s.mu.Lock()
	s.last++
	id = s.last
	if s.file == nil {
		s.mu.Unlock()
		return id, nil
	}
	b := &storedLine{outboxLine{ID: id, At: p.At.Round(0), Block: &p.Block}, p.Size}
	at, err := s.file.append(b.outboxLine)
	if err == nil {
		s.blocks[id] = b
		s.bytes += b.size
	}
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := s.file.wait(at); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removeLocked(b)
		return 0, err
	}
	return id, nil
}

// Load implements [OutboxStore].
func (s *outboxLines) Load(_ context.Context, id uint64) (*Outbound, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.blocks[id]; b != nil {
		return b.Block, nil
	}
	return nil, nil
}

// Step implements [OutboxStore].
func (s *outboxLines) Step(_ context.Context, id uint64, sending bool, attempt int) error {
	if s.file == nil {
		return nil
	}
	step := stepPrepared
	if sending {
		step = stepSending
	}
	s.mu.Lock()
	b := s.blocks[id]
	if b == nil {
		s.mu.Unlock()
		return ErrBlockTaken
	}
	was := b.outboxLine
	b.Step, b.Attempt = step, attempt
	at, err := s.file.append(outboxLine{ID: id, Step: step, Attempt: attempt})
	s.mu.Unlock()
	if err == nil {
		err = s.file.wait(at)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.outboxLine = was
	}
	return err
}

// End implements [OutboxStore].
func (s *outboxLines) End(_ context.Context, id uint64, came ReceiptState) error {
	if s.file == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[id]
	if b == nil {
		return nil
	}
	s.removeLocked(b)
	if !s.file.old(s.bytes) {
		_, err := s.file.append(outboxLine{ID: id, Step: came.String()})
		return err
	}
	return s.anewLocked()
}

// Erase implements [OutboxStore].
func (s *outboxLines) Erase(_ context.Context, session string) error {
	if s.file == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		if b.Block.Session == session {
			s.removeLocked(b)
		}
	}
	if err := s.anewLocked(); err != nil {
		return fmt.Errorf("the outbox cannot be written: %w", err)
	}
	return nil
}

// anewLocked writes the file with what waits alone.
func (s *outboxLines) anewLocked() error {
	left := make([]any, 0, len(s.blocks))
	for _, id := range sortedIDs(s.blocks) {
		left = append(left, s.blocks[id].outboxLine)
	}
	return s.file.rewrite(left)
}

// Close implements [OutboxStore].
func (s *outboxLines) Close() error {
	err := s.file.close()
	if s.root != nil {
		err = errors.Join(err, s.root.Close())
	}
	return err
}

func sortedIDs[T any](m map[uint64]T) []uint64 {
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
