package nats

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/store"
)

// ST-26: the time of an attempt is not the caller's, whose own would say that nothing is wrong with the servers.
func TestTheTimeOfAnAttemptIsNotTheCallers(t *testing.T) {
	err := error(&awayError{fmt.Errorf("ask: %w", context.DeadlineExceeded)})
	if !errors.Is(err, store.ErrAway) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not the store's alone", err)
	}
	cause := errors.New("no leader")
	if err := error(&awayError{cause}); !errors.Is(err, store.ErrAway) || !errors.Is(err, cause) {
		t.Errorf("%v has lost its cause", err)
	}
}
