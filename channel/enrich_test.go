package channel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

// enricher is a recorder with a task beside each turn.
type enricher struct {
	rows
	groups []channel.SessionGroup
	task   func(context.Context) error
}

func (e *enricher) Enrich(row channel.Row) func(context.Context) error {
	e.groups = append(e.groups, row.Group)
	return e.task
}

// DM-04: a recorder is told the group of a session: the conversation, or what the plan says.
func TestTheGroupOfASessionIsRecorded(t *testing.T) {
	own := channel.SessionGroup{Kind: channel.Group, ID: "all", Label: "Everybody"}
	for name, test := range map[string]struct {
		conversation channel.ConversationFacts
		options      channel.RecordOptions
		want         channel.SessionGroup
	}{
		"of two people":    {conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42", Label: "Ann"}},
		"the conversation": {conversation: channel.ConversationFacts{Kind: channel.Group, ID: "g1", Label: "Team"}, want: channel.SessionGroup{Kind: channel.Group, ID: "g1", Label: "Team"}},
		"the plan's":       {conversation: channel.ConversationFacts{Kind: channel.Group, ID: "g1"}, options: channel.RecordOptions{Group: &own}, want: own},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			rec := &enricher{}
			s.kernel.Recorder, s.options, s.facts.Conversation = rec, test.options, test.conversation
			if test.conversation.Kind == channel.Group {
				s.facts.Access = channel.AccessFacts{Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}}
			}
			if _, err := s.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]channel.SessionGroup{test.want}, rec.groups); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// DM-04: what a recorder finds out in the background does not hold the turn up; the kernel waits for it in the end, and the plan may.
func TestARecorderHasATaskBesideTheTurn(t *testing.T) {
	for name, test := range map[string]struct {
		task func(context.Context) error
		want error // nil is none; errTest any
		took time.Duration
	}{
		"well":     {func(context.Context) error { time.Sleep(3 * time.Second); return nil }, nil, 3 * time.Second},
		"failed":   {func(context.Context) error { return errTest }, errTest, 0},
		"panicked": {func(context.Context) error { panic("canary") }, errTest, 0},
		"too slow": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, errTest, 10 * time.Second},
		"none":     {nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene()
				s.kernel.Recorder = &enricher{task: test.task}
				var wait func(context.Context) error
				s.options.Track = func(w func(context.Context) error) { wait = w }
				dispatched := time.Duration(-1)
				began := time.Now()
				s.do = func(name string) error {
					if name == "dispatch" {
						dispatched = time.Since(began)
					}
					return nil
				}
				if _, err := s.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != test.took || dispatched > 0 {
					t.Errorf("it took %v, and was dispatched after %v", took, dispatched)
				}
				if (wait != nil) != (test.task != nil) {
					t.Fatal("the plan was told of no task, or of one that there is not")
				}
				if wait == nil {
					return
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := wait(t.Context()); (err == nil) != (test.want == nil) {
					t.Errorf("the task ended with %v", err)
				}
				_ = wait(ended) // whichever is first: it does not hang
			})
		})
	}
	// A row that could not be written has nothing beside it.
	s := newScene()
	rec := &enricher{rows: rows{record: errTest}, task: func(context.Context) error { return nil }}
	s.kernel.Recorder = rec
	s.options.OnError = func(context.Context, error) {}
	if _, err := s.run(t.Context()); err != nil || rec.groups != nil {
		t.Errorf("%v, %v", err, rec.groups)
	}
}

// DM-04: a kernel without a platform has a delivery that sends nothing.
func TestNoDeliverySendsNothing(t *testing.T) {
	var d channel.Delivery = channel.NoDelivery{}
	if r, err := d.Deliver(t.Context(), channel.Block{Payload: channel.Payload{Text: "hello"}}); err != nil || r.State != channel.Suppressed {
		t.Errorf("%v, %v", r, err)
	}
	k := channel.Kernel{Agent: agent(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "an answer"})
	})}
	r, err := k.RunAssembled(t.Context(), channel.Meta{Channel: "observer"}, &channel.Assembled{Common: channel.Common{Facts: facts("1", "hi")}, Delivery: channel.NoDelivery{}})
	if err != nil || r.Outcome != channel.OutcomeSilent || !r.Dispatched {
		t.Errorf("%v, %v", r.Outcome, err)
	}
}
