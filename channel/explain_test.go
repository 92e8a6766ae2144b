package channel_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
)

// CH-110
func TestExplainSaysWhatEveryGateSays(t *testing.T) {
	s := newScene()
	s.facts.Sender.IsBot = true // the gate bot blocks, and the others are asked all the same
	e, err := channel.Explain(t.Context(), s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: s})
	if err != nil {
		t.Fatal(err)
	}
	var gates []string
	for _, v := range e.Verdicts {
		gates = append(gates, v.Gate)
	}
	if diff := cmp.Diff([]string{"self", "bot", "route", "sender", "command", "mention", "loop", "rate"}, gates); diff != "" {
		t.Error(diff)
	}
	if e.Admission.Reason != channel.ReasonBotNotAllowed || e.SessionKey != "fake:42" || e.Reply.To != "42" || e.Route.AgentID != "assistant" {
		t.Errorf("got %+v", e)
	}
}

// drily notes whether hooks are called dry.
type drily struct {
	*challenger
	dry []bool
}

func (d *drily) Ingest(ctx context.Context, raw string) (*channel.Input, error) {
	d.dry = append(d.dry, channel.DryRun(ctx))
	return d.challenger.Ingest(ctx, raw)
}

// CH-111: Run of the same event right after Explain has the same admission and reason, and Explain leaves no trace.
func TestExplainHasNoEffectAndAgreesWithRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drily{challenger: &challenger{scene: newScene()}}
		s := d.scene
		s.kernel.Limits = channel.Limits{SenderRate: channel.Rate{PerMinute: 1, Burst: rapid.IntRange(1, 3).Draw(t, "burst")}, LoopTurns: 2}
		s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
		policies := rapid.SampledFrom([]channel.PolicyKind{"", channel.PolicyOpen, channel.PolicyDisabled, channel.PolicyAllowlist, channel.PolicyPairing})
		admissions := rapid.SampledFrom([]channel.Admission{
			{},
			{},
			{},
			{Kind: channel.ObserveOnly, Reason: channel.ReasonObserver},
			{Kind: channel.Drop, Reason: channel.ReasonUnsupported, RecordHistory: true},
			{Kind: channel.Handled, Reason: channel.ReasonHandledLocally},
		})
		for i := range rapid.IntRange(1, 6).Draw(t, "events") {
			id := strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "id"))
			sender := strconv.Itoa(rapid.IntRange(1, 2).Draw(t, "sender"))
			s.in = &channel.Input{ID: id, ConversationID: "c", SenderID: sender, RawText: "text"}
			if rapid.IntRange(0, 9).Draw(t, "nothing") == 0 {
				s.in = nil
			}
			s.class.CanStartAgentTurn = rapid.IntRange(0, 9).Draw(t, "turn") > 0
			s.pre = channel.Preflight{Admission: admissions.Draw(t, "preflight")}
			s.plan = admissions.Draw(t, "plan")
			s.facts = facts(id, rapid.SampledFrom([]string{"hi", ",help"}).Draw(t, "text"))
			s.facts.Sender = channel.SenderFacts{ID: sender, IsBot: rapid.Bool().Draw(t, "bot")}
			s.facts.Conversation = channel.ConversationFacts{Kind: rapid.SampledFrom([]channel.ChatType{channel.Direct, channel.Group}).Draw(t, "kind"), ID: "c"}
			s.facts.Access = channel.AccessFacts{
				DM: channel.DMFacts{Policy: policies.Draw(t, "dm"), Sender: rapid.Bool().Draw(t, "listed"), Paired: rapid.SampledFrom([]channel.Tri{channel.Unknown, channel.No, channel.Yes}).Draw(t, "paired")},
				Group: channel.GroupFacts{
					Policy: policies.Draw(t, "group"), RouteAllowed: rapid.Bool().Draw(t, "route"), Sender: rapid.Bool().Draw(t, "listed there"),
					RequireMention: rapid.Bool().Draw(t, "mention"), Unmentioned: rapid.SampledFrom([]channel.UnmentionedMode{"", channel.UnmentionedDrop, channel.UnmentionedObserve}).Draw(t, "unmentioned"),
				},
				Mentions:  channel.MentionFacts{CanDetect: true, WasMentioned: rapid.Bool().Draw(t, "mentioned")},
				AllowBots: rapid.SampledFrom([]channel.AllowBots{"", channel.BotsAll, channel.BotsMentions}).Draw(t, "bots"),
			}
			traces, acked, queued, finals, told := len(s.traces), len(s.acked), s.queued, len(s.final), len(d.told)
			said, kept := len(s.platform.said()), s.window()
			e, err := channel.Explain(context.Background(), s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: d})
			if err != nil {
				t.Fatal(err)
			}
			if traces != len(s.traces) || acked != len(s.acked) || queued != s.queued || finals != len(s.final) || told != len(d.told) ||
				said != len(s.platform.said()) || kept != s.window() || !d.dry[len(d.dry)-1] {
				t.Fatalf("event %d: Explain had an effect", i)
			}
			r, err := channel.Run(context.Background(), s.kernel, channel.Event[string]{Meta: s.meta(), Adapter: d})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.Admission, r.Admission); diff != "" {
				t.Fatalf("event %d (-Explain +Run):\n%s", i, diff)
			}
			if e.Class != r.Class || e.SessionKey != r.SessionKey || d.dry[len(d.dry)-1] {
				t.Fatalf("event %d: Explain says %+v, Run %+v", i, e, r)
			}
		}
	})
}

// window is how many messages wait.
func (s *scene) window() int {
	return len(s.kernel.Window.Snapshot(context.Background(), channel.WindowKey{Channel: "fake", Conversation: "c"}, 0).Entries)
}
