package nats_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
	"github.com/lingserve/lingserve/channel/journaltest"
	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	clustertest.Role(nil)
	longtest.Checks(10, 100)
	longtest.Parallel(6) // they wait for replicas that die, and for servers
	longtest.Main(m)
}

func conformance(t *testing.T, c *cluster.Cluster) {
	alive, clock := new(nats.Alive), new(journaltest.Clock)
	clock.Sleep(1e18) // long after 1970
	open := func(t testing.TB) *nats.Journal {
		j, err := nats.OpenWith(t.Context(), c, alive, clock.Now, nats.JournalOptions{Bytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		return j
	}
	journaltest.Run(t, journaltest.Store{
		Clock: clock, Keeps: true,
		Open: func(t testing.TB) channel.Journal {
			j := open(t)
			if err := j.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			j.Abandon(alive) // which may have heard of what was there
			return open(t)
		},
		Close: func(j channel.Journal) { _ = j.(*nats.Journal).Close() },
		Reopen: func(t testing.TB, j channel.Journal) channel.Journal {
			j.(*nats.Journal).Abandon(alive)
			return open(t)
		},
	})
}

func TestJournal(t *testing.T) { // CL-02
	t.Parallel()
	conformance(t, clustertest.One(t).Open(t))
}

func TestTheJournalIsBounded(t *testing.T) { // CH-70
	t.Parallel()
	c := clustertest.One(t).Open(t)
	open := func(o nats.JournalOptions) *nats.Journal {
		t.Helper()
		o.Bytes = 4 << 20
		j, err := nats.OpenJournal(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		return j
	}
	j, other := open(nats.JournalOptions{Pending: 10}), open(nats.JournalOptions{Pending: 10})
	for i := range 10 {
		if isNew, err := j.Accept(t.Context(), key(i), []byte("raw")); err != nil || !isNew {
			t.Fatal(i, isNew, err)
		}
	}
	until(t, "the other replica to hear of it", func() bool { return other.Waiting()["fake"] == 10 })
	for _, j := range []*nats.Journal{j, other} {
		if _, err := j.Accept(t.Context(), key(10), nil); !errors.Is(err, channel.ErrJournalFull) {
			t.Errorf("Accept of one too many is %v, expected %v", err, channel.ErrJournalFull)
		}
		if isNew, err := j.Accept(t.Context(), key(3), nil); err != nil || isNew {
			t.Errorf("one that is known is %v, %v", isNew, err)
		}
	}
	claim, _, err := j.Claim(t.Context(), key(0))
	if err != nil || claim.Commit(t.Context(), channel.OutcomeVisible) != nil {
		t.Fatal(err)
	}
	if isNew, err := j.Accept(t.Context(), key(10), nil); err != nil || !isNew {
		t.Errorf("where one has settled, Accept is %v, %v", isNew, err)
	}
	bytes := open(nats.JournalOptions{PendingBytes: 100_000})
	if _, err := bytes.Accept(t.Context(), key(20), make([]byte, 120_000)); !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of more bytes than may wait is %v", err)
	}
	if _, err := j.Accept(t.Context(), key(21), make([]byte, 5<<20)); err == nil || errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept of an event that is too large is %v", err)
	}
	// The stream itself is full.
	big := open(nats.JournalOptions{})
	err = nil
	for i := 100; err == nil && i < 200; i++ {
		raw := make([]byte, 200_000)
		_, _ = rand.Read(raw)
		_, err = big.Accept(t.Context(), key(i), raw)
		time.Sleep(nats.LookEvery / 10)
	}
	if !errors.Is(err, channel.ErrJournalFull) {
		t.Errorf("Accept in a stream that is full is %v, expected %v", err, channel.ErrJournalFull)
	}
	claim, _, err = big.Claim(t.Context(), key(100))
	if err != nil || claim.Commit(t.Context(), channel.OutcomeVisible) != nil {
		t.Errorf("nothing can be settled in a stream that is full: %v", err)
	}
}

func TestALargeEventComesBackAsItWas(t *testing.T) { // CH-71
	t.Parallel()
	j, _ := replica(t, clustertest.One(t))
	want := []byte(strings.Repeat("a large event ", 250_000))
	if isNew, err := j.Accept(t.Context(), key(0), want); err != nil || !isNew {
		t.Fatal(isNew, err)
	}
	n := 0
	for e, err := range j.Pending(t.Context()) {
		if n++; err != nil || !bytes.Equal(e.Raw, want) {
			t.Errorf("%d bytes came back of %d, %v", len(e.Raw), len(want), err)
		}
	}
	if n != 1 {
		t.Errorf("%d events are pending", n)
	}
}

func TestNothingIsLeftOfWhatIsErased(t *testing.T) { // CH-76
	s := clustertest.One(t)
	j, c := replica(t, s)
	k := key(0)
	k.ID = "canary"
	if _, err := j.Accept(t.Context(), k, []byte("canary")); err != nil {
		t.Fatal(err)
	}
	claim, _, err := j.Claim(t.Context(), k)
	if err != nil || claim == nil {
		t.Fatal(err)
	}
	if err := j.Erase(t.Context(), func(channel.EventKey) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := claim.Commit(t.Context(), channel.OutcomeVisible); err != nil {
		t.Error(err)
	}
	stream, err := c.JetStream().Stream(t.Context(), c.Name("INBOX"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil || strings.Contains(fmt.Sprint(m.Header, string(m.Data)), "canary") {
			t.Errorf("message %d has it still: %v", seq, err)
		}
	}
}

func BenchmarkJournals(b *testing.B) { // CL-12
	raw := journaltest.Text(300)
	stores := map[string]func(*testing.B) channel.Journal{
		"file": func(b *testing.B) channel.Journal {
			j, err := file.OpenJournal(b.TempDir(), file.JournalOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = j.Close() })
			return j
		},
		"nats": func(b *testing.B) channel.Journal {
			j, _ := replica(b, clustertest.One(b))
			return j
		},
		"nats-three": func(b *testing.B) channel.Journal {
			j, _ := replica(b, clustertest.Three(b))
			return j
		},
	}
	for _, name := range []string{"file", "nats", "nats-three"} {
		for _, doors := range []int{1, 16} {
			b.Run(fmt.Sprint(name, "/doors=", doors), func(b *testing.B) {
				j := stores[name](b)
				b.SetParallelism(max(1, doors/runtime.GOMAXPROCS(0)))
				var n atomic.Int64
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						k := key(int(n.Add(1)))
						isNew, err := j.Accept(b.Context(), k, raw)
						if err != nil || !isNew {
							b.Error(isNew, err)
							return
						}
						c, _, err := j.Claim(b.Context(), k)
						if err != nil || c.Commit(b.Context(), channel.OutcomeVisible) != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
