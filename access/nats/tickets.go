// Package nats is an [access.TicketStore] on NATS JetStream: a ticket is good at every replica, and once.
//
// The stream TICKETS has two messages for each ticket: one whose subject is the digest of its text, and one on the subject of its
// principal, of which the servers take no more than a principal may have. So that bound holds exactly, whichever replica is asked. It
// errs to one side only: where a replica dies between the two, or an answer is lost, the principal has one ticket less until that expires.
// The bound of all tickets is the stream's.
//
// To take a ticket is to delete its message: of several who try the servers let one. Where that answer is lost the ticket is used up, and
// its owner asks for another one.
package nats

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/cluster"
)

// Options of a store; zero is the default.
type Options struct {
	Most int // that wait to be used, of one principal: 32
	All  int // and of all together: 10000
	Log  *slog.Logger
}

const (
	streamName   = "TICKETS"
	ticketsToken = "tickets"
	digestToken  = "is"
	ownerToken   = "of"

	attemptWait = time.Second     // for one answer
	giveUp      = 4 * time.Second // of a call while the servers are away: a leader that died costs about two
	pause       = 50 * time.Millisecond
)

// errAway is the refusal while there is nobody to ask.
var errAway = &access.Refusal{
	Status: http.StatusServiceUnavailable, Code: "overloaded", Reason: "engine",
	Detail: "tickets cannot be looked up now; try again in a moment", RetryAfter: 2 * time.Second,
}

// Store is an [access.TicketStore].
type Store struct {
	cluster *cluster.Cluster
	js      jetstream.JetStream
	stream  jetstream.Stream
	barrier *cluster.Barrier
	log     *slog.Logger
}

var _ access.TicketStore = (*Store)(nil)

// entry is what the message of a ticket has.
type entry struct {
	Ticket access.Ticket `json:"ticket"`
	Slot   uint64        `json:"slot"` // sequence of the other message
}

// MarshalJSON writes the ticket as a store keeps it.
func (e entry) MarshalJSON() ([]byte, error) {
	data, err := e.Ticket.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"ticket": json.RawMessage(data), "slot": e.Slot})
}

// UnmarshalJSON reads that.
func (e *entry) UnmarshalJSON(data []byte) error {
	var raw struct {
		Ticket json.RawMessage `json:"ticket"`
		Slot   uint64          `json:"slot"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	e.Slot = raw.Slot
	return e.Ticket.UnmarshalBinary(raw.Ticket)
}

// Open makes the stream where it is not there. There is nothing to close.
func Open(ctx context.Context, c *cluster.Cluster, o Options) (*Store, error) {
	if o.Most <= 0 {
		o.Most = 32
	}
	if o.All <= 0 {
		o.All = 10_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{c.Subject(ticketsToken, ">")}, Description: "tickets that wait to be used",
		MaxMsgsPerSubject: int64(o.Most), DiscardNewPerSubject: true, Discard: jetstream.DiscardNew, MaxMsgs: 2 * int64(o.All),
		AllowMsgTTL: true,
		// The leader is asked, and no copy, which may be behind; that there is no such ticket is confirmed by the barrier, which reads directly.
		AllowDirect: true, AllowRollup: true,
		PersistMode: jetstream.AsyncPersistMode,
	})
	if err != nil {
		return nil, fmt.Errorf("access: %w", err)
	}
	return &Store{
		cluster: c, js: c.JetStream(), stream: s, log: o.Log,
		barrier: c.Barrier(c.Name(streamName), c.Subject(ticketsToken, cluster.BarrierToken)),
	}, nil
}

func (s *Store) subject(d access.TicketDigest) string {
	return s.cluster.Subject(ticketsToken, digestToken, hex.EncodeToString(d[:]))
}

func (s *Store) store(ctx context.Context, subject string, data []byte, life time.Duration, options ...jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, &client.Msg{Subject: subject, Data: data}, append(options, jetstream.WithMsgTTL(life), jetstream.WithRetryAttempts(0))...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Put implements [access.TicketStore].
func (s *Store) Put(ctx context.Context, d access.TicketDigest, t access.Ticket) error {
	life := max(time.Until(t.Expires), 0).Truncate(time.Second) + time.Second // servers count seconds
	var slot uint64
	if err := s.again(ctx, func() (retry bool, err error) {
		slot, err = s.store(ctx, s.cluster.Subject(ticketsToken, ownerToken, cluster.Token(t.Principal.Name)), nil, life)
		// Of what may have been stored there is none more: it would count, too.
		return err != nil && !full(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrTimeout), err
	}); err != nil {
		return err
	}
	data, err := json.Marshal(entry{t, slot})
	if err == nil {
		err = s.again(ctx, func() (retry bool, err error) {
			_, err = s.store(ctx, s.subject(d), data, life, jetstream.WithExpectLastSequencePerSubject(0))
			if cluster.WrongSequence(err) && s.has(ctx, d) {
				return false, nil // an attempt whose answer was lost; no two tickets have one digest
			}
			return err != nil && !full(err), err
		})
	}
	if err != nil {
		s.free(ctx, slot)
	}
	return err
}

// Take implements [access.TicketStore].
func (s *Store) Take(ctx context.Context, d access.TicketDigest) (t access.Ticket, ok bool, err error) {
	var e entry
	doubt := false
	err = s.again(ctx, func() (retry bool, err error) {
		ok = false
		ctx, cancel := context.WithTimeout(ctx, attemptWait)
		defer cancel()
		sequence, data, err := s.get(ctx, s.subject(d))
		if err != nil {
			return true, err
		}
		if sequence == 0 {
			return false, nil
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return false, err
		}
		if !time.Now().Before(e.Ticket.Expires) {
			return false, nil
		}
		err = s.stream.DeleteMsg(ctx, sequence)
		ok = err == nil
		doubt = doubt || err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) // then it may be gone through this replica
		return err != nil, err
	})
	if ok {
		s.free(ctx, e.Slot)
		return e.Ticket, true, nil
	}
	if err == nil && doubt {
		s.log.LogAttrs(ctx, slog.LevelWarn, "ticket is used up, but its answer was lost")
	}
	return access.Ticket{}, false, err
}

// get reads a message; no sequence is none.
func (s *Store) get(ctx context.Context, subject string) (sequence uint64, data []byte, err error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case err == nil:
		return m.Sequence, m.Data, nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil, err
	}
	// It may be that who answers led once, and does not know that it does so no more.
	last, err := s.barrier.Last(ctx, subject)
	switch {
	case full(err): // of other tickets, so that nothing can be stored to make sure: strangers must not be kept waiting for that
		return 0, nil, nil
	case err != nil, last == nil:
		return 0, nil, err
	}
	sequence, err = strconv.ParseUint(last.Header.Get(jetstream.SequenceHeader), 10, 64)
	return sequence, last.Data, err
}

// has says whether there is a ticket.
func (s *Store) has(ctx context.Context, d access.TicketDigest) bool {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	sequence, _, err := s.get(ctx, s.subject(d))
	return err == nil && sequence > 0
}

// free lets the principal have another ticket. Where that fails, it may when this one expires.
func (s *Store) free(ctx context.Context, slot uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptWait)
	defer cancel()
	_ = s.stream.DeleteMsg(ctx, slot)
}

// full says whether the servers take no more.
func full(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && strings.Contains(e.Description, "maximum messages")
}

// again does what may fail because a leader is being elected, or the servers are away for a moment.
func (s *Store) again(ctx context.Context, do func() (retry bool, err error)) error {
	for begin := time.Now(); ; {
		retry, err := do()
		switch {
		case err == nil:
			return nil
		case full(err):
			return access.ErrManyTickets
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !retry || time.Since(begin) > giveUp:
			s.log.LogAttrs(ctx, slog.LevelWarn, "cannot look up a ticket", slog.String("error", err.Error()))
			return errAway
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
