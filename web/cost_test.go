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

// MO-41: at a limit of cost a run ends with its own code, in the words of each protocol, and before a model is asked.
func TestARunEndsAtItsLimitOfCost(t *testing.T) {
	for name, limits := range map[string]adapter.BudgetOptions{
		"run": {Run: 5_000_000}, "session": {Session: 1_200_000}, "day": {Day: 1_200_000},
	} {
		t.Run(name, func(t *testing.T) {
			a := newCostBench(t, limits)
			last := 0
			for range 30 { // each reserves 1.024 dollars and more, and costs a hundredth
				resp := a.say("hello", "")
				if last = resp.StatusCode; last != 200 {
					if p := readProblem(t, resp); last != 402 || p.Code != adapter.CodeBudget || !strings.Contains(p.Detail, "cost limit") {
						t.Errorf("%d %+v", last, p)
					}
					break
				}
				readDocument(t, resp)
			}
			if (name == "run") != (last == 200) {
				t.Errorf("the last answer is %d", last)
			}
			if name == "run" {
				return
			}
			asked := len(a.talk.requests())
			if _, data := named(t, a.say("hello", "", asEvents)); !strings.Contains(data["error"], `"code":"budget_exceeded"`) {
				t.Errorf("%s", data)
			}
			if len(a.talk.requests()) != asked {
				t.Error("the model was asked all the same")
			}
		})
	}
}
