package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// AG-05: the type of an error decides.
func TestOnlyAContextThatDoesNotFitIsAnOverflow(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                  {nil, false},
		"typed":                     {&adapter.Error{Code: adapter.CodeInvalid, ContextLength: true}, true},
		"typed and wrapped":         {fmt.Errorf("step 3: %w", &adapter.Error{Code: adapter.CodeInvalid, ContextLength: true}), true},
		"413":                       {&adapter.Error{Code: adapter.CodeInvalid, Status: 413}, true},
		"typed, of another kind":    {&adapter.Error{Code: adapter.CodeProtocol, Message: "maximum context length exceeded"}, false},
		"429 that speaks of tokens": {&adapter.Error{Code: adapter.CodeRateLimited, Status: 429, Message: "token limit", ContextLength: true}, false},
		"401":                       {&adapter.Error{Code: adapter.CodeAuth, Status: 401, ContextLength: true}, false},
		"403":                       {&adapter.Error{Code: adapter.CodeAuth, Status: 403, ContextLength: true}, false},
		"timeout":                   {&adapter.Error{Code: adapter.CodeTimeout, ContextLength: true}, false},
		"a text without a type":     {errors.New("This model's context length is 8192"), false},
		"something else":            {errors.New("no such model"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overflows(test.err); got != test.want {
				t.Errorf("overflows(%v) = %v, want %v", test.err, got, test.want)
			}
		})
	}
}
