package platform_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

// settings have one policy for all places.
type settings struct{ policy channel.Policy }

func (s settings) Policy(channel.PolicyQuery) channel.Policy { return s.policy }

func TestClassify(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		kind  channel.EventKind
		press bool
		want  channel.EventClass
	}{
		"a message":       {"hi", channel.EventMessage, false, channel.MessageClass},
		"a command":       {",help me", channel.EventMessage, false, channel.EventClass{Kind: channel.EventCommand, CanStartAgentTurn: true}},
		"an edit":         {",help me", channel.EventLifecycle, false, channel.EventClass{Kind: channel.EventLifecycle}},
		"a press":         {",approve 1", channel.EventInteraction, true, channel.EventClass{Kind: channel.EventInteraction, CanStartAgentTurn: true}},
		"another's press": {"", channel.EventInteraction, false, channel.EventClass{Kind: channel.EventInteraction}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, platform.Classify(&channel.Input{TextForCommands: tt.text}, tt.kind, tt.press)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFactsNameTheSessionAndTheAgent(t *testing.T) {
	k := &kernel.Kernel{Settings: settings{channel.Policy{SystemPrompt: "be brief"}}}
	in := &channel.Input{ID: "5", RawText: "@bot hi", TextForAgent: "hi", TextForCommands: ",hi"}
	from := channel.SenderFacts{ID: "7", Name: "Ann", Username: "ann"}
	at := channel.ConversationFacts{Kind: channel.Group, ID: "-5", ThreadID: "3"}
	f, _, who := platform.NewFacts(t.Context(), k, kernel.Meta{Channel: "x", Account: "work"}, "assistant", in, from, at)
	if f.Route.RouteSessionKey != "x@work:-5#3" || f.Route.ParentSessionKey != "x@work:-5" || f.Route.AgentID != "assistant" || f.MessageID != "5" ||
		f.Message.BodyForAgent != "hi" || f.Message.CommandBody != ",hi" || f.Message.SenderLabel != "Ann (@ann)" || f.Supplemental.GroupSystemPrompt != "be brief" {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(who.IDs, []string{"7"}) {
		t.Errorf("%+v", who)
	}
	platform.NameSession(&f, "")
	if f.Route.RouteSessionKey != "x@work:-5" || f.Route.ParentSessionKey != "" {
		t.Errorf("%+v", f.Route)
	}
}

// CH-109, CH-178
func TestFilesAreLoadedForWhatTheAgentSees(t *testing.T) {
	load := func(_ context.Context, list []platform.Attachment) (all []channel.MediaFact, notes []string) {
		for _, a := range list {
			a.Fact.Path = "/media/" + a.Name
			all, notes = append(all, a.Fact), append(notes, "["+a.Name+"]")
		}
		return all, notes
	}
	own, quoted := []platform.Attachment{{Name: "own"}}, []platform.Attachment{{Name: "quoted"}}
	for name, tt := range map[string]struct {
		policy        channel.PolicyKind
		visibility    channel.Visibility
		author        channel.Tri // of the quote
		forwarded     channel.Tri
		own, of, body string // paths, and what the agent reads
	}{
		"let in":           {channel.PolicyOpen, channel.VisibleAll, channel.No, channel.Yes, "/media/own", "/media/quoted", "hi\n[own]"},
		"denied":           {channel.PolicyDisabled, channel.VisibleAll, channel.Yes, channel.Yes, "", "", "hi"},
		"a hidden quote":   {channel.PolicyOpen, channel.VisibleAllowlist, channel.No, channel.Yes, "/media/own", "", "hi\n[own]"},
		"a hidden forward": {channel.PolicyOpen, channel.VisibleAllowlist, channel.Yes, channel.No, "", "/media/quoted", "hi"},
	} {
		t.Run(name, func(t *testing.T) {
			f := channel.Facts{Sender: channel.SenderFacts{ID: "7"}, Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "7"}}
			f.Access = channel.Policy{DM: tt.policy, Visibility: tt.visibility}.Access(f.Sender.Identity(), channel.MentionFacts{})
			f.Message.BodyForAgent = "hi"
			f.Supplemental.Quote = &channel.Quote{ID: "1", SenderAllowed: tt.author}
			f.Supplemental.Forwarded = &channel.Forwarded{From: "Zed", SenderAllowed: tt.forwarded}
			platform.AddMedia(t.Context(), &f, own, quoted, load)
			if len(f.Media) != 1 || f.Media[0].Path != tt.own || f.Supplemental.Quote.Media[0].Path != tt.of || f.Message.BodyForAgent != tt.body {
				t.Errorf("%+v, quoted %+v, %q", f.Media, f.Supplemental.Quote.Media, f.Message.BodyForAgent)
			}
		})
	}
	images := []platform.Attachment{{Name: "a"}, {Name: "b", Fact: channel.MediaFact{Kind: channel.MediaImage}}}
	if all, err := platform.ImageLoader(images, load)(t.Context()); err != nil || len(all) != 1 || all[0].Path != "/media/b" || images[0].Name != "a" {
		t.Errorf("%+v, %v", all, err)
	}
}

// CH-98
func TestAWaitingMessageIsEditedOrRemoved(t *testing.T) {
	place := channel.WindowKey{Channel: "x", Conversation: "-5"}
	for name, tt := range map[string]struct {
		policy channel.PolicyKind
		kind   channel.ChatType
		want   []string
	}{
		"by a sender who may talk": {channel.PolicyOpen, channel.Group, []string{"new"}},
		"by one who may not":       {channel.PolicyDisabled, channel.Group, nil},
		"in a direct conversation": {channel.PolicyDisabled, channel.Direct, []string{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := channel.NewWindow(nil, channel.WindowOptions{})
			k := &kernel.Kernel{Window: w, Settings: settings{channel.Policy{Group: tt.policy, RouteAllowed: true}}}
			if err := w.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: place}, MessageID: "1", Message: channel.MessageFacts{RawBody: "old"}}); err != nil {
				t.Fatal(err)
			}
			platform.EditWaiting(t.Context(), k, place, tt.kind, channel.SenderFacts{ID: "7"}, "1", "new")
			var got []string
			for _, e := range w.Snapshot(t.Context(), place, 0).Entries {
				got = append(got, e.Body)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestABlockIsSentInSeveralMessages(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		count   int
		preview string // "lost" is not found, "bad" cannot be edited
		failAt  int    // 0: none fails
		ids     []string
		partial bool
		err     error
	}{
		"none":                 {},
		"two":                  {count: 2, ids: []string{"m0", "m1"}},
		"a preview":            {count: 2, preview: "p", ids: []string{"p", "m1"}},
		"a lost preview":       {count: 1, preview: "lost", ids: []string{"m0"}},
		"a preview that fails": {count: 1, preview: "bad", err: broken},
		"the first fails":      {count: 2, failAt: 1, err: broken},
		"the second fails":     {count: 3, failAt: 2, ids: []string{"m0"}, partial: true, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			b := &channel.Block{}
			if tt.preview != "" {
				b.Preview = &channel.Receipt{MessageIDs: []string{tt.preview}}
			}
			edit := func(id string) (bool, error) {
				if id == "bad" {
					return true, broken
				}
				return id != "lost", nil
			}
			r, err := platform.SendMessages(b, channel.Receipt{}, tt.count, edit, func(n int) (string, error) {
				if n+1 == tt.failAt {
					return "", broken
				}
				return "m" + string(rune('0'+n)), nil
			})
			part, partial := errors.AsType[*channel.PartialError](err)
			if !errors.Is(err, tt.err) || partial != tt.partial || partial && !slices.Equal(part.Receipt.MessageIDs, tt.ids) || !slices.Equal(r.MessageIDs, tt.ids) {
				t.Errorf("%+v, %v", r, err)
			}
			if suppressed := r.State == channel.Suppressed; suppressed != (tt.count == 0) {
				t.Errorf("the state is %s", r.State)
			}
		})
	}
	text, files := platform.TextAndFiles(&channel.Block{Payload: channel.Payload{Text: "see", Media: []channel.MediaFact{{Path: "/a"}, {URL: "https://b.test"}, {}}}})
	if text != "see\n\nhttps://b.test" || len(files) != 1 || files[0].Path != "/a" {
		t.Errorf("%q, %v", text, files)
	}
}

func TestRequestsThatAreNoEventsAreRefused(t *testing.T) {
	limit := func(h http.Header) (int64, bool) { return 5, h.Get("Secret") == "x" }
	for name, tt := range map[string]struct {
		method, secret, body string
		want                 int
	}{
		"an event":         {http.MethodPost, "x", "12345", http.StatusOK},
		"another method":   {http.MethodGet, "x", "", http.StatusMethodNotAllowed},
		"a wrong secret":   {http.MethodPost, "y", "12345", http.StatusUnauthorized},
		"too large a body": {http.MethodPost, "x", "123456", http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body)), httptest.NewRecorder()
			r.Header.Set("Secret", tt.secret)
			body, ok := platform.ReadEvent(w, r, limit, "application/json")
			if w.Code != tt.want || ok != (tt.want == http.StatusOK) || ok && string(body) != tt.body {
				t.Errorf("status %d, %q, %t", w.Code, body, ok)
			}
		})
	}
	w := httptest.NewRecorder()
	if platform.Unavailable(w); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d", w.Code)
	}
}

func TestTroubleIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		trouble := platform.Trouble{Log: slog.New(slog.NewTextHandler(&log, nil))}
		trouble.Over(t.Context(), "it works")
		for range 11 { // an hour
			trouble.Warn(t.Context(), "it is broken")
			time.Sleep(6 * time.Minute)
		}
		trouble.Over(t.Context(), "it works")
		trouble.Over(t.Context(), "it works")
		if broken, works := strings.Count(log.String(), "it is broken"), strings.Count(log.String(), "it works"); broken != 6 || works != 1 {
			t.Errorf("%d warnings and %d ends; expected 6 and 1", broken, works)
		}
	})
}

func TestMediaStoreOfSettings(t *testing.T) {
	for dir, limit := range map[string]int64{"": 0, "media": 5} {
		s, err := platform.OpenMedia(dir, "x-", limit)
		if err != nil || (s.Dir == "") != (dir == "") || limit == 0 && s.Limit != platform.DefaultMaxMedia || limit != 0 && s.Limit != limit {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

func TestAClientFollowsNoRedirects(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	for _, given := range []*http.Client{nil, here.Client()} {
		client, closeIdle := platform.NewClient(given, false)
		res, err := client.Get(here.URL)
		if err != nil || res.StatusCode != http.StatusTemporaryRedirect || asked != 0 {
			t.Errorf("%v, and it was asked elsewhere %d times", err, asked)
		}
		res.Body.Close()
		closeIdle()
	}
}
