package web

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
)

// CH-76: what channels keep of a session goes with it.
func TestErasingASessionErasesWhatChannelsKeepOfIt(t *testing.T) {
	sessions := channel.NewSessions(nil)
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Kernel = webchannel.NewKernel(o.Log)
		o.Kernel.Recorder = sessions
	})
	a.serve()
	for _, session := range []string{"s", "other"} {
		a.session(session, "hello")
		place := channel.ConversationFacts{Kind: channel.Group, ID: "c"}
		if err := sessions.Record(t.Context(), channel.Row{SessionKey: session, Channel: "chat", Conversation: place}, true); err != nil {
			t.Fatal(err)
		}
	}
	if r := a.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}
	for session, want := range map[string]bool{"s": false, "other": true} {
		if places, err := sessions.Places(t.Context(), session); (len(places) > 0) != want || err != nil {
			t.Errorf("the places of %s are %v, %v", session, places, err)
		}
	}
}

// DS-11: the log says who erased a session.
func TestTheLogSaysWhoErasedASession(t *testing.T) {
	k := newKeyring(t, "ann:user")
	a := keyedBench(t, k, nil)
	readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"s","input":"hello"}`, k.bearer["ann"]))
	if r := a.do("DELETE", "/v1/sessions/s", "", k.bearer["ann"]); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}
	line := ""
	for l := range strings.Lines(a.log.String()) {
		if strings.Contains(l, `msg="session erased"`) {
			line = strings.TrimSpace(l) + " "
		}
	}
	if !strings.Contains(line, " principal=ann by=key key_id=") || !strings.Contains(line, " client=127.0.0.1 ") {
		t.Error(line)
	}
}

// DS-09: a group whose messages were never answered has no session, and is erased by its name.
func TestErasingAGroupThatWasNeverAnsweredErasesItsWords(t *testing.T) {
	words := channel.NewWindow(channel.NewTexts(), channel.WindowOptions{})
	key := channel.WindowKey{Channel: "telegram", Conversation: "-100"}
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Kernel = webchannel.NewKernel(o.Log)
		o.Kernel.Window = words
	})
	a.serve()
	if err := words.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: key}, Message: channel.MessageFacts{RawBody: "hi"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{204, 404} {
		if r := a.do("DELETE", "/v1/sessions/telegram:-100", ""); r.StatusCode != want {
			t.Errorf("got %d %s, expected %d", r.StatusCode, text(t, r), want)
		}
	}
	if n := len(words.Snapshot(t.Context(), key, 0).Entries); n > 0 {
		t.Errorf("%d messages wait", n)
	}
}
