// Package nats is a [once.Keys] on NATS JetStream, for several replicas: the stream KEYS has a message for each key, whose subject is the
// hash of its owner and its own, and which the servers take away when its time is over.
//
// To claim a key is to store the first message of its subject: of several who try the servers take one. Where an answer is lost, the message
// itself says whose it is, since no two runs have one id.
package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/web/once"
)

// Options of keys; zero is the default.
type Options struct {
	Retention time.Duration // how long a key is known, 24 h, at least 1 s
	Most      int64         // keys that are known, 1 million; beyond it the oldest are forgotten. A caller with a name has an eighth of them
	Log       *slog.Logger
}

const (
	streamName = "KEYS"
	keysToken  = "keys"

	attemptWait = time.Second     // for one answer
	giveUp      = 4 * time.Second // of a call while the servers are away: a leader that died costs about two
	// Between attempts, at first and at last.
	firstPause, lastPause = 20 * time.Millisecond, 500 * time.Millisecond

	markerLife = 10 * time.Minute // of what a forgotten key leaves, behind which a message that comes late is refused

	// mostDoubts bounds the claims that are to be taken back. Beyond it a key may lead to a run that never began, until its time is over.
	mostDoubts = 10_000
	doubtPause = time.Second

	ownersKnown = 10_000          // whose claims are counted
	closeWait   = 3 * time.Second // for those that are left when keys are closed
)

// Keys is a [once.Keys].
type Keys struct {
	cluster *cluster.Cluster
	o       Options
	log     *slog.Logger
	barrier *cluster.Barrier

	end     context.Context // of what is started here
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	stream jetstream.Stream
	closed bool
	doubts []once.Claim     // that are to be taken back; a goroutine does while there are some
	counts map[string]int64 // claims of an owner, by the token of the owner, since its keys were last bounded

	cleared chan struct{} // of the last such goroutine, closed when it ends; nil where there was none

	lose func() bool // for tests: the answer of a publish is lost
}

var _ once.Keys = (*Keys)(nil)

// entry is what a message has. One of a key that was forgotten has no run.
type entry struct {
	Hash []byte `json:"hash,omitempty"`
	Run  string `json:"run,omitempty"`
	Of   []byte `json:"of,omitempty"`
	At   int64  `json:"at"` // ms
}

// Open makes the stream where it is not there.
func Open(ctx context.Context, c *cluster.Cluster, o Options) (*Keys, error) {
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	o.Retention = max(o.Retention, time.Second) // no message lives shorter
	if o.Most <= 0 {
		o.Most = 1_000_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{cluster: c, o: o, log: o.Log, barrier: c.Barrier(c.Name(streamName), c.Subject(keysToken, cluster.BarrierToken))}
	if err := k.make(ctx); err != nil {
		return nil, err
	}
	k.end, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	return k, nil
}

// Close ends what was started. Claims of which nobody knows whether they were stored are taken back before, as far as that goes soon.
func (k *Keys) Close() error {
	k.mu.Lock()
	k.closed = true
	cleared := k.cleared
	k.mu.Unlock()
	if cleared != nil {
		select {
		case <-cleared:
		case <-time.After(closeWait):
		}
	}
	k.stop()
	k.running.Wait()
	k.mu.Lock()
	left := len(k.doubts)
	k.mu.Unlock()
	if left > 0 {
		return fmt.Errorf("once: %d Idempotency-Keys may lead to runs that have never begun", left)
	}
	return nil
}

func (k *Keys) make(ctx context.Context) error {
	s, err := k.cluster.Stream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{k.cluster.Subject(keysToken, cluster.BarrierToken), k.cluster.Subject(keysToken, "*", "*")}, Description: "which run each Idempotency-Key has started",
		MaxMsgsPerSubject: 1, MaxMsgs: k.o.Most, Discard: jetstream.DiscardOld, AllowMsgTTL: true,
		// The leader is asked, and no copy, which may be behind; that there is no such key is confirmed by the barrier, which reads directly.
		AllowDirect: true, AllowRollup: true,
		PersistMode: jetstream.AsyncPersistMode, // as a local server, which loses the last second with the machine
	})
	if err != nil {
		return fmt.Errorf("once: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stream = s
	return nil
}

func (k *Keys) subject(owner, key string) string {
	hash := once.Hash(owner, key)
	return k.cluster.Subject(keysToken, ownerToken(owner), hex.EncodeToString(hash[:]))
}

// ownerToken stands for an owner in subjects.
func ownerToken(owner string) string {
	hash := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(hash[:8])
}

// share is how many keys of one owner with a name are known. A server that asks nobody who they are has one owner, who has all.
func (k *Keys) share() int64 { return max(k.o.Most/8, 1) }

// countClaim counts a claim of an owner. After some of them it has the servers forget the owner's oldest keys beyond its share: each
// replica counts its own, so that an owner has a share, and as many more as the replicas count before they look.
func (k *Keys) countClaim(ctx context.Context, owner string) {
	if owner == "" {
		return
	}
	token := ownerToken(owner)
	k.mu.Lock()
	if k.counts == nil || len(k.counts) >= ownersKnown {
		k.counts = map[string]int64{}
	}
	k.counts[token]++
	due := k.counts[token] >= max(k.share()/16, 1)
	if due {
		delete(k.counts, token)
	}
	s := k.stream
	k.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	err := s.Purge(ctx, jetstream.WithPurgeSubject(k.cluster.Subject(keysToken, token, "*")), jetstream.WithPurgeKeep(uint64(k.share())))
	if err != nil {
		k.log.LogAttrs(ctx, slog.LevelWarn, "cannot remove a caller's old idempotency keys", slog.String("error", err.Error()))
	}
}

// stored is what a subject has; no sequence is nothing.
type stored struct {
	sequence uint64
	once.Claim
	there bool // else it is a marker, or its time is over
}

// get reads a key, as the leader has it, or one that led once and does not know that it does so no more.
func (k *Keys) get(ctx context.Context, owner, key string) (stored, error) {
	k.mu.Lock()
	s := k.stream
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	m, err := s.GetLastMsgForSubject(ctx, k.subject(owner, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, err
	}
	return k.read(owner, key, m.Sequence, m.Data), nil
}

// sure is get, and that a key is not there is for certain.
func (k *Keys) sure(ctx context.Context, owner, key string) (stored, error) {
	if now, err := k.get(ctx, owner, key); err != nil || now.there {
		return now, err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	m, err := k.barrier.Last(ctx, k.subject(owner, key))
	if err != nil || m == nil {
		return stored{}, err
	}
	n, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return stored{}, fmt.Errorf("a message without a sequence: %w", err)
	}
	return k.read(owner, key, n, m.Data), nil
}

func (k *Keys) read(owner, key string, sequence uint64, data []byte) stored {
	got := stored{sequence: sequence}
	var e entry
	if json.Unmarshal(data, &e) != nil || e.Run == "" || len(e.Hash) != len(got.Hash) {
		return got
	}
	got.Claim = once.Claim{Owner: owner, Key: key, Hash: [16]byte(e.Hash), Run: e.Run, Of: e.Of, At: time.UnixMilli(e.At)}
	got.there = time.Since(got.At) < k.o.Retention
	return got
}

// put stores a claim behind what was seen; without a run, a marker.
func (k *Keys) put(ctx context.Context, c once.Claim, expected uint64) error {
	e, life := entry{At: c.At.UnixMilli()}, markerLife
	if c.Run != "" {
		e.Hash, e.Run, e.Of, life = c.Hash[:], c.Run, c.Of, k.o.Retention
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	_, err = k.cluster.JetStream().PublishMsg(ctx, &client.Msg{Subject: k.subject(c.Owner, c.Key), Data: data},
		jetstream.WithMsgTTL(life), jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0))
	if k.lose != nil && k.lose() {
		return context.DeadlineExceeded
	}
	return err
}

// Claim implements [once.Keys].
func (k *Keys) Claim(ctx context.Context, c once.Claim) (once.Claim, bool, error) {
	if err := c.Check(); err != nil {
		return once.Claim{}, false, err
	}
	c.At = time.Now()
	var earlier once.Claim
	doubt, err := k.change(ctx, c, 0, func(now stored) bool {
		if mine := now.Run == c.Run && now.Hash == c.Hash; now.there && !mine { // else of an attempt whose answer was lost
			earlier = now.Claim
		}
		return !now.there
	})
	if err != nil {
		if doubt {
			k.takeBack(c)
		}
		return once.Claim{}, false, err
	}
	if earlier.Run != "" {
		return earlier, false, nil
	}
	k.countClaim(ctx, c.Owner)
	return c, true, nil
}

// unseen is what change expects of a key that it has to read first.
const unseen = ^uint64(0)

// change stores a claim, where store says of what is there that it is to be. It begins with what is expected to be there. doubt says
// that it may have been stored although there is an error.
func (k *Keys) change(ctx context.Context, c once.Claim, expected uint64, store func(now stored) bool) (doubt bool, err error) {
	pause, refused := firstPause, false
	for begin := time.Now(); ; {
		if expected == unseen {
			var now stored
			if now, err = k.sure(ctx, c.Owner, c.Key); err == nil {
				if !store(now) {
					return false, nil
				}
				expected = now.sequence
			}
		}
		if err == nil {
			if err = k.put(ctx, c, expected); err == nil {
				return false, nil
			}
			expected = unseen // what is there now, has to be looked at
			if again := cluster.WrongSequence(err); !again {
				doubt = doubt || !cluster.Unstored(err)
			} else if !refused {
				refused, err = true, nil
				continue // without a pause; the second time a message is being stored that cannot be seen yet
			}
		}
		if time.Since(begin) > giveUp {
			k.log.LogAttrs(ctx, slog.LevelWarn, "cannot look up an idempotency key", slog.String("error", err.Error()))
			return doubt, once.ErrAway
		}
		if err := k.pause(ctx, &pause, err); err != nil {
			return doubt, err
		}
		err = nil
	}
}

// pause waits before the next attempt, of which err says why there is one.
func (k *Keys) pause(ctx context.Context, pause *time.Duration, err error) error {
	select {
	case <-time.After(*pause):
		*pause = min(2**pause, lastPause)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-k.end.Done():
		return once.ErrAway
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		k.remake(ctx)
	}
	return nil
}

// remake makes the stream again where somebody has erased it.
func (k *Keys) remake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	if _, err := k.cluster.JetStream().Stream(ctx, k.cluster.Name(streamName)); errors.Is(err, jetstream.ErrStreamNotFound) {
		_ = k.make(ctx) // it is tried again
	}
}

// Find implements [once.Keys]. That there is no such key is what the leader says, or one that led once and does not know better: to be sure
// costs a message, and whoever does not find a key claims it, which finds it.
func (k *Keys) Find(ctx context.Context, owner, key string) (once.Claim, bool, error) {
	return k.find(ctx, owner, key, k.get)
}

func (k *Keys) find(ctx context.Context, owner, key string, read func(ctx context.Context, owner, key string) (stored, error)) (once.Claim, bool, error) {
	pause := firstPause
	for begin := time.Now(); ; {
		now, err := read(ctx, owner, key)
		switch {
		case err == nil:
			return now.Claim, now.there, nil
		case ctx.Err() != nil:
			return once.Claim{}, false, context.Cause(ctx)
		case time.Since(begin) > giveUp:
			k.log.LogAttrs(ctx, slog.LevelWarn, "cannot look up an idempotency key", slog.String("error", err.Error()))
			return once.Claim{}, false, once.ErrAway
		}
		if err := k.pause(ctx, &pause, err); err != nil {
			return once.Claim{}, false, err
		}
	}
}

// Move implements [once.Keys].
func (k *Keys) Move(ctx context.Context, owner, key, from, to string) (ok bool, err error) {
	old, ok, err := k.find(ctx, owner, key, k.sure)
	if err != nil || !ok || old.Run != from {
		return false, err
	}
	next := old
	next.Run, next.At = to, time.Now()
	_, err = k.change(ctx, next, unseen, func(now stored) bool {
		ok = now.there && (now.Run == from || now.Run == to)
		return now.there && now.Run == from
	})
	return ok && err == nil, err
}

// Forget implements [once.Keys].
func (k *Keys) Forget(ctx context.Context, owner, key, run string) error {
	_, err := k.change(ctx, once.Claim{Owner: owner, Key: key, At: time.Now()}, unseen, func(now stored) bool {
		return now.there && now.Run == run
	})
	return err
}

// takeBack takes a claim back of which nobody knows whether it was stored, when the servers are there again.
func (k *Keys) takeBack(c once.Claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.doubts) >= mostDoubts {
		return
	}
	if k.doubts = append(k.doubts, c); len(k.doubts) == 1 {
		cleared := make(chan struct{})
		k.cleared = cleared
		k.running.Go(func() {
			defer close(cleared)
			k.clear()
		})
	}
}

// clear takes claims back until there are none.
func (k *Keys) clear() {
	for {
		k.mu.Lock()
		c := k.doubts[0]
		k.mu.Unlock()
		marker := c
		marker.Run = ""
		if _, err := k.change(k.end, marker, unseen, func(now stored) bool {
			return !now.there || now.Run == c.Run // behind the marker it is refused, should it come late
		}); err != nil {
			select {
			case <-k.end.Done():
				return
			case <-time.After(doubtPause):
				continue
			}
		}
		k.mu.Lock()
		k.doubts = k.doubts[1:]
		empty := len(k.doubts) == 0
		if empty {
			k.doubts = nil
		}
		k.mu.Unlock()
		if empty {
			return
		}
	}
}
