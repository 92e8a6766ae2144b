package fakecallback_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/lingserve/lingserve/internal/fakecallback"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// post sends a message that is signed with a secret, and returns the status; 0 where there was no answer.
func post(t *testing.T, c *http.Client, url, secret, id, body string) int {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := w.Sign(id, now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": fmt.Sprint(now.Unix()), "webhook-signature": signature} {
		req.Header.Set(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestItVerifiesKnowsMessagesAgainAndFailsAsItIsTold(t *testing.T) { // CH-196
	for _, over := range []string{"sockets", "no socket"} {
		t.Run(over, func(t *testing.T) {
			s := fakecallback.New(secret)
			client, url := &http.Client{Transport: s.Transport()}, "http://callback.test/"
			if over == "sockets" {
				server := httptest.NewServer(s)
				defer server.Close()
				client, url = server.Client(), server.URL
			}
			if got := post(t, client, url, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "a", `{"text":"x"}`); got != http.StatusUnauthorized {
				t.Errorf("another secret: %d", got)
			}
			s.Then(fakecallback.Step{Status: 503}, fakecallback.Step{Cut: true})
			for i, want := range []int{503, 0, 204, 204} {
				if got := post(t, client, url, secret, "a", `{"text":"x"}`); got != want {
					t.Errorf("request %d: got %d, expected %d", i, got, want)
				}
			}
			if taken := s.Taken(); len(taken) != 1 || taken[0].Text != "x" || taken[0].ID != "a" {
				t.Errorf("got %+v", taken)
			}
			if all := s.Requests(); len(all) != 5 || all[0].Signed || !all[4].Signed {
				t.Errorf("got %+v", all)
			}
		})
	}
}
