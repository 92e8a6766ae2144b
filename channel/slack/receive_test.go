package slack_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/store"
)

// Headers of requests, and the longest body.
const (
	signatureHeader = "X-Slack-Signature"
	timeHeader      = "X-Slack-Request-Timestamp"
	maxEvent        = 1 << 20
)

// ask makes one request of the door, with a header that the test has made.
func ask(c *slack.Channel, method string, h http.Header, body []byte) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "/v1/channels/slack/webhook", bytes.NewReader(body))
	req.Header = h
	w := httptest.NewRecorder()
	c.Webhook().ServeHTTP(w, req)
	return w
}

// sign is the header of a request as the platform makes it.
func sign(secret string, body []byte, at time.Time) http.Header {
	h := http.Header{}
	fakeslack.Sign(h, secret, body, at)
	return h
}

func TestOnlyWhatThePlatformHasSignedIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		body := r.fake.Envelope(map[string]any{"type": "message", "channel": dm, "channel_type": "im", "user": ann, "text": "hi", "ts": "1700000000.000001"})
		good := sign(r.fake.Secret(), body, time.Now())
		with := func(name, value string) http.Header {
			h := good.Clone()
			h.Set(name, value)
			return h
		}
		signature := good.Get(signatureHeader)
		for _, tt := range []struct {
			name   string
			header http.Header
			body   []byte
		}{
			{"nothing", http.Header{}, body},
			{"no time", http.Header{signatureHeader: {signature}}, body},
			{"no signature", http.Header{timeHeader: {good.Get(timeHeader)}}, body},
			{"another secret", sign("other", body, time.Now()), body},
			{"another body", good, append(slices.Clone(body), ' ')},
			{"too old", sign(r.fake.Secret(), body, time.Now().Add(-301*time.Second)), body},
			{"too new", sign(r.fake.Secret(), body, time.Now().Add(301*time.Second)), body},
			{"a time that was not signed", with(timeHeader, strconv.FormatInt(time.Now().Unix()+1, 10)), body},
			{"a time that is none", with(timeHeader, "now"), body},
			{"a time beyond all", with(timeHeader, "9223372036854775807"), body},
			{"another version", with(signatureHeader, "v1"+signature[2:]), body},
			{"no version", with(signatureHeader, signature[3:]), body},
			{"half of it", with(signatureHeader, signature[:35]), body},
			{"one digit more", with(signatureHeader, signature+"0"), body},
			{"no digits", with(signatureHeader, "v0=zz"), body},
			{"empty", with(signatureHeader, "v0="), body},
		} {
			if w := ask(r.channel, http.MethodPost, tt.header, tt.body); w.Code != http.StatusUnauthorized || w.Body.Len() != 0 {
				t.Errorf("%s: got %d %q, expected an empty 401", tt.name, w.Code, w.Body)
			}
		}
		synctest.Wait()
		if got := r.Outcomes(); len(got) != 0 {
			t.Fatalf("got %q, expected that nothing has run", got)
		}
		for _, skew := range []time.Duration{-299 * time.Second, 299 * time.Second} {
			if w := ask(r.channel, http.MethodPost, sign(r.fake.Secret(), body, time.Now().Add(skew)), body); w.Code != http.StatusOK || w.Body.Len() != 0 {
				t.Errorf("%s: got %d %q, expected an empty 200", skew, w.Code, w.Body)
			}
		}
		// What somebody sends again who has seen it is known, and runs no second time.
		synctest.Wait()
		r.wantOutcomes("visible")
	})
}

// DA-02
func TestRequestThatCannotBeValidIsRefusedUnread(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		door, secret := r.channel.Webhook(), r.fake.Secret()
		const large = 1 << 20
		half := sign(secret, nil, time.Now())
		half.Set(signatureHeader, "v0=00")
		channeltest.RefusesUnread(t, door, http.Header{}, large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, door, sign(secret, nil, time.Now().Add(-time.Hour)), large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, door, half, large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, door, sign(secret, nil, time.Now()), large+1, http.StatusRequestEntityTooLarge)
	})
}

func TestAChallengeIsAnsweredEvenBeforeTheChannelRuns(t *testing.T) {
	r := setup(t, nil, nil, channel.Place{})
	body := []byte(`{"token":"x","challenge":"3eZbrw1a<b>","type":"url_verification"}`)
	w := ask(r.channel, http.MethodPost, sign(r.fake.Secret(), body, time.Now()), body)
	if w.Code != http.StatusOK || w.Body.String() != "3eZbrw1a<b>" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("got %d %q %q, expected the challenge as a plain text", w.Code, w.Header(), w.Body)
	}
	if w := ask(r.channel, http.MethodPost, http.Header{}, body); w.Code != http.StatusUnauthorized || w.Body.Len() != 0 {
		t.Errorf("got %d %q for a challenge that is not signed", w.Code, w.Body)
	}
}

func TestRequestsThatAreNoEventsAreRefusedOrLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		event := func(inner string) string {
			return `{"type":"event_callback","team_id":"` + fakeslack.Team + `","event_id":"Ev1","event":` + inner + `}`
		}
		for _, tt := range []struct {
			name, body string
			want       int
		}{
			{"no JSON", `{`, 400},
			{"no object", `[]`, 400},
			{"nothing", ``, 400},
			{"no type", `{}`, 400},
			{"a form of nothing", `a=b`, 400},
			{"a command of nobody", `command=%2Fling&trigger_id=1&channel_id=C1`, 400},
			{"a payload that is none", `payload=x`, 400},
			{"too large", `{"type":"event_callback","x":"` + strings.Repeat("x", maxEvent) + `"}`, 413},
			{"the probe of a certificate", `ssl_check=1&token=x`, 200},
			{"too many events", `{"type":"app_rate_limited","team_id":"T","minute_rate_limited":1}`, 200},
			{"a type of tomorrow", `{"type":"tomorrow"}`, 200},
			{"an event that nobody needs", event(`{"type":"channel_rename","channel":{"id":"C1","name":"x"}}`), 200},
			{"an event of another form", event(`{"type":"message","channel":{"id":"C1"},"ts":"1.1"}`), 200},
			{"an event without an id", event(`{"type":"message","channel":"C1","text":"hi"}`), 200},
			{"a reaction to a file", event(`{"type":"reaction_added","user":"U1","item":{"type":"file","file":"F1"}}`), 200},
			{"an event of nothing", event(`null`), 200},
			{"a window", "payload=" + `{"type":"view_submission","user":{"id":"U1"},"team":{"id":"T"}}`, 200},
			{"another workspace", `{"type":"event_callback","team_id":"T0OTHER","event_id":"Ev2","authorizations":[{"team_id":"T0OTHER","user_id":"U9"}],` +
				`"event":{"type":"message","channel":"D1","channel_type":"im","user":"U1","text":"hi","ts":"1.1"}}`, 200},
		} {
			body := []byte(tt.body)
			if w := ask(r.channel, http.MethodPost, sign(r.fake.Secret(), body, time.Now()), body); w.Code != tt.want || w.Body.Len() != 0 {
				t.Errorf("%s: got %d %q, expected %d", tt.name, w.Code, w.Body, tt.want)
			}
		}
		if w := ask(r.channel, http.MethodGet, http.Header{}, nil); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("got %d for a GET", w.Code)
		}
		synctest.Wait()
		if got := r.Outcomes(); len(got) != 0 {
			t.Errorf("got %q, expected no turn", got)
		}
		if !strings.Contains(r.log.String(), "platform drops events") {
			t.Error("the log does not say that the platform drops events")
		}
	})
}

// failing is a store that fails once, and counts what it takes.
type failing struct {
	kernel.Store
	fail     bool
	accepted int
}

func (f *failing) Accept(ctx context.Context, events []store.Event) ([]bool, error) {
	if f.fail {
		f.fail = false
		return nil, errors.New("the disk is full")
	}
	f.accepted += len(events)
	return f.Store.Accept(ctx, events)
}

// CH-71, FT-33: within the 3 s, though the agent takes an hour, and not before the event is stored.
func TestAnEventIsAcknowledgedWhenItIsStoredAndBeforeItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, nil, channel.Place{})
		events := &failing{Store: r.store}
		r.store = events
		began, goOn := make(chan int, 1), make(chan struct{})
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			began <- len(r.fake.Deliveries())
			<-goOn
			return says("at last")(ctx, turn)
		})
		r.serve()
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		<-began
		got := r.fake.Deliveries()
		if len(got) != 1 || got[0].Status != http.StatusOK || len(got[0].Body) != 0 || got[0].Took != 0 || events.accepted != 1 {
			t.Fatalf("got %+v, expected an empty 200 at once, and one event stored", got)
		}
		time.Sleep(10 * time.Minute)
		if got := r.fake.Deliveries(); len(got) != 1 {
			t.Errorf("got %+v, expected no repetition", got)
		}
		close(goOn)
		synctest.Wait()
		r.wantTexts(dm, "at last")
	})
}

// CH-71
func TestWhatCannotBeStoredIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, nil, channel.Place{})
		r.store = &failing{Store: r.store, fail: true}
		r.serve()
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		got := r.fake.Deliveries()
		if len(got) != 2 || got[0].Status != http.StatusServiceUnavailable || got[1].Status != http.StatusOK || got[1].Retry != 1 || got[1].Reason != "http_error" {
			t.Fatalf("got %+v, expected a 503, and the repetition to be taken", got)
		}
		r.wantTexts(dm, "ok")
	})
}

// Nothing that the platform could send breaks the channel.
func FuzzEvent(f *testing.F) {
	s := fakeslack.New(nil)
	f.Add(s.Envelope(map[string]any{"type": "message", "channel": "C1", "user": "U1", "text": "hi <@U2>", "ts": "1.1", "thread_ts": "1.0"}))
	f.Add(s.Envelope(map[string]any{"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "1.2", "message": map[string]any{"ts": "1.1"}}))
	f.Add(s.Envelope(map[string]any{"type": "message", "subtype": "message_deleted", "channel": "C1", "ts": "1.2", "deleted_ts": "1.1"}))
	f.Add(s.Envelope(map[string]any{"type": "reaction_added", "item": map[string]any{"type": "message", "channel": "C1", "ts": "1.1"}}))
	f.Add(s.Command("/ling", "help", "C1", "U1"))
	f.Add([]byte(`payload={"type":"block_actions","trigger_id":"1","channel":{"id":"C1"},"message":{"ts":"1.1"}}`))
	f.Add([]byte(`{"type":"event_callback","event":{"type":"message","files":[{"size":"x"},{}],"attachments":[1],"channel":"C","ts":"1"}}`))
	c, err := slack.New(slack.Settings{Token: "xoxb-1", SigningSecret: "0123456789abcdef"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(c, http.MethodPost, sign("0123456789abcdef", body, time.Now()), body)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusServiceUnavailable {
			t.Errorf("got %d", w.Code)
		}
	})
}
