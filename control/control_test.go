package control_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/control/controltest"
)

func TestLocal(t *testing.T) {
	controltest.Test(t, true, func(*testing.T) controltest.Replica {
		return controltest.Replica{Control: control.NewLocal("self", nil)}
	})
}

func BenchmarkLocal(b *testing.B) {
	r := controltest.Replica{Control: control.NewLocal("self", nil)}
	controltest.Bench(b, r, r)
}

// Who does not say how long it waits does not wait for ever.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.NewLocal("self", nil)
		stop, err := l.Serve(func(ctx context.Context, _ control.Request) ([]byte, error) {
			time.Sleep(time.Minute)
			return nil, ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		begin := time.Now()
		if _, err := l.Ask(context.Background(), "self", control.Request{Command: "wait"}); !errors.Is(err, control.ErrSilent) || time.Since(begin) != control.Patience {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
