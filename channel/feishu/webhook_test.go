package feishu_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

const (
	key   = "kudryavka-fake-key"   // the default Encrypt Key of the platform
	token = "verify-me-fake-token" // the default verification token
)

func TestTheChallengeIsAnsweredBeforeTheChannelServes(t *testing.T) {
	r := setup(t, options{})
	w := httptest.NewRecorder()
	r.channel.Webhook().ServeHTTP(w, r.fake.Request(t.Context(), r.fake.Challenge("who-are-you")))
	if w.Code != http.StatusOK || w.Body.String() != `{"challenge":"who-are-you"}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestARequestThatCannotBeValidIsRefusedUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		signed := func(at time.Time) http.Header {
			q := httptest.NewRequest(http.MethodPost, "/", nil)
			fakefeishu.Sign(q, key, nil, at)
			return q.Header
		}
		const large = 1 << 20
		channeltest.RefusesUnread(t, r.channel.Webhook(), http.Header{}, large, http.StatusRequestEntityTooLarge) // only a challenge is not signed
		channeltest.RefusesUnread(t, r.channel.Webhook(), signed(time.Now().Add(-time.Hour)), large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.channel.Webhook(), signed(time.Now()), large+1, http.StatusRequestEntityTooLarge)
	})
}

// Whatever is wrong, the response is the same, and says nothing.
func TestTheWebhookAcceptsOnlyRequestsOfThePlatform(t *testing.T) {
	event := func(r *rig) string {
		e, _ := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		data, _ := json.Marshal(e)
		return string(data)
	}
	post := func(body string) *http.Request {
		return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	}
	encrypt := func(key, text string) string {
		data, _ := json.Marshal(map[string]string{"encrypt": fakefeishu.Encrypt(key, []byte(text))})
		return string(data)
	}
	signed := func(key, body string, age time.Duration) *http.Request {
		q := post(body)
		fakefeishu.Sign(q, key, []byte(body), time.Now().Add(-age))
		return q
	}
	// header changes a header of a request that is valid.
	header := func(name, value string) func(*rig) *http.Request {
		return func(r *rig) *http.Request {
			q := signed(key, encrypt(key, event(r)), 0)
			q.Header.Set(name, value)
			return q
		}
	}
	challenge := `{"challenge":"c","token":"` + token + `","type":"url_verification"}`
	for name, tt := range map[string]struct {
		request func(r *rig) *http.Request
		status  int
	}{
		"encrypted and signed":       {func(r *rig) *http.Request { return signed(key, encrypt(key, event(r)), 0) }, 200},
		"5 minutes ago":              {func(r *rig) *http.Request { return signed(key, encrypt(key, event(r)), 5*time.Minute) }, 200},
		"from a clock ahead":         {func(r *rig) *http.Request { return signed(key, encrypt(key, event(r)), -5*time.Minute) }, 200},
		"too old":                    {func(r *rig) *http.Request { return signed(key, encrypt(key, event(r)), 301*time.Second) }, 401},
		"too new":                    {func(r *rig) *http.Request { return signed(key, encrypt(key, event(r)), -301*time.Second) }, 401},
		"with another nonce":         {header("X-Lark-Request-Nonce", "n"), 401},
		"with another time":          {header("X-Lark-Request-Timestamp", "946684801"), 401},
		"with no time":               {header("X-Lark-Request-Timestamp", ""), 401},
		"with a part of a signature": {header("X-Lark-Signature", "0123456789"), 401},
		"not signed":                 {func(r *rig) *http.Request { return post(encrypt(key, event(r))) }, 401},
		"not encrypted":              {func(r *rig) *http.Request { return signed(key, event(r), 0) }, 401},
		"signed with another key":    {func(r *rig) *http.Request { return signed("other", encrypt(key, event(r)), 0) }, 401},
		"encrypted with another key": {func(r *rig) *http.Request { return signed(key, encrypt("other", event(r)), 0) }, 401},
		"a ciphertext of nothing":    {func(*rig) *http.Request { return signed(key, `{"encrypt":""}`, 0) }, 401},
		"a ciphertext that was cut": {func(r *rig) *http.Request {
			return signed(key, strings.Replace(encrypt(key, event(r)), `{"encrypt":"AAAA`, `{"encrypt":"`, 1)[:40]+`"}`, 0)
		}, 401},
		"a ciphertext of another text":      {func(*rig) *http.Request { return signed(key, encrypt(key, "hello"), 0) }, 401},
		"a challenge that is not encrypted": {func(*rig) *http.Request { return post(challenge) }, 401},
		"an event that is a challenge, too": {func(r *rig) *http.Request {
			return post(encrypt(key, strings.Replace(event(r), "{", `{"type":"url_verification","challenge":"c",`, 1)))
		}, 401},
		"of another app": {func(r *rig) *http.Request {
			return signed(key, encrypt(key, strings.Replace(event(r), "cli_fake", "cli_other", 1)), 0)
		}, 401},

		"no JSON":              {func(*rig) *http.Request { return signed(key, "{", 0) }, 401},
		"a list":               {func(*rig) *http.Request { return signed(key, "[]", 0) }, 401},
		"more than a megabyte": {func(*rig) *http.Request { return signed(key, strings.Repeat("x", 1<<20+1), 0) }, 413},
		"no event": {func(*rig) *http.Request {
			return signed(key, encrypt(key, `{"schema":"2.0","header":{},"event":{}}`), 0)
		}, 400},
		"of the first version": {func(*rig) *http.Request {
			return signed(key, encrypt(key, `{"uuid":"u","type":"event_callback","event":{"type":"message","text":"hi"}}`), 0)
		}, 200},
		"another method": {func(*rig) *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }, 405},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{})
				r.serve(t)
				w := httptest.NewRecorder()
				r.channel.Webhook().ServeHTTP(w, tt.request(r))
				wait(time.Second)
				turns := 0
				if tt.status == http.StatusOK && name != "of the first version" {
					turns = 1
				}
				if w.Code != tt.status || w.Code != http.StatusOK && w.Body.Len() != 0 || len(r.Told()) != turns {
					t.Errorf("status %d, expected %d; %q; %d turns", w.Code, tt.status, w.Body, len(r.Told()))
				}
			})
		})
	}
}

func FuzzWebhook(f *testing.F) {
	fake := fakefeishu.New(nil)
	defer fake.Close()
	c, err := feishu.New(settings(fake))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"encrypt":"P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="}`), "", "", "")
	f.Add([]byte(`{"challenge":"c","token":"verify-me-fake-token","type":"url_verification"}`), "", "", "")
	f.Add([]byte(`{"schema":"2.0","header":{"event_id":"e","event_type":"im.message.receive_v1"},"event":{}}`), "abc", "1700000000", "n")
	f.Fuzz(func(t *testing.T, body []byte, signature, timestamp, nonce string) {
		q := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		q.Header.Set("X-Lark-Signature", signature)
		q.Header.Set("X-Lark-Request-Timestamp", timestamp)
		q.Header.Set("X-Lark-Request-Nonce", nonce)
		w := httptest.NewRecorder()
		c.Webhook().ServeHTTP(w, q)
		if w.Code != http.StatusUnauthorized && w.Code != http.StatusRequestEntityTooLarge {
			t.Fatalf("a body that was not encrypted is answered with %d %q", w.Code, w.Body)
		}
	})
}

// CH-71: the platform is answered when the event is stored, before it runs, and delivers it until then.
func TestAnEventIsAnsweredWhenItIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		r := setup(t, options{agent: agentFunc(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			<-release
			return channel.DispatchResult{NoReply: true}, nil
		})})
		r.mortal.full.Store(true)
		e, _ := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.fake.Deliver(e) // the channel does not serve yet
		synctest.Wait()
		r.serve(t)
		wait(15 * time.Second)
		r.mortal.full.Store(false)
		wait(5 * time.Minute)
		var statuses []int
		for _, p := range r.fake.Posts() {
			statuses = append(statuses, p.Status)
		}
		if len(statuses) != 3 || statuses[0] != 503 || statuses[1] != 503 || statuses[2] != 200 {
			t.Errorf("answered with %v", statuses)
		}
		for range 3 { // while the turn runs
			r.post(t, e)
		}
		if n := len(r.Told()); n != 1 {
			t.Errorf("%d turns", n)
		}
		close(release)
	})
}

// CH-72: copies of an event run once, and so do two events of one message.
func TestAMessageRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		e, id := r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.post(t, e)
		again, _ := r.fake.Say(fakefeishu.Said{ID: id, Chat: private, From: ann, Text: "hi"})
		r.post(t, again)
		wait(time.Minute)
		if n := len(r.Told()); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestStoredEventsHaveNoTokens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		value := map[string]any{"lingserve_question": "q", "decision": "approve", "chat_type": "p2p"}
		message, _ := r.mortal.accepted.Load().(string)
		r.fake.Post(t.Context(), r.fake.Event("card.action.trigger", map[string]any{
			"token": "c-canary", "operator": map[string]any{"open_id": bob}, "action": map[string]any{"value": value},
			"context": map[string]any{"open_message_id": "om_1", "open_chat_id": private},
		}))
		press, _ := r.mortal.accepted.Load().(string)
		if !strings.Contains(message, ann) || !strings.Contains(press, bob) || strings.Contains(message+press, token) || strings.Contains(press, "c-canary") {
			t.Errorf("stored %s and %s", message, press)
		}
	})
}

// A process dies while it answers. The next one goes on: it edits the card that is there, and removes the sign of work.
func TestAnAnswerGoesOnAfterACrash(t *testing.T) {
	for name, shown := range map[string]string{"before anything was shown": "", "while a card is edited": "half"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first := setup(t, options{agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					turn.Sink.Preview(channel.Payload{Text: shown})
					<-ctx.Done()
					return channel.DispatchResult{}, context.Cause(ctx)
				})})
				first.serve(t)
				_, id := first.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(5 * time.Second)
				if got := strings.Join(first.fake.Texts(private), "|"); got != shown {
					t.Errorf("%q is shown", got)
				}
				first.kill(t)
				next := first.process(t, options{agent: says("half and whole")})
				next.serve(t)
				wait(time.Minute)
				if got := strings.Join(next.fake.Texts(private), "|"); got != "half and whole" {
					t.Errorf("after the crash, %q is shown", got)
				}
				if got := next.fake.Reactions(id); len(got) != 0 {
					t.Errorf("the reactions %v are left", got)
				}
			})
		})
	}
}
