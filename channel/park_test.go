package channel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// parkRig is a door whose senders have to be paired.
type parkRig struct {
	*stopRig
	pairs *channel.Pairs
	door  *channel.Door
	stop  func()
}

// Resolve implements [channel.Adapter].
func (r *parkRig) Resolve(ctx context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	f := facts(in.ID, in.RawText)
	paired, _ := channel.PairedFact(ctx, r.pairs, channel.PolicyPairing, "fake", "", "42")
	f.Access = r.policy.Access(channel.Identity{IDs: []string{"42"}, Paired: paired}, channel.MentionFacts{})
	return &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: &r.p}, nil
}

// Challenge implements [channel.Challenger].
func (r *parkRig) Challenge(ctx context.Context, s channel.SenderFacts) error {
	code, tell, err := r.pairs.Request(ctx, "fake", "", s)
	if tell {
		_, err = r.p.Deliver(ctx, channel.Block{Payload: channel.Payload{Text: "code " + code}})
	}
	return err
}

// serve opens a door, as a process does that begins.
func (r *parkRig) serve() {
	k := &channel.Kernel{Agent: r.k.Agent, Settings: r.k.Settings, Pairing: r.pairs, Journal: r.k.Journal}
	r.door = channel.NewDoor(k, channel.DoorOptions{Channel: "fake", Parks: true, Run: func(ctx context.Context, e channel.JournalEntry, m channel.Meta) (channel.Result, error) {
		return channel.Run(ctx, k, channel.Event[string]{Meta: m, Raw: string(e.Raw), Adapter: r})
	}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.door.Serve(ctx, nil) }()
	r.stop = func() {
		stop()
		<-ended
	}
	synctest.Wait()
}

func (r *parkRig) accept(t *testing.T, id string) {
	t.Helper()
	if _, err := r.door.Accept(t.Context(), channel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: "42", ID: id}, Raw: []byte("say " + id)}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// DC-13: the first message of a sender is answered when the sender was paired, also after a restart, and the sender is told of it once.
func TestTheFirstMessageIsAnsweredWhenItsSenderIsPaired(t *testing.T) {
	for name, tt := range map[string]struct {
		restart, approve bool
		wait             time.Duration
		want             []string
		pending          int
	}{
		"approved":                           {approve: true, want: []string{"code", "You are paired. You can talk here now.", "to say first"}},
		"approved while the server was away": {approve: true, restart: true, want: []string{"code", "You are paired. You can talk here now.", "to say first"}},
		"not approved yet":                   {want: []string{"code"}, pending: 1},
		"not approved yet, and a restart":    {restart: true, want: []string{"code"}, pending: 1},
		"not approved within the hour":       {wait: 2 * time.Hour, want: []string{"code"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &parkRig{stopRig: newStopRig(), pairs: channel.NewPairs(nil)}
				r.policy.DM, r.k.Pairing, r.k.Journal = channel.PolicyPairing, r.pairs, channel.NewJournal(nil)
				r.k.Agent = agent(func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
					return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "to " + t.Context.BodyForAgent})
				})
				r.serve()
				r.accept(t, "first")
				r.accept(t, "second")
				if tt.restart {
					r.stop()
				}
				asked, err := r.pairs.List(t.Context())
				if err != nil || len(asked) != 1 {
					t.Fatal(asked, err)
				}
				if tt.approve {
					if _, err := r.pairs.Approve(t.Context(), "", asked[0].Code); err != nil {
						t.Fatal(err)
					}
				}
				if tt.restart {
					r.serve()
				}
				time.Sleep(max(tt.wait, 10*time.Second))
				r.stop()
				got := r.p.said()
				got[0], _, _ = strings.Cut(got[0], " ")
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				pending := 0
				for range r.k.Journal.Pending(t.Context()) {
					pending++
				}
				if pending != tt.pending {
					t.Errorf("%d events wait", pending)
				}
			})
		})
	}
}
