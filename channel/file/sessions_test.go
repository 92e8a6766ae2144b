package file_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/file"
)

func sessions(t *testing.T, dir string, o file.SessionsOptions) *file.Sessions {
	t.Helper()
	s, err := file.OpenSessions(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// row is that of a message of a topic.
func row(session, thread string) channel.Row {
	return channel.Row{
		SessionKey: session, Channel: "fake", Account: "a", Sender: "p", At: time.Unix(1, 0).UTC(),
		Conversation: channel.ConversationFacts{Kind: channel.Group, ID: "c", ThreadID: thread},
		Reply:        channel.ReplyPlanFacts{To: "c", MessageThreadID: channel.Some(thread), ReplyToID: channel.Some("7")},
	}
}

// CH-23: what a turn that the server begins needs, across a restart.
func TestTheLastRouteOfASessionIsKnownAfterARestart(t *testing.T) {
	for name, dir := range map[string]string{"on disk": t.TempDir(), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := sessions(t, dir, file.SessionsOptions{})
			for _, thread := range []string{"1", "2", "1"} {
				if err := s.LastRoute(t.Context(), row("s", thread)); err != nil {
					t.Fatal(err)
				}
			}
			if dir != "" {
				_ = s.Close()
				s = sessions(t, dir, file.SessionsOptions{})
			}
			got, ok, err := s.Last(t.Context(), "s")
			if err != nil || !ok {
				t.Fatalf("got %v, %v", ok, err)
			}
			want := row("s", "1")
			want.Reply.ReplyToID = channel.Opt{} // a later message is no answer to this one
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(channel.Opt{})); diff != "" {
				t.Error(diff)
			}
			places, err := s.Places(t.Context(), "s")
			place := channel.WindowKey{Channel: "fake", Account: "a", Conversation: "c"}
			first, second := place, place
			first.Thread, second.Thread = "2", "1"
			if diff := cmp.Diff([]channel.WindowKey{first, second}, places); diff != "" || err != nil {
				t.Error(diff, err)
			}
			if _, ok, err := s.Last(t.Context(), "other"); ok || err != nil {
				t.Errorf("a session that nobody wrote in has a last route, %v", err)
			}
			if err := s.Forget(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if _, ok, _ := s.Last(t.Context(), "s"); ok {
				t.Error("a session that was forgotten has a last route")
			}
			if dir == "" {
				return
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("%v is left of it, %v", left, err)
			}
		})
	}
}

// CH-23: through the kernel, so that the order of its questions holds, too.
func TestOnlyTheOwnerOfAMainSessionChangesItsLastRoute(t *testing.T) {
	dir := t.TempDir()
	said := func(s *file.Sessions, sender string) {
		t.Helper()
		k := &channel.Kernel{Recorder: s, Agent: speaker(func(context.Context) error { return nil })}
		r, err := k.RunAssembled(t.Context(), channel.Meta{Channel: "fake"}, &channel.Assembled{Delivery: &chat{}, Common: channel.Common{
			Record: channel.RecordOptions{UpdateLastRoute: true},
			Facts: channel.Facts{
				Channel: "fake", MessageID: sender, Sender: channel.SenderFacts{ID: sender},
				Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: sender},
				Route:        channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:" + sender, MainSessionKey: "main"},
				Reply:        channel.ReplyPlanFacts{To: sender},
				Access:       channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}},
				Message:      channel.MessageFacts{RawBody: "hi"},
			},
		}})
		if err != nil || !r.Dispatched {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	last := func(s *file.Sessions, session string) string {
		t.Helper()
		r, _, err := s.Last(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		return r.Reply.To
	}
	s := sessions(t, dir, file.SessionsOptions{})
	said(s, "ann")
	said(s, "bob")
	_ = s.Close()
	s = sessions(t, dir, file.SessionsOptions{})
	said(s, "bob")
	if got := last(s, "main"); got != "ann" {
		t.Errorf("the main session's last route is to %q, expected its owner", got)
	}
	if got := last(s, "fake:bob"); got != "" {
		t.Errorf("a message of somebody else has changed a last route to %q", got)
	}
	if err := s.Forget(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	said(s, "bob")
	if got := last(s, "main"); got != "bob" {
		t.Errorf("after it was erased, the last route is to %q, expected who came first", got)
	}
}

// CH-76, CH-90: as the other stores.
func TestSessionsAreBoundedAndTheirFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	s := sessions(t, dir, file.SessionsOptions{Sessions: 3})
	for i := range 5 {
		if err := s.LastRoute(t.Context(), row(fmt.Sprint(i), "1")); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v; expected 3", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if _, ok, _ := s.Last(t.Context(), "1"); ok {
		t.Error("the oldest is still known")
	}
	if _, ok, _ := s.Last(t.Context(), "4"); !ok {
		t.Error("the newest is not known")
	}
}

// A message that comes from where the one before came from is no reason to write.
func TestARouteThatHasNotChangedIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	s := sessions(t, dir, file.SessionsOptions{})
	r := row("s", "1")
	if err := s.LastRoute(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 {
		t.Fatalf("got %q", files)
	}
	before, _ := os.Stat(files[0])
	r.At, r.Reply.ReplyToID = r.At.Add(time.Hour), channel.Some("8")
	if err := s.LastRoute(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(files[0]); !os.SameFile(before, after) {
		t.Error("it was written again")
	}
}

// CH-98, for sessions.
func TestADamagedSessionIsForgottenWithAWarning(t *testing.T) {
	dir := t.TempDir()
	s := sessions(t, dir, file.SessionsOptions{})
	if err := s.LastRoute(t.Context(), row("s", "1")); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for name, text := range map[string]string{"no JSON": "{", "another's": `{"session":"x","owner":"eve"}`, "empty": ""} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		s := sessions(t, dir, file.SessionsOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, ok, err := s.Last(t.Context(), "s"); ok || err != nil || !strings.Contains(log.String(), "WARN") {
			t.Errorf("%s: got %v, %v, logged %q", name, ok, err, log.String())
		}
		if owner, err := s.Owner(t.Context(), "s"); owner != "" || err != nil {
			t.Errorf("%s: owned by %q, %v", name, owner, err)
		}
	}
}
