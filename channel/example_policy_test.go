package channel_test

import (
	"fmt"

	"github.com/lingserve/lingserve/channel"
)

// The owner may talk in private and everybody in groups, where a message has to mention the agent.
func ExampleTree() {
	settings, err := channel.NewTree(channel.Configuration{
		{Level: channel.OfChannel, Channel: "telegram"}: {
			DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"42"},
			GroupPolicy: channel.PolicyOpen, Agent: "assistant",
		},
		{Level: channel.OfGroup, Channel: "telegram", Conversation: "-100"}: {RequireMention: new(false)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range []string{"-100", "-200"} {
		p := settings.Policy(channel.PolicyQuery{Channel: "telegram", Kind: channel.Group, Conversation: group})
		fmt.Println(group, p.Group, p.RequireMention, p.Sources["groups.require_mention"])
	}
	// Output:
	// -100 open false channels.telegram.groups.-100.require_mention
	// -200 open true default:groups.require_mention
}

// A decision says which setting made it.
func ExampleEvaluate() {
	sender := channel.SenderFacts{ID: "43", Name: "Mallory"}
	policy := channel.Policy{
		DM: channel.PolicyAllowlist, DMAllowFrom: []string{"42"},
		Sources: map[string]string{"dm.allow_from": "channels.telegram.dm.allow_from"},
	}
	d := channel.Evaluate(channel.Facts{
		Sender:       sender,
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "43"},
		Message:      channel.MessageFacts{RawBody: "hello"},
		Access:       policy.Access(sender, channel.MentionFacts{}),
	})
	fmt.Println(d.Admission.Kind, d.Admission.Reason, d.Setting)
	// Output:
	// drop dm_not_allowed channels.telegram.dm.allow_from
}
