package channel_test

import (
	"context"
	"testing"

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
