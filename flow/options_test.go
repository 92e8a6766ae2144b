package flow

import "testing"

const withOptions = `
model: [coze:7, openai:gpt]
options:
  seed: 7
  reasoning: {effort: low, budget: 0}
bots:
  a: {options: {temperature: 0.5, extra_body: {top_k: 4}}}
  b: {model: "openai:gpt", options: {verbosity: low}}
`

// MO-22: a wrong option is said with its place, an unknown one with what was meant.
func TestWrongOptionsOfWorkflowsHaveTheirPlaces(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"options: {reasoning: {effort: lots, bugdet: 3}, top_k: 1}\nbots: {a: {options: [x]}}\n", "w.yaml:1:31: options.reasoning.effort: expected one of \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\"\n" +
			"w.yaml:1:37: options.reasoning.bugdet: unknown option; did you mean budget? expected one of budget, effort, show\n" +
			"w.yaml:1:49: options.top_k: unknown option; did you mean top_p? expected one of frequency_penalty, max_tokens, parallel_tool_calls, presence_penalty, reasoning, seed, service_tier, stop, temperature, tool_choice, top_p, verbosity\n" +
			"w.yaml:2:21: options: expected an object, got an array"},
		{withOptions, "w.yaml:7:35: options.extra_body: this option works only in the server's configuration and in workflow files"},
	} {
		_, err := ParseSpec("w.yaml", []byte(row.text), nil) // as of a request
		if err == nil || err.Error() != row.want {
			t.Errorf("%v\nwanted\n%s", err, row.want)
		}
	}
}

// MO-22: options of a bot go before those of the run, and those before the workflow's.
func TestOptionsOfWorkflowsReachTheModel(t *testing.T) {
	m := answers(nil)
	runs(t, parse(t, withOptions), m, `{}`, nil, func(t *testing.T, _ done) {
		for _, r := range m.asked {
			of := r.Options
			if *of.Seed != 7 || of.Reasoning.Effort != "low" || *of.Reasoning.Budget != 0 || (of.Verbosity == "low") == (string(of.ExtraBody["top_k"]) == "4") {
				t.Errorf("%+v", of)
			}
		}
	})
}
