package discord_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/discord/discordtest"
	"github.com/lingserve/lingserve/channel/platform"
)

func TestConnectionIsResumed(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		time.Sleep(10 * time.Minute) // with heartbeats
		if n := r.fake.Connections(); n != 1 {
			t.Errorf("there were %d connections", n)
		}
		r.fake.Cut()
		r.fake.Say(direct, "7", "say meanwhile", nil)
		r.until("a second connection", func() bool { return r.fake.Connections() == 2 })
		r.say(direct, "7", "say afterwards", nil)
		if got := contents(r.sent(direct, 2)); !slices.Equal(got, []string{"meanwhile", "afterwards"}) {
			t.Errorf("got %q", got)
		}
		if calls := r.fake.Calls("GET", "/messages"); len(calls) > 0 {
			t.Errorf("messages were fetched: %v", calls)
		}
	})
}

func TestGatewayThatAsksForANewConnection(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.fake.Reconnect()
		r.until("a second connection", func() bool { return r.fake.Connections() == 2 })
		r.say(direct, "7", "say afterwards", nil)
		r.sent(direct, 1)
	})
}

func TestMissedMessagesAreFetchedForANewSession(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.say(direct, "7", "say one", nil)
		r.sent(direct, 1)
		r.say(general, "7", "the agent has not written here", nil)
		r.say(thread, "7", mention+" say here", toMe)
		r.sent(thread, 1)
		r.fake.Forget()
		for range 120 { // more than a page
			r.fake.Say(thread, "7", "by the way", nil)
		}
		r.fake.Say(thread, "7", mention+" say two", toMe)
		r.fake.Say(direct, "7", "say three", nil)
		r.fake.Say(general, "7", mention+" say nothing", toMe)
		r.sent(thread, 2)
		r.sent(direct, 2)
		if got := append(contents(r.fake.Sent(thread)), contents(r.fake.Sent(direct))...); !slices.Equal(got, []string{"here", "two", "one", "three"}) {
			t.Errorf("got %q", got)
		}
		if got := r.fake.Sent(general); len(got) > 0 {
			t.Errorf("an unknown conversation was asked for: %+v", got)
		}
	})
}

func TestNextProcessFetchesMissedMessagesOnce(t *testing.T) {
	texts := channel.NewTexts()
	bubble(t, options{settings: func(s *discord.Settings) { s.State = texts }}, func(t *testing.T, r *rig) {
		r.say(direct, "7", "say one", nil)
		r.sent(direct, 1)
		r.end()
		r.fake.Forget()
		r.fake.Say(direct, "7", "say two", nil)
		r.serve()
		r.sent(direct, 2)
		r.end()
		r.fake.Say(direct, "7", "say too late", nil)
		time.Sleep(21 * time.Hour)
		r.serve()
		r.until("a connection", r.fake.Connected)
		r.say(direct, "7", "say three", nil)
		if got := contents(r.sent(direct, 3)); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestEventsWaitWhileTheStoreIsDown(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.store.down.Store(true)
		r.say(direct, "7", "say one", nil)
		r.say(direct, "7", "say two", nil)
		time.Sleep(time.Minute)
		if got := r.fake.Sent(direct); len(got) > 0 {
			t.Errorf("got %+v", got)
		}
		r.store.down.Store(false)
		if got := contents(r.sent(direct, 2)); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestWrongSettingsEndTheChannel(t *testing.T) {
	for code, want := range map[int]string{4004: "token", 4011: "servers", 4014: "Message Content Intent"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, options{fake: discordtest.Options{Close: code}})
			r.serve()
			err := <-r.done
			r.stop = nil
			if err == nil || !strings.Contains(err.Error(), want) || r.channel.Ready() == nil {
				t.Errorf("code %d: %v, and ready is %v", code, err, r.channel.Ready())
			}
		})
	}
}

func TestInvalidTokenEndsTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, options{settings: func(s *discord.Settings) { s.Token = "MTIzNDU2Nzg5MDEy.another.token" }})
		r.serve()
		err := <-r.done
		r.stop = nil
		if err == nil || !strings.Contains(err.Error(), "the token is invalid") || r.channel.Ready() == nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestConnectionsOfTheDayAreNotUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, options{fake: discordtest.Options{Remaining: -1}})
		begin := time.Now()
		r.serve()
		time.Sleep(59 * time.Minute)
		r.until("a connection", r.fake.Connected)
		if waited := time.Since(begin); waited < time.Hour {
			t.Errorf("it has waited %v", waited)
		}
	})
}

func TestCheckOfSettings(t *testing.T) {
	for want, s := range map[string]discord.Settings{
		"token is missing":     {},
		"the token is invalid": {Token: "abc"},
	} {
		if _, err := discord.New(s); err == nil || !strings.HasPrefix(err.Error(), "discord: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	fake := discordtest.New(discordtest.Options{})
	defer fake.Close()
	c, err := discord.New(discord.Settings{Token: "Bot " + discordtest.Token, Settings: platform.Settings{API: discordtest.API, Client: fake.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context()); err != nil || c.About() != "@ling" {
		t.Errorf("got %v and %q", err, c.About())
	}
}
