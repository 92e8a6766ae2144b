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

// Adaptive is thinking for as long as a Claude wants, and how hard it is to think; "" is its default.
func (a *Asking) Adaptive(o adapter.Reasoning) (t *Thinking, effort string) {
	if effort = ThinkingEffort(o); a.Knows(NoEffort) {
		effort = ""
	}
	return a.shown(&Thinking{Type: "adaptive", Display: "summarized"}, o), effort // not the default since 4.7
}

// Budgeted is thinking by a budget.
func (a *Asking) Budgeted(o adapter.Reasoning, budget int) *Thinking {
	return a.shown(&Thinking{Type: "enabled", Budget: budget}, o)
}

func (a *Asking) shown(t *Thinking, o adapter.Reasoning) *Thinking {
	if o.Show != nil && !*o.Show {
		t.Display = "omitted"
	}
	if a.Knows(NoDisplay) {
		t.Display = ""
	}
	return t
}

// Lessons that refusals can teach of how a Claude thinks.
const (
	NoThinking   = "thinking"
	OnlyAdaptive = "adaptive"
	OnlyBudget   = "budget"
	NoBudgetNow  = "budget, of a history" // which the assistant has gone on with without thinking
	NoDisplay    = "display"
	NoEffort     = "effort"
)

// ThinkingLessons are the lessons that a refusal teaches where this was sent.
func ThinkingLessons(said string, t *Thinking, effort string) []Lesson {
	var sent Thinking
	if t != nil {
		sent = *t
	}
	return []Lesson{
		{
			What: NoBudgetNow, Sent: sent.Type == "enabled", Once: true,
			Says: "expected `?thinking|must start with a thinking block|tool_choice forces",
		},
		{What: NoEffort, Sent: effort != "", Says: "effort"},
		{What: NoDisplay, Sent: sent.Display != "", Says: "display"},
		{What: OnlyAdaptive, Sent: sent.Type == "enabled", Says: "adaptive"},
		{What: OnlyBudget, Sent: sent.Type == "adaptive", Says: "adaptive"},
		{
			What: NoThinking, Sent: sent.Type != "" && strings.Contains(said, "thinking"),
			Says: "(not|n't) support|not permitted|unknown|unrecognized",
		},
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
