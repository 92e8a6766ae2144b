package channel

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Pairs knows who was paired with an account: a sender who wants to talk gets a code, and an operator approves the code. Several processes, such
// as the server and a command, can use the same store.
type Pairs struct{ values[Pair] }

// Pair is a sender who may talk to an account, or a request for that.
type Pair struct {
	Channel string    `json:"channel"`
	Account string    `json:"account,omitempty"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`    // as on the platform, where everybody can take any name
	At      time.Time `json:"at"`                // of the request, or of its approval
	Code    string    `json:"code,omitempty"`    // of a request; "" for a sender who is paired
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
	codeLength  = 8         // letters and digits, 40 bits
)

// NewPairs returns pairs in a store. With nil, the store is memory.
func NewPairs(store Texts) *Pairs { return &Pairs{newValues[Pair](store)} }

// State reports whether a sender is paired, which is Unknown with an error, or has a code that has not expired. Without a store no one is paired.
func (p *Pairs) State(ctx context.Context, channel, account, sender string) (paired Tri, requested bool, err error) {
	if p == nil {
		return No, false, nil
	}
	pair, err := p.load(ctx, pairName(channel, account, sender))
	switch {
	case err != nil:
		return Unknown, false, err
	case pair == nil:
		return No, false, nil
	case pair.Code == "":
		return Yes, false, nil
	}
	return No, !pair.expired(), nil
}

// Request stores that a sender wants to be paired, and returns the code. tell is false if the sender was told the code within the last hour.
// A sender who is paired gets no code.
func (p *Pairs) Request(ctx context.Context, channel, account string, s SenderFacts) (code string, tell bool, err error) {
	if s.ID == "" {
		return "", false, errors.New("channel: a sender without an id cannot be paired")
	}
	all, err := p.List(ctx)
	if err != nil {
		return "", false, err
	}
	isFull := len(slices.DeleteFunc(all, func(r Pair) bool { return r.Code == "" })) >= maxRequests
	next := &Pair{
		Channel: channel, Account: account, Sender: s.ID, Name: label(cmp.Or(s.Name, s.DisplayLabel, s.Username)), At: time.Now().UTC(),
		Code: rand.Text()[:codeLength],
	}
	err = p.change(ctx, pairName(channel, account, s.ID), func(pair *Pair) *Pair {
		if tell = pair == nil || pair.expired(); tell && isFull {
			return nil
		} else if tell {
			pair = next
		}
		code = pair.Code
		return pair
	})
	if err == nil && tell && isFull {
		err = ErrManyRequests
	}
	return code, tell && err == nil, err
}

// Approve pairs the sender who has a code. The case of its letters, blanks and dashes do not matter. An empty channel matches all channels.
func (p *Pairs) Approve(ctx context.Context, channel, code string) (Pair, error) {
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	all, err := p.List(ctx)
	if err != nil {
		return Pair{}, err
	}
	i := slices.IndexFunc(all, func(r Pair) bool { return r.Code != "" && r.Code == code && (channel == "" || r.Channel == channel) })
	if i < 0 {
		return Pair{}, ErrNoCode
	}
	pair := all[i]
	pair.Code, pair.At, pair.Welcome = "", time.Now().UTC(), true
	return pair, p.change(ctx, pairName(pair.Channel, pair.Account, pair.Sender), func(*Pair) *Pair { return &pair })
}

// Welcome reports whether a sender was paired and has not been told yet. It returns true once.
func (p *Pairs) Welcome(ctx context.Context, channel, account, sender string) (first bool, err error) {
	name := pairName(channel, account, sender)
	if pair, err := p.load(ctx, name); err != nil || pair == nil || !pair.Welcome {
		return false, err
	}
	err = p.change(ctx, name, func(pair *Pair) *Pair {
		if first = pair != nil && pair.Welcome; first {
			pair.Welcome = false
		}
		return pair
	})
	return first && err == nil, err
}

// Remove removes a pair, or a request. ok is false if there was none.
func (p *Pairs) Remove(ctx context.Context, channel, account, sender string) (ok bool, err error) {
	err = p.change(ctx, pairName(channel, account, sender), func(old *Pair) *Pair {
		ok = old != nil
		return nil
	})
	return ok && err == nil, err
}

// List returns all pairs and open requests, ordered by channel, account and sender. It removes expired requests.
func (p *Pairs) List(ctx context.Context) (all []Pair, err error) {
	texts, err := p.texts.All(ctx, pairPrefix)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		var pair Pair
		if json.Unmarshal(text, &pair) != nil {
			return nil, errDamaged
		}
		if !pair.expired() {
			all = append(all, pair)
			continue
		}
		_ = p.change(ctx, name, func(pair *Pair) *Pair { // or the next time
			if pair == nil || pair.expired() {
				return nil
			}
			return pair
		})
	}
	slices.SortFunc(all, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Sender, b.Sender))
	})
	return all, nil
}

// expired reports whether a request is too old, or from a future that only a wrong clock explains.
func (r *Pair) expired() bool { return r.Code != "" && time.Since(r.At).Abs() >= pairingLife }

// pairPrefix begins all names in the store.
const pairPrefix = "pair-"

// pairName returns the name in the store.
func pairName(channel, account, sender string) string {
	return pairPrefix + hashedName(SessionKey(KeyParts{Channel: channel, Account: account, Conversation: sender}))
}
