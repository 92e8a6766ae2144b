package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The bucket of leases has the replicas, which are the keys "replica.<id>", and the leases, "<space>.<token of the name>". It is
// a bucket as others are, but for two things: a key is read from the leader and not from any copy, which may be behind (that there is none
// is confirmed, see Barrier), and what is stored is republished, so that who waits for a key subscribes to it instead of making a consumer.
const (
	leasesBucket = "LEASES"
	replicaSpace = "replica"

	keyPrefix = "$KV."

	operation = "KV-Operation" // of a marker, which says that a key is gone
	purge     = "PURGE"
)

// Each key has a life in the bucket, so that what nobody erases goes away.
const (
	replicaLife = 10 * time.Minute // renewed by each beat
	leaseLife   = time.Hour        // renewed by refresh
	markerLife  = 2 * time.Second  // of the marker of a lease: after it, taking the lease is one request again
	goneLife    = time.Minute      // of the marker of a replica
)

// callWait is how long one request about a key takes at most. A beat that fails must not keep the next one from being in time.
const callWait = time.Second

// The headers of a republished message.
const (
	headerSequence = "Nats-Sequence"
)

// Errors about keys.
var (
	errNoKey = errors.New("no such key")

	// ErrAway is of a caller that does not wait, while the servers cannot be reached.
	ErrAway error = away{}
)

type away struct{}

func (away) Error() string { return "cluster: the servers are unreachable" }

// ErrorCode says to those who sort errors by codes that it is nobody's mistake.
func (away) ErrorCode() string { return "overloaded" }

// beatRecord is the value of a replica's key, leaseRecord that of a lease's, and markerRecord what is with a replica's marker.
type (
	beatRecord struct {
		Life  uint64 `json:"life"`
		Name  string `json:"name"`
		Since int64  `json:"since"` // ms
	}
	leaseRecord struct {
		Replica string `json:"replica"`
		Life    uint64 `json:"life"`
		Since   int64  `json:"since"` // ms
	}
	markerRecord struct {
		Life uint64 `json:"life"`
		Left bool   `json:"left"`
	}
)

// record is what a key has.
type record struct {
	revision uint64
	marker   bool // the key is gone
	value    []byte
}

// leasesStream makes the bucket.
func (c *Cluster) leasesStream(ctx context.Context) (jetstream.Stream, error) {
	bucket := c.Name(leasesBucket)
	s, err := c.stream(ctx, jetstream.StreamConfig{
		Name: kvStream + bucket, Subjects: []string{keyPrefix + bucket + ".>"},
		Description:       "who is there, and who holds which lease",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		PersistMode: jetstream.AsyncPersistMode, // after a power cut nobody holds anything
		RePublish:   &jetstream.RePublish{Source: keyPrefix + bucket + ".>", Destination: c.Subject("leases", ">")},
	})
	if err != nil {
		return nil, fmt.Errorf("the bucket %s: %w", bucket, err)
	}
	return s, nil
}

// key is the subject under which a key is stored, and news the one on which it is republished.
func (p *Presence) key(space, token string) string {
	return keyPrefix + p.c.Name(leasesBucket) + "." + space + "." + token
}

func (p *Presence) news(space, token string) string { return p.c.Subject("leases", space, token) }

// put stores a value, where the key's last revision is expected; nil takes any.
func (p *Presence) put(ctx context.Context, key string, value any, life time.Duration, expected *uint64) (revision uint64, err error) {
	return p.store(ctx, &nats.Msg{Subject: key}, value, life, expected)
}

// mark stores a marker in place of a value.
func (p *Presence) mark(ctx context.Context, key string, value any, life time.Duration, expected uint64) (revision uint64, err error) {
	return p.store(ctx, &nats.Msg{Subject: key, Header: nats.Header{operation: {purge}}}, value, life, &expected)
}

func (p *Presence) store(ctx context.Context, m *nats.Msg, value any, life time.Duration, expected *uint64) (uint64, error) {
	if value != nil {
		data, err := json.Marshal(value)
		if err != nil {
			return 0, err
		}
		m.Data = data
	}
	options := []jetstream.PublishOpt{jetstream.WithMsgTTL(life), jetstream.WithRetryAttempts(0)}
	if expected != nil {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(*expected))
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	ack, err := p.c.js.PublishMsg(ctx, m, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// glance reads a key from the leader: errNoKey where it was never there or is forgotten, or where who answers led once and does not know
// better.
func (p *Presence) glance(ctx context.Context, key string) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	m, err := p.stream.GetLastMsgForSubject(ctx, key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return record{}, errNoKey
	}
	if err != nil {
		return record{}, err
	}
	return record{m.Sequence, m.Header.Get(operation) != "", m.Data}, nil
}

// get is glance whose errNoKey is for certain.
func (p *Presence) get(ctx context.Context, key string) (record, error) {
	r, err := p.glance(ctx, key)
	if !errors.Is(err, errNoKey) {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	last, err := p.barrier.Last(ctx, key)
	switch {
	case err != nil:
		return record{}, err
	case last == nil:
		return record{}, errNoKey
	}
	return published(last)
}

// published is what a republished message says.
func published(m *nats.Msg) (record, error) {
	n, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("a message on %s has no sequence", m.Subject)
	}
	return record{n, m.Header.Get(operation) != "", m.Data}, nil
}
