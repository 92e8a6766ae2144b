package nats

import (
	"context"
	"log/slog"
	"time"
)

// SetWaits changes how long is waited for an answer, and in all.
func (s *Store) SetWaits(answer, all time.Duration) {
	s.waits = waits{answer: answer, direct: answer, patience: all, offline: all}
}

// Rows is how many sessions the index of listings has.
func (s *Store) Rows() int {
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	return s.directory.rows.Len()
}

// Follow begins the index of listings, and waits until it is complete.
func (s *Store) Follow() error { return s.directory.catchUp(s.end) }

// Stream is the name of the stream.
func (s *Store) Stream() string { return s.stream }

// Subject is that of a tape's batches.
func (s *Store) Subject(name string) string { return s.entries(name) }

// Slots is how many tapes are remembered.
func (s *Store) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}

// SetSizes changes how many bytes of a batch one message has.
func (s *Store) SetSizes(size int) { s.inline, s.chunk = size, size }

// SetLog changes the log.
func (s *Store) SetLog(log *slog.Logger) { s.log = log }

// Batches returns the last message of each batch of a tape, and how many messages the batch has.
func (s *Store) Batches(ctx context.Context, name string) (last []uint64, messages []int, err error) {
	h, err := s.head(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	spots, err := h.spots()
	for _, at := range spots {
		last, messages = append(last, at.seq), append(messages, at.messages)
	}
	return last, messages, err
}
