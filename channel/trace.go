package channel

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// tell tells the observer what happens. It returns the time, where somebody wants to know it.
func (p *pass) tell(ctx context.Context, t Trace) time.Time {
	if p.k.Observer == nil {
		return time.Time{}
	}
	now := time.Now()
	if t.Phase != PhaseStart && t.Phase != PhaseWarning {
		t.Duration = now.Sub(p.started)
	}
	t.TurnID, t.SessionKey, t.Admission = p.result.TurnID, p.result.SessionKey, p.result.Admission
	t.Channel, t.Account = p.meta.Channel, p.meta.Account
	if tracer, ok := p.k.Tracer.(TraceIDs); ok {
		p.attemptLogged(ctx, "tracer failed", func() { t.TraceID = tracer.TraceID(ctx) })
	}
	sender := ""
	if f := p.facts; f != nil {
		t.MessageID, t.Conversation, sender = f.MessageID, f.Conversation.ID, f.Sender.ID
		if f.Account != "" {
			t.Account = f.Account
		}
		if f.Route.AccountID != "" {
			t.Account = f.Route.AccountID
		}
		if p.policy.Previews {
			t.Preview = f.Message.Preview
		}
	}
	if in := p.in; in != nil {
		t.MessageID = in.ID
		if p.facts == nil {
			t.Conversation, sender = in.ConversationID, in.SenderID
		}
	}
	t.Sender = p.sender(sender)
	if t.Phase == PhaseDrop || t.Phase == PhaseHandled {
		if v := p.decision.by(p.result.Verdicts, t.Admission.Reason); v != nil {
			t.Setting, t.Hint = v.Setting, v.Hint
		}
	}
	p.attemptLogged(ctx, "observer failed", func() { p.k.Observer.Observe(ctx, t) })
	return now
}

// by is the verdict that blocked for a reason.
func (*Decision) by(verdicts []Verdict, r Reason) *Verdict {
	for i := range verdicts {
		if verdicts[i].State == Blocked && verdicts[i].Reason == r {
			return &verdicts[i]
		}
	}
	return nil
}

// TraceIDs is a [Tracer] that knows the id of the trace that a context belongs to.
type TraceIDs interface{ TraceID(context.Context) string }

// salt keeps hashed ids from being found by trying all telephone numbers.
var salt = sync.OnceValue(func() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
})

// sender is somebody as log.sender_ids wants it: plain, the same for one sender until the server is started again, or not at all.
func (p *pass) sender(id string) string {
	switch {
	case id == "" || p.policy.SenderIDs == "none":
		return ""
	case p.policy.SenderIDs == "hash":
		h := hmac.New(sha256.New, salt())
		h.Write([]byte(id))
		return hex.EncodeToString(h.Sum(nil)[:8])
	default:
		return id
	}
}

// span opens a span, which end closes. end is never nil.
func (p *pass) span(ctx context.Context, name string) (inside context.Context, end func(error)) {
	if p.k.Tracer == nil {
		return ctx, func(error) {}
	}
	var closes func(error)
	p.attemptLogged(ctx, "tracer failed", func() { inside, closes = p.k.Tracer.Span(ctx, name) })
	if inside == nil {
		inside = ctx
	}
	return inside, func(err error) {
		if closes != nil {
			p.attemptLogged(ctx, "tracer failed", func() { closes(err) })
		}
	}
}

// warn tells of something that went wrong and does not change the turn.
func (p *pass) warn(ctx context.Context, s Stage, what string, err error) {
	p.tell(ctx, Trace{Stage: s, Phase: PhaseWarning, Warning: what, Err: err})
	if p.k.Observer == nil { // else it is the observer's to log
		p.log(ctx, slog.LevelWarn, what, slog.String("stage", string(s)), slog.Any("error", err))
	}
}

// attempt runs what must not change the turn: its failure is a warning.
func (p *pass) attempt(ctx context.Context, s Stage, what string, f func() error) {
	if err := p.guard(ctx, f); err != nil {
		p.warn(ctx, s, what, err)
	}
}

// attemptLogged is attempt for those who are told of warnings.
func (p *pass) attemptLogged(ctx context.Context, what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			p.log(ctx, slog.LevelWarn, what, slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
}

// guard makes a panic an error. Its stack goes to the log alone; its value goes nowhere, since it may have words of a message.
func (p *pass) guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
			p.log(ctx, slog.LevelError, "panic in a channel's callback", slog.String("stage", string(p.result.Stage)),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	return f()
}

func (p *pass) log(ctx context.Context, level slog.Level, what string, attrs ...slog.Attr) {
	if p.k.Log == nil {
		return
	}
	p.k.Log.LogAttrs(ctx, level, what, append(attrs, slog.String("turn", p.result.TurnID), slog.String("channel", p.meta.Channel))...)
}
