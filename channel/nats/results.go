package nats

import (
	"cmp"
	"context"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
)

// Results is a webhook.Results: the answers that are kept for those who send a message again, each the last message of a subject. They are
// there for a day.
type Results struct {
	log   *log
	c     *cluster.Cluster
	locks locks
}

// ResultsOptions of results. The zero value has the defaults.
type ResultsOptions struct {
	Bytes int64 // of all of them: 128 MiB; those saved longest ago go first. The servers set as much aside
}

const (
	resultsStream      = "RESULTS"
	resultsSpace       = "results"
	resultsLife        = 24 * time.Hour
	defaultResultBytes = 128 << 20

	headerSession = "Session" // the token of it
	headerPacked  = "Packed"
)

// OpenResults opens the results of an installation.
func OpenResults(ctx context.Context, c *cluster.Cluster, o ResultsOptions) (*Results, error) {
	stream, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: resultsStream, Subjects: []string{c.Subject(resultsSpace, "*")}, Description: "answers to messages, for those who send one again",
		MaxMsgsPerSubject: 1, MaxAge: resultsLife, MaxBytes: cmp.Or(max(o.Bytes, 0), defaultResultBytes), Discard: jetstream.DiscardOld,
	})
	if err != nil {
		return nil, fmt.Errorf("open the answers that are kept: %w", err)
	}
	return &Results{log: &log{c: c, stream: stream, publish: c.JetStream().PublishMsg}, c: c}, nil
}

func (r *Results) subject(id string) string { return r.c.Subject(resultsSpace, token(id)) }

// Save implements webhook.Results.
func (r *Results) Save(ctx context.Context, id, session string, answer []byte) error {
	data, packed, err := pack(answer, r.log.largest())
	if err != nil {
		return fmt.Errorf("an answer of %d bytes is too large to store", len(answer))
	}
	s := step{header: client.Header{headerSession: {token(session)}}, data: data}
	if packed {
		s.header.Set(headerPacked, "1")
	}
	defer r.locks.lock(id)()
	if _, err := r.log.change(ctx, r.subject(id), func(message) (*step, error) { return &s, nil }); err != nil {
		return fmt.Errorf("keep an answer: %w", err)
	}
	return nil
}

// Load implements webhook.Results.
func (r *Results) Load(ctx context.Context, id string) ([]byte, error) {
	m, err := r.log.last(ctx, r.subject(id))
	if err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	if m.seq == 0 {
		return nil, nil
	}
	if m.header.Get(headerPacked) != "" {
		return unpack(m.data)
	}
	return m.data, nil
}

// Erase implements webhook.Results.
func (r *Results) Erase(ctx context.Context, session string) error {
	if err := r.log.erase(ctx, r.c.Subject(resultsSpace, "*"), func(m message) bool {
		return m.header.Get(headerSession) == token(session)
	}, func(ctx context.Context, token string) error {
		return r.log.purge(ctx, r.c.Subject(resultsSpace, token))
	}); err != nil {
		return fmt.Errorf("erase answers: %w", err)
	}
	return nil
}
