package kernel_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// stopRig is a kernel with settings, and the log that an operator reads.
type stopRig struct {
	*rig
	settings *openSettings
	log      bytes.Buffer
	change   func(*channel.Facts)
	n        int
}

func newStops() *stopRig {
	s := &stopRig{rig: newRig(), settings: &openSettings{policy: openPolicy()}}
	s.settings.policy.Sources = map[string]string{"limits.sender_rate": "channels.fake.limits.sender_rate", "limits.chat_rate": "channels.fake.limits.chat_rate"}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.kernel.Settings, s.kernel.Observer, s.kernel.Log = s.settings, channel.NewSlogObserver(log), log
	return s
}

// send sends a message to the agent, and returns the result of its turn.
func (s *stopRig) send(text string) channel.Result {
	s.n++
	s.in = &channel.Input{ID: fmt.Sprint("n", s.n), RawText: text, ConversationID: "42", SenderID: "42"}
	s.facts = facts(s.in.ID, text)
	s.facts.Access = s.settings.policy.Access(channel.SenderFacts{ID: "42", Paired: channel.No}, channel.MentionFacts{CanDetect: true})
	if s.change != nil {
		s.change(&s.facts)
	}
	r, _ := s.run(context.Background())
	time.Sleep(time.Second)
	return r
}

// notices are the texts that were sent, without the answers of the agent.
func (s *stopRig) notices() (texts []string) {
	for _, text := range s.platform.requests() {
		if text != "send hello" {
			texts = append(texts, text)
		}
	}
	return texts
}

// CH-60, CH-63, CH-82, CH-103: if a message is stopped, its sender gets one notice if it passed the gates, and the log names the setting.
func TestAStoppedMessageHasOneNoticeOrIsInTheLog(t *testing.T) {
	group := func(f *channel.Facts) {
		f.Conversation, f.Access.Mentions.WasMentioned = channel.ConversationFacts{Kind: channel.Group, ID: "42"}, true
	}
	bot := func(f *channel.Facts) { f.Sender.IsBot = true }
	policy := func(set func(*channel.Policy)) func(*stopRig) {
		return func(s *stopRig) { set(&s.settings.policy) }
	}
	fails := func(err error) func(*stopRig) { return func(s *stopRig) { s.failAt("dispatch", err) } }
	for name, test := range map[string]struct {
		set      func(*stopRig)
		text     string
		times    int    // 0: 3
		person   string // "": no notice
		operator string // in the log; "": not checked
	}{
		"the sender's rate": {
			policy(func(p *channel.Policy) { p.SenderRate = 2 }), "", 5,
			"you can send 2 per minute. Please send it again in ", "setting=channels.fake.limits.sender_rate",
		},
		"the conversation's rate": {
			policy(func(p *channel.Policy) { p.ChatRate = 1 }), "", 5,
			"this conversation can have 1 per minute", "setting=channels.fake.limits.chat_rate",
		},
		"a command without a role": {func(*stopRig) {}, ",help", 0, "You may not use commands here.", "reason=command_not_allowed"},
		"pairings cannot be read": {func(s *stopRig) {
			s.settings.policy.DM, s.change = channel.PolicyPairing, func(f *channel.Facts) { f.Access.DM.Paired = channel.Unknown }
		}, "", 0, "The server cannot check your access at the moment", "reason=pairing_unavailable"},
		"no policy":          {policy(func(p *channel.Policy) { p.DM = "" }), "", 0, "", "reason=no_policy"},
		"disabled":           {policy(func(p *channel.Policy) { p.DM = channel.PolicyDisabled }), "", 0, "", "reason=dm_disabled"},
		"an empty list":      {policy(func(p *channel.Policy) { p.DM = channel.PolicyAllowlist }), "", 0, "", "reason=dm_not_allowed"},
		"not on the list":    {policy(func(p *channel.Policy) { p.DM, p.DMAllowFrom = channel.PolicyAllowlist, []string{"7"} }), "", 0, "", "reason=dm_not_allowed"},
		"a disabled group":   {func(s *stopRig) { s.settings.policy.Group, s.change = channel.PolicyDisabled, group }, "", 0, "", "reason=group_disabled"},
		"a group not listed": {func(s *stopRig) { s.settings.policy.RouteAllowed, s.change = false, group }, "", 0, "", "reason=route_not_allowed"},
		"a bot":              {func(s *stopRig) { s.change = bot }, "", 0, "", "reason=bot_not_allowed"},
		"two bots":           {func(s *stopRig) { s.settings.policy.AllowBots, s.change = channel.BotsAll, bot }, "", 10, "", "reason=bot_loop"},
		"no agent here": {func(s *stopRig) {
			s.change = func(f *channel.Facts) { f.Route.AgentID = "" }
		}, "", 0, "No agent answers in this conversation.", "reason=no_route"},
		"not supported": {func(s *stopRig) {
			s.admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonUnsupported}
		}, "", 0, "This kind of message cannot be answered here.", ""},
		"too large": {func(s *stopRig) {
			s.admission = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonTooLarge}
		}, "", 0, "This message is too large.", ""},
		"a busy session":  {fails(turn.ErrBusy), "", 0, "an earlier one is still being answered", ""},
		"a full queue":    {fails(turn.ErrQueueFull), "", 0, "The server is busy at the moment", ""},
		"the server ends": {fails(turn.ErrDraining), "", 0, "The server is restarting", ""},
		"a failed model":  {fails(errTest), "", 1, "Something went wrong.", "level=ERROR"},
		"no session":      {func(s *stopRig) { s.kernel.Recorder = &rows{err: errTest} }, "", 1, "Something went wrong.", "level=ERROR"},
		"stopped, in no group": {func(s *stopRig) {
			s.change = func(f *channel.Facts) {
				group(f)
				f.Access.Mentions.WasMentioned = false
				f.Access.Group.RequireMention = false
			}
			s.failAt("dispatch", turn.ErrBusy)
		}, "", 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStops()
				test.set(s)
				for range max(test.times, 1) + 2*boolInt(test.times == 0) {
					s.send(strings.TrimSpace(test.text + " hi"))
				}
				if told := s.notices(); test.person == "" && len(told) > 0 || test.person != "" && (len(told) != 1 || !strings.Contains(told[0], test.person)) {
					t.Errorf("the person is told %q, expected: %s", told, test.person)
				}
				if !strings.Contains(s.log.String(), test.operator) {
					t.Errorf("the log does not have %s:\n%s", test.operator, &s.log)
				}
			})
		})
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A sender who waits as the notice says is answered; later there is a new notice. CountRate counts for a caller that answers before the turn.
func TestASenderWhoWaitsAsTheNoticeSaysIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStops()
		s.settings.policy.SenderRate = 2
		for range 2 {
			before := len(s.notices())
			s.send("one")
			s.send("two")
			if told := s.notices(); len(told) != before+1 || !strings.Contains(told[before], "in 30 s.") {
				t.Fatalf("got %q", told)
			}
			time.Sleep(2 * time.Minute)
		}
		f := facts("x", "hi")
		f.Channel = "fake"
		if a, b := s.kernel.CountRate(&f), s.kernel.CountRate(&f); a != 0 || b <= 0 || b > 30*time.Second {
			t.Errorf("got the waits %v and %v", a, b)
		}
		f.Access = channel.AccessFacts{}
		if wait := s.kernel.CountRate(&f); wait != 0 {
			t.Errorf("a denied message has to wait for %v", wait)
		}
		m := s.meta()
		m.Counted = true
		s.facts.MessageID = "y"
		if r, err := s.kernel.RunAssembled(t.Context(), m, s.turn()); err != nil || r.Outcome != channel.OutcomeVisible {
			t.Errorf("got %+v, %v: a message that was counted is counted again", r.Admission, err)
		}
	})
}

// CH-81
func TestBotsDoNotAnswerEachOtherWithoutEnd(t *testing.T) {
	bot := func(f *channel.Facts) { f.Sender.IsBot = true }
	person := func(s *stopRig, i int) {
		if i%5 == 4 {
			s.change = nil
			s.send("a person")
			s.change = bot
		}
	}
	for name, test := range map[string]struct {
		between func(*stopRig, int) // before each event
		events  int
		blocked []int // events that are not answered
	}{
		"8 turns in a row":                   {nil, 10, []int{8, 9}},
		"8 turns in a row, a person between": {person, 13, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStops()
				s.settings.policy.AllowBots = channel.BotsAll
				s.change = bot
				var blocked []int
				for i := range test.events {
					if test.between != nil {
						test.between(s, i)
					}
					if r := s.send("hi"); r.Admission.Reason == channel.ReasonBotLoop {
						blocked = append(blocked, i)
					}
					time.Sleep(time.Minute)
				}
				if !slices.Equal(blocked, test.blocked) {
					t.Errorf("not answered are %v", blocked)
				}
			})
		})
	}
}

// /start is answered by the greeting of the place; a text that only looks like a command is a message.
func TestGreetingsAndCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStops()
		s.settings.policy.Greeting = "Welcome!"
		s.send("/start")
		s.send("/start from-a-link")
		s.settings.policy.Greeting = ""
		s.send("/start")
		s.settings.policy.Commands = func(text string, _ bool) bool { return strings.HasPrefix(text, ",help") }
		s.send(",weather Paris")
		s.send(",help")
		got := s.platform.requests()
		if strings.Join(got[:4], "|") != "send Welcome!|send Welcome!|send hello|send hello" || len(got) != 5 || !strings.Contains(got[4], "You may not use commands here.") {
			t.Errorf("got %q", got)
		}
		if s.kernel.HasCommand("fake", "", ",weather") || !s.kernel.HasCommand("fake", "", ",help") {
			t.Error("got other commands than the agents have")
		}
	})
}

// decider is an agent that takes presses.
type decider struct{ pressed []channel.Press }

func (*decider) Dispatch(context.Context, *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, errTest // a press is no message
}

func (d *decider) Decide(_ context.Context, _ *channel.Turn, p channel.Press) channel.Pressed {
	d.pressed = append(d.pressed, p)
	return channel.PressApproved
}

// CH-105: a press passes the gates of the command that it stands for, is no message, and takes nothing from the window.
func TestAPressPassesTheGatesOfItsCommand(t *testing.T) {
	operators := func(allowed bool) channel.CommandFacts {
		return channel.CommandFacts{Authorizers: []channel.Authorizer{{Name: "operators", Role: tool.Operator, Configured: true, Allowed: allowed}}}
	}
	off := operators(true)
	off.Mode = channel.CommandsOff
	for name, test := range map[string]struct {
		commands channel.CommandFacts
		policy   channel.PolicyKind
		observe  bool
		shown    []channel.Pressed
		pressed  int
		outcome  channel.Outcome
	}{
		"an operator":          {operators(true), channel.PolicyOpen, false, []channel.Pressed{channel.PressApproved}, 1, channel.OutcomeSilent},
		"not on the list":      {operators(false), channel.PolicyOpen, false, []channel.Pressed{channel.PressRefused}, 0, channel.OutcomeBlocked},
		"may not talk here":    {operators(false), channel.PolicyDisabled, false, []channel.Pressed{channel.PressRefused}, 0, channel.OutcomeBlocked},
		"commands are off":     {off, channel.PolicyOpen, false, []channel.Pressed{channel.PressRefused}, 0, channel.OutcomeSilent},
		"the turn is observed": {operators(true), channel.PolicyOpen, true, nil, 0, channel.OutcomeObserved},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newRig(), &decider{}
			s.kernel.Agent, s.kernel.Window = d, channel.NewWindow(nil, channel.WindowOptions{})
			key := channel.WindowKey{Channel: "fake", Conversation: "42"}
			_ = s.kernel.Window.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, MessageID: "m", Message: channel.MessageFacts{RawBody: "before"}})
			s.group(false)
			s.facts.Access.Group.Policy, s.facts.Access.Group.RequireMention, s.facts.Access.Commands = test.policy, true, test.commands
			s.class = channel.EventClass{Kind: channel.EventInteraction, CanStartAgentTurn: true}
			var shown []channel.Pressed
			a := s.adapter()
			a.Resolve = func(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (*kernel.Turn, error) {
				turn := s.kernel.PressTurn(s.facts, channel.Press{ID: "q", Approve: true}, func(_ context.Context, p channel.Pressed) { shown = append(shown, p) })
				if test.observe {
					turn.Admission = channel.Admission{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver}
				}
				return turn, nil
			}
			a.Finalize = func(_ context.Context, r channel.Result) error {
				if p, ok := channel.RefusedPress(r); ok {
					shown = append(shown, p)
				}
				return nil
			}
			r, err := kernel.Run(t.Context(), s.kernel, s.meta(), "raw", a)
			if pressed := len(d.pressed); err != nil || !slices.Equal(shown, test.shown) || pressed != test.pressed || r.Outcome != test.outcome {
				t.Errorf("got %s, %v, shown %v, pressed %v", r.Outcome, err, shown, d.pressed)
			}
			if n := len(s.kernel.Window.Snapshot(t.Context(), key, 0).Entries); n != 1 {
				t.Errorf("the window has %d messages", n)
			}
		})
	}
}

// CH-82
func TestMessagesAtTheSameTimeStayWithinTheBurst(t *testing.T) {
	s := newStops()
	s.settings.policy.SenderRate = 1
	for round := range 500 {
		var may atomic.Int32
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range 4 {
			f := facts("x", "hi")
			f.Channel, f.Sender.ID, f.Conversation.ID = "fake", fmt.Sprint(round), fmt.Sprint(round, i)
			all.Go(func() {
				<-begin
				if s.kernel.CountRate(&f) == 0 {
					may.Add(1)
				}
			})
		}
		close(begin)
		if all.Wait(); may.Load() != 1 {
			t.Fatalf("round %d: %d messages may come, expected 1", round, may.Load())
		}
	}
}
