package web

import (
	"context"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
)

// newCostBench is a server whose models cost a thousandth of a dollar for each token.
func newCostBench(t *testing.T, limits adapter.BudgetOptions) *agentBench {
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		limits.Spent = func(ctx context.Context, session string) (int64, error) {
			tp, err := tape.Lookup(ctx, o.Tapes, o.Workspace, session)
			if err != nil {
				return 0, nil // it has none yet
			}
			used, err := agent.Usage(ctx, tp)
			return used.Cost, err
		}
		o.Models.Prices = func(string, string) (adapter.Price, bool) {
			return adapter.Price{Input: 1000, Cached: 1000, CacheWrite: 1000, Output: 1000, Reasoning: 1000}, true
		}
		o.Models.Budget = adapter.NewBudget(limits)
		ao.Models = o.Models
	})
	a.serve()
	return a
}

// MO-13, MO-40: what an answer cost is in the events, the document, the session and OpenAI's usage, and adds up.
func TestWhatAnswersCostIsToldEverywhere(t *testing.T) {
	a := newCostBench(t, adapter.BudgetOptions{})
	if d := readDocument(t, a.say("use weather", "")); d.Usage["assistant"].Cost != 20_000 || d.Usage["assistant"].TotalTokens != 20 {
		t.Errorf("%+v", d.Usage)
	}
	if _, data := named(t, a.say("hello", "", asEvents)); !strings.Contains(data["usage"], `"cost":10000`) {
		t.Errorf("no event tells of the cost: %s", data)
	}
	s := get[session](a.bench, sessionPath("s"))
	if s.Usage == nil || s.Usage.Cost != 30_000 || s.Usage.TotalTokens != 30 {
		t.Errorf("%+v", s.Usage)
	}
	if got := a.streams(chatBody("assistant", "hello", streaming)).usage; got != `{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10,"cost":0.01}` {
		t.Error(got)
	}
}
