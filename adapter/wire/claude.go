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
