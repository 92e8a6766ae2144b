package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed message, as Standard Webhooks has them (https://www.standardwebhooks.com).
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	scheme       = "v1," // the symmetric signature; others are not looked at

	// tolerance is how far the clocks of both sides may be apart; what is older may be somebody's copy.
	tolerance = 5 * time.Minute

	minSecret = 24 // bytes, as the specification has it
	maxSecret = 64

	maxID         = 256     // bytes of an id
	maxSignatures = 4 << 10 // bytes of the header: far more than two secrets and a key need
)

// Secrets sign messages: all of them, and one of them is enough to verify. There are several while one takes the place of another.
type Secrets struct{ keys [][]byte }

// ParseSecrets understands secrets as whsec_… with blanks between. An error does not repeat them.
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
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return Secrets{}, errors.New("the secret is missing; expected whsec_ and base64 text, such as from \"openssl rand -base64 32\"")
	}
	return s, nil
}

// Sign puts the headers of a message into h.
func (s Secrets) Sign(h http.Header, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	var all []string
	for _, key := range s.keys {
		all = append(all, scheme+base64.StdEncoding.EncodeToString(mac(key, id, seconds, body)))
	}
	h.Set(headerID, id)
	h.Set(headerTimestamp, seconds)
	h.Set(headerSignature, strings.Join(all, " "))
}

// errSignature is all that anybody is told of what is wrong with a signature.
var errSignature = errors.New("the message's signature is missing or invalid")

// signed is what the headers say of a message, before it is known whether that is so.
type signed struct {
	id, seconds string
	signatures  string
}

// headers reads what a message is said to be signed with. Each header stands there once: of two, somebody else may read the other.
func headers(h http.Header, now time.Time) (signed, error) {
	var s signed
	for _, one := range [...]struct {
		name string
		to   *string
	}{{headerID, &s.id}, {headerTimestamp, &s.seconds}, {headerSignature, &s.signatures}} {
		values := h[one.name]
		if len(values) != 1 || values[0] == "" {
			return signed{}, errSignature
		}
		*one.to = values[0]
	}
	if len(s.id) > maxID || len(s.signatures) > maxSignatures || strings.ContainsFunc(s.id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return signed{}, errSignature
	}
	seconds, err := strconv.ParseUint(s.seconds, 10, 40)
	if err != nil || now.Sub(time.Unix(int64(seconds), 0)).Abs() > tolerance || !s.plausible() {
		return signed{}, errSignature
	}
	return s, nil
}

// plausible says whether one of the signatures could be that of a message.
func (s *signed) plausible() bool {
	for one := range strings.SplitSeq(s.signatures, " ") {
		text, ok := strings.CutPrefix(one, scheme)
		if ok && len(text) == base64.StdEncoding.EncodedLen(sha256.Size) {
			return true
		}
	}
	return false
}

// verify checks whether one of the signatures is of one of the secrets. It takes the same time whichever it is, and wherever they
// differ. It compares text: Go's decoder skips line breaks, even in its strict mode, and other receivers refuse them.
func (s Secrets) verify(what signed, body []byte) error {
	sums := make([][]byte, len(s.keys))
	for i, key := range s.keys {
		sums[i] = base64.StdEncoding.AppendEncode(nil, mac(key, what.id, what.seconds, body))
	}
	found := false
	for one := range strings.SplitSeq(what.signatures, " ") {
		text, ok := strings.CutPrefix(one, scheme)
		if !ok {
			continue
		}
		for _, sum := range sums {
			found = hmac.Equal([]byte(text), sum) || found
		}
	}
	if !found {
		return errSignature
	}
	return nil
}

func mac(key []byte, id, seconds string, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = io.WriteString(m, id+"."+seconds+".")
	m.Write(body)
	return m.Sum(nil)
}
