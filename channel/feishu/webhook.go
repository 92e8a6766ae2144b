package feishu

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
)

const (
	headerSignature = "X-Lark-Signature"
	headerTimestamp = "X-Lark-Request-Timestamp"
	headerNonce     = "X-Lark-Request-Nonce"

	maxEvent     = 1 << 20  // bytes of a request
	maxChallenge = 16 << 10 // bytes of a challenge, which is not signed

	maxClockDifference = 5 * time.Minute
)

// Webhook returns the handler for events: POST /v1/channels/{name}/webhook.
func (c *Channel) Webhook() http.Handler { return http.HandlerFunc(c.receive) }

// receive accepts an event. It responds when the event is stored, before it runs: the platform waits 3 s.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	body, ok := platform.ReadEvent(w, r, c.bodyLimit, "application/json")
	if !ok {
		return
	}
	all, ok := c.verify(r.Header, body)
	switch {
	case !ok || all.Header.App != "" && all.Header.App != c.s.AppID:
		c.refuse(r.Context(), w)
	case all.isChallenge():
		respond(w, map[string]string{"challenge": all.Challenge})
	case all.Schema == "": // events of the first version are not supported
		respond(w, struct{}{})
	default:
		c.accept(w, r, all)
	}
}

// accept stores an event, and responds.
func (c *Channel) accept(w http.ResponseWriter, r *http.Request, all *envelope) {
	ctx, queue := r.Context(), c.Queue()
	e, err := all.readEvent()
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case e.Message == nil:
		respond(w, struct{}{})
		return
	case queue == nil || c.self().OpenID == "":
		platform.Unavailable(w)
		return
	}
	pressed := make(chan channel.Pressed, 1) // the request may be gone when the only answer comes
	if e.Press != nil {
		c.presses.Store(e.ID, pressed)
		defer c.presses.CompareAndDelete(e.ID, pressed)
	}
	isNew, err := c.store(ctx, queue, e)
	switch {
	case err != nil:
		c.Log.WarnContext(ctx, "cannot accept an event; the platform must retry", "error", err)
		platform.Unavailable(w)
	case e.Press != nil && isNew:
		respond(w, pressResponse(ctx, pressed))
	default:
		respond(w, struct{}{})
	}
}

// store stores an event.
func (c *Channel) store(ctx context.Context, queue *kernel.Queue, e *event) (isNew bool, err error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	kind, _ := e.class()
	if m := e.Message; kind == channel.EventMessage && m.Thread != "" {
		c.threads.Add(m.ID, m.Thread)
	}
	list, err := queue.Accept(ctx, c.Arrival(queue.Kernel(), c.input(e), kind, raw))
	return err == nil && list[0], err
}

// bodyLimit returns how large a body with these headers may be. valid is false if no body makes the request valid.
func (c *Channel) bodyLimit(h http.Header) (limit int64, valid bool) {
	signature := h.Get(headerSignature)
	if signature == "" {
		return maxChallenge, true
	}
	return maxEvent, len(signature) == 2*sha256.Size && isRecent(h.Get(headerTimestamp))
}

// isChallenge reports whether the platform checks that this is the address for events.
func (all *envelope) isChallenge() bool { return all.Type == "url_verification" && all.Schema == "" }

// verify checks that a body comes from the platform, and decrypts it. bodyLimit has accepted the headers.
func (c *Channel) verify(h http.Header, body []byte) (*envelope, bool) {
	var outer struct {
		Encrypt string `json:"encrypt"`
	}
	key, isSigned := encryptKey(c.s.EncryptKey), h.Get(headerSignature) != ""
	if json.Unmarshal(body, &outer) != nil || isSigned && !key.hasSigned(h, body) {
		return nil, false
	}
	plain, err := key.decrypt(outer.Encrypt)
	all := new(envelope)
	if err != nil || json.Unmarshal(plain, all) != nil || !isSigned && !all.isChallenge() {
		return nil, false
	}
	return all, true
}

// refuse responds to a request that is not the platform's. The log says so once, because the usual reason is a wrong setting.
func (c *Channel) refuse(ctx context.Context, w http.ResponseWriter) {
	c.refused.Do(func() { c.Log.WarnContext(ctx, "request is not Feishu's, or encrypt_key is wrong") })
	w.WriteHeader(http.StatusUnauthorized)
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v) // if the connection is closed, the platform sends the event again
}

// encryptKey is the Encrypt Key of the app, which decrypts events and checks their signatures. Events are base64 of an IV and AES-256-CBC
// blocks with the padding of PKCS#7, under the SHA-256 of the key.
type encryptKey string

// errDecrypt is the error for every fault of an encrypted text: a sender must not learn which one it is.
var errDecrypt = errors.New("feishu: the event cannot be decrypted with this encrypt_key")

// decrypt decrypts a text.
func (k encryptKey) decrypt(encrypted string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(encrypted)
	if err != nil || len(data) < 2*aes.BlockSize || len(data)%aes.BlockSize != 0 {
		return nil, errDecrypt
	}
	iv, body := data[:aes.BlockSize], data[aes.BlockSize:]
	key := sha256.Sum256([]byte(k))
	block, _ := aes.NewCipher(key[:]) // 32 bytes are a valid key
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(body, body)
	padding := body[len(body)-1]
	text, ok := bytes.CutSuffix(body, bytes.Repeat([]byte{padding}, int(padding)))
	if !ok || padding < 1 || padding > aes.BlockSize {
		return nil, errDecrypt
	}
	return text, nil
}

// hasSigned reports whether the headers have a recent signature of the body.
func (k encryptKey) hasSigned(h http.Header, body []byte) bool {
	timestamp := h.Get(headerTimestamp)
	sum := sha256.New()
	sum.Write([]byte(timestamp + h.Get(headerNonce) + string(k)))
	sum.Write(body)
	want := hex.EncodeToString(sum.Sum(nil))
	return subtle.ConstantTimeCompare([]byte(want), []byte(h.Get(headerSignature))) == 1 && isRecent(timestamp)
}

// isRecent reports whether a time in seconds is about now.
func isRecent(timestamp string) bool {
	n, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && time.Since(time.Unix(n, 0)).Abs() <= maxClockDifference
}
