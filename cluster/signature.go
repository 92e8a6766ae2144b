package cluster

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	envelopeHeader = "Lingserve-Forwarded"
	// refusedHeader marks a response of this package, as opposed to one of the handler behind it. Clients do not get it.
	refusedHeader = "Lingserve-Forward-Refused"

	signatureLife = 30 * time.Second
	// maxAhead is how far a sender's time may be ahead: both replicas estimate the database's time.
	maxAhead = 5 * time.Second
	// maxReplays bounds the memory of signatures, to about 18 MB. At more than 3 700 requests a second, it forgets some that are still good.
	maxReplays = 1 << 17
)

// envelope is what the signature covers.
type envelope struct {
	Forwarded
	Receiver  string // id of the replica
	Method    string
	URI       string    // path and raw query, as in the request line
	Body      []byte    // SHA-256
	Time      time.Time // of the database's clock
	Nonce     string    // makes the signatures of two equal requests different
	signature [16]byte  // its beginning, for the replay check
}

var errAltered = errors.New("the request differs from what was signed")

// sealEnvelope returns the value of the header of a forwarded request: the envelope and its signature.
func (c *Cluster) sealEnvelope(e envelope, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	e.Body, e.Time, e.Nonce = sum[:], c.now(), rand.Text()
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return encode(data) + "." + encode(c.sign(data)), nil
}

// openEnvelope returns the envelope of a header's value.
func (c *Cluster) openEnvelope(value string) (e envelope, err error) {
	first, second, _ := strings.Cut(value, ".")
	data, err1 := base64.RawURLEncoding.DecodeString(first)
	signature, err2 := base64.RawURLEncoding.DecodeString(second)
	if err1 != nil || err2 != nil || !hmac.Equal(signature, c.sign(data)) || json.Unmarshal(data, &e) != nil {
		return envelope{}, errors.New("no valid signature")
	}
	e.signature = [16]byte(signature)
	return e, nil
}

func (c *Cluster) sign(data []byte) []byte {
	mac := hmac.New(sha256.New, c.secret)
	mac.Write([]byte("lingserve forwarded request 1\n")) // no other use of the secret signs the same bytes
	mac.Write(data)
	return mac.Sum(nil)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// verifyHead checks all that can be checked before the body is read.
func (c *Cluster) verifyHead(r *http.Request) (envelope, error) {
	e, err := c.openEnvelope(r.Header.Get(envelopeHeader))
	if err != nil {
		return e, err
	}
	age := c.now().Sub(e.Time)
	switch {
	case e.Receiver != c.local.ID:
		return e, errors.New("signed for another replica")
	case age > signatureLife || age < -maxAhead:
		return e, errors.New("the signature's time is not now")
	case e.Method != r.Method || e.URI != r.RequestURI:
		return e, errAltered
	case c.isMember(e.Sender):
		return e, nil
	}
	_ = c.refresh(r.Context()) // the sender may have joined within the last second
	if !c.isMember(e.Sender) {
		return e, errors.New("the sender is not a member")
	}
	return e, nil
}

func (c *Cluster) isMember(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id] != nil
}
