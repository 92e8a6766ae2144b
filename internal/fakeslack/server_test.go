package fakeslack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// rig is a workspace, a client that somebody else has written, and an app that keeps what it is told.
type rig struct {
	*Server
	client *slack.Client
	base   string

	mu   sync.Mutex
	told []*http.Request
	body [][]byte
	do   func(w http.ResponseWriter, r *http.Request) // nil answers 200
}

func setup(t *testing.T, o Options, sockets bool) *rig {
	t.Helper()
	r := &rig{}
	app := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.told, r.body = append(r.told, req), append(r.body, body)
		do := r.do
		r.mu.Unlock()
		if do != nil {
			do(w, req)
		}
	})
	client := http.Client{}
	r.base = "http://fake.test"
	o.Hook, o.Deliver = "http://app.test/", &http.Client{Transport: Local(app)}
	if sockets {
		hook := httptest.NewServer(app)
		t.Cleanup(hook.Close)
		o.Hook, o.Deliver = hook.URL, hook.Client()
	}
	r.Server = New(&o)
	t.Cleanup(func() { _ = r.Close() })
	client.Transport = r.Transport()
	if sockets {
		api := httptest.NewServer(r.Server)
		t.Cleanup(api.Close)
		client.Transport, r.base = api.Client().Transport, api.URL
	}
	r.client = slack.New(r.Token(), slack.OptionAPIURL(r.base+"/api/"), slack.OptionHTTPClient(&client))
	r.AddConversation(Conversation{ID: "D1", Kind: IM})
	r.AddConversation(Conversation{ID: "C1", Kind: Channel})
	r.AddConversation(Conversation{ID: "C2", Kind: Channel, Archived: true})
	r.AddConversation(Conversation{ID: "C3", Kind: Channel, Absent: true})
	r.AddPerson("U1", "ann", "Ann Lee")
	return r
}

func TestAnIndependentClientIsServed(t *testing.T) {
	r := setup(t, Options{}, true)
	ctx := t.Context()
	me, err := r.client.AuthTestContext(ctx)
	if err != nil || me.UserID != Bot || me.BotID != BotID || me.TeamID != Team {
		t.Fatalf("got %+v, %v", me, err)
	}
	where, ts, err := r.client.PostMessageContext(ctx, "C1", slack.MsgOptionText("hi <https://a.test|there>", false), slack.MsgOptionTS("1.000001"))
	if err != nil || where != "C1" || ts == "" {
		t.Fatalf("got %q %q, %v", where, ts, err)
	}
	if _, _, text, err := r.client.UpdateMessageContext(ctx, "C1", ts, slack.MsgOptionText("bye", false)); err != nil || text != "bye" {
		t.Errorf("got %q, %v", text, err)
	}
	if got := r.Shown("C1"); len(got) != 1 || got[0].Text != "bye" || got[0].Thread != "1.000001" || got[0].Edits != 1 {
		t.Errorf("got %+v", got)
	}
	u, err := r.client.GetUserInfoContext(ctx, "U1")
	if err != nil || u.Name != "ann" || u.Profile.DisplayName != "Ann Lee" {
		t.Errorf("got %+v, %v", u, err)
	}
	file := r.AddFile(r.base, "F1", "cat.png", "image/png", []byte("meow"))
	var b strings.Builder
	if err := r.client.GetFileContext(ctx, file["url_private"].(string), &b); err != nil || b.String() != "meow" {
		t.Errorf("got %q, %v", b.String(), err)
	}
	if _, _, err := r.client.DeleteMessageContext(ctx, "C1", ts); err != nil || len(r.Shown("")) != 0 {
		t.Errorf("got %v, and %+v is left", err, r.Shown(""))
	}
	if _, err := r.client.UploadFileContext(ctx, slack.UploadFileParameters{
		Filename: "dog.txt", Content: "woof", FileSize: 4, Channel: "C1", ThreadTimestamp: "1.000001",
	}); err != nil {
		t.Error(err)
	}
	if got := r.Shown("C1"); len(got) != 1 || got[0].Thread != "1.000001" || got[0].More["files"] == nil {
		t.Errorf("got %+v, expected the file", got)
	}
	if n := len(r.Writes()); n != 4 {
		t.Errorf("got %d writes", n)
	}
}

func TestWhatIsRefusedIsRefusedInThePlatformsWords(t *testing.T) {
	r := setup(t, Options{}, false)
	ctx := t.Context()
	post := func(channel, text string) error {
		_, _, err := r.client.PostMessageContext(ctx, channel, slack.MsgOptionText(text, false))
		return err
	}
	_, ts, err := r.client.PostMessageContext(ctx, "C1", slack.MsgOptionText("hi", false))
	if err != nil {
		t.Fatal(err)
	}
	wrong := slack.New("xoxb-wrong", slack.OptionAPIURL(r.base+"/api/"), slack.OptionHTTPClient(&http.Client{Transport: r.Transport()}))
	_, auth := wrong.AuthTestContext(ctx)
	_, who := r.client.GetUserInfoContext(ctx, "U9")
	_, _, _, gone := r.client.UpdateMessageContext(ctx, "C1", "1.1", slack.MsgOptionText("x", false))
	_, _, _, long := r.client.UpdateMessageContext(ctx, "C1", ts, slack.MsgOptionText(strings.Repeat("x", 4001), false))
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"another token", auth, "invalid_auth"},
		{"nobody", who, "user_not_found"},
		{"no conversation", post("C9", "x"), "channel_not_found"},
		{"an archived one", post("C2", "x"), "is_archived"},
		{"not a member", post("C3", "x"), "not_in_channel"},
		{"no text", post("C1", " "), "no_text"},
		{"too long", post("C1", strings.Repeat("x", 4001)), "msg_too_long"},
		{"brackets of nothing", post("C1", "a <b> c"), "invalid_blocks"},
		{"a bracket alone", post("C1", "a > c"), "invalid_blocks"},
		{"no message", gone, "message_not_found"},
		{"an edit that is too long", long, "msg_too_long"},
	} {
		if e, ok := errors.AsType[slack.SlackErrorResponse](tt.err); !ok || e.Err != tt.want {
			t.Errorf("%s: got %v, expected %s", tt.name, tt.err, tt.want)
		}
	}
	if err := post("C1", "> a quote, <@U1>, <!here> &lt;b&gt;"); err != nil {
		t.Errorf("got %v of what the platform reads", err)
	}
	res, err := (&http.Client{Transport: r.Transport()}).Get(r.AddFile(r.base, "F1", "x", "text/plain", []byte("x"))["url_private"].(string))
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Errorf("got %v, %v for a file without the token", res, err)
	}
}

func TestAStreamedMessageIsAppendedToUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, Options{}, false)
		ctx := t.Context()
		start := func(channel string, options ...slack.MsgOption) (string, error) {
			_, ts, err := r.client.StartStreamContext(ctx, channel, append(options, slack.MsgOptionMarkdownText("a"))...)
			return ts, err
		}
		thread, user, team := slack.MsgOptionTS("1.000001"), slack.MsgOptionRecipientUserID("U1"), slack.MsgOptionRecipientTeamID(Team)
		ts, err := start("C1", thread, user, team)
		if err != nil {
			t.Fatal(err)
		}
		appendText := func(text string) error {
			_, _, err := r.client.AppendStreamContext(ctx, "C1", ts, slack.MsgOptionMarkdownText(text))
			return err
		}
		stop := func() error { _, _, err := r.client.StopStreamContext(ctx, "C1", ts); return err }
		update := func() error {
			_, _, _, err := r.client.UpdateMessageContext(ctx, "C1", ts, slack.MsgOptionText("x", false))
			return err
		}
		_, noThread := start("C1", user, team)
		_, noUser := start("C1", thread, team)
		_, noTeam := start("C1", thread, user)
		_, stranger := start("C1", thread, team, slack.MsgOptionRecipientUserID("U9"))
		_, direct := start("D1", thread, user, team)
		if _, err := start("D1", thread); err != nil {
			t.Errorf("a direct conversation: %v", err)
		}
		steps := []struct {
			name string
			err  error
			want string
		}{
			{"no thread", noThread, "invalid_thread_ts"},
			{"no user", noUser, "missing_recipient_user_id"},
			{"no team", noTeam, "missing_recipient_team_id"},
			{"a stranger", stranger, "user_not_found"},
			{"a recipient of a direct one", direct, "invalid_arguments"},
			{"more", appendText("b"), ""},
			{"nothing more", appendText(""), "no_text"},
			{"too much", appendText(strings.Repeat("x", 12_000)), "msg_too_long"},
			{"an edit", update(), "streaming_state_conflict"},
			{"the end", stop(), ""},
			{"another end", stop(), "message_not_in_streaming_state"},
			{"more after it", appendText("c"), "message_not_in_streaming_state"},
		}
		if got := r.Shown("C1"); len(got) != 1 || got[0].Text != "ab" {
			t.Errorf("got %+v", got)
		}
		if ts, err = start("C1", thread, user, team); err != nil {
			t.Fatal(err)
		}
		time.Sleep(streamLife)
		for _, step := range append(steps, struct {
			name string
			err  error
			want string
		}{"a stream after five minutes", stop(), "message_not_in_streaming_state"}) {
			got := ""
			if e, ok := errors.AsType[slack.SlackErrorResponse](step.err); ok {
				got = e.Err
			}
			if got != step.want {
				t.Errorf("%s: got %v, expected %q", step.name, step.err, step.want)
			}
		}
		if err := update(); err != nil {
			t.Errorf("an edit after the end: %v", err)
		}
	})
}

func TestItFailsAsItIsTold(t *testing.T) {
	r := setup(t, Options{}, false)
	try := func() error { _, err := r.client.AuthTestContext(t.Context()); return err }
	r.Fail(Fault{Status: 429, RetryAfter: 7, Skip: 1})
	if err := try(); err != nil {
		t.Errorf("got %v of a call that passes", err)
	}
	if e, ok := errors.AsType[*slack.RateLimitedError](try()); !ok || e.RetryAfter != 7*time.Second {
		t.Error("the client does not know a pause for one")
	}
	r.Fail(Fault{Error: "internal_error"})
	if e, ok := errors.AsType[slack.SlackErrorResponse](try()); !ok || e.Err != "internal_error" {
		t.Error("the client does not know an error for one")
	}
	r.Fail(Fault{Status: 502, Body: "<html>"})
	if e, ok := errors.AsType[slack.StatusCodeError](try()); !ok || e.Code != 502 {
		t.Error("the client does not know a gateway's page for one")
	}
	for cut, want := range map[Cut]error{Refused: net.Error(nil), CutBefore: io.ErrUnexpectedEOF, CutAfter: io.ErrUnexpectedEOF} {
		r.Fail(Fault{Method: "chat.postMessage", Cut: cut})
		before := len(r.Shown(""))
		_, _, err := r.client.PostMessageContext(t.Context(), "C1", slack.MsgOptionText("x", false))
		op, dial := errors.AsType[*net.OpError](err)
		if cut == Refused && (!dial || op.Op != "dial") || cut != Refused && !errors.Is(err, want) {
			t.Errorf("cut %d: got %v", cut, err)
		}
		if shown := len(r.Shown("")) > before; shown != (cut == CutAfter) {
			t.Errorf("cut %d: it is shown: %t", cut, shown)
		}
	}
	r.Fail(Fault{Times: -1, Error: "x"})
	r.Mend()
	if err := try(); err != nil {
		t.Errorf("got %v after all was mended", err)
	}
}

func TestEventsAreThoseThatAnIndependentReaderKnows(t *testing.T) {
	r := setup(t, Options{Echo: true}, true)
	m := r.Say(Message{Channel: "C1", User: "U1", Text: "<@" + Bot + "> hi", Thread: "1.000001"})
	r.Edit(m, "bye")
	r.Delete(m)
	_, ts, err := r.client.PostMessageContext(t.Context(), "C1", slack.MsgOptionText("answer", false))
	if err != nil {
		t.Fatal(err)
	}
	r.Tell(r.Command("/ling", "help me", "C1", "U1"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := r.Await(ctx, func() bool { return len(r.Deliveries()) == 6 }); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	ids := map[string]bool{}
	for i, body := range r.body {
		v, err := slack.NewSecretsVerifier(r.told[i].Header, r.Secret())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := v.Ensure(); err != nil {
			t.Errorf("the signature is not good: %v", err)
		}
		if body[0] != '{' {
			req := r.told[i].Clone(t.Context())
			req.Body = io.NopCloser(strings.NewReader(string(body)))
			c, err := slack.SlashCommandParse(req)
			if err != nil || c.Command != "/ling" || c.Text != "help me" || c.ChannelID != "C1" || c.UserID != "U1" || c.TriggerID == "" {
				t.Errorf("got %+v, %v", c, err)
			}
			kinds = append(kinds, "command")
			continue
		}
		e, err := slackevents.ParseEvent(json.RawMessage(body), slackevents.OptionNoVerifyToken())
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if call, ok := e.Data.(*slackevents.EventsAPICallbackEvent); !ok || call.EventID == "" || ids[call.EventID] || e.TeamID != Team {
			t.Errorf("got %+v", e)
		} else {
			ids[call.EventID] = true
		}
		switch in := e.InnerEvent.Data.(type) {
		case *slackevents.AppMentionEvent:
			kinds = append(kinds, "mention")
			if in.TimeStamp != m.TS || in.ThreadTimeStamp != "1.000001" || in.User != "U1" || in.Channel != "C1" {
				t.Errorf("got %+v", in)
			}
		case *slackevents.MessageEvent:
			kind := "message"
			switch in.SubType {
			case "message_changed":
				kind = "edit"
				if in.Message == nil || in.Message.Text != "bye" || in.PreviousMessage.Timestamp != m.TS {
					t.Errorf("got %+v", in)
				}
			case "message_deleted":
				kind = "deletion"
				if in.PreviousMessage == nil || in.PreviousMessage.Timestamp != m.TS {
					t.Errorf("got %+v", in)
				}
			default:
				if in.BotID != "" {
					kind = "echo"
					if in.TimeStamp != ts || in.User != Bot {
						t.Errorf("got %+v", in)
					}
				} else if in.TimeStamp != m.TS || in.ChannelType != Channel || in.ThreadTimeStamp != "1.000001" {
					t.Errorf("got %+v", in)
				}
			}
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	if want := []string{"command", "deletion", "echo", "edit", "mention", "message"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, expected %q", kinds, want)
	}
}

func TestAnEventThatIsNotTakenIsRepeatedThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, Options{}, false)
		r.do = func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("X-Slack-Retry-Num") == "1" {
				<-req.Context().Done() // too slow
				return
			}
			w.WriteHeader(http.StatusInternalServerError)
		}
		began := time.Now()
		r.Say(Message{Channel: "D1", User: "U1", Text: "hi"})
		time.Sleep(time.Hour)
		var got []string
		for _, d := range r.Deliveries() {
			got = append(got, d.Reason)
		}
		if !slices.Equal(got, []string{"", "http_error", "http_timeout", "http_error"}) {
			t.Errorf("got %q", got)
		}
		if d := r.Deliveries()[1]; d.Status != 0 || d.Took != 3*time.Second || time.Since(began) != time.Hour {
			t.Errorf("got %+v, expected that 3 s were waited", d)
		}
		for i := 1; i < len(r.body); i++ {
			if string(r.body[i]) != string(r.body[0]) {
				t.Error("a repetition is another event")
			}
		}
	})
}
