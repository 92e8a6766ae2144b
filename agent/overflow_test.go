package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// AG-05: the type of an error decides, and its text only where it has none.
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
		"phrase context length":     {errors.New("This model's context length is 8192"), true},
		"phrase with words between": {errors.New("context is of length 9000"), true},
		"phrase too far apart":      {errors.New("context that is far too long has a length"), false},
		"phrase context window":     {errors.New("exceeds the CONTEXT_WINDOW"), true},
		"phrase maximum context":    {errors.New("maximum of context reached"), true},
		"phrase token limit":        {errors.New("Token limit exceeded"), true},
		"phrase prompt too long":    {errors.New("prompt is too long: 210000"), true},
		"code":                      {errors.New(`{"code":"context_length_exceeded"}`), true},
		"rate limit":                {errors.New("rate limit: token limit reached"), false},
		"rate in an underscore":     {errors.New("rate_limit_exceeded: tokens limit"), false},
		"quota":                     {errors.New("token limit of your quota"), false},
		"tokens per minute":         {errors.New("token limit 30000 per minute"), false},
		"a word that holds rate":    {errors.New("cannot generate: context length"), true},
		"status in the text":        {errors.New("429: token limit"), false},
		"canceled":                  {fmt.Errorf("context length: %w", context.Canceled), false},
		"deadline":                  {fmt.Errorf("context length: %w", context.DeadlineExceeded), false},
		"a timeout of the network":  {fmt.Errorf("token limit: %w", os.ErrDeadlineExceeded), false},
		"something else":            {errors.New("no such model"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overflows(test.err); got != test.want {
				t.Errorf("overflows(%v) = %v, want %v", test.err, got, test.want)
			}
		})
	}
}
