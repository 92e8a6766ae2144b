//go:build nightly

package attacks

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// platform is where the messages of a channel come from.
type platform struct {
	channel string
	status  int // of a message that is taken
	// message returns the request for a message, signed as of now. id has digits.
	message func(t *testing.T, v *victim, id, text string) (http.Header, []byte)
}

var platforms = []platform{
	{"hook", 202, func(t *testing.T, _ *victim, id, text string) (http.Header, []byte) {
		body := []byte(`{"sender":{"id":"` + id + `"},"conversation":{"id":"` + id + `","kind":"direct"},"text":"` + text + `"}`)
		secrets, err := webhook.ParseSecrets(hookSecret)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		secrets.Sign(h, id, time.Now(), body)
		return h, body
	}},
	{"slack", 200, func(_ *testing.T, v *victim, id, text string) (http.Header, []byte) {
		body := v.slack.Envelope(map[string]any{
			"type": "message", "channel": "D" + id, "channel_type": "im", "user": "U" + id, "text": text, "ts": "1700000002." + digits(id),
		})
		h := http.Header{}
		fakeslack.Sign(h, slackSecret, body, time.Now())
		return h, body
	}},
	{"feishu", 200, func(t *testing.T, v *victim, id, text string) (http.Header, []byte) {
		v.feishu.AddChat("oc_"+id, "p2p")
		said, _ := v.feishu.Say(fakefeishu.Said{Chat: "oc_" + id, From: "ou_" + id, Text: text})
		r := v.feishu.Request(t.Context(), said)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header, body
	}},
	{"telegram", 200, func(t *testing.T, v *victim, id, text string) (http.Header, []byte) {
		var calls []faketelegram.Call
		known := func() bool { calls = v.telegram.Calls("setWebhook"); return len(calls) > 0 }
		if err := v.telegram.Await(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		n := digits(id)
		body := `{"update_id":` + n + `,"message":{"message_id":` + n + `,"date":` + itoa(int(time.Now().Unix())) + `,"chat":{"id":` + n + `,"type":"private","first_name":"A"},` +
			`"from":{"id":` + n + `,"is_bot":false,"first_name":"A"},"text":"` + text + `"}}`
		return http.Header{"X-Telegram-Bot-Api-Secret-Token": {calls[0].Params["secret_token"]}}, []byte(body)
	}},
}

// digits makes a number of a word.
func digits(word string) string {
	return "9" + strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, word)
}

// send sends to a channel what its platform would send.
func (v *victim) send(t testing.TB, channel string, h http.Header, body []byte) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.URL+"/v1/channels/"+channel+"/webhook", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h.Clone()
	req.Header.Set("Content-Type", "application/json")
	return v.roundTrip(t, req)
}
