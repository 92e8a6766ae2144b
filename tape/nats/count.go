package nats

import (
	"context"

	"github.com/lingserve/lingserve/tape"
)

var _ tape.Counter = (*Store)(nil)

// Count implements [tape.Counter], by the index of listings: the servers are asked for what is new in the stream. They know how many subjects it
// has, but those are of forks, blobs and erased tapes, too.
func (s *Store) Count(ctx context.Context) (int, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	d := &s.directory
	if err := d.catchUp(ctx); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows.Len(), nil
}
