package telegram

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/faketelegram"
)

// DC-05: the agent is told the id of the quoted message, in groups and in direct conversations, and no id where nothing is quoted.
func TestTheAgentIsToldTheIDOfTheQuotedMessage(t *testing.T) {
	for name, chat := range map[string]faketelegram.Chat{"direct": private, "group": group} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.serve(t)
				first := r.say(faketelegram.Message{Chat: chat, From: ann, Text: "@ling_bot the whole story"})
				r.say(faketelegram.Message{Chat: chat, From: ann, Text: "@ling_bot true?", ReplyTo: &first})
				var got []string
				for _, c := range r.told() {
					got = append(got, c.ReplyToID)
				}
				if d := cmp.Diff([]string{"", strconv.Itoa(first.ID)}, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}
