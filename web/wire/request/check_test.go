package request

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/run"
)

// SE-15
func TestABodyIsNotNestedWithoutEndAndItsNumbersHaveAnEnd(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct {
		body string
		want *run.Field
	}{
		"as deep as may be":      {nested(maxNesting), nil},
		"deeper":                 {nested(maxNesting + 1), &run.Field{Detail: "nested too deeply; expected at most 512 levels"}},
		"deeper, in objects":     {strings.Repeat(`{"a":`, maxNesting) + "{}" + strings.Repeat("}", maxNesting), &run.Field{Detail: "nested too deeply; expected at most 512 levels"}},
		"as long as may be":      {`{"n":` + strings.Repeat("9", maxNumber) + `}`, nil},
		"longer":                 {`{"n":[1,` + strings.Repeat("9", maxNumber+1) + `]}`, &run.Field{Pointer: "/n/1", Detail: "expected a number of at most 512 characters, found 513"}},
		"a long text is no such": {`{"n":"` + strings.Repeat("9", maxNumber+1) + `"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Check([]byte(tt.body))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
