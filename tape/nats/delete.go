package nats

import (
	"context"
	"encoding/json"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/tape"
)

// Delete implements tape.Store. A marker takes the place of a tape in one step, and all that is below the tape goes then: what
// is left of a crash in between belongs to no tape, and goes with the next one of the name.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := tape.CheckName(name); err != nil {
		return err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	sl, err := s.take(ctx, name)
	if err != nil {
		return err
	}
	defer s.give(name, sl)
	sl.head = nil
	all := under(s.base(name))
	if tape.IsFork(name) { // which no listing has
		return s.purge(ctx, all, 0)
	}
	last, err := s.get(ctx, getRequest{Last: all})
	if err != nil {
		return err
	}
	if last == nil { // as far as who answers knows; what there is after all, goes
		return s.purge(ctx, all, 0)
	}
	marker, err := s.mark(ctx, name)
	if err != nil {
		return err
	}
	return s.purge(ctx, all, marker)
}

// mark puts a marker in the place of a tape.
func (s *Store) mark(ctx context.Context, name string) (seq uint64, err error) {
	h, err := s.head(ctx, name)
	if err != nil {
		return 0, err
	}
	last := h.epoch()
	text, err := json.Marshal(record{State: stateErased, Tape: name, Epoch: last.number, By: last.replica})
	if err != nil {
		return 0, err
	}
	m := &client.Msg{Subject: s.entries(name), Header: client.Header{
		headerRecord:           {string(text)},
		jetstream.MsgRollup:    {jetstream.MsgRollupSubject},
		jetstream.MsgTTLHeader: {markerLife.String()},
	}}
	err = s.again(ctx, func(ctx context.Context) error { // twice is as good as once
		seq, err = s.publish(ctx, m)
		if err == nil && seq == 0 {
			err = errNoAck
		}
		return err
	})
	return seq, err
}
