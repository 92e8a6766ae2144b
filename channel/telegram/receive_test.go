package telegram_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// CH-170
func TestPollingAsksForWhatItUnderstands(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		time.Sleep(80 * time.Second)
		var names []string
		for _, c := range r.fake.Calls() {
			names = append(names, c.Method)
			if c.Params["drop_pending_updates"] == "true" {
				t.Error("pending updates are dropped")
			}
			if c.Method == "getUpdates" && (c.Params["timeout"] != "50" || c.Params["allowed_updates"] != `["message","edited_message","channel_post","edited_channel_post","callback_query"]`) {
				t.Errorf("%v", c.Params)
			}
		}
		if d := cmp.Diff([]string{"getMe", "deleteWebhook", "getUpdates"}, names); d != "" {
			t.Error(d)
		}
	})
}

// CH-170, CH-71
func TestTheOffsetMovesAfterAccept(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{})
		r.store.broken.Store(true)
		r.serve()
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if len(r.fake.Pending()) != 1 || len(r.Told()) != 0 {
			t.Fatal("what was not accepted is confirmed, or was run")
		}
		r.store.broken.Store(false)
		time.Sleep(time.Minute)
		r.one()
		if n := len(r.fake.Pending()); n != 0 {
			t.Errorf("%d pending", n)
		}
	})
}

func TestAWebhookIsRemovedAndItsUpdatesCome(t *testing.T) {
	for name, later := range map[string]bool{"set before": false, "set later": true} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{fake: &faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}}})
			if later {
				r.serve()
			}
			r.setWebhook("https://other.example/")
			r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "say pending"})
			if !later {
				r.serve()
			}
			time.Sleep(time.Minute)
			if got := r.ours(private.ID); !slices.Equal(got, []string{"pending"}) || r.fake.Webhook().URL != "" {
				t.Errorf("got %q, webhook %q", got, r.fake.Webhook().URL)
			}
		})
	}
}

// setWebhook sets a webhook as another program does.
func (r *rig) setWebhook(address string) {
	r.t.Helper()
	client := &http.Client{Transport: r.fake.Transport()}
	res, err := client.Post("http://api.test/bot"+r.fake.Token()+"/setWebhook", "application/json", strings.NewReader(`{"url":"`+address+`"}`))
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatal(err)
	}
	res.Body.Close()
}

// CH-170
func TestASecondReaderIsNamedInTheLog(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{})
		r.fake.Fail(faketelegram.Fault{Method: "getUpdates", Code: http.StatusConflict, Times: 5})
		r.serve()
		time.Sleep(2 * time.Minute)
		if n := strings.Count(r.log.String(), "another program reads this bot's updates"); n != 5 {
			t.Errorf("the log says so %d times, expected one for each attempt", n)
		}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		r.one()
	})
}

// CH-179
func TestPollingGoesOnAfterFailures(t *testing.T) {
	for name, f := range map[string]faketelegram.Fault{
		"a gateway's page":         {Code: http.StatusBadGateway, Body: "<html>bad gateway</html>"},
		"a refused connection":     {Cut: faketelegram.Refused},
		"a connection that is cut": {Cut: faketelegram.CutBefore},
		"updates that were lost":   {Cut: faketelegram.CutAfter},
		"too many requests":        {Code: http.StatusTooManyRequests, RetryAfter: 7},
		"a body that is no JSON":   {Body: "{"},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{})
			f := f
			f.Method, f.Times = "getUpdates", 3
			r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
			r.fake.Fail(f)
			r.serve()
			time.Sleep(2 * time.Minute)
			r.one()
			if strings.Contains(r.log.String(), r.fake.Token()) {
				t.Error("the token is in the log")
			}
		})
	}
}

// After a week without updates, the platform chooses the next id at random.
func TestIDsMayBeginAgain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(2 * time.Minute)
		r.fake.Again(faketelegram.Update{ID: 3, Kind: "message", Data: faketelegram.Message{ID: 99, Chat: private, From: ann, Date: 1, Text: "still there?"}})
		time.Sleep(time.Minute)
		if len(r.Told()) != 2 || len(r.fake.Pending()) != 0 {
			t.Errorf("%d turns, %d pending", len(r.Told()), len(r.fake.Pending()))
		}
	})
}

// CH-179
func TestAnInvalidTokenStopsTheChannel(t *testing.T) {
	for name, method := range map[string]string{"at the start": "getMe", "later": "getUpdates", "in an answer": "sendMessage"} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{})
			r.fake.Fail(faketelegram.Fault{Method: method, Code: http.StatusUnauthorized, Times: -1})
			r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
			r.serve()
			err := <-r.done
			r.done <- err
			if err == nil || !strings.Contains(err.Error(), "token is not valid") || strings.Contains(err.Error(), "42:fake") || r.channel.Ready() == nil {
				t.Errorf("%v, ready: %v", err, r.channel.Ready())
			}
		})
	}
}

func TestAWebhookIsSetAndStays(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: webhook, fake: &faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}}}).serve()
		set := r.fake.Calls("setWebhook")
		if len(set) != 1 || set[0].Params["secret_token"] != secret || set[0].Params["drop_pending_updates"] == "true" || !strings.Contains(set[0].Params["allowed_updates"], "edited_message") {
			t.Errorf("%v", set)
		}
		if err := r.end(); err != nil || r.fake.Webhook().URL != "https://here.test/v1/channels/telegram/webhook" {
			t.Errorf("%v; the webhook is %q", err, r.fake.Webhook().URL)
		}
	})
}

// CH-170, DA-02
func TestTheWebhookTakesUpdatesWithItsSecretOnly(t *testing.T) {
	const good = `{"update_id":5,"message":{"message_id":1,"date":1,"chat":{"id":7,"type":"private"},"from":{"id":7,"first_name":"A"},"text":"hi"}}`
	for name, tt := range map[string]struct {
		method, secret, body string
		status, turns        int
	}{
		"as it should be":        {http.MethodPost, secret, good, 200, 1},
		"no secret":              {http.MethodPost, "", good, 401, 0},
		"a wrong one":            {http.MethodPost, "wrong", good, 401, 0},
		"the beginning of it":    {http.MethodPost, secret[:4], good, 401, 0},
		"more than it":           {http.MethodPost, secret + "!", good, 401, 0},
		"another method":         {http.MethodGet, secret, good, 405, 0},
		"no update":              {http.MethodPost, secret, `{"a":1}`, 400, 0},
		"no object":              {http.MethodPost, secret, `[]`, 400, 0},
		"no JSON":                {http.MethodPost, secret, `{`, 400, 0},
		"more than a megabyte":   {http.MethodPost, secret, `{"update_id":5,"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, 0},
		"an unknown kind":        {http.MethodPost, secret, `{"update_id":6,"new_thing":{}}`, 200, 0},
		"a message without form": {http.MethodPost, secret, `{"update_id":1,"message":{"message_id":"five"}}`, 200, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{settings: webhook}).serve()
			req := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
			if tt.secret != "" {
				req.Header.Set("X-Telegram-Bot-Api-Secret-Token", tt.secret)
			}
			w := httptest.NewRecorder()
			r.channel.Webhook().ServeHTTP(w, req)
			time.Sleep(time.Second)
			if n := len(r.Told()); w.Code != tt.status || w.Body.Len() != 0 || n != tt.turns {
				t.Errorf("status %d, body %q, %d turns; expected %d, no body, %d", w.Code, w.Body, n, tt.status, tt.turns)
			}
		})
	}
	bubble(t, "unread", func(t *testing.T) {
		hook := setup(t, options{settings: webhook}).serve().channel.Webhook()
		channeltest.RefusesUnread(t, hook, http.Header{"X-Telegram-Bot-Api-Secret-Token": {"x"}}, 1<<20, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, hook, http.Header{"X-Telegram-Bot-Api-Secret-Token": {secret}}, 1<<20+1, http.StatusRequestEntityTooLarge)
	})
}

// CH-71
func TestTheWebhookAnswersWhenTheUpdateIsStored(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: webhook})
		release := make(chan struct{})
		r.Answers(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			<-release
			return channel.DispatchResult{NoReply: true}, nil
		})
		send := func() *httptest.ResponseRecorder {
			m := faketelegram.Message{ID: 1, Date: 1, Chat: private, From: ann, Text: "hi"}
			return post(t.Context(), r.channel.Webhook(), faketelegram.Update{ID: 5, Kind: "message", Data: m})
		}
		if w := send(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("before it serves: %d", w.Code)
		}
		r.serve()
		r.store.broken.Store(true)
		if w := send(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("when it cannot be stored: %d", w.Code)
		}
		r.store.broken.Store(false)
		for range 3 { // while the turn goes on
			if w := send(); w.Code != http.StatusOK {
				t.Errorf("%d", w.Code)
			}
		}
		synctest.Wait()
		r.one()
		close(release)
	})
}

func TestARefusedAddressEndsTheChannel(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: func(s *telegram.Settings) { s.Mode, s.PublicURL = telegram.ModeWebhook, "http://here.test" }}).serve()
		err := <-r.done
		r.done <- err
		if err == nil || !strings.Contains(err.Error(), "address of the webhook") {
			t.Error(err)
		}
	})
}

// FuzzWebhook brings any update: it is taken or refused, and whoever sent it starts at most one turn.
func FuzzWebhook(f *testing.F) {
	for _, s := range []string{
		`{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"text":"/a_b@ling_bot x","entities":[{"type":"bot_command","offset":0,"length":13}]}}`,
		`{"update_id":1,"edited_message":{"message_id":5,"chat":{"id":-7,"type":"supergroup"},"is_topic_message":true,"message_thread_id":2,"caption":"😀@ling_bot","caption_entities":[{"type":"mention","offset":2,"length":9},{"type":"text_link","offset":0,"length":2,"url":"x"}]}}`,
		`{"update_id":1,"message":{"forward_origin":{"type":"x"},"reply_to_message":{"message_id":1},"photo":[{"file_id":"a","width":9}]}}`,
		`{"update_id":1,"callback_query":{"id":"1","from":{"id":1}}}`,
		`{"update_id":18446744073709551616}`,
		`{"update_id":1,"message":{"message_id":5,"chat":{"id":7,"type":"private"},"text":"a\ud800b","entities":[{"type":"mention","offset":1,"length":1},{"type":"text_link","offset":-1,"length":4611686018427387904,"url":"x"}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			r := setup(t, options{settings: webhook}).serve()
			req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
			req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
			w := httptest.NewRecorder()
			r.channel.Webhook().ServeHTTP(w, req)
			time.Sleep(time.Minute)
			if n := len(r.Told()); w.Code != http.StatusOK && w.Code != http.StatusBadRequest || n > 1 || strings.Contains(r.log.String(), "panic") {
				t.Errorf("status %d, %d turns: %s", w.Code, n, r.log)
			}
		})
	})
}
