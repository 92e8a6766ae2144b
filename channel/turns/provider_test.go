package turns_test

import (
	"context"
	"strings"
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
func TestPluginsBringChannelsWithNamesOfTheirOwn(t *testing.T) {
	f := turn.New(turn.Options{Workspace: t.TempDir()})
	turn.Declare[kernel.Provider](f, "channels")
	for name, p := range map[string]brings{"one": {named("a"), named("b")}} {
		if err := f.Register(name, p); err != nil {
			t.Fatal(err)
		}
	}
	list, err := turns.Channels(f)
	if err != nil || len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "b" {
		t.Fatalf("got %v, %v", list, err)
	}
	if err := f.Register("two", brings{named("b")}); err != nil {
		t.Fatal(err)
	}
	if _, err := turns.Channels(f); err == nil || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "one and two") {
		t.Errorf("got %v, expected who both bring it", err)
	}
	g := turn.New(turn.Options{Workspace: t.TempDir()})
	turn.Declare[kernel.Provider](g, "channels")
	_ = g.Register("nameless", brings{named("")})
	if _, err := turns.Channels(g); err == nil {
		t.Error("expected a channel without a name to be refused")
	}
}
