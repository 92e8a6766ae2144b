package feishu

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// The headers of a request's signature.
const (
	headerSignature = "X-Lark-Signature"
	headerTimestamp = "X-Lark-Request-Timestamp"
	headerNonce     = "X-Lark-Request-Nonce"
)

// Webhook is the door for events: POST /v1/channels/{name}/webhook.
func (c *Channel) Webhook() http.Handler { return http.HandlerFunc(c.receive) }

// receive answers with 200 and an empty object when the event is in the journal, before anything runs: the platform waits 3 s.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	most, ok := c.expects(r.Header, time.Now())
	if !ok {
		c.refuse(r.Context(), w)
		return
	}
	body, refusal := channel.ReadBody(w, r, most, "application/json")
	if refusal != nil {
		refusal.Header(w.Header())
		w.WriteHeader(refusal.Status)
		return
	}
	all, ok := c.open(r.Header, body, time.Now())
	if !ok {
		c.refuse(r.Context(), w)
		return
	}
	if all.challenge() {
		answer(w, map[string]string{"challenge": all.Challenge})
		return
	}
	h, e, err := all.read()
	switch {
	case all.Schema == "": // of the first version there is nothing to know
		answer(w, struct{}{})
		return
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case h.App != "" && h.App != c.api.app:
		c.refuse(r.Context(), w)
		return
	case e.message == nil: // nothing that an agent could be told of
		answer(w, struct{}{})
		return
	}
	door := c.service.Door()
	if door == nil || c.me.Load() == nil {
		later(w)
		return
	}
	raw, err := all.bare()
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if e.press != nil {
		c.receivePress(w, r, door, e, raw)
		return
	}
	if err := c.accept(r.Context(), door, e, raw); err != nil {
		c.log.WarnContext(r.Context(), "cannot accept an event; the platform must retry", "channel", c.name, "error", err)
		later(w)
		return
	}
	answer(w, struct{}{})
}

// maxChallenge bounds the question whether this is the right address, which is not signed.
const maxChallenge = 16 << 10

// expects returns how large a body may be behind these headers. ok is false where the request cannot be valid, whatever its body is.
func (c *Channel) expects(h http.Header, now time.Time) (most int64, ok bool) {
	signature, at := h.Get(headerSignature), h.Get(headerTimestamp)
	switch {
	case c.seal == nil:
		return maxEvent, at == "" || fresh(at, now)
	case signature == "":
		return maxChallenge, true
	}
	return maxEvent, len(signature) == 2*sha256.Size && fresh(at, now)
}

// challenge says whether it is asked whether this is the right address.
func (all *envelope) challenge() bool { return all.Type == "url_verification" && all.Schema == "" }

// accept makes an event durable. A message that is known and has changed since is an edit.
func (c *Channel) accept(ctx context.Context, door *channel.Door, e *Event, raw []byte) error {
	isNew, err := door.Accept(ctx, channel.Arrival{Key: c.key(e), Raw: raw})
	if err != nil {
		return err
	}
	if e.Type != eventMessage {
		return nil
	}
	if m := e.message; m.Thread != "" {
		c.threads.Add(m.ID, m.Thread)
	}
	if isNew[0] || !e.message.edited() {
		return nil
	}
	e.edit = true
	_, err = door.Accept(ctx, channel.Arrival{Key: c.key(e), Raw: raw})
	return err
}

// open checks that a body is the platform's, and decrypts it. Every fault is the same.
func (c *Channel) open(h http.Header, body []byte, now time.Time) (*envelope, bool) {
	var all envelope
	if json.Unmarshal(body, &all) != nil {
		return nil, false
	}
	signature := h.Get(headerSignature)
	if c.seal != nil {
		// With a key, everything is encrypted, and everything but the question for the address is signed.
		if all.Encrypt == "" || signature != "" && !c.seal.signed(signature, h.Get(headerTimestamp), h.Get(headerNonce), body, now) {
			return nil, false
		}
		plain, err := c.seal.open(all.Encrypt)
		all = envelope{}
		if err != nil || json.Unmarshal(plain, &all) != nil {
			return nil, false
		}
		if signature == "" && !all.challenge() {
			return nil, false
		}
	} else if at := h.Get(headerTimestamp); all.Encrypt != "" || at != "" && !fresh(at, now) {
		return nil, false
	}
	if c.verification != "" {
		token := all.Token
		if all.Schema != "" {
			var head header
			_ = json.Unmarshal(all.Header, &head) // without a token it has the wrong one
			token = head.Token
		}
		if !same(token, c.verification) {
			return nil, false
		}
	}
	return &all, true
}

// refuse answers what is not the platform's, and says so in the log now and then: the commonest reason is a wrong setting.
func (c *Channel) refuse(ctx context.Context, w http.ResponseWriter) {
	if last := c.refused.Load(); time.Now().Unix()-last >= int64(refusedEvery/time.Second) && c.refused.CompareAndSwap(last, time.Now().Unix()) {
		c.log.WarnContext(ctx, "request is not Feishu's, or encrypt_key or verification_token is wrong", "channel", c.name)
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// refusedEvery is how seldom the log says that requests are refused.
const refusedEvery = 10 * time.Minute

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v) // the platform that is not there any more asks again
}

// later asks the platform to send an event again.
func later(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
}
