package channeltest

import (
	"context"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

type good struct{}

func (good) Classify(context.Context, *channel.Input) (channel.EventClass, error) {
	return channel.EventClass{}, nil
}

type bad struct{ good }

func (bad) Finalize(context.Context, *channel.Result) error { return nil }

func (bad) Preview(context.Context, channel.Block, channel.Receipt) (channel.Receipt, error) {
	return channel.Receipt{}, nil
}

func (bad) Working() error { return nil }

// CH-07
func TestAMethodThatMissesItsHookIsReportedByItsSignature(t *testing.T) {
	if got := misses(good{}, nil); len(got) != 0 {
		t.Errorf("got %q of a value whose methods are hooks", got)
	}
	got := misses(bad{}, nil)
	if len(got) != 3 {
		t.Fatalf("got %q, expected three", got)
	}
	for i, want := range []string{"func(context.Context, *channel.Result) error", "Abandon(", "func() error"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("got %q, expected it to have %q", got[i], want)
		}
	}
	if got := misses(bad{}, []string{"Finalize", "Preview", "Working"}); len(got) != 0 {
		t.Errorf("got %q, expected that these are left alone", got)
	}
	Hooks(t, good{})
}
