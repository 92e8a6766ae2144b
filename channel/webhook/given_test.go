package webhook

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// giver is a journal of one of several replicas that gives each event once to the one that come is of.
type giver struct {
	channel.Journal
	to   chan channel.JournalEntry // nil keeps all
	come chan channel.JournalEntry

	mu  sync.Mutex
	raw map[channel.EventKey][]byte // of what is here, and was not given yet
}

func (g *giver) Accept(ctx context.Context, k channel.EventKey, raw []byte) (bool, error) {
	isNew, err := g.Journal.Accept(ctx, k, raw)
	if isNew {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.raw[k] = raw
	}
	return isNew, err
}

// Give implements [channel.Giver].
func (g *giver) Give(_ context.Context, k channel.EventKey) bool {
	g.mu.Lock()
	raw, ok := g.raw[k]
	delete(g.raw, k)
	g.mu.Unlock()
	if ok = ok && g.to != nil; ok {
		g.to <- channel.JournalEntry{Key: k, Raw: raw, At: time.Now()}
	}
	return ok
}

// Inherit implements [channel.Heir].
func (g *giver) Inherit(ctx context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) {
		for {
			select {
			case e := <-g.come:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// givers are two replicas, the second of which gives what it takes to what it returns third. The first has what comes there.
func givers(t *testing.T, change func(*Settings)) (a, b *rig, to, back chan channel.JournalEntry) {
	t.Helper()
	journal, kept := channel.NewJournal(nil), openResults(t)
	to, back = make(chan channel.JournalEntry, 10), make(chan channel.JournalEntry, 10)
	one := func(to, come chan channel.JournalEntry) *rig {
		return newRig(t, func(s *Settings, k *channel.Kernel) {
			s.Results, s.Shared = kept, true
			change(s)
			k.Journal = &giver{Journal: journal, to: to, come: come, raw: map[channel.EventKey][]byte{}}
		})
	}
	return one(nil, to), one(to, back), to, back
}

// CH-182, CL-08: what is given to the replica that answers the conversation is answered with the reply from there, also when it is sent again.
func TestAMessageThatIsGivenAwayIsAnsweredWithItsReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, _, _ := givers(t, func(s *Settings) { s.Ack, s.Callback = AckResult, "" })
		for i, text := range []string{"x", "y"} {
			began := time.Now()
			first := b.post(fmt.Sprint("msg-", i), hello(text))
			if first.status != http.StatusOK || first.Duplicate || len(first.Replies) != 1 || first.Replies[0].Text != "echo "+text || time.Since(began) > time.Second {
				t.Errorf("after %v %+v", time.Since(began), first)
			}
			for _, r := range []*rig{a, b} {
				if again := r.post(fmt.Sprint("msg-", i), hello(text)); !again.Duplicate || again.Turn != first.Turn || fmt.Sprint(again.Replies) != fmt.Sprint(first.Replies) {
					t.Errorf("first %+v, then %+v", first, again)
				}
			}
		}
		if n, m := len(a.told()), len(b.told()); n != 2 || m != 0 {
			t.Errorf("the one that answers has run %d of two messages, the other %d", n, m)
		}
	})
}
