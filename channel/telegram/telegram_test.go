package telegram_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

func TestSettingsAreChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		s    telegram.Settings
		want string
	}{
		"no token":                    {telegram.Settings{}, "token is missing"},
		"a token that is none":        {telegram.Settings{Token: "canary token"}, "the token is invalid"},
		"a webhook without address":   {telegram.Settings{Token: "42:x", Mode: telegram.ModeWebhook}, "mode webhook needs public_url"},
		"more than the public server": {telegram.Settings{Token: "42:x", Settings: platform.Settings{MaxMedia: 21 << 20}}, "expected at most 20971520 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := telegram.New(tt.s)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "telegram: ") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v, expected %s", err, tt.want)
			}
		})
	}
	if _, err := telegram.New(telegram.Settings{Token: "42:x", Settings: platform.Settings{API: "http://127.0.0.1:8081", MaxMedia: 1 << 30}}); err != nil {
		t.Error(err)
	}
}

// CH-174
func TestCheckSaysWhetherItCouldStart(t *testing.T) {
	for name, tt := range map[string]struct {
		fault    faketelegram.Fault
		change   func(*telegram.Settings)
		readsAll bool
		want     string
		about    string
	}{
		"it could":                  {about: "@ling_bot, in privacy mode: in groups, it sees only commands, mentions and replies to it"},
		"it sees all messages":      {readsAll: true, about: "@ling_bot, sees all messages of its groups"},
		"a token that is not valid": {fault: faketelegram.Fault{Method: "getMe", Code: 401}, want: "the token is not valid; take the one that @BotFather shows"},
		"a token of nobody":         {change: func(s *telegram.Settings) { s.Token = "43:other" }, want: "the token is not valid"},
		"no server":                 {fault: faketelegram.Fault{Method: "getMe", Cut: faketelegram.Refused}, want: "cannot connect to the platform"},
		"another server":            {fault: faketelegram.Fault{Method: "getMe", Body: "<html>hello</html>"}, want: "not from a Bot API; check the setting api"},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{settings: tt.change, fake: &faketelegram.Options{ReadsAll: tt.readsAll}})
			if tt.fault.Method != "" {
				r.fake.Fail(tt.fault)
			}
			err := r.channel.Check(t.Context())
			switch {
			case (err == nil) != (tt.want == ""):
				t.Error(err)
			case err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "42:fake") || strings.Contains(err.Error(), "43:other")):
				t.Error(err)
			case tt.about != "" && r.channel.About() != tt.about:
				t.Error(r.channel.About())
			}
			if len(r.fake.Writes()) != 0 || len(r.fake.Calls("deleteWebhook")) != 0 {
				t.Error("it has changed something")
			}
		})
	}
}

// CH-179, section 18
func TestNoLogAndNoErrorHasTheTokenOrTheWordsOfPeople(t *testing.T) {
	const canary = "canary-7f3"
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{fake: &faketelegram.Options{Token: "42:" + canary}})
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
		r.serve()
		doc := r.fake.AddFile(canary+".txt", []byte(canary))
		for i := range 12 {
			by := &faketelegram.User{ID: 7, FirstName: canary, Username: canary}
			r.say(faketelegram.Message{Chat: private, From: by, Caption: canary, Document: &doc})
			time.Sleep(time.Duration(i) * 30 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		if len(r.Told()) == 0 {
			t.Fatal("no turn has run")
		}
		if log := r.log.String(); strings.Contains(log, canary) {
			at := strings.Index(log, canary)
			t.Errorf("the log has %q", log[max(0, at-200):at+20])
		}
		for _, tr := range r.Traces() {
			if tr.Err != nil && strings.Contains(tr.Err.Error(), canary) || strings.Contains(tr.Warning+tr.Setting, canary) {
				t.Error(tr)
			}
		}
	})
}

// CL-02: any replica takes what the platform sends with the secret that another one has set.
func TestReplicasExpectTheSameSecret(t *testing.T) {
	secretOf := func(token platform.Secret) (set string) {
		bubble(t, "secret", func(t *testing.T) {
			r := setup(t, options{fake: &faketelegram.Options{Token: strings.TrimSpace(string(token)), Deliver: &http.Client{Transport: nowhere{}}}, settings: func(s *telegram.Settings) {
				webhook(s)
				s.Token = token
			}}).serve()
			set = r.fake.Calls("setWebhook")[0].Params["secret_token"]
		})
		return set
	}
	one := secretOf("1:abc")
	if other := secretOf(" 1:abc\n"); one != other || len(one) < 32 || strings.Contains(one, "abc") {
		t.Errorf("the secrets are %q and %q", one, other)
	}
	if other := secretOf("1:abd"); one == other {
		t.Error("another bot has the same secret")
	}
}
