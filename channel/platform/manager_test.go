package platform_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// still is a channel that does nothing, or panics, or fails.
type still struct {
	name string
	hook http.Handler
	err  error
}

func (s still) Name() string          { return s.name }
func (s still) Webhook() http.Handler { return s.hook }

func (s still) Serve(ctx context.Context, _ *kernel.Queue) error {
	switch {
	case s.name == "panics":
		panic(s.err)
	case s.name == "fails":
		return s.err
	case s.name == "stops":
		return nil
	}
	<-ctx.Done()
	return nil
}

func TestNamesOfChannelsAreUnique(t *testing.T) { // CH-07
	d := platform.NewManager(&kernel.Kernel{}, slog.New(slog.DiscardHandler))
	hook := http.NotFoundHandler()
	for _, one := range []struct {
		still
		account string
	}{
		{still{name: "a"}, ""},
		{still{name: "a"}, "x"},
		{still{name: "h", hook: hook}, "x"},
	} {
		if err := d.Add(one.still, one.account); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Add(still{}, ""); err == nil {
		t.Error("a channel without a name is added")
	}
	if err := d.Add(still{name: "a"}, "x"); err == nil || err.Error() != "two channels have the name a@x; give each its own name" {
		t.Errorf("got %v", err)
	}
	err := d.Add(still{name: "h", hook: hook}, "y")
	if err == nil || !strings.HasPrefix(err.Error(), "channels.h: the accounts x and y would receive events at the same address") {
		t.Errorf("got %v", err)
	}
	if d.Webhook("h") == nil || d.Webhook("a") != nil || d.Webhook("b") != nil {
		t.Error("the webhooks are others")
	}
}

func TestAChannelThatStopsIsToldOfAndNotStartedAgain(t *testing.T) { // CH-179
	d := platform.NewManager(&kernel.Kernel{Store: channeltest.Store(t)}, slog.New(slog.DiscardHandler))
	secret := errors.New("secret")
	for _, name := range []string{"works", "panics", "fails", "stops"} {
		if err := d.Add(still{name: name, err: secret}, ""); err != nil {
			t.Fatal(err)
		}
	}
	d.Start(kernel.QueueOptions{Replica: "test"})
	for end := time.Now().Add(time.Minute); len(d.Broken()) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	broken := d.Broken()
	if len(broken) != 3 || broken["fails"] != "secret" || broken["stops"] != "the channel has stopped by itself" ||
		broken["panics"] != "the channel failed; see the server's log" {
		t.Errorf("got %q", broken)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
