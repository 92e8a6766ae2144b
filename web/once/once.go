// Package once knows which run each Idempotency-Key has started, so that a request that comes twice starts one run.
//
// # Guarantees
//   - Of all who claim a key at the same time, on whichever replica, one gets it, and the others get what that one has claimed.
//   - A claim that has failed is as if it had not been made; where nobody knows at first whether it was stored, it is taken back.
//   - A key is known for as long as keys are retained, from its claim on. Beyond a bound keys are forgotten early: the oldest of the callers
//     with the most, so that one caller's flood of keys leaves the keys of all others.
//
// Package oncetest is every implementation's test.
package once

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// Claim is what is known of a key.
type Claim struct {
	Owner string   // whose key it is; "" is the one user of a server that asks nobody who they are
	Key   string   // as the client has written it
	Hash  [16]byte // of the request: another request with the same key is a mistake
	Run   string   // that the request has started
	Of    []byte   // what is to be known of the run should it never be seen
	At    time.Time
}

// Keys knows which run each key has started. It is safe for concurrent use. Errors: [ErrAway], and the cause of ctx.
type Keys interface {
	// Claim lets a key lead to a run, in one step. Where it leads to one already, ok is false and the earlier claim is returned, which
	// may be of another request: its Hash says so. Who cannot start the run after all calls Forget.
	Claim(ctx context.Context, c Claim) (earlier Claim, ok bool, err error)
	// Find returns what is known of a key. What it does not find may be claimed by another replica in the same moment.
	Find(ctx context.Context, owner, key string) (c Claim, ok bool, err error)
	// Move lets a key that leads to one run lead to another one; ok is false where it does not lead to the first.
	Move(ctx context.Context, owner, key, from, to string) (ok bool, err error)
	// Forget frees a key that leads to a run. One that leads to another run stays as it is.
	Forget(ctx context.Context, owner, key, run string) error
}

// MaxOf is how many bytes Of has at most.
const MaxOf = 4 << 10

// ErrAway says that keys cannot be claimed now.
var ErrAway error = away{}

// Away returns an [ErrAway] with its cause.
func Away(cause error) error { return away{cause} }

type away struct{ cause error }

func (a away) Error() string {
	const what = "once: cannot check Idempotency-Keys now"
	if a.cause == nil {
		return what
	}
	return what + ": " + a.cause.Error()
}

// Is reports whether target is [ErrAway].
func (away) Is(target error) bool { return target == ErrAway }

func (a away) Unwrap() error { return a.cause }

// ErrorCode says to those who sort errors by codes that it is nobody's mistake.
func (away) ErrorCode() string { return "overloaded" }

// Check says what is wrong with a claim.
func (c *Claim) Check() error {
	switch {
	case c.Key == "":
		return errors.New("once: a claim without a key")
	case c.Run == "":
		return errors.New("once: a claim without a run")
	case len(c.Of) > MaxOf:
		return fmt.Errorf("once: what is said of a run has %d bytes, and %d is the most", len(c.Of), MaxOf)
	}
	return nil
}

// Hash tells the keys of one owner from those of all others: no name and no key has a NUL in it. What is stored is this, and no text of
// a client's.
func Hash(owner, key string) [16]byte {
	if owner != "" {
		key = owner + "\x00" + key
	}
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:])
}
