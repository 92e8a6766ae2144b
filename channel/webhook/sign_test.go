package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
)

// The example that Standard Webhooks publishes for its symmetric signatures.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorSeconds   = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

const otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

func parseSecrets(t testing.TB, text string) webhook.Secrets {
	t.Helper()
	s, err := webhook.ParseSecrets(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestThePublishedVectorIsSigned(t *testing.T) { // CH-180
	h, at := http.Header{}, time.Unix(vectorSeconds, 0)
	s := parseSecrets(t, vectorSecret)
	s.Sign(h, vectorID, at, []byte(vectorBody))
	if got := h.Get("webhook-signature"); got != vectorSignature {
		t.Errorf("got %s, expected %s", got, vectorSignature)
	}
	if got := h.Get("webhook-timestamp"); got != fmt.Sprint(vectorSeconds) {
		t.Errorf("the timestamp is %s", got)
	}
}

// signedHeaders are those of the vector's message, signed now.
func signedHeaders(t testing.TB, now time.Time) http.Header {
	h := http.Header{}
	parseSecrets(t, vectorSecret).Sign(h, vectorID, now, []byte(vectorBody))
	return h
}

// The cases are those that the libraries of the specification are tested with, and some more.
func TestOnlyWhatIsSignedAsItShouldBeIsVerified(t *testing.T) { // CH-180
	now := time.Now()
	for _, test := range []struct {
		name    string
		secrets string
		change  func(http.Header)
		body    string
		good    bool
	}{
		{"as it should be", vectorSecret, nil, vectorBody, true},
		{"a secret without prefix", strings.TrimPrefix(vectorSecret, "whsec_"), nil, vectorBody, true},
		{"the old secret beside the new one", otherSecret + " " + vectorSecret, nil, vectorBody, true},
		{"the new secret beside the old one", vectorSecret + " " + otherSecret, nil, vectorBody, true},
		{"another secret", otherSecret, nil, vectorBody, false},
		{"another body", vectorSecret, nil, vectorBody + " ", false},
		{"no body", vectorSecret, nil, "", false},
		{"no id", vectorSecret, func(h http.Header) { h.Del("webhook-id") }, vectorBody, false},
		{"an empty id", vectorSecret, func(h http.Header) { h.Set("webhook-id", "") }, vectorBody, false},
		{"another id", vectorSecret, func(h http.Header) { h.Set("webhook-id", "msg_x") }, vectorBody, false},
		{"two ids", vectorSecret, func(h http.Header) { h.Add("webhook-id", "msg_x") }, vectorBody, false},
		{"no timestamp", vectorSecret, func(h http.Header) { h.Del("webhook-timestamp") }, vectorBody, false},
		{"a timestamp that is no number", vectorSecret, func(h http.Header) { h.Set("webhook-timestamp", "now") }, vectorBody, false},
		{"a timestamp with a sign", vectorSecret, func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprintf("+%d", now.Unix())) }, vectorBody, false},
		{"a timestamp beyond all numbers", vectorSecret, func(h http.Header) { h.Set("webhook-timestamp", strings.Repeat("9", 30)) }, vectorBody, false},
		{"another timestamp", vectorSecret, func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprint(now.Unix()-1)) }, vectorBody, false},
		{"no signature", vectorSecret, func(h http.Header) { h.Del("webhook-signature") }, vectorBody, false},
		{"a signature of another kind", vectorSecret, func(h http.Header) {
			h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v1a,", 1))
		}, vectorBody, false},
		{"a signature without its kind", vectorSecret, func(h http.Header) {
			h.Set("webhook-signature", strings.TrimPrefix(h.Get("webhook-signature"), "v1,"))
		}, vectorBody, false},
		{"half a signature", vectorSecret, func(h http.Header) { h.Set("webhook-signature", h.Get("webhook-signature")[:20]) }, vectorBody, false},
		{"an empty signature", vectorSecret, func(h http.Header) { h.Set("webhook-signature", "v1,") }, vectorBody, false},
		{"among other signatures", vectorSecret, func(h http.Header) {
			h.Set("webhook-signature", "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x v1a,y "+h.Get("webhook-signature")+" v1,z")
		}, vectorBody, true},
		{"more signatures than anybody has", vectorSecret, func(h http.Header) {
			h.Set("webhook-signature", strings.Repeat("v1,x ", 1000)+h.Get("webhook-signature"))
		}, vectorBody, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := signedHeaders(t, now)
			if test.change != nil {
				test.change(h)
			}
			_, err := parseSecrets(t, test.secrets).Verify(h, []byte(test.body), now)
			if good := err == nil; good != test.good {
				t.Errorf("got %v", err)
			}
			if err != nil && err != webhook.ErrSignature {
				t.Errorf("the error says what is wrong: %v", err)
			}
		})
	}
}

func TestClocksMayBeFiveMinutesApart(t *testing.T) { // CH-180
	bubble(t, func(t *testing.T) {
		now := time.Now()
		for _, test := range []struct {
			apart time.Duration
			good  bool
		}{{0, true}, {300 * time.Second, true}, {-300 * time.Second, true}, {301 * time.Second, false}, {-301 * time.Second, false}} {
			_, err := parseSecrets(t, vectorSecret).Verify(signedHeaders(t, now.Add(test.apart)), []byte(vectorBody), now)
			if good := err == nil; good != test.good {
				t.Errorf("%v apart: %v", test.apart, err)
			}
		}
	})
}

func TestSecretsThatAreNoneAreRefusedWithoutBeingRepeated(t *testing.T) { // CH-193
	for _, text := range []string{"", " ", "whsec_", "whsec_c2hvcnQ=", "not base64 at all", "whsec_" + strings.Repeat("QUFB", 30)} {
		_, err := webhook.ParseSecrets(text)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if strings.TrimSpace(text) != "" && text != "whsec_" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(hello("x")))
	f.Add([]byte(`{"sender":{"id":"a","name":"A"},"conversation":{"id":"c","kind":"group","thread":"t"},"mentioned":true,"media":[{"type":"image/png","data":"aGk="}]}`))
	f.Add([]byte(`{"Sender":{}}`))
	f.Add([]byte("[null]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		err := webhook.Parse(body)
		if err == nil && !json.Valid(body) {
			t.Errorf("%q is accepted", body)
		}
	})
}
