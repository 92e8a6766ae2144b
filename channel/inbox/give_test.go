package inbox_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store/db"
)

// talk is a replica whose turns go on until the one of the event "stop" of their conversation has run where they do.
type talk struct {
	journal *inbox.Inbox
	door    *channel.Door
	stop    func()

	mu      sync.Mutex
	ran     []string // ids in their order, with their attempts
	stopped map[string]chan struct{}
}

func (k *talk) stopping(conversation string) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped[conversation] == nil {
		k.stopped[conversation] = make(chan struct{})
	}
	return k.stopped[conversation]
}

func (k *talk) begun() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ran)
}

func (k *talk) run(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
	id := e.Key.ID
	if e.Attempt > 0 {
		id += " again"
	}
	k.mu.Lock()
	k.ran = append(k.ran, id)
	k.mu.Unlock()
	m.Queued()
	if e.Key.ID == "stop" {
		close(k.stopping(e.Key.Conversation))
	} else if e.Attempt == 0 {
		select {
		case <-k.stopping(e.Key.Conversation):
		case <-ctx.Done():
			return channel.Result{}, context.Cause(ctx)
		}
	}
	return channel.Result{Outcome: channel.OutcomeVisible}, m.Claim.Commit(ctx, channel.OutcomeVisible)
}

func newTalk(t *testing.T, d *db.DB) *talk {
	t.Helper()
	k := &talk{stopped: map[string]chan struct{}{}}
	k.journal, _ = openReplica(t, d)
	k.door = channel.NewDoor(&channel.Kernel{Journal: k.journal}, channel.DoorOptions{
		Channel: "fake", Together: true, Grace: time.Millisecond, Run: k.run,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.door.Serve(ctx, nil) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(k.stop)
	return k
}

func (k *talk) accept(t *testing.T, conversation, id string) {
	t.Helper()
	isNew, err := k.door.Accept(t.Context(), channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: conversation, ID: id}, Raw: []byte("raw")})
	if err != nil || !isNew[0] {
		t.Fatal(isNew, err)
	}
}

// What is said in a conversation comes to the replica that answers there, so that it can be stopped, or told something, by whichever replica
// that comes.
func TestAConversationIsAtTheReplicaThatAnswersIt(t *testing.T) { // CL-08, CH-05
	t.Parallel()
	d := clustertest.Open(t)
	a, b := newTalk(t, d), newTalk(t, d)
	a.accept(t, "c", "first")
	heard := func(k *talk, n int) {
		t.Helper()
		until(t, "a replica to hear of the other's events", func() bool { return k.journal.Waiting()["fake"] == n })
	}
	until(t, "the first to run", func() bool { return len(a.begun()) == 1 })
	// That it is claimed is heard behind that it was accepted.
	until(t, "the other to hear that", func() bool { return b.journal.Others() == 1 })
	b.accept(t, "c", "second")
	until(t, "the second to come there", func() bool { return len(a.begun()) == 2 })
	b.accept(t, "d", "elsewhere")
	until(t, "another conversation to be answered by the other", func() bool { return len(b.begun()) == 1 })
	heard(a, 3)
	heard(b, 3)
	b.accept(t, "c", "stop")
	until(t, "all of it to end", func() bool { return a.journal.Waiting()["fake"] == 1 && b.journal.Waiting()["fake"] == 1 })
	if got := a.begun(); !slices.Equal(got, []string{"first", "second", "stop"}) {
		t.Errorf("the one that answers has %q", got)
	}
	if got := b.begun(); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("the other has %q", got)
	}
	if isNew, err := b.journal.Accept(t.Context(), channel.EventKey{Channel: "fake", Conversation: "c", ID: "second"}, []byte("raw")); isNew || err != nil {
		t.Errorf("what was given away is new: %t, %v", isNew, err)
	}
}
