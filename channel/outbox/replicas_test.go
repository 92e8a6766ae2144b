package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/outbox"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/channel/owner/leased"
	"github.com/lingserve/lingserve/channel/owner/ownertest"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	tables "github.com/lingserve/lingserve/store"
)

// platform takes what replicas send.
type platform struct {
	mu     sync.Mutex
	took   []string // "target text" of what was sent
	calls  int
	answer func(channel.Outbound) error // nil takes all
}

func (*platform) Can(channel.Capabilities) (bool, error) { return true, nil }

func (p *platform) Send(_ context.Context, out channel.Outbound) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.answer != nil {
		if err := p.answer(out); err != nil {
			return channel.Receipt{}, err
		}
	}
	p.took = append(p.took, out.Block.Target.To+" "+out.Block.Text)
	return channel.Receipt{}, nil
}

func (p *platform) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.took)
}

// knowing is a platform that takes a second send for the first.
type knowing struct{ *platform }

func (knowing) HonoursKey() bool { return true }

// sayer is a replica that answers with what it is told, and sends to a platform.
type sayer struct {
	*channel.Outbox
	k *channel.Kernel
}

func senderOf(t testing.TB, store channel.OutboxStore, s channel.Sender) sayer {
	t.Helper()
	return reportingSender(t, store, s, new(atomic.Int64))
}

// counting counts the replies that are reported as given up.
type counting struct {
	slog.Handler
	gaveUp *atomic.Int64
}

func (c counting) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "gave up a reply" {
		c.gaveUp.Add(1)
	}
	return c.Handler.Handle(ctx, r)
}

func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.gaveUp}
}

func reportingSender(t testing.TB, store channel.OutboxStore, s channel.Sender, gaveUp *atomic.Int64) sayer {
	t.Helper()
	o, err := channel.OpenOutbox(&channel.OutboxOptions{Store: store, Log: slog.New(counting{slog.NewTextHandler(t.Output(), nil), gaveUp})})
	if err != nil {
		t.Fatal(err)
	}
	k := &channel.Kernel{Agent: says{}, Outbox: o}
	k.Init()
	o.Register("fake", s)
	o.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = o.Close(ctx)
	})
	return sayer{o, k}
}

// box is the outbox of one replica.
type box struct {
	*outbox.Outbox
	place  ownertest.Place
	net    *ownertest.Network
	resume func()
}

func openBlocks(t testing.TB, p ownertest.Place, o outbox.Options) *box {
	t.Helper()
	b := &box{place: p, net: &ownertest.Network{Engine: p.Open(t)}}
	o.Owners = p.Owners
	var err error
	if b.Outbox, err = outbox.Open(t.Context(), b.net, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// Pause keeps the replica from hearing anything, as a process that is stopped; Continue ends that.
func (b *box) Pause() { b.resume = b.net.Hold() }

func (b *box) Continue() { b.resume() }

// Die makes the others take the replica for dead.
func (b *box) Die() { b.place.Kill(b.Owner()) }

// Abandon ends the replica at once.
func (b *box) Abandon() { b.Outbox.Abandon(b.place.Kill) }

// until waits until something is.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Hour); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

type put = func() ([]tables.Record, []error)

// durable is a delivery whose answers go through the outbox.
type durable struct{}

func (durable) Deliver(context.Context, channel.Block) (channel.Receipt, error) {
	return channel.Receipt{}, errors.New("it was to go through the outbox")
}

func (durable) Durable(channel.Block) *channel.Durable { return &channel.Durable{Sender: "fake"} }

type says struct{}

func (says) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: t.Context.RawBody})
}

// say runs a turn that answers with a text.
func say(ctx context.Context, o sayer, target, text string) (channel.Result, error) {
	return o.k.RunAssembled(ctx, channel.Meta{Channel: "fake"}, &channel.Assembled{
		Common: channel.Common{
			Trigger: channel.TriggerSchedule,
			Facts: channel.Facts{
				Channel: "fake", MessageID: text, Sender: channel.SenderFacts{ID: "system"},
				Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: target},
				Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:" + target, CreateIfMissing: true},
				Reply:        channel.ReplyPlanFacts{To: target}, Message: channel.MessageFacts{RawBody: text},
			},
		},
		Delivery: durable{},
	})
}

func busy(err error) error {
	return &channel.NotSentError{Err: err, Retryable: true}
}

// Replicas come and die, and half of the answers of the servers are lost: nothing is seen twice, and what goes to one target keeps its order.
func TestRepliesOutliveReplicas(t *testing.T) { // CL-02, CL-06, CH-56, CH-58, CH-192
	t.Parallel()
	for name, knows := range map[string]bool{"a platform that says nothing": false, "a platform that knows keys": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := ownertest.InMemory(t)
				var gaveUp atomic.Int64
				p := &platform{answer: func(out channel.Outbound) error {
					if out.Attempt == 1 && rand.N(3) == 0 { // the pause before a third attempt may be long
						return busy(errors.New("503"))
					}
					return nil
				}}
				var s channel.Sender = p
				if knows {
					s = knowing{p}
				}
				type replica struct {
					store *box
					sayer
				}
				open := func() replica {
					store := openBlocks(t, at, outbox.Options{})
					store.net.Put(func(do put) ([]tables.Record, []error) {
						switch rand.N(8) {
						case 0: // on the way there
							return ownertest.Lost(1, tables.ErrUnsure)
						case 1, 2: // on the way back
							records, errs := do()
							if owner.Moved(errs[0]) != nil {
								return records, errs
							}
							return ownertest.Lost(1, tables.ErrUnsure)
						}
						return do()
					})
					return replica{store, reportingSender(t, store, s, &gaveUp)}
				}
				var mu sync.Mutex
				replicas := []replica{open(), open(), open()}
				var took sync.Map // texts of turns that were not cut off
				const targets = 6
				each := longtest.Times(6, 40)
				var wg sync.WaitGroup
				for target := range targets {
					wg.Go(func() {
						for i := range each {
							mu.Lock()
							r := replicas[rand.N(len(replicas))]
							mu.Unlock()
							text := fmt.Sprintf("%d %03d", target, i)
							if res, err := say(t.Context(), r.sayer, fmt.Sprint(target), text); err == nil && res.Outcome != channel.OutcomeUnknown {
								took.Store(fmt.Sprintf("%d %s", target, text), true)
							}
						}
					})
				}
				for range longtest.Times(2, 10) {
					until(t, "something to be sent", func() bool { n := len(p.list()); return n > 0 })
					mu.Lock()
					dead := replicas[0]
					replicas = append(replicas[1:], open())
					mu.Unlock()
					dead.store.Abandon()
				}
				wg.Wait()
				until(t, "all to be sent", func() bool {
					n := 0
					for _, r := range replicas {
						n += r.Pending()["fake"]
					}
					return n == 0
				})
				seen := map[string]int{}
				last := map[string]string{}
				for _, one := range p.list() {
					seen[one]++
					target, _, _ := strings.Cut(one, " ")
					if seen[one] == 1 && one <= last[target] {
						t.Errorf("%q came behind %q", one, last[target])
					}
					last[target] = max(one, last[target])
				}
				unseen := 0
				took.Range(func(one, _ any) bool {
					if seen[one.(string)] == 0 {
						unseen++
					}
					return true
				})
				for one, n := range seen {
					if n > 1 && !knows {
						t.Errorf("%q was sent %d times", one, n)
					}
				}
				// Where nobody can say whether something was sent, what was on its way when its replica died is not sent again.
				// What cannot be stored ten times is given up, with a report.
				if most := map[bool]int{true: 0, false: 6 * longtest.Times(2, 10)}[knows] + int(gaveUp.Load()); unseen > most {
					t.Errorf("%d replies were not sent, expected %d at most", unseen, most)
				}
			})
		})
	}
}

// The servers are away when a reply was sent: the others learn of it when they are back, and nothing is sent twice.
func TestTheServersAreAwayWhenAReplyIsSent(t *testing.T) { // CL-10, CH-56
	t.Parallel()
	ownertest.EachShared(t, func(t *testing.T, at ownertest.Place) {
		store, other := openBlocks(t, at, outbox.Options{}), openBlocks(t, at, outbox.Options{})
		var away atomic.Bool
		store.net.Put(func(do put) ([]tables.Record, []error) {
			if away.Load() {
				return ownertest.Lost(1, tables.ErrAway)
			}
			return do()
		})
		p := &platform{answer: func(channel.Outbound) error { away.Store(true); return nil }}
		o, heir := senderOf(t, store, p), senderOf(t, other, p)
		if r, err := say(t.Context(), o, "c", "a"); err != nil || r.Outcome != channel.OutcomeVisible {
			t.Errorf("%v, %v", r.Outcome, err)
		}
		if o.Pending()["fake"] != 0 || store.Late() != 1 {
			t.Errorf("here %v wait, %d ends are to be stored", o.Pending(), store.Late())
		}
		until(t, "the others to know of it", func() bool { return heir.Pending()["fake"] == 1 })
		away.Store(false)
		until(t, "the others to learn of it", func() bool { return heir.Pending()["fake"] == 0 && store.Late() == 0 })
		if len(p.list()) != 1 {
			t.Errorf("sent was %q", p.list())
		}
	})
}

func TestTheOutboxOfReplicasIsBounded(t *testing.T) { // CH-56
	t.Parallel()
	ownertest.EachShared(t, func(t *testing.T, at ownertest.Place) {
		store := openBlocks(t, at, outbox.Options{Bytes: 64 << 10})
		other := openBlocks(t, at, outbox.Options{Bytes: 64 << 10})
		for _, s := range []*box{store, other} {
			if err := s.Start(func(channel.BlockNews) {}); err != nil {
				t.Fatal(err)
			}
		}
		block := channel.StoredBlock{At: time.Now(), Target: "c", Block: channel.Outbound{Channel: "fake", Block: channel.Block{Payload: channel.Payload{Text: strings.Repeat("x", 1000)}}}}
		var ids []uint64
		for {
			id, err := []*box{store, other}[len(ids)%2].Put(t.Context(), block)
			if errors.Is(err, channel.ErrOutboxFull) {
				break
			}
			if err != nil || len(ids) > 100 {
				t.Fatalf("after %d blocks: %v", len(ids), err)
			}
			ids = append(ids, id)
		}
		if len(ids) < 20 {
			t.Errorf("there is room for %d blocks", len(ids))
		}
		// Where there is no room for another one, they take their steps and go all the same.
		for attempt := 1; attempt <= 10; attempt++ {
			for i, id := range ids {
				if err := []*box{store, other}[i%2].Step(t.Context(), id, attempt%2 == 1, attempt); err != nil {
					t.Fatalf("step %d of block %d: %v", attempt, i, err)
				}
			}
		}
		for i, id := range ids {
			if err := []*box{store, other}[i%2].End(t.Context(), id, channel.Sent); err != nil {
				t.Errorf("the end of block %d: %v", i, err)
			}
		}
		huge := block
		huge.Block.Block.Text = string(random(3 << 20))
		if _, err := store.Put(t.Context(), huge); !errors.Is(err, channel.ErrOutboxFull) {
			t.Errorf("a block that no message has room for: %v", err)
		}
		if _, err := store.Put(t.Context(), block); err != nil {
			t.Errorf("where all have gone, there is no room: %v", err)
		}
	})
}

// random is what cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(rand.N(26))
	}
	return b
}

// With leases as servers have them: what a replica has left that was killed is sent by another one.
func TestWhatAKilledReplicaHadToSendIsSentByAnother(t *testing.T) { // CL-02, CL-07, CH-56
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := clustertest.Open(t)
		p := &platform{answer: func(channel.Outbound) error { return busy(errors.New("503")) }}
		up := &platform{}
		open := func() (*outbox.Outbox, *clustertest.Replica) {
			t.Helper()
			r := clustertest.Join(t, db)
			store, err := outbox.Open(t.Context(), r.Tables, outbox.Options{Owners: leased.Owners(r.Leases("outbox"))})
			if err != nil {
				t.Fatal(err)
			}
			return store, r
		}
		store, dying := open()
		other, _ := open()
		o, next := senderOf(t, store, p), senderOf(t, other, up)
		if r, err := say(t.Context(), o, "c", "a"); err != nil || r.Outcome != channel.OutcomeQueued {
			t.Fatalf("%v, %v", r.Outcome, err)
		}
		until(t, "the other replica to know of it", func() bool { return next.Pending()["fake"] == 1 })
		began := time.Now()
		dying.Kill()
		until(t, "the other replica to send it", func() bool { return next.Pending()["fake"] == 0 })
		if got := up.list(); len(got) != 1 || got[0] != "c a" {
			t.Errorf("sent was %q", got)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("sent %v after the replica was killed", took)
		}
	})
}
