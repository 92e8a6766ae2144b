package prompt

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// DW-01: a comparison with what is missing, or of two types, does not hold, and its doubt names it.
func TestAComparisonThatCannotBeMadeDoesNotHold(t *testing.T) {
	vars := map[string]any{
		"tier": "hot", "n": 7, "f": 1.5, "zero": 0, "yes": true, "null": nil,
		"lead": map[string]any{"score": 80}, "list": []any{1, "a"}, "other": []any{1},
	}
	for _, c := range []struct {
		condition string
		holds     bool
		doubt     string
	}{
		{"n < 50", true, ""},
		{"lead.nope < 50", false, `"lead.nope < 50": lead.nope is missing`},
		{"lead.nope > 50", false, `"lead.nope > 50": lead.nope is missing`},
		{"lead.nope.deeper <= 0", false, `"lead.nope.deeper <= 0": lead.nope.deeper is missing`},
		{"nowhere == zero", false, `"nowhere == zero": nowhere is missing`},
		{"nowhere != 5", false, `"nowhere != 5": nowhere is missing`},
		{"null >= 0", false, `"null >= 0": null is missing`},
		{"tier < 5", false, `"tier < 5": text cannot be compared with a number`},
		{"5 > tier", false, `"5 > tier": a number cannot be compared with text`},
		{"tier != 5", false, `"tier != 5": text cannot be compared with a number`},
		{"yes == 1", false, `"yes == 1": true or false cannot be compared with a number`},
		{"yes < yes", false, `"yes < yes": true and false have no order`},
		{"list == other", false, `"list == other": lists and objects cannot be compared`},
		{"list == tier", false, `"list == tier": a list cannot be compared with text`},
		{"nowhere + 1 < 5", false, `"nowhere + 1 < 5": nowhere is missing`},
		{"nowhere|length < 5", false, `"nowhere|length < 5": nowhere is missing`},
		{`nowhere|default:"" == ""`, true, ""},
		{"tier|length < 5", true, ""},
		{"tier|length * 2 == 6", true, ""},
		{"10 - (tier|length) * 2 > n", false, ""},
		{"1 in nowhere", false, `"1 in nowhere": nowhere is missing`},
		{"1 in n", false, `"1 in n": a number cannot be in a number`},
		// The opposite of what cannot be said cannot be said either.
		{"not lead.nope < 50", false, `"lead.nope < 50": lead.nope is missing`},
		{"not (tier < 5)", false, `"tier < 5": text cannot be compared with a number`},
		{"tier not in n", false, `"tier not in n": text cannot be in a number`},
		// The other side decides where it can.
		{"yes or tier < 5", true, ""},
		{"tier < 5 or yes", true, `"tier < 5": text cannot be compared with a number`},
		{"nowhere and nowhere < 5", false, ""},
		{"n == 7 and (nowhere < 5 or f > 1)", true, `"nowhere < 5": nowhere is missing`},
		// What is there or not is asked by its name.
		{"nowhere", false, ""},
		{"not nowhere", true, ""},
		{"lead.score", true, ""},
		// What can be compared is.
		{"f > 1 and f < 2", true, ""},
		{"f <> 2", true, ""},
		{`tier == "hot"`, true, ""},
		{`tier < "hotter"`, true, ""},
		{"yes == true", true, ""},
		{"n - 2 == 5", true, ""},
		{"-1 < zero", true, ""},
		{"(n + 1) * 2 == 16", true, ""},
		{"(n < 8) == yes", true, ""},
		{`"a" in list`, true, ""},
		{`"b" not in list`, true, ""},
		{`"score" in lead`, true, ""},
		{"list.0 == 1", true, ""},
		// "not" takes the comparison, and "and" goes before "or".
		{"not n == 7", false, ""},
		{"not n == 8", true, ""},
		{"zero and zero or yes", true, ""},
		{"yes or zero and zero", true, ""},
		{"!(yes && zero) || zero", true, ""},
	} {
		t.Run(c.condition, func(t *testing.T) {
			tpl, err := Parse("when", "{% if "+c.condition+" %}1{% endif %}")
			if err != nil {
				t.Fatal(err)
			}
			holds, doubt, err := tpl.Test(nil, vars)
			if err != nil || holds != c.holds || doubt != c.doubt {
				t.Errorf("got %v, %q, %v; want %v, %q", holds, doubt, err, c.holds, c.doubt)
			}
		})
	}
}

// DW-01, DW-14: a condition that says nothing is refused, and the error says what was meant.
func TestAConditionThatMakesNoSenseIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{% if a = "x" %}{% endif %}`:           `t:1:9: unexpected "="; to compare, write "=="`,
		`{% if a %}{% elif b = 1 %}{% endif %}`: `t:1:21: unexpected "="; to compare, write "=="`,
		`{% if %}{% endif %}`:                   `t:1:4: if needs a condition`,
		`{% if a %}{% elif %}{% endif %}`:       `t:1:14: elif needs a condition`,
		`{% if 1 < a < 3 %}{% endif %}`:         `t:1:9: a comparison has two sides; join two comparisons with and`,
		`{% if a < %}{% endif %}`:               `t:1:9: "<" needs a value on both sides`,
		`{% if and a %}{% endif %}`:             `t:1:7: "and" needs a condition on both sides`,
		`{% if a b %}{% endif %}`:               `t:1:9: unexpected "b" behind a value`,
		`{% if (a or b c) %}{% endif %}`:        `t:1:15: unexpected "c" behind a value`,
		`{% if a, b %}{% endif %}`:              `t:1:8: unexpected ","`,
	} {
		tpl, err := Parse("t", text)
		if err == nil {
			_, err = tpl.Render(nil, map[string]any{"a": 1, "list": []any{1}, "other": []any{1}})
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: got %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
