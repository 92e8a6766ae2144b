package channel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// CH-109, CH-91: what is never to happen by section 18.4, by whichever way a message comes to the window.
func TestHiddenWordsDoNotComeToTheWindowWhoeverDropsTheMessage(t *testing.T) {
	const canary = "canary-4711"
	dropped := channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention}
	for _, by := range []string{"a preflight's history hint", "a preflight's admission", "resolve", "the gate"} {
		for hidden, supplemental := range map[string]channel.SupplementalFacts{
			"forward, denied":  {Forwarded: &channel.Forwarded{From: "Eve", SenderAllowed: channel.No}},
			"forward, unknown": {Forwarded: &channel.Forwarded{From: "Eve"}},
			"quote": {Quote: &channel.Quote{
				Body: canary, Sender: canary, SenderAllowed: channel.No, Media: []channel.MediaFact{{Path: canary, Kind: channel.MediaImage}},
				Chain: []channel.Quote{{Body: canary, SenderAllowed: channel.No}},
			}},
			"thread": {Thread: &channel.Thread{StarterBody: canary, HistoryBody: canary, Label: canary, SenderAllowed: channel.No}},
			"none":   {Forwarded: &channel.Forwarded{From: "Bob", SenderAllowed: channel.Yes}},
		} {
			t.Run(by+"/"+hidden, func(t *testing.T) {
				s := newScene()
				s.group(false)
				s.facts.Access.Group.RequireMention = true
				s.facts.Access.Visibility = channel.VisibleAllowlist
				s.facts.Supplemental = supplemental
				isForward := strings.HasPrefix(hidden, "forward")
				if isForward {
					s.facts.Message = channel.MessageFacts{RawBody: canary}
					s.in.RawText, s.in.TextForAgent = canary, canary
				}
				s.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{})
				access := s.facts.Access
				s.pre = channel.Preflight{
					Access: &access, Message: s.facts.Message, Supplemental: supplemental,
					History: channel.HistoryHint{Sender: s.facts.Sender, Conversation: s.facts.Conversation},
				}
				switch by {
				case "a preflight's history hint":
					s.pre.Admission, s.pre.History.RecordOnDrop = dropped, true
				case "a preflight's admission":
					s.pre.Admission = dropped
					s.pre.Admission.RecordHistory = true
				case "resolve":
					s.plan = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonChannelLocal, Detail: "later", RecordHistory: true}
				}
				r, err := s.run(t.Context())
				if err != nil || r.Admission.Kind != channel.Drop {
					t.Fatalf("got %+v, %v", r.Admission, err)
				}
				key := channel.WindowKey{Channel: "fake", Conversation: s.facts.Conversation.ID}
				waiting := s.kernel.Window.Snapshot(t.Context(), key, 0).Entries
				if strings.Contains(fmt.Sprintf("%+v", waiting), canary) {
					t.Errorf("hidden words wait in the window: %+v", waiting)
				}
				if want := map[bool]int{true: 0, false: 1}[isForward]; len(waiting) != want {
					t.Errorf("%d messages wait, expected %d", len(waiting), want)
				}
			})
		}
	}
}
