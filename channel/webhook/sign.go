package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes, as the specification has it
	maxSecret    = 64

	tolerance     = 5 * time.Minute // between the clocks of both sides
	maxID         = 256             // bytes
	maxSignatures = 4 << 10         // bytes of the header
)

// Secrets sign and verify messages: all of them sign, and each one alone is enough to verify. There are several while one replaces another.
type Secrets struct{ list []*standardwebhooks.Webhook }

// ParseSecrets parses secrets in the form whsec_…, separated by blanks. An error does not repeat them.
func ParseSecrets(text string) (Secrets, error) {
	var s Secrets
	for one := range strings.FieldsSeq(text) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, secretPrefix))
		if err != nil {
			return Secrets{}, errors.New("invalid secret; expected whsec_ and base64 text, such as from \"openssl rand -base64 32\"")
		}
		if len(key) < minSecret || len(key) > maxSecret {
			return Secrets{}, fmt.Errorf("a secret has %d bytes; expected %d to %d, such as from \"openssl rand -base64 32\"", len(key), minSecret, maxSecret)
		}
		webhook, _ := standardwebhooks.NewWebhookRaw(key) // never fails
		s.list = append(s.list, webhook)
	}
	if len(s.list) == 0 {
		return Secrets{}, errors.New("the secret is missing; expected whsec_ and base64 text, such as from \"openssl rand -base64 32\"")
	}
	return s, nil
}

// Sign sets the headers of a message.
func (s Secrets) Sign(h http.Header, id string, at time.Time, body []byte) {
	var signatures []string
	for _, webhook := range s.list {
		signature, _ := webhook.Sign(id, at, body) // never fails
		signatures = append(signatures, signature)
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
}

// errSignature is the one answer to every fault of a signature.
var errSignature = errors.New("the message's signature is missing or invalid")

// checkHeaders refuses, before the body is read, what cannot be valid, and returns the id. The library would accept a header that is sent twice, a
// timestamp with a sign, and an id of any form.
func checkHeaders(h http.Header, now time.Time) (id string, err error) {
	for _, name := range []string{standardwebhooks.HeaderWebhookID, standardwebhooks.HeaderWebhookTimestamp, standardwebhooks.HeaderWebhookSignature} {
		if len(h.Values(name)) != 1 {
			return "", errSignature
		}
	}
	id, signatures := h.Get(standardwebhooks.HeaderWebhookID), h.Get(standardwebhooks.HeaderWebhookSignature)
	seconds, err := strconv.ParseUint(h.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 40)
	switch {
	case err != nil,
		id == "" || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }),
		len(signatures) > maxSignatures || !strings.Contains(" "+signatures, " v1,"),
		now.Sub(time.Unix(int64(seconds), 0)).Abs() > tolerance:
		return "", errSignature
	}
	return id, nil
}

// verify reports whether one of the signatures is of one of the secrets. It tries all secrets, so that its time does not tell which one it was.
func (s Secrets) verify(h http.Header, body []byte) bool {
	found := false
	for _, webhook := range s.list {
		valid := webhook.Verify(body, h) == nil
		found = found || valid
	}
	return found
}
