package slack_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

const appToken = "xapp-1-canary"

// socketBubble runs a test in virtual time, with a channel that is connected by Socket Mode.
func socketBubble(t *testing.T, change func(*rig), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, &fakeslack.Options{AppToken: appToken}, channel.Place{CommandMode: channel.CommandsSenders})
		if change != nil {
			change(r)
		}
		r.serve()
		test(t, r)
		if log := r.log.String(); len(r.fake.Faulty()) > 0 || strings.Contains(log, "canary") {
			t.Errorf("the channel did wrong: %q, or a secret is in its log: %s", r.fake.Faulty(), log)
		}
	})
}

// wantDeliveries fails the test unless the platform has made so many attempts, the last of which was acknowledged.
func (r *rig) wantDeliveries(n int) {
	r.t.Helper()
	got := r.fake.Deliveries()
	if len(got) != n || got[n-1].Status != http.StatusOK {
		r.t.Errorf("the deliveries are %+v", got)
	}
}

func TestSocketModeBringsMessagesAndCommands(t *testing.T) {
	socketBubble(t, nil, func(t *testing.T, r *rig) {
		if r.channel.Webhook() != nil {
			t.Error("there is a webhook, too")
		}
		r.say(fakeslack.Message{Channel: dm, Text: "say hello"})
		r.say(fakeslack.Message{Channel: room, Text: us + " say hi"}) // which comes twice
		r.fake.Tell(r.fake.Command("/ling", "help me", party, ann))
		synctest.Wait()
		r.wantTexts(dm, "hello")
		r.wantTexts(room, "hi")
		r.wantTexts(party, "ok")
		r.wantDeliveries(4)
	})
}

func TestSocketModeBringsButtonPresses(t *testing.T) {
	asker := &channeltest.Asker{}
	socketBubble(t, func(r *rig) { r.kernel = func(k *kernel.Kernel) { k.Agent = asker } }, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: dm, Text: "call it"})
		r.press(t, r.fake.Shown(dm)[0], channel.LabelApprove, ann)
		if texts := r.texts(dm); !strings.Contains(strings.Join(texts, "\n"), "Approved") {
			t.Errorf("people see %q", texts)
		}
	})
}

// CH-71: an envelope is acknowledged when its event is stored.
func TestSocketModeGetsAnEventAgainThatCannotBeStored(t *testing.T) {
	socketBubble(t, func(r *rig) { r.store = &failing{Store: r.store, fail: true} }, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: dm, Text: "say hello"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.wantDeliveries(2)
		r.wantTexts(dm, "hello")
	})
}

func TestSocketModeRunsARepeatedEventOnce(t *testing.T) {
	socketBubble(t, nil, func(t *testing.T, r *rig) {
		body := r.fake.Envelope(map[string]any{"type": "message", "channel": dm, "channel_type": "im", "user": ann, "text": "hi", "ts": ping})
		r.fake.Tell(body)
		r.fake.Tell(body)
		r.fake.Tell([]byte(`{"type":"event_callback","event":{"type":"tomorrow"}}`))
		r.fake.Tell([]byte(`{"type":7}`))
		synctest.Wait()
		r.wantDeliveries(4)
		r.wantTexts(dm, "ok")
	})
}

func TestSocketModeConnectsAgain(t *testing.T) {
	for name, fail := range map[string]func(r *rig){
		"connection is cut":    func(r *rig) { r.fake.Break() },
		"platform asks for it": func(r *rig) { r.fake.Disconnect("refresh_requested") },
		"connection is silent": func(r *rig) { r.fake.Hang() },
		"platform is away": func(r *rig) {
			r.fake.Fail(fakeslack.Fault{Method: "apps.connections.open", Times: 3, Status: http.StatusServiceUnavailable})
			r.fake.Break()
		},
		"platform is not found": func(r *rig) {
			r.fake.Fail(fakeslack.Fault{Method: "apps.connections.open", Times: 2, Status: http.StatusNotFound})
			r.fake.Break()
		},
		"platform limits connections": func(r *rig) {
			r.fake.Fail(fakeslack.Fault{Method: "apps.connections.open", Status: http.StatusTooManyRequests, RetryAfter: 60})
			r.fake.Break()
		},
	} {
		t.Run(name, func(t *testing.T) {
			socketBubble(t, nil, func(t *testing.T, r *rig) {
				fail(r)
				r.say(fakeslack.Message{Channel: dm, Text: "say hello"})
				time.Sleep(10 * time.Minute) // the platform repeats the message
				r.wantTexts(dm, "hello")
				if open, opened := r.fake.Sockets(); open != 1 || opened != 2 {
					t.Errorf("%d of %d connections are open", open, opened)
				}
			})
		})
	}
}

func TestSocketModeThatCannotWorkStopsTheChannel(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after func(r *rig)
		want          string
	}{
		"wrong token":   {func(r *rig) { r.settings.AppToken = "xapp-1-other"; r.newChannel() }, func(*rig) {}, "refuses the app_token"},
		"missing scope": {func(r *rig) { r.fake.Fail(fakeslack.Fault{Method: "apps.connections.open", Error: "missing_scope"}) }, func(*rig) {}, "connections:write"},
	} {
		t.Run(name, func(t *testing.T) {
			socketBubble(t, tt.before, func(t *testing.T, r *rig) {
				tt.after(r)
				err := <-r.done
				r.done <- nil
				if err == nil || !strings.Contains(err.Error(), tt.want) || r.channel.Ready() == nil {
					t.Errorf("got %v, %v", err, r.channel.Ready())
				}
			})
		})
	}
}

func TestCheckTriesTheAppToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, &fakeslack.Options{AppToken: appToken}, channel.Place{})
		if err := r.channel.Check(t.Context()); err != nil {
			t.Error(err)
		}
		r.settings.AppToken = "xapp-1-other"
		r.newChannel()
		if err := r.channel.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "app_token") {
			t.Errorf("got %v", err)
		}
		if _, err := slack.New(slack.Settings{Token: "xoxb-1", AppToken: "xoxb-1"}); err == nil || !strings.Contains(err.Error(), "xapp-") {
			t.Errorf("got %v", err)
		}
	})
}
