package platform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

func refusal(e platform.Effect, after time.Duration) error {
	return fmt.Errorf("test: %w", &platform.Refusal{Kind: &platform.Kind{Text: "refused", Effect: e}, Code: "status 1", RetryAfter: after})
}

// CH-53, CH-58: what was certainly not accepted is repeated, what may have been is not.
func TestCallIsRepeatedIfThatHelpsAndDoesNoHarm(t *testing.T) {
	unreached, cut := &platform.Unreached{Err: io.EOF}, io.ErrUnexpectedEOF
	for name, tt := range map[string]struct {
		harmless bool
		brief    bool
		errs     []error // of the attempts; the last one stays
		attempts int
		notSent  *channel.NotSentError // nil: it is not proven
	}{
		"works":                    {errs: []error{nil}, attempts: 1},
		"refused":                  {errs: []error{refusal(platform.Refused, 0)}, attempts: 1, notSent: &channel.NotSentError{}},
		"refused for good":         {errs: []error{refusal(platform.Permanent, 0)}, attempts: 1, notSent: &channel.NotSentError{Permanent: true}},
		"connection refused":       {errs: []error{unreached, nil}, attempts: 2},
		"no connection at all":     {errs: []error{unreached}, attempts: 4, notSent: &channel.NotSentError{Retryable: true}},
		"not taken":                {errs: []error{refusal(platform.Untaken, 0), nil}, attempts: 2},
		"answer lost":              {errs: []error{cut}, attempts: 1},
		"answer of an edit lost":   {harmless: true, errs: []error{cut, nil}, attempts: 2},
		"edit lost, then refused":  {harmless: true, errs: []error{cut, refusal(platform.Refused, 0)}, attempts: 2},
		"busy, and then not":       {errs: []error{refusal(platform.Busy, 20*time.Second), refusal(platform.Busy, 20*time.Second), nil}, attempts: 3},
		"busy for longer":          {errs: []error{refusal(platform.Busy, 150*time.Second)}, attempts: 1, notSent: &channel.NotSentError{Retryable: true, RetryAfter: 150 * time.Second}},
		"busy, and a newer is due": {brief: true, errs: []error{refusal(platform.Busy, time.Second)}, attempts: 1, notSent: &channel.NotSentError{Retryable: true, RetryAfter: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				err := platform.Repeat(t.Context(), tt.harmless, tt.brief, func(context.Context) error {
					attempts++
					return tt.errs[min(attempts, len(tt.errs))-1]
				})
				not, isNotSent := errors.AsType[*channel.NotSentError](err)
				if attempts != tt.attempts || isNotSent != (tt.notSent != nil) || (err == nil) != (tt.errs[len(tt.errs)-1] == nil) {
					t.Errorf("%d attempts, %#v", attempts, err)
				} else if isNotSent && (not.Permanent != tt.notSent.Permanent || not.Retryable != tt.notSent.Retryable || not.RetryAfter != tt.notSent.RetryAfter) {
					t.Errorf("got %+v, want %+v", not, tt.notSent)
				}
			})
		})
	}
}
