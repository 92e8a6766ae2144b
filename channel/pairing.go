package channel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pairs is [Pairing] for an operator: a sender who wants to talk gets a code, and the operator approves the code. Several processes, such
// as the server and a command, can use the same store.
type Pairs struct {
	store Texts
	now   func() time.Time
}

// Pair is a sender who may talk to an account, or a request for that.
type Pair struct {
	Channel string    `json:"channel"`
	Account string    `json:"account,omitempty"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`    // as on the platform, where everybody can take any name
	At      time.Time `json:"at"`                // of the request, or of its approval
	Code    string    `json:"code,omitempty"`    // of a request; a pair has none
	Welcome bool      `json:"welcome,omitempty"` // the sender is paired and has not been told yet
}

var (
	// ErrNoCode means no request has this code: it was mistyped, is approved, or is older than an hour.
	ErrNoCode = errors.New("channel: unknown pairing code; codes expire after an hour")
	// ErrManyRequests means too many requests are open.
	ErrManyRequests = errors.New("channel: too many pairing requests; approve or remove some")
)

const (
	pairingLife = time.Hour // of a code, and the time between two messages with it
	maxRequests = 256       // strangers can make no more
	codeLength  = 8         // 40 bits
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
)

// NewPairs returns pairs in a store. With nil, the store is memory.
func NewPairs(store Texts) *Pairs {
	if store == nil {
		store = NewTexts(0)
	}
	return &Pairs{store: store, now: time.Now}
}

// Paired implements [Pairing].
func (p *Pairs) Paired(ctx context.Context, channel, account, sender string) (bool, error) {
	_, ok, err := p.load(ctx, pairName(channel, account, sender))
	return ok, err
}

// Requested reports whether a sender has a code that has not expired.
func (p *Pairs) Requested(ctx context.Context, channel, account, sender string) (bool, error) {
	r, ok, err := p.load(ctx, requestName(channel, account, sender))
	return ok && !p.expired(r), err
}

// Request stores that a sender wants to be paired, and returns the code. tell is false if the sender was told the code within the last hour.
// A sender who is paired gets no code.
func (p *Pairs) Request(ctx context.Context, channel, account string, s SenderFacts) (code string, tell bool, err error) {
	if s.ID == "" {
		return "", false, errors.New("channel: a sender without an id cannot be paired")
	}
	if paired, err := p.Paired(ctx, channel, account, s.ID); paired || err != nil {
		return "", false, err
	}
	name := requestName(channel, account, s.ID)
	request, ok, err := p.load(ctx, name)
	if err != nil || ok && !p.expired(request) {
		return request.Code, false, err
	}
	open, err := p.requests(ctx)
	if err != nil {
		return "", false, err
	}
	if len(open) >= maxRequests {
		return "", false, ErrManyRequests
	}
	mine := Pair{
		Channel: channel, Account: account, Sender: s.ID, Name: label(cmp.Or(s.Name, s.DisplayLabel, s.Username)), At: p.now().UTC(), Code: newCode(),
	}
	err = p.change(ctx, name, func(old Pair, ok bool) *Pair {
		if request = mine; ok && !p.expired(old) { // another process was faster
			request = old
		}
		return &request
	})
	if err != nil {
		return "", false, err
	}
	return request.Code, request.Code == mine.Code, nil
}

// Approve pairs the sender who has a code. The case of its letters, blanks and dashes do not matter. An empty channel matches all channels.
func (p *Pairs) Approve(ctx context.Context, channel, code string) (Pair, error) {
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	open, err := p.requests(ctx)
	if err != nil {
		return Pair{}, err
	}
	i := slices.IndexFunc(open, func(r Pair) bool { return r.Code == code && (channel == "" || r.Channel == channel) })
	if i < 0 {
		return Pair{}, ErrNoCode
	}
	pair := open[i]
	pair.Code, pair.At, pair.Welcome = "", p.now().UTC(), true
	// After a crash in between, the request is open and the sender is paired.
	if err := p.change(ctx, pairName(pair.Channel, pair.Account, pair.Sender), func(Pair, bool) *Pair { return &pair }); err != nil {
		return Pair{}, err
	}
	return pair, p.remove(ctx, requestName(pair.Channel, pair.Account, pair.Sender))
}

// Welcome reports whether a sender was paired and has not been told yet. It returns true once.
func (p *Pairs) Welcome(ctx context.Context, channel, account, sender string) (first bool, err error) {
	name := pairName(channel, account, sender)
	pair, ok, err := p.load(ctx, name)
	if err != nil || !ok || !pair.Welcome {
		return false, err
	}
	err = p.change(ctx, name, func(old Pair, ok bool) *Pair {
		if first = ok && old.Welcome; !ok {
			return nil
		}
		old.Welcome = false
		return &old
	})
	return first && err == nil, err
}

// Remove removes a pair and a request. ok is false if there was none.
func (p *Pairs) Remove(ctx context.Context, channel, account, sender string) (ok bool, err error) {
	for _, name := range []string{pairName(channel, account, sender), requestName(channel, account, sender)} {
		_, found, err := p.load(ctx, name)
		if err == nil {
			err = p.remove(ctx, name)
		}
		if err != nil {
			return ok, err
		}
		ok = ok || found
	}
	return ok, nil
}

// List returns all pairs and open requests, ordered by channel, account and sender.
func (p *Pairs) List(ctx context.Context) ([]Pair, error) {
	open, err := p.requests(ctx)
	if err != nil {
		return nil, err
	}
	pairs, err := p.all(ctx, pairPrefix)
	if err != nil {
		return nil, err
	}
	pairs = append(pairs, open...)
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Code, b.Code))
	})
	return pairs, nil
}

// requests returns the open requests, and removes the others.
func (p *Pairs) requests(ctx context.Context) ([]Pair, error) {
	all, err := p.all(ctx, requestPrefix)
	return slices.DeleteFunc(all, func(r Pair) bool {
		expired := p.expired(r)
		if expired {
			_ = p.remove(ctx, requestName(r.Channel, r.Account, r.Sender)) // or the next time
		}
		return expired
	}), err
}

// expired reports whether a code is too old, or from a future that only a wrong clock explains.
func (p *Pairs) expired(r Pair) bool { return p.now().Sub(r.At).Abs() >= pairingLife }

func newCode() string {
	b := make([]byte, codeLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = codeLetters[int(b[i])%len(codeLetters)]
	}
	return string(b)
}

// Names in the store are hashes, because ids can be any text and must not be readable in a list of names.
const (
	pairPrefix    = "pair-"
	requestPrefix = "request-"
)

func pairName(channel, account, sender string) string {
	sum := sha256.Sum256([]byte(SessionKey(KeyParts{Channel: channel, Account: account, Conversation: sender})))
	return pairPrefix + hex.EncodeToString(sum[:16])
}

func requestName(channel, account, sender string) string {
	return requestPrefix + strings.TrimPrefix(pairName(channel, account, sender), pairPrefix)
}

// load returns a pair or a request. ok is false if it is missing.
func (p *Pairs) load(ctx context.Context, name string) (pair Pair, ok bool, err error) {
	text, err := p.store.Load(ctx, name)
	if text == nil || err != nil {
		return Pair{}, false, err
	}
	pair, err = parsePair(name, text)
	return pair, err == nil, err
}

// change replaces a pair or a request by the result of do; nil removes it. do is called again if another process was faster.
func (p *Pairs) change(ctx context.Context, name string, do func(old Pair, ok bool) *Pair) error {
	return p.store.Change(ctx, name, func(text []byte) ([]byte, error) {
		var old Pair
		var err error
		if text != nil {
			if old, err = parsePair(name, text); err != nil {
				return nil, err
			}
		}
		next := do(old, text != nil)
		if next == nil {
			return nil, nil
		}
		return json.Marshal(next)
	})
}

func (p *Pairs) remove(ctx context.Context, name string) error {
	return p.store.Change(ctx, name, func([]byte) ([]byte, error) { return nil, nil })
}

// all returns all pairs, or all requests.
func (p *Pairs) all(ctx context.Context, prefix string) (all []Pair, err error) {
	texts, err := p.store.All(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		pair, err := parsePair(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, pair)
	}
	return all, nil
}

func parsePair(name string, text []byte) (p Pair, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return Pair{}, fmt.Errorf("channel: the pairing %s is damaged", name)
	}
	if name != pairName(p.Channel, p.Account, p.Sender) && name != requestName(p.Channel, p.Account, p.Sender) {
		return Pair{}, fmt.Errorf("channel: the pairing %s belongs to another sender", name)
	}
	return p, nil
}

// PairedFact returns the value of [Identity.Paired]. It reads the store only if the policy needs it, and returns Unknown with an error if
// that fails. Without a store no one is paired.
func PairedFact(ctx context.Context, p Pairing, policy PolicyKind, channel, account, sender string) (Tri, error) {
	if policy != PolicyPairing {
		return Unknown, nil
	}
	if p == nil {
		return No, nil
	}
	ok, err := p.Paired(ctx, channel, account, sender)
	switch {
	case err != nil:
		return Unknown, err
	case ok:
		return Yes, nil
	}
	return No, nil
}
