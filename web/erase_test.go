package web

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/run"
	storefile "github.com/lingserve/lingserve/store/file"
)

// CH-76: what channels keep of a session goes with it.
func TestErasingASessionErasesWhatChannelsKeepOfIt(t *testing.T) {
	dir := t.TempDir()
	const canary = "canary-0815"
	tables, err := storefile.Open(vfs.At(filepath.Join(dir, "store")), storefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := inbox.Open(t.Context(), tables, inbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = journal.Close() }()
	texts := func(o channel.TextTable) channel.Texts {
		t.Helper()
		texts, err := channel.OpenTexts(t.Context(), tables, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	sessions := channel.NewSessions(texts(channel.SessionTable), nil)
	tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{
		run.Channel: {AccountPlace: channel.AccountPlace{Place: channel.Place{DMPolicy: channel.PolicyOpen}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	k := &channel.Kernel{Journal: journal, Window: channel.NewWindow(texts(channel.WindowTable), channel.WindowOptions{}), Recorder: sessions, Settings: tree}
	a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.Kernel = k })
	a.serve()
	if r := a.say("hello", ""); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}

	// The session has a conversation on another channel, too. So has another session, of which nothing may go.
	event := func(conversation, id string, settle bool) channel.EventKey {
		key := channel.EventKey{Channel: "chat", Conversation: conversation, Thread: "7", ID: id}
		if _, err := journal.Accept(t.Context(), key, []byte(canary+conversation)); err != nil {
			t.Fatal(err)
		}
		if settle {
			c, _, err := journal.Claim(t.Context(), key)
			if err != nil || c.Commit(t.Context(), channel.OutcomeVisible) != nil {
				t.Fatal(err)
			}
		}
		return key
	}
	for session, conversation := range map[string]string{"s": "hers", "other": "his"} {
		event(conversation, "1", true)
		event(conversation, "2", false)
		place := channel.ConversationFacts{Kind: channel.Group, ID: conversation, ThreadID: "7", Label: canary + conversation}
		if err := sessions.LastRoute(t.Context(), channel.Row{SessionKey: session, Channel: "chat", Conversation: place, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		err := k.Window.Record(t.Context(), channel.Recording{
			Key:     channel.WindowKey{Channel: "chat", Conversation: conversation, Thread: "7"},
			Message: channel.MessageFacts{RawBody: canary + conversation},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	files := func(of string) (n int) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			n += bytes.Count(data, []byte(canary+of))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if hers, his := files("hers"), files("his"); hers < 4 || his < 4 { // a table also has what was replaced, for a minute
		t.Fatalf("%d and %d texts are on the disk before, expected 4 each", hers, his)
	}
	if r := a.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}
	if _, ok, err := sessions.Last(t.Context(), "s"); ok || err != nil {
		t.Errorf("its last route is known, %v", err)
	}
	if err := tables.Close(); err != nil { // which erases at once, and not within a minute
		t.Error(err)
	}
	if hers, his := files("hers"), files("his"); hers != 0 || his != 3 { // nothing of an event that was settled
		t.Errorf("%d and %d texts are on the disk behind it, expected none and 3", hers, his)
	}
}
