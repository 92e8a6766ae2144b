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
	"sync"
	"time"
)

// Pairs knows who was paired with which account of a channel, and who asks for it: [Pairing] with all that an operator needs. Who
// wants to talk is told a code; the operator approves the code.
//
// A command of the operator and the server that runs have the same store: what one of them writes, the other sees at once.
type Pairs struct {
	store Texts
	now   func() time.Time

	mu sync.Mutex // of what is read and then written
}

// Pair is somebody who may talk to an account, or who asks for it.
type Pair struct {
	Channel string    `json:"channel"`
	Account string    `json:"account,omitempty"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`    // as the platform shows it; anybody may take any name
	At      time.Time `json:"at"`                // when it was asked for, or approved
	Code    string    `json:"code,omitempty"`    // of one who asks; "" of one who is paired
	Welcome bool      `json:"welcome,omitempty"` // of one who is paired and was not told so yet
}

var (
	// ErrNoCode says that nobody asks with this code: it was mistyped, approved already, or is older than an hour.
	ErrNoCode = errors.New("channel: unknown pairing code; codes expire after an hour")
	// ErrManyRequests says that more people ask to be paired than are kept.
	ErrManyRequests = errors.New("channel: too many pairing requests; approve or remove some")
)

const (
	// pairingLife is how long a code is good, and so how seldom one sender is told one.
	pairingLife = time.Hour
	// maxRequests bounds what strangers can make the server keep.
	maxRequests = 256
	// codeLength letters of codeLetters are 40 bits, more than enough for an operator who types what he was told.
	codeLength  = 8
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // no I, O, 0 and 1
)

// NewPairs keeps pairs in a store; nil is a memory, which ends with the process.
func NewPairs(store Texts) *Pairs {
	if store == nil {
		store = NewTexts(0)
	}
	return &Pairs{store: store, now: time.Now}
}

// Paired says whether a sender was paired. An error is a store that cannot be read.
func (p *Pairs) Paired(ctx context.Context, channel, account, sender string) (bool, error) {
	_, ok, err := p.get(ctx, pairName(channel, account, sender))
	return ok, err
}

// Asked implements [Asker]: whether the code that a sender was told is still good.
func (p *Pairs) Asked(ctx context.Context, channel, account, sender string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok, err := p.get(ctx, requestName(channel, account, sender))
	return ok && !p.over(r), err
}

// Request is somebody who asks to be paired. The code is the one to tell; tell is false where the sender was told it within the hour,
// and is not to be told again. Somebody who is paired has no code.
func (p *Pairs) Request(ctx context.Context, channel, account string, s SenderFacts) (code string, tell bool, err error) {
	if s.ID == "" {
		return "", false, errors.New("channel: a sender without an id cannot be paired")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok, err := p.get(ctx, pairName(channel, account, s.ID)); ok || err != nil {
		return "", false, err
	}
	name := requestName(channel, account, s.ID)
	asked, ok, err := p.get(ctx, name)
	if err != nil {
		return "", false, err
	}
	if ok && !p.over(asked) {
		return asked.Code, false, nil
	}
	waiting, err := p.requests(ctx)
	if err != nil {
		return "", false, err
	}
	if len(waiting) >= maxRequests {
		return "", false, ErrManyRequests
	}
	for code == "" || slices.ContainsFunc(waiting, func(o Pair) bool { return o.Code == code }) {
		code = newCode()
	}
	r := Pair{Channel: channel, Account: account, Sender: s.ID, Name: label(cmp.Or(s.Name, s.DisplayLabel, s.Username)), At: p.now().UTC(), Code: code}
	err = p.change(ctx, name, func(old Pair, ok bool) (Pair, bool) {
		if asked = r; ok && !p.over(old) {
			asked = old
		}
		return asked, true
	})
	if err != nil {
		return "", false, err
	}
	return asked.Code, asked.Code == code, nil // another process may have been told of the same sender
}

// Approve pairs who asks with a code, in upper or lower case and with any blanks or dashes in it. channel may be "" for any. The
// error is [ErrNoCode] where nobody does.
func (p *Pairs) Approve(ctx context.Context, channel, code string) (Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	waiting, err := p.requests(ctx)
	if err != nil {
		return Pair{}, err
	}
	for _, r := range waiting {
		if r.Code != code || channel != "" && r.Channel != channel {
			continue
		}
		name := requestName(r.Channel, r.Account, r.Sender)
		r.Code, r.At, r.Welcome = "", p.now().UTC(), true
		// First the pair: a crash in between leaves a request that asks for what there is.
		if err := p.change(ctx, pairName(r.Channel, r.Account, r.Sender), func(Pair, bool) (Pair, bool) { return r, true }); err != nil {
			return Pair{}, err
		}
		return r, p.remove(ctx, name)
	}
	return Pair{}, ErrNoCode
}

// Welcome implements [Welcomer].
func (p *Pairs) Welcome(ctx context.Context, channel, account, sender string) (first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pairName(channel, account, sender)
	pair, ok, err := p.get(ctx, name)
	if err != nil || !ok || !pair.Welcome {
		return false, err
	}
	err = p.change(ctx, name, func(old Pair, ok bool) (Pair, bool) {
		first = ok && old.Welcome
		old.Welcome = false
		return old, ok
	})
	return first && err == nil, err
}

// Remove takes a pair, or a request for one, away. ok is false where there was none.
func (p *Pairs) Remove(ctx context.Context, channel, account, sender string) (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range []string{pairName(channel, account, sender), requestName(channel, account, sender)} {
		_, there, err := p.get(ctx, name)
		if err == nil {
			err = p.remove(ctx, name)
		}
		if err != nil {
			return ok, err
		}
		ok = ok || there
	}
	return ok, nil
}

// List returns who is paired and who asks, by channel, account and sender. What is over is left out.
func (p *Pairs) List(ctx context.Context) ([]Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, err := p.requests(ctx)
	if err != nil {
		return nil, err
	}
	pairs, err := p.list(ctx, pairPrefix)
	if err != nil {
		return nil, err
	}
	pairs = append(pairs, waiting...)
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Code, b.Code))
	})
	return pairs, nil
}

// requests are those that are not over; the others are removed.
func (p *Pairs) requests(ctx context.Context) ([]Pair, error) {
	all, err := p.list(ctx, requestPrefix)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r Pair) bool {
		over := p.over(r)
		if over {
			_ = p.remove(ctx, requestName(r.Channel, r.Account, r.Sender)) // else the next time
		}
		return over
	}), nil
}

// over also takes what comes from the future for over, as when the clock was set back: else it would never end.
func (p *Pairs) over(r Pair) bool {
	age := p.now().Sub(r.At)
	return age >= pairingLife || age < -pairingLife
}

func newCode() string {
	b := make([]byte, codeLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = codeLetters[int(b[i])%len(codeLetters)] // 256 is a multiple of 32
	}
	return string(b)
}

// Names in the store begin with what they are. The rest is a hash, since ids may be anything and must not be read off a list of names.
const (
	pairPrefix    = "pair-"
	requestPrefix = "request-"
)

func pairName(channel, account, sender string) string {
	return pairPrefix + pairHash(channel, account, sender)
}

func requestName(channel, account, sender string) string {
	return requestPrefix + pairHash(channel, account, sender)
}

func pairHash(channel, account, sender string) string {
	sum := sha256.Sum256([]byte(SessionKey(KeyParts{Channel: channel, Account: account, Conversation: sender})))
	return hex.EncodeToString(sum[:16])
}

// get reads a pair or a request.
func (p *Pairs) get(ctx context.Context, name string) (Pair, bool, error) {
	text, err := p.store.Load(ctx, name)
	if text == nil || err != nil {
		return Pair{}, false, err
	}
	pair, err := parsePair(name, text)
	return pair, err == nil, err
}

// change replaces a pair or a request by what do makes of it; kept is false to remove it. do is called again if another process was faster.
func (p *Pairs) change(ctx context.Context, name string, do func(old Pair, ok bool) (next Pair, kept bool)) error {
	return p.store.Change(ctx, name, func(text []byte) ([]byte, error) {
		var old Pair
		if text != nil {
			var err error
			if old, err = parsePair(name, text); err != nil {
				return nil, err
			}
		}
		next, kept := do(old, text != nil)
		if !kept {
			return nil, nil
		}
		return json.Marshal(next)
	})
}

// remove removes a pair or a request, if it exists.
func (p *Pairs) remove(ctx context.Context, name string) error {
	return p.store.Change(ctx, name, func([]byte) ([]byte, error) { return nil, nil })
}

// list returns the pairs, or the requests.
func (p *Pairs) list(ctx context.Context, prefix string) ([]Pair, error) {
	texts, err := p.store.All(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := make([]Pair, 0, len(texts))
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

// PairedFact is what [Identity.Paired] is: asked only where the policy needs it, unknown where the store cannot be read. Without a
// store nobody is paired.
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
