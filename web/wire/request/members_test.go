package request_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

func TestEarlierMessagesAndInstructionsAreBounded(t *testing.T) {
	talk := []adapter.Message{{Role: adapter.User, Content: "x"}, {Role: adapter.Assistant, Content: "y"}}
	for want, r := range map[string]run.Request{
		"":                            {Instructions: "x", History: talk},
		"instructions of at most":     {Instructions: strings.Repeat("x", request.MaxInstructions+1)},
		"at most 1000 earlier":        {History: slices.Repeat(talk, request.MaxHistory/2+1)},
		"earlier messages of at most": {History: []adapter.Message{{Role: adapter.User, Content: strings.Repeat("x", request.MaxHistoryBytes+1)}}},
		`found "tool"`:                {History: []adapter.Message{{Role: adapter.ToolRole, Content: "x"}}},
	} {
		if f := request.CheckConversation(&r); (f == nil) != (want == "") || f != nil && !strings.Contains(f.Detail, want) {
			t.Errorf("%q: %v", want, f)
		}
	}
}
