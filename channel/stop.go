package channel

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// stopNoticeEvery is how often a sender is told in one conversation that messages are stopped for one reason.
const stopNoticeEvery = time.Minute

// stopNotice names what a sender was told, and where.
type stopNotice struct {
	channel, account, conversation, sender string
	reason                                 Reason
}

// notifyStop tells the sender of a message that was stopped why nothing answers it. The log tells the operator of all other stops: a
// stranger learns nothing of this server, and bots are told nothing, because two of them would go on for ever.
func (p *pass) notifyStop(ctx context.Context) {
	if p.err != nil || !p.result.Admission.Stops() || p.delivery == nil || p.plan.Trigger != "" || p.facts.Sender.IsBot || p.again() {
		return
	}
	text := p.stopText()
	if text == "" || p.k.Settings != nil && !p.policyHere().ErrorNotice {
		return
	}
	d := p.decision
	if len(d.Verdicts) == 0 { // the message was stopped before the gates
		d = Evaluate(*p.facts)
	}
	unsure := p.result.Admission.Reason == ReasonPairingUnavailable
	if !d.Talks() && !unsure || p.facts.Conversation.Kind != Direct && !d.Addressed {
		return
	}
	f, s, now := p.facts, &p.k.state, time.Now()
	key := stopNotice{f.Channel, f.Account, f.Conversation.ID, f.Sender.ID, p.result.Admission.Reason}
	s.mu.Lock()
	last, told := s.stops.get(key)
	due := !told || now.Sub(last) >= stopNoticeEvery
	if due {
		s.stops.put(key, now)
	}
	s.mu.Unlock()
	if due {
		p.queued(ctx) // the next message need not wait for this one's notice
		p.tellSender(ctx, text)
	}
}

// policyHere is the policy of the place, also of a turn that was stopped before it was authorized.
func (p *pass) policyHere() Policy {
	if p.decision.Verdicts != nil {
		return p.policy
	}
	return p.k.Settings.Policy(p.facts.PolicyQuery())
}

// tellSender sends a notice of the kernel to where the message is answered. The notice is no part of the answer: it is in no count and in
// no mark of the ledger.
func (p *pass) tellSender(ctx context.Context, text string) (sent bool) {
	ctx, cancel := outlive(ctx, finalizeTimeout)
	defer cancel()
	of := p.sending()
	of.NoSign, of.Event, of.Ledger = true, "", nil
	d := newDeliveries(ctx, p.k, of)
	p.notices++
	d.seq = -p.notices // blocks of the answer have numbers from 1 on, and so other keys
	_, _ = d.end(nil)  // there is nothing else to send
	r, err := d.notice(ctx, text)
	if err != nil {
		p.warn(ctx, p.result.Stage, "cannot send a notice to the sender", err)
	}
	return r.State.Seen()
}

// stopText is what a sender reads of a stop; "" where only the operator is told.
func (p *pass) stopText() string {
	switch p.result.Admission.Reason {
	case ReasonRateLimited:
		return p.rateText()
	case ReasonCommandNotAllowed:
		return "You may not use commands here. The operator of this server can allow it."
	case ReasonPairingUnavailable:
		return "The server cannot check your access at the moment. Please try again later."
	case ReasonSessionBusy:
		return "Your message was not accepted, because an earlier one is still being answered. Please send it again afterwards."
	case ReasonOverloaded:
		return turn.Sentence(turn.CodeOverloaded)
	case ReasonDraining:
		return turn.Sentence(turn.CodeDraining)
	case ReasonUnsupported:
		return "This kind of message cannot be answered here."
	case ReasonTooLarge:
		return "This message is too large."
	case ReasonNoRoute:
		return "No agent answers in this conversation. The operator of this server can change that."
	}
	return ""
}

// rateText says how many messages are answered, and when the next one is.
func (p *pass) rateText() string {
	v := p.blocked()
	limit, _ := strconv.Atoi(strings.TrimSuffix(v.Value, perMinute))
	what := "you can send %s per minute"
	if strings.HasSuffix(v.Setting, KeyChatRate) {
		what = "this conversation can have %s per minute"
	}
	seconds := int((p.result.RetryAfter + time.Second - 1) / time.Second)
	return fmt.Sprintf("This message was not answered: "+what+". Please send it again in %s.", plural(limit, "message"), plural(seconds, "second"))
}

// blocked is the verdict that has stopped the turn.
func (p *pass) blocked() Verdict { v, _ := Decision{Verdicts: p.result.Verdicts}.Blocked(); return v }

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// isStart says whether a message is what platforms send when somebody opens the conversation with a bot.
func isStart(f *Facts) bool {
	words := strings.Fields(cmp.Or(f.Message.BodyForAgent, f.Message.RawBody))
	return len(words) > 0 && words[0] == "/start" && f.Supplemental.Forwarded == nil
}

// greet answers a message with the greeting of the place; ok is false where the agent answers it.
func (p *pass) greet(ctx context.Context, t *Turn) (ok bool, err error) {
	if p.policy.Greeting == "" || !isStart(p.facts) {
		return false, nil
	}
	return true, t.Sink.Emit(ctx, ReplyFinal, Payload{Text: p.policy.Greeting})
}

// TakeRate counts a message against the rates of its sender and its conversation, for a door that answers a sender before the turn begins:
// its Meta says so then. It returns how long the sender is to wait; 0 is that the message may come. It counts no message that the gates stop.
func (k *Kernel) TakeRate(f *Facts) time.Duration {
	k.Init()
	if k.state.budget == nil || k.Settings == nil || Evaluate(*f).Admission.Kind != Dispatch {
		return 0
	}
	p := k.Settings.Policy(f.PolicyQuery())
	return k.state.budget.takeRate(f, &p)
}

// HasCommand reports whether the agents of a channel have the very command that a text begins with.
func (k *Kernel) HasCommand(channel, account, text string) bool {
	if k.Settings == nil {
		return true
	}
	p := k.Settings.Policy(PolicyQuery{Channel: channel, Account: account})
	return p.Commands == nil || p.Commands(text, true)
}
