package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// CH-171: the platform sets the webhook and delivers through it, over real sockets.
func TestAWebhookIsSetAndServed(t *testing.T) {
	fake := faketelegram.New(nil)
	api := httptest.NewServer(fake)
	defer api.Close()
	defer fake.Close()
	var c *Channel
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/channels/telegram/webhook" {
			t.Error(r.URL.Path)
		}
		c.Webhook().ServeHTTP(w, r)
	}))
	defer here.Close()
	defer http.DefaultClient.CloseIdleConnections()
	c, err := New(Settings{Token: secret.Text(fake.Token()), API: api.URL, Mode: ModeWebhook, PublicURL: here.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	k := kernel(t, channel.Place{})
	k.Agent = agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "hi"})
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, k) }()
	fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "hello"})
	if err := fake.Await(timeout(t), func() bool { return len(fake.Messages(7, fake.Me().ID)) == 1 }); err != nil {
		t.Error(err)
	}
	set := fake.Calls("setWebhook")
	if len(set) != 1 || len(set[0].Params["secret_token"]) < 32 || set[0].Params["drop_pending_updates"] == "true" || !strings.Contains(set[0].Params["allowed_updates"], "edited_message") {
		t.Errorf("%v", set)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if fake.Webhook().URL == "" {
		t.Error("the webhook was removed at the end; what comes meanwhile is lost to another reader")
	}
}

// DA-02
func TestRequestThatCannotBeValidIsRefusedUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const secret = "right-0123456789"
		r := setup(t, func(s *Settings) { s.Mode, s.PublicURL, s.Secret = ModeWebhook, "https://here.test", secret }, nil)
		r.serve(t)
		channeltest.RefusesUnread(t, r.channel.Webhook(), http.Header{secretHeader: {"x"}}, 1<<20, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.channel.Webhook(), http.Header{secretHeader: {secret}}, 1<<20+1, http.StatusRequestEntityTooLarge)
	})
}

// CH-171, SE-19
func TestTheWebhookTakesNothingWithoutItsSecret(t *testing.T) {
	good := `{"update_id":5,"message":{"message_id":1,"date":1,"chat":{"id":7,"type":"private"},"from":{"id":7,"first_name":"A"},"text":"hi"}}`
	for name, tt := range map[string]struct {
		method, secret, body string
		status               int
		turns                int
	}{
		"as it should be":                        {http.MethodPost, "right-0123456789", good, 200, 1},
		"no secret":                              {http.MethodPost, "", good, 401, 0},
		"a wrong one":                            {http.MethodPost, "wrong", good, 401, 0},
		"the start of it":                        {http.MethodPost, "righ", good, 401, 0},
		"more than it":                           {http.MethodPost, "right!", good, 401, 0},
		"another method":                         {http.MethodGet, "right-0123456789", good, 405, 0},
		"what is no update":                      {http.MethodPost, "right-0123456789", `{"a":1}`, 400, 0},
		"what is no JSON":                        {http.MethodPost, "right-0123456789", `{`, 400, 0},
		"more than a megabyte":                   {http.MethodPost, "right-0123456789", `{"update_id":5,"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, 0},
		"an unknown kind":                        {http.MethodPost, "right-0123456789", `{"update_id":6,"new_thing":{}}`, 200, 0},
		"the same behind a lot without a secret": {http.MethodPost, "", strings.Repeat("x", 2<<20), 401, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) {
					s.Mode, s.PublicURL, s.Secret = ModeWebhook, "https://here.test", "right-0123456789"
				}, nil)
				r.serve(t)
				req := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
				if tt.secret != "" {
					req.Header.Set(secretHeader, tt.secret)
				}
				w := httptest.NewRecorder()
				r.channel.Webhook().ServeHTTP(w, req)
				if w.Code != tt.status || w.Body.Len() != 0 {
					t.Errorf("status %d, body %q; expected %d and nothing", w.Code, w.Body, tt.status)
				}
				time.Sleep(time.Second)
				if n := len(r.told()); n != tt.turns {
					t.Errorf("%d turns, expected %d", n, tt.turns)
				}
			})
		})
	}
}

// CH-71, CH-171, FT-33
func TestTheWebhookAnswersWhenTheUpdateIsStoredAndBeforeItRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) {
			s.Mode, s.PublicURL, s.Secret = ModeWebhook, "https://here.test", "right-0123456789"
		}, nil)
		j := &brokenJournal{Journal: channel.NewJournal(nil)}
		r.kernel.Journal = j
		release := make(chan struct{})
		r.answer = func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			<-release
			return channel.DispatchResult{NoReply: true}, nil
		}
		post := func() *httptest.ResponseRecorder {
			body, err := json.Marshal(faketelegram.Update{ID: 5, Kind: "message", Data: faketelegram.Message{ID: 1, Date: 1, Chat: private, From: ann, Text: "hi"}})
			if err != nil {
				t.Fatal(err)
			}
			req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
			req.Header.Set(secretHeader, "right-0123456789")
			w := httptest.NewRecorder()
			r.channel.Webhook().ServeHTTP(w, req)
			return w
		}
		if w := post(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("before it serves: %d", w.Code)
		}
		r.serve(t)
		j.broken.Store(true)
		if w := post(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("when it cannot be stored: %d", w.Code)
		}
		j.broken.Store(false)
		for range 3 { // the turn has not ended, and there is only one
			if w := post(); w.Code != http.StatusOK {
				t.Errorf("%d", w.Code)
			}
		}
		time.Sleep(time.Second)
		if n := len(r.told()); n != 1 {
			t.Errorf("%d turns", n)
		}
		close(release)
	})
}

func TestAnAddressThatThePlatformDoesNotTakeEndsTheChannel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Mode, s.PublicURL = ModeWebhook, "http://here.test" }, nil)
		r.serve(t)
		err := <-r.done
		r.done = nil
		if err == nil || !strings.Contains(err.Error(), "address of the webhook") {
			t.Error(err)
		}
	})
}

// CH-192, CH-74, FT-33: the process is gone at some point, and another one begins with what is on disk.
func TestACrashLosesNoMessageAndRepeatsNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(r *rig) // what the first process does until it is gone
		shown  []string     // at the end
	}{
		"after accept": {
			before: func(r *rig) {
				r.answer = func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
					<-ctx.Done()
					return channel.DispatchResult{}, context.Cause(ctx)
				}
			},
			shown: []string{"ok"},
		},
		"while a preview stands there": {
			before: func(r *rig) {
				r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					turn.Sink.Preview(channel.Payload{Text: "half"})
					<-ctx.Done()
					return channel.DispatchResult{}, context.Cause(ctx)
				}
			},
			shown: []string{"half", "The server restarted during the answer. The answer may be incomplete."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				first := channeltest.Open(t, dir)
				snapshot := &snapshots{Journal: first, Ledger: first, Shower: first, dir: dir, to: t.TempDir()}
				r.kernel.Journal = snapshot
				tt.before(r)
				r.serve(t)
				r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
				time.Sleep(3 * time.Second)
				snapshot.take(t) // what a crash would leave, here and now
				shown := r.ours(private.ID)
				_ = r.end()
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				second := setup(t, nil, nil)
				for _, text := range shown {
					_ = second.channel.api.call(t.Context(), callTimeout, "sendMessage", map[string]any{"chat_id": 7, "text": text}, nil)
				}
				journal := channeltest.Open(t, snapshot.to)
				second.kernel.Journal = journal
				keeps := &keeper{agentFunc: second.dispatch}
				second.kernel.Agent = keeps
				second.serve(t)
				time.Sleep(2 * time.Minute)
				if d := cmp.Diff(tt.shown, second.ours(private.ID)); d != "" {
					t.Error(d)
				}
				if err := second.end(); err != nil {
					t.Error(err)
				}
				// DC-09: what was shown of an unfinished answer is given to the agent, and is in no file afterwards.
				if want := map[bool][]string{true: {"telegram:7: half"}}[name == "while a preview stands there"]; !slices.Equal(keeps.kept, want) {
					t.Errorf("kept %q, expected %q", keeps.kept, want)
				}
				if err := journal.Close(); err != nil {
					t.Error(err)
				}
				files, err := filepath.Glob(filepath.Join(snapshot.to, "*.table"))
				if err != nil || len(files) != 2 {
					t.Fatal(files, err)
				}
				for _, file := range files {
					if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("half")) {
						t.Errorf("%s has what was shown: %v", file, err)
					}
				}
			})
		})
	}
}

// CH-172, and what Check says.
func TestCheckSaysWhetherItCouldStart(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  faketelegram.Fault
		change func(*Settings)
		hook   string
		want   string
	}{
		"it could":                  {},
		"a token that is not valid": {fault: faketelegram.Fault{Method: "getMe", Code: 401}, want: "the token is not valid; take the one that @BotFather shows"},
		"a token of nobody":         {change: func(s *Settings) { s.Token = "43:other" }, want: "the token is not valid"},
		"nobody there":              {fault: faketelegram.Fault{Method: "getMe", Cut: faketelegram.Refused}, want: "cannot connect to the platform"},
		"another server":            {fault: faketelegram.Fault{Method: "getMe", Body: "<html>hello</html>"}, want: "not from a Bot API; check the setting api"},
		"a webhook elsewhere":       {hook: "https://other.example/hook", want: "this bot has a webhook"},
		"one at another address":    {hook: "https://other.example/hook", change: func(s *Settings) { s.Mode, s.PublicURL = ModeWebhook, "https://here.test" }, want: "this bot's webhook has another address"},
		"one that is ours":          {hook: "https://here.test/v1/channels/telegram/webhook", change: func(s *Settings) { s.Mode, s.PublicURL = ModeWebhook, "https://here.test" }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, tt.change, &faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}})
				if tt.hook != "" {
					if err := r.channel.api.call(t.Context(), callTimeout, "setWebhook", map[string]string{"url": tt.hook}, nil); err != nil {
						t.Fatal(err)
					}
				}
				if tt.fault.Method != "" {
					r.fake.Fail(tt.fault)
				}
				err := r.channel.Check(t.Context())
				switch {
				case tt.want == "" && err != nil, tt.want != "" && err == nil:
					t.Error(err)
				case err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "42:fake") || strings.Contains(err.Error(), "43:other") || strings.Contains(err.Error(), "other.example")):
					t.Error(err)
				}
				if len(r.fake.Writes()) != 0 || len(r.fake.Calls("deleteWebhook")) != 0 {
					t.Error("it has changed something")
				}
			})
		})
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		s    Settings
		want string
	}{
		"no token":                    {Settings{}, "token is missing"},
		"a token that is none":        {Settings{Token: "canary token"}, "the token is invalid"},
		"a mode":                      {Settings{Token: "42:x", Mode: "push"}, `mode is "push"; expected poll or webhook`},
		"a webhook without address":   {Settings{Token: "42:x", Mode: ModeWebhook}, "mode webhook needs public_url"},
		"a secret with a space":       {Settings{Token: "42:x", Mode: ModeWebhook, PublicURL: "https://a.example", Secret: "canary secret of 23 chars"}, "the secret of the webhook must have 16 to 256"},
		"a secret of one":             {Settings{Token: "42:x", Mode: ModeWebhook, PublicURL: "https://a.example", Secret: "x"}, "the secret of the webhook must have 16 to 256"},               // DA-12
		"a short secret":              {Settings{Token: "42:x", Mode: ModeWebhook, PublicURL: "https://a.example", Secret: "canary-456789ab"}, "the secret of the webhook must have 16 to 256"}, // DA-12
		"an address":                  {Settings{Token: "42:x", API: "telegram.org"}, "api is not an address"},
		"a preview":                   {Settings{Token: "42:x", Preview: "on"}, `preview is "on"; expected edit, draft or off`},
		"a parse mode":                {Settings{Token: "42:x", ParseMode: "bbcode"}, `parse_mode is "bbcode"; expected html or markdownv2`},
		"more than the public server": {Settings{Token: "42:x", MaxMedia: 21 << 20}, "expected at most 20971520 bytes"},
		"a folder that moves":         {Settings{Token: "42:x", Files: "files"}, "files is not an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tt.s)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v, expected %s", err, tt.want)
			}
		})
	}
	if _, err := New(Settings{Token: "42:x", API: "http://127.0.0.1:8081", MaxMedia: 1 << 30, Files: "/var/files"}); err != nil {
		t.Error(err)
	}
}

// CH-179, CH-193
func TestNothingThatIsSaidHasTheTokenOrTheWordsOfOthersInIt(t *testing.T) {
	const canary = "canary-7f3"
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Token = "42:" + canary }, &faketelegram.Options{Token: "42:" + canary})
		for _, method := range []string{"getMe", "deleteWebhook", "getUpdates", "sendMessage", "sendChatAction", "getFile", "download"} {
			for _, f := range []faketelegram.Fault{
				{Code: 500, Description: "Internal " + canary},
				{Cut: faketelegram.CutBefore},
				{Cut: faketelegram.Refused},
				{Code: 502, Body: "<html>" + canary},
				{Body: `{"ok":true,"result":"` + canary + `"}`},
				{Code: 429, RetryAfter: 1, Description: canary},
			} {
				f.Method = method
				r.fake.Fail(f)
			}
		}
		off := kernel(t, channel.Place{})
		r.kernel.Settings, r.kernel.Routes = off.Settings, off.Routes
		r.serve(t)
		doc := r.fake.AddFile(canary+".txt", []byte(canary))
		for i := range 12 {
			r.say(faketelegram.Message{Chat: private, From: &faketelegram.User{ID: 7, FirstName: canary, Username: canary}, Caption: canary, Document: &doc})
			time.Sleep(time.Duration(i) * 30 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		if len(r.told()) == 0 {
			t.Fatal("nothing was run")
		}
		if log := r.log.String(); strings.Contains(log, canary) {
			at := strings.Index(log, canary)
			t.Errorf("the log has %q", log[max(0, at-200):at+20])
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, tr := range r.traces {
			if tr.Err != nil && strings.Contains(tr.Err.Error(), canary) {
				t.Error(tr.Err)
			}
			if strings.Contains(tr.Warning+tr.Hint+tr.Setting, canary) {
				t.Error(tr)
			}
		}
	})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	c, err := New(Settings{Token: "42:x", API: here.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context()); err == nil || asked != 0 {
		t.Errorf("%v, and it was asked elsewhere %d times", err, asked)
	}
}

// CL-02, CH-171: what the platform sends with the secret that one replica has set is taken by all.
func TestReplicasExpectTheSameSecret(t *testing.T) {
	secretOf := func(token string, given secret.Text) string {
		c, err := New(Settings{Token: secret.Text(token), Mode: ModeWebhook, PublicURL: "https://bot.example", Secret: given})
		if err != nil {
			t.Fatal(err)
		}
		return c.secret
	}
	one := secretOf("1:abc", "")
	if other := secretOf(" 1:abc\n", ""); one != other || len(one) < 32 || strings.Contains(one, "abc") {
		t.Errorf("the secrets are %q and %q", one, other)
	}
	if other := secretOf("1:abd", ""); one == other {
		t.Error("another bot has the same secret")
	}
	if got := secretOf("1:abc", "mine-0123456789a"); got != "mine-0123456789a" {
		t.Errorf("the secret of the settings is %q", got)
	}
}
