package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/turn"
)

// leaving is a store that goes away in the middle of a turn.
type leaving struct {
	*logs.Store
	cause error
	gone  atomic.Bool
}

func (s *leaving) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if s.gone.Load() {
		return 0, fmt.Errorf("append: %w", storeError{s.cause})
	}
	return s.Store.Append(ctx, name, b)
}

// storeError is one as the stores of several processes have: coded, and what nobody is to read.
type storeError struct{ error }

func (storeError) ErrorCode() string { return turn.CodeOverloaded }
func (e storeError) Unwrap() error   { return e.error }

// TU-34: whoever has asked is told that it is the store which is away, and the words say the same as retryable does.
func TestTU_34_AStoreThatGoesAwayInATurnIsSaid(t *testing.T) {
	for _, row := range []struct {
		name  string
		cause error
		says  string
		again bool
	}{
		{"away", tape.ErrAway, "unreachable at the moment. You may need to repeat the last message later.", true},
		{"unsure", fmt.Errorf("%w: %w", tape.ErrUnsure, tape.ErrAway), "may or may not be stored; please check before you repeat them.", false},
		{"busy", errors.New("10.1.2.3"), "The server is busy at the moment; please try again later.", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			store := &leaving{Store: logs.NewMemory(0, nil), cause: row.cause}
			defer store.Close()
			a := newAgentBench(t, func(o *Options, ao *agent.Options) { o.Tapes, ao.Store = store, store })
			a.serve()
			resp := a.say("wait", "", asEvents)
			<-a.talk.waits
			store.gone.Store(true)
			close(a.talk.goOn)
			f, data := named(t, resp)
			if f.terminal != `finished{"status":"failed"}` || !strings.Contains(data["error"], row.says) || strings.Contains(data["error"], "10.1.2.3") ||
				!strings.Contains(data["error"], `"code":"overloaded"`) || !strings.Contains(data["error"], fmt.Sprintf(`"retryable":%v`, row.again)) {
				t.Errorf("%s, %s", f.terminal, data["error"])
			}
		})
	}
}
