package turns_test

import (
	"context"
	"testing"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/turns"
	"github.com/lingserve/lingserve/turn"
)

type named string

func (n named) Name() string                             { return string(n) }
func (named) Serve(context.Context, *kernel.Queue) error { return nil }

// brings is a plugin with channels and nothing else.
type brings []kernel.Channel

func (b brings) Channels() []kernel.Channel { return b }

// CH-07
func TestPluginsBringChannels(t *testing.T) {
	f := turn.New(turn.Options{Workspace: t.TempDir()})
	turn.Declare[kernel.Provider](f, "channels")
	for name, p := range map[string]brings{"one": {named("a"), named("b")}} {
		if err := f.Register(name, p); err != nil {
			t.Fatal(err)
		}
	}
	if list := turns.Channels(f); len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "b" {
		t.Errorf("got %v", list)
	}
}
