package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// stopRig is a kernel with a platform, and a log that an operator reads.
type stopRig struct {
	k      *channel.Kernel
	p      platform
	log    bytes.Buffer
	policy channel.Policy // of the one place
	change func(*channel.Facts)
	n      int
}

func newStopRig() *stopRig {
	r := &stopRig{policy: channel.Policy{
		DM: channel.PolicyOpen, Group: channel.PolicyOpen, RouteAllowed: true, RequireMention: true, AllowBots: channel.BotsNone, ErrorNotice: true,
		Sources: map[string]string{
			"limits.sender_rate": "channels.fake.limits.sender_rate", "limits.chat_rate": "channels.fake.limits.chat_rate",
		},
	}}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	r.k = &channel.Kernel{Agent: says("an answer"), Settings: r, Observer: channel.NewSlogObserver(log), Log: log}
	return r
}

// Policy implements [channel.Settings].
func (r *stopRig) Policy(channel.PolicyQuery) channel.Policy { return r.policy }

// Ingest and Resolve implement [channel.Adapter].
func (r *stopRig) Ingest(_ context.Context, text string) (*channel.Input, error) {
	r.n++
	return &channel.Input{ID: fmt.Sprint("m", r.n), RawText: text, ConversationID: "42", SenderID: "42"}, nil
}

func (r *stopRig) Resolve(_ context.Context, in *channel.Input, _ channel.EventClass, _ channel.Preflight) (channel.Plan, error) {
	f := facts(in.ID, in.RawText)
	f.Access = r.policy.Access(channel.Identity{IDs: []string{"42"}, Paired: channel.No}, channel.MentionFacts{CanDetect: true})
	if r.change != nil {
		r.change(&f)
	}
	return &channel.Assembled{Common: channel.Common{Facts: f}, Delivery: &r.p}, nil
}

// Challenge implements [channel.Challenger].
func (r *stopRig) Challenge(ctx context.Context, _ channel.SenderFacts) error {
	_, err := r.p.Deliver(ctx, channel.Block{Payload: channel.Payload{Text: "Your code is X."}})
	return err
}

func (r *stopRig) say(text string) { r.with(text, channel.Meta{}) }

func (r *stopRig) with(text string, m channel.Meta) {
	m.Channel = "fake"
	_, _ = channel.Run(context.Background(), r.k, channel.Event[string]{Meta: m, Raw: text, Adapter: r})
	time.Sleep(time.Second)
}

// told are the texts on the platform, without the answers of the agent.
func (r *stopRig) told() (texts []string) {
	for _, text := range r.p.said() {
		if text != "an answer" {
			texts = append(texts, text)
		}
	}
	return texts
}

// failingRecorder keeps nothing.
type failingRecorder struct{}

func (failingRecorder) Record(context.Context, channel.Row) error    { return errTest }
func (failingRecorder) LastRoute(context.Context, channel.Row) error { return errTest }

// crashed is a journal with an event whose answer may have been seen before the process ended.
type crashed struct {
	channel.Journal
	channel.Ledger
	key channel.EventKey
}

func (c crashed) Pending(context.Context) iter.Seq2[channel.JournalEntry, error] {
	return func(yield func(channel.JournalEntry, error) bool) { yield(channel.JournalEntry{Key: c.key}, nil) }
}

// DC-01, DC-02, DC-04: whatever stops a message, either the person or the operator is told, once.
func TestEveryStopIsToldToThePersonOrTheOperatorOnce(t *testing.T) {
	group := func(f *channel.Facts) {
		f.Conversation, f.Access.Mentions.WasMentioned = channel.ConversationFacts{Kind: channel.Group, ID: "42"}, true
	}
	bot := func(f *channel.Facts) { f.Sender.IsBot = true }
	fails := func(err error) func(*stopRig) {
		return func(r *stopRig) {
			r.k.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, err
			})
		}
	}
	for name, tt := range map[string]struct {
		arrange  func(*stopRig)
		text     string // that is said; "" is "hi"
		times    int    // how often; 0 is three times
		person   string // what the person reads once; "" is nothing
		operator string // what a line of the log has, which comes once; "" is not looked at
	}{
		"the sender's rate": {
			arrange: func(r *stopRig) { r.policy.Limits.SenderRate = channel.Rate{PerMinute: 2, Burst: 1} }, times: 5,
			person: "you can send 2 messages per minute. Please send it again in ", operator: "setting=channels.fake.limits.sender_rate",
		},
		"the conversation's rate": {
			arrange: func(r *stopRig) { r.policy.Limits.ChatRate = channel.Rate{PerMinute: 1} }, times: 5,
			person: "this conversation can have 1 message per minute", operator: "setting=channels.fake.limits.chat_rate",
		},
		"a command without a role": {text: ",help", person: "You may not use commands here.", operator: "reason=command_not_allowed"},
		"not paired": {
			arrange: func(r *stopRig) { r.policy.DM = channel.PolicyPairing }, person: "Your code is X.",
		},
		"pairings that cannot be read": {
			arrange: func(r *stopRig) {
				r.policy.DM, r.change = channel.PolicyPairing, func(f *channel.Facts) { f.Access.DM.Paired = channel.Unknown }
			},
			person: "The server cannot check your access at the moment", operator: "reason=pairing_unavailable",
		},
		"no policy":          {arrange: func(r *stopRig) { r.policy.DM = "" }, operator: "reason=no_policy"},
		"disabled":           {arrange: func(r *stopRig) { r.policy.DM = channel.PolicyDisabled }, operator: "reason=dm_disabled"},
		"nobody on the list": {arrange: func(r *stopRig) { r.policy.DM = channel.PolicyAllowlist }, operator: "reason=dm_allowlist_empty"},
		"not on the list": {
			arrange:  func(r *stopRig) { r.policy.DM, r.policy.DMAllowFrom = channel.PolicyAllowlist, []string{"7"} },
			operator: "reason=dm_not_allowed",
		},
		"a group that is disabled": {
			arrange: func(r *stopRig) { r.policy.Group, r.change = channel.PolicyDisabled, group }, operator: "reason=group_disabled",
		},
		"a group without anybody on its list": {
			arrange: func(r *stopRig) { r.policy.Group, r.change = channel.PolicyAllowlist, group }, operator: "reason=group_allowlist_empty",
		},
		"a group on whose list the sender is not": {
			arrange: func(r *stopRig) {
				r.policy.Group, r.policy.GroupAllowFrom, r.change = channel.PolicyAllowlist, []string{"7"}, group
			},
			operator: "reason=group_not_allowed",
		},
		"a group that is left out": {
			arrange: func(r *stopRig) { r.policy.RouteAllowed, r.change = false, group }, operator: "reason=route_not_allowed",
		},
		"a bot": {arrange: func(r *stopRig) { r.change = bot }, operator: "reason=bot_not_allowed"},
		"two bots that answer each other": {
			arrange: func(r *stopRig) { r.policy.AllowBots, r.change = channel.BotsAll, bot }, times: 12, operator: "reason=bot_loop",
		},
		"a bot that is too fast": {
			arrange: func(r *stopRig) {
				r.policy.AllowBots, r.change, r.policy.Limits.SenderRate = channel.BotsAll, bot, channel.Rate{PerMinute: 2, Burst: 1}
			},
			operator: "reason=rate_limited",
		},
		"no agent for the place": {
			arrange: func(r *stopRig) {
				r.change = func(f *channel.Facts) { f.Route.AgentID = "" }
				r.k.Routes = noRoutes{}
			},
			person: "No agent answers in this conversation.", operator: "reason=no_route",
		},
		"a session that is busy":        {arrange: fails(turn.ErrBusy), person: "an earlier one is still being answered"},
		"a queue that is full":          {arrange: fails(turn.ErrQueueFull), person: "The server is busy at the moment"},
		"a failed model":                {arrange: fails(errTest), times: 1, person: "Something went wrong.", operator: "level=ERROR"},
		"a model that is canceled late": {arrange: fails(context.DeadlineExceeded), times: 1, person: "Something went wrong.", operator: "level=ERROR"},
		"an agent that panics": {
			arrange: func(r *stopRig) {
				r.k.Agent = agent(func(context.Context, *channel.Turn) (channel.DispatchResult, error) { panic("broken") })
			},
			times: 1, person: "Something went wrong.", operator: "turn stage failed",
		},
		"a session that cannot be recorded": {
			arrange: func(r *stopRig) { r.k.Recorder = failingRecorder{} }, times: 1, person: "Something went wrong.", operator: "level=ERROR",
		},
		"an answer that the platform refuses": {
			arrange: func(r *stopRig) { r.p.err = &channel.NotSentError{Err: errTest} }, times: 1, operator: "level=ERROR",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newStopRig()
				if tt.arrange != nil {
					tt.arrange(r)
				}
				times, text := max(tt.times, 1), tt.text
				if tt.times == 0 {
					times = 3
				}
				if text == "" {
					text = "hi"
				}
				for range times {
					r.say(text)
				}
				told := r.told()
				switch {
				case r.p.err != nil: // it can be told nothing
				case tt.person == "" && len(told) > 0:
					t.Errorf("the person is told %q", told)
				case tt.person != "" && (len(told) != 1 || !strings.Contains(told[0], tt.person)):
					t.Errorf("the person is told %q, expected once: %s", told, tt.person)
				}
				if n := strings.Count(r.log.String(), tt.operator); tt.operator != "" && n != 1 {
					t.Errorf("the operator is told %d times:\n%s", n, &r.log)
				}
			})
		})
	}
}

type noRoutes struct{}

func (noRoutes) Route(channel.RouteQuery) (string, bool) { return "", false }

// DC-01: a crash that may have cut off an answer is told to the conversation, once.
func TestACrashIsToldToTheConversationOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStopRig()
		ledger := newLedger()
		key := channel.EventKey{Channel: "fake", Conversation: "42", ID: "1"}
		if err := ledger.Sending(t.Context(), key.String()); err != nil {
			t.Fatal(err)
		}
		journal := channel.NewJournal(nil)
		if _, err := journal.Accept(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		r.k.Journal = crashed{journal, ledger, key}
		door := channel.NewDoor(r.k, channel.DoorOptions{
			Channel: "fake",
			Run: func(context.Context, channel.JournalEntry, channel.Meta) (channel.Result, error) {
				return channel.Result{}, errors.New("an answer that may have been seen is made again")
			},
			Incomplete: func(ctx context.Context, _ channel.JournalEntry) error {
				_, err := r.p.Deliver(ctx, channel.Block{Payload: channel.Payload{Text: channel.IncompleteNotice}})
				return err
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = door.Serve(ctx, nil) }()
		time.Sleep(time.Hour)
		if got := r.told(); len(got) != 1 || got[0] != channel.IncompleteNotice {
			t.Errorf("got %q", got)
		}
	})
}

// DC-02: who is told of a rate and waits as long as the notice says is answered; a later spell is told again.
func TestWhoWaitsAsTheNoticeSaysIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStopRig()
		r.policy.Limits.SenderRate = channel.Rate{PerMinute: 2, Burst: 1}
		for range 2 {
			before := len(r.told())
			r.say("one")
			r.say("two")
			told := r.told()
			if len(told) != before+1 || !strings.Contains(told[before], "in 29 seconds.") {
				t.Fatalf("got %q", told)
			}
			time.Sleep(2 * time.Minute)
		}
		if n := len(r.p.said()) - len(r.told()); n != 2 {
			t.Errorf("%d answers", n)
		}
	})
}

// DC-04: /start is answered by the greeting of the place and by no agent, where the place has one.
func TestStartIsGreeted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStopRig()
		r.policy.Greeting = "Welcome!"
		r.say("/start")
		r.say("/start from-a-link")
		r.policy.Greeting = ""
		r.say("/start")
		if got := strings.Join(r.p.said(), " "); got != "Welcome! Welcome! an answer" {
			t.Errorf("got %q", got)
		}
	})
}

// DC-04: what has the form of a command and is none reaches the agent, whoever writes it.
func TestATextThatIsNoCommandOfTheAgentsIsAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStopRig()
		r.policy.Commands = func(text string, _ bool) bool { return strings.HasPrefix(text, ",help") }
		r.say(",weather Paris")
		r.say(",help")
		if got := r.p.said(); len(got) != 2 || got[0] != "an answer" || !strings.HasPrefix(got[1], "You may not use commands here.") {
			t.Errorf("got %q", got)
		}
	})
}
