//go:build nightly

package attacks

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// send sends what a platform would, to the door of its channel.
func (v *victim) send(t testing.TB, channel string, h http.Header, body []byte) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.URL+"/v1/channels/"+channel+"/webhook", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	v.seen.Write(b)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// hook sends a message to the channel "hook", signed as of now.
func (v *victim) hook(t testing.TB, id, body string) reply {
	t.Helper()
	return v.send(t, "hook", hookHeaders(t, id, body, time.Now()), []byte(body))
}

func hookHeaders(t testing.TB, id, body string, at time.Time) http.Header {
	t.Helper()
	secrets, err := webhook.ParseSecrets(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	secrets.Sign(h, id, at, []byte(body))
	return h
}

// slackEvent sends an event to the channel "slack", signed as of now.
func (v *victim) slackEvent(t testing.TB, body []byte) reply {
	t.Helper()
	h := http.Header{}
	fakeslack.Sign(h, slackSecret, body, time.Now())
	return v.send(t, "slack", h, body)
}
