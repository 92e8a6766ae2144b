package webhook

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// answer is the answer to a message. With [AckResult] it is stored.
type answer struct {
	Turn      string `json:"turn,omitempty"`
	Status    string `json:"status"` // accepted, or done
	Admission string `json:"admission,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
	Replies   []part `json:"replies,omitzero"`
	Duplicate bool   `json:"duplicate,omitempty"`
}

// part is a part of a reply.
type part struct {
	Kind channel.ReplyKind `json:"kind"`
	Seq  int               `json:"seq"`
	Text string            `json:"text"`
}

const (
	statusAccepted = "accepted"
	statusDone     = "done"
)

// partOf returns a block as a part of a reply. The addresses of its media follow its text.
func partOf(b *channel.Block) part {
	text, _ := platform.TextAndFiles(b)
	return part{b.Kind, b.Seq, text}
}

// add adds a part, unless it is there.
func (a *answer) add(p part) {
	if !slices.ContainsFunc(a.Replies, func(other part) bool { return other.Seq == p.Seq }) {
		a.Replies = append(a.Replies, p)
	}
}

// complete makes it the answer to a turn that has ended.
func (a *answer) complete(turn string, admission channel.Admission, outcome channel.Outcome) {
	a.Turn, a.Status, a.Admission, a.Reason, a.Outcome = turn, statusDone, string(admission.Kind), string(admission.Reason), string(outcome)
	if a.Replies == nil {
		a.Replies = []part{}
	}
}

// Results stores the answers to messages, for requests that wait, at any replica, and for messages that are sent again. An answer is deleted a day after
// it was saved.
type Results interface {
	// Save replaces the answer to a message of a session.
	Save(_ context.Context, message, session string, answer []byte) error
	// Load returns the answer; nil: it has none.
	Load(_ context.Context, message string) ([]byte, error)
	// Erase deletes the answers to all messages of a session.
	Erase(_ context.Context, session string) error
}

const (
	// ResultLife is how long an answer is stored.
	ResultLife = 24 * time.Hour
	// resultsTimeout bounds a call of Results.
	resultsTimeout = 5 * time.Second
)

// save stores an answer. If it cannot, no request gets the reply.
func (c *Channel) save(ctx context.Context, name, session string, a *answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultsTimeout)
	defer cancel()
	text, err := json.Marshal(a)
	if err == nil {
		err = c.s.Results.Save(ctx, name, session, text)
	}
	if err != nil {
		c.Log.WarnContext(ctx, "cannot store an answer", "error", err)
	}
}

// load returns the answer that is stored, or the zero value. ok is false if it cannot be read.
func (c *Channel) load(ctx context.Context, name string) (a answer, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, resultsTimeout)
	defer cancel()
	text, err := c.s.Results.Load(ctx, name)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		c.Log.WarnContext(ctx, "cannot read a stored answer", "error", err)
	}
	return a, err == nil
}
