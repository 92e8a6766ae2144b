package wire

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// claudeName finds the version in names as claude-3-5-haiku-20241022, claude-opus-4-6 and anthropic.claude-sonnet-4-20250514-v1:0.
var claudeName = regexp.MustCompile(`claude.*?(\d{1,2})(?:[-.](\d))?(?:\D|$)`)

// ClaudeVersion is 46 of Claude 4.6; 0 where a name has none, as those of other makers' models.
func ClaudeVersion(name string) int {
	found := claudeName.FindStringSubmatch(strings.ToLower(name))
	if found == nil {
		return 0
	}
	major, _ := strconv.Atoi(found[1]) // digits, or nothing
	minor, _ := strconv.Atoi(found[2])
	return 10*major + minor
}

// Thinking is how a Claude is asked to think.
type Thinking struct {
	Type    string `json:"type"` // "enabled", "adaptive" or "disabled"
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

// Thinking asks for thinking with a budget of tokens, or, where that is 0, for as long as the Claude wants.
func (f *Fallbacks) Thinking(o adapter.Reasoning, budget int) *Thinking {
	t := &Thinking{Type: "enabled", Budget: budget}
	if budget == 0 {
		t.Type, t.Display = "adaptive", "summarized" // not the default since 4.7
	}
	if o.Show != nil && !*o.Show {
		t.Display = "omitted"
	}
	if f.Uses(NoDisplay) {
		t.Display = ""
	}
	return t
}

// Fallbacks of requests for thinking.
const (
	NoThinking = "without thinking"
	NoDisplay  = "without the display of thinking"
)

// ThinkingFallbacks are the fallbacks of a request that asks for thinking as t says; t may be nil. A budget is refused with a history in
// which the assistant's turn does not begin with thinking (MO-04).
func ThinkingFallbacks(t *Thinking) []Fallback {
	return []Fallback{
		{
			Name: NoThinking, Applies: t != nil && t.Type == "enabled",
			Words: []string{"expected `thinking", "expected thinking", "must start with a thinking block"},
		},
		{Name: NoDisplay, Applies: t != nil && t.Display != "", Words: []string{"display"}},
	}
}

// MinBudget is the least budget of thinking that Claude takes.
const MinBudget = 1024

// budgets are the tokens of thinking for each effort. They leave room for an answer below a limit of 32000.
var budgets = map[string]int{"minimal": MinBudget, "low": 2048, "medium": 6144, "high": 12288, "xhigh": 20480, "max": 24576}

// ThinkingBudget is for how many tokens a Claude is to think that takes a budget.
func ThinkingBudget(r adapter.Reasoning) int {
	budget := budgets[r.Effort]
	if r.Budget != nil {
		budget = *r.Budget
	} else if budget == 0 {
		budget = budgets["medium"]
	}
	return max(budget, MinBudget)
}

// ThinkingEffort is how hard a Claude is to think that takes an effort; "" is its default.
func ThinkingEffort(r adapter.Reasoning) string {
	if r.Budget == nil {
		if r.Effort == "minimal" {
			return "low"
		}
		return r.Effort
	}
	for _, effort := range []string{"low", "medium", "high"} {
		if *r.Budget <= budgets[effort] {
			return effort
		}
	}
	return "xhigh"
}
