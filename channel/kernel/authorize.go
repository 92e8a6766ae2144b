package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/ratelimit"
	"github.com/lingserve/lingserve/turn"
)

// authorize asks the gates.
func (p *pass) authorize(ctx context.Context) (channel.Admission, error) {
	if p.hooks.Ingest == nil { // the turn came resolved
		switch {
		case p.turn == nil:
			return channel.Admission{}, errors.New("there is no turn; expected one that is resolved")
		case p.turn.Admission.Stops():
			return p.turn.Admission, nil
		}
		if err := p.turn.Admission.Check(); err != nil {
			return channel.Admission{}, err
		}
		p.result.Admission = p.result.Admission.Tighten(p.turn.Admission)
	}
	if p.turn.Dispatch == nil && p.k.Agent == nil {
		return channel.Admission{}, errors.New("no agent answers the turn; expected an agent, or a turn with a Dispatch")
	}
	p.evaluate()
	a := p.decision.Admission
	p.result.Setting = p.decision.Setting
	if !a.Stops() && !p.repeated() {
		reason, setting, wait := p.k.guards.admit(p.facts, &p.policy, p.meta.Counted)
		if reason != "" {
			a, p.result.Setting, p.result.RetryAfter = drop(reason), setting, wait
		}
	}
	switch {
	case a.Reason == channel.ReasonPairingRequired:
		p.challenge(ctx)
	case a.Stops() && p.decision.Talks:
		p.k.guards.personWrote(p.facts)
	}
	return a, nil
}

// evaluate evaluates the gates of package channel by the settings of the place.
func (p *pass) evaluate() {
	f := *p.facts
	p.policy = p.k.Settings.Policy(f.PolicyQuery())
	f.Observing = p.observing()
	p.decision, p.gated = channel.Evaluate(f), true
}

// resumed reports whether the turn may have begun before.
func (p *pass) resumed() bool { return p.event.Begun }

// repeated reports whether the event has been counted before: its turn goes on, or is tried again.
func (p *pass) repeated() bool { return p.resumed() || p.event.Attempts > 0 }

// challenge tells a sender who is not paired the code to be paired with, at most once an hour.
func (p *pass) challenge(ctx context.Context) {
	if p.k.Pairing == nil || p.facts.Conversation.Kind != channel.Direct || p.turn.Delivery == nil || p.observing() {
		return
	}
	p.attempt(ctx, channel.StageAuthorize, "cannot tell a sender how to pair", func() error {
		code, tell, err := p.k.Pairing.Request(ctx, p.facts.Channel, p.facts.Account, p.facts.Sender)
		if err == nil && tell {
			p.sendNotice(ctx, "", pairingNotice, "You need to be paired before you can talk here. Your code is `"+code+
				"`. The operator of this server pairs you with: `lingserve channels pair approve "+code+"`")
		}
		return err
	})
}

// welcome tells a sender that was paired since the last message.
func (p *pass) welcome(ctx context.Context) {
	f := p.facts
	if p.k.Pairing == nil || p.turn.Delivery == nil || p.observing() || f.Conversation.Kind != channel.Direct || f.Access.DM.Paired != channel.Yes {
		return
	}
	first, err := p.k.Pairing.Welcome(ctx, f.Channel, f.Account, f.Sender.ID)
	if err != nil {
		p.warn(ctx, channel.StageDispatch, "unknown whether a sender knows of the pairing", err)
	}
	if first {
		p.sendNotice(ctx, "", pairedNotice, "You are paired. You can talk here now.")
	}
}

// stopNotice is a notice to a sender in one conversation for one reason. There is one a minute.
type stopNotice struct {
	channel, account, conversation, sender string
	reason                                 channel.Reason
}

// notifySender tells the sender of a message that has no answer why: it was stopped, or its turn has failed. A stranger learns nothing of this server, and
// bots get no notice, because two of them would go on for ever.
func (p *pass) notifySender(ctx context.Context) {
	if p.turn == nil || p.observing() || p.willRunLater() {
		return
	}
	if !p.gated { // the message ended before the gates
		p.evaluate()
	}
	f, reason, stopped := p.facts, p.result.Admission.Reason, p.err == nil && p.result.Admission.Stops()
	talks := p.decision.Talks || reason == channel.ReasonPairingUnavailable // perhaps
	learnsReason := talks && p.turn.Delivery != nil && !f.Sender.IsBot
	isForAgent := f.Conversation.Kind == channel.Direct || p.decision.Addressed
	if !p.policy.ErrorNotice || !isForAgent || (stopped || p.sink == nil) && !learnsReason {
		return
	}
	if !stopped {
		p.notifyFailure(ctx)
		return
	}
	text := stopTexts[reason]
	if reason == channel.ReasonRateLimited {
		text = p.rateText()
	}
	notice := stopNotice{f.Channel, f.Account, f.Conversation.ID, f.Sender.ID, reason}
	if text != "" && p.k.guards.notices.Take(notice, ratelimit.Rate{PerMinute: 1}) == 0 {
		p.letNext(ctx) // the next message need not wait for this notice
		p.notify(ctx, stoppedNotice, text)
	}
}

// notifyFailure sends the notice of the agent, or says that the turn has failed, if nothing of an answer is seen.
func (p *pass) notifyFailure(ctx context.Context) {
	text := ""
	switch {
	case p.canceled && !errors.Is(p.err, turn.ErrDraining), p.sink != nil && p.sink.final():
		return
	case p.sink != nil && p.sink.notice != nil:
		text = p.sink.notice.Text
	case p.err != nil:
		text = turn.Sentence("") + " (reference " + p.result.TurnID + ")"
	}
	if text != "" {
		p.notify(ctx, failureNotice, text)
	}
}

// stopTexts are what senders read. Of other reasons, only the operator learns.
var stopTexts = map[channel.Reason]string{
	channel.ReasonCommandNotAllowed:  "You may not use commands here. The operator of this server can allow it.",
	channel.ReasonPairingUnavailable: "The server cannot check your access at the moment. Please try again later.",
	channel.ReasonSessionBusy:        "Your message was not accepted, because an earlier one is still being answered. Please send it again afterwards.",
	channel.ReasonOverloaded:         turn.Sentence(turn.CodeOverloaded),
	channel.ReasonDraining:           turn.Sentence(turn.CodeDraining),
	channel.ReasonUnsupported:        "This kind of message cannot be answered here.",
	channel.ReasonTooLarge:           "This message is too large.",
	channel.ReasonNoRoute:            "No agent answers in this conversation. The operator of this server can change that.",
}

// rateText says how many messages are answered in a minute, and when the next one is.
func (p *pass) rateText() string {
	limit, who := p.policy.SenderRate, "you can send"
	if strings.HasSuffix(p.result.Setting, channel.KeyChatRate) {
		limit, who = p.policy.ChatRate, "this conversation can have"
	}
	return fmt.Sprintf("This message was not answered: %s %d per minute. Please send it again in %d s.", who, limit, int(p.result.RetryAfter.Seconds())+1)
}

// greeting is the answer to the message that platforms send when someone opens the conversation with a bot; "": the agent answers.
func (p *pass) greeting() string {
	m := &p.facts.Message
	words := strings.Fields(cmp.Or(m.BodyForAgent, m.RawBody))
	if len(words) == 0 || words[0] != "/start" || p.facts.Supplemental.Forwarded != nil {
		return ""
	}
	return p.policy.Greeting
}

// CountRate counts a message against the rates of its sender and its conversation, for a caller that answers the sender before the turn begins: its
// [Meta] says so then. It returns how long the sender has to wait; 0: the message may come. It counts no message that the gates stop.
func (k *Kernel) CountRate(f *channel.Facts) time.Duration {
	k.init()
	if channel.Evaluate(*f).Admission.Kind != channel.Dispatch {
		return 0
	}
	p := k.Settings.Policy(f.PolicyQuery())
	_, wait := k.guards.rate(f, &p)
	return wait
}

// HasCommand reports whether the agents of a channel have the very command that a text begins with.
func (k *Kernel) HasCommand(name, account, text string) bool {
	k.init()
	p := k.Settings.Policy(channel.PolicyQuery{Channel: name, Account: account})
	return p.Commands == nil || p.Commands(text, true)
}

// PolicyOf returns the policy of the place that a message came from, and notes whether its sender was paired if that decides.
func (k *Kernel) PolicyOf(ctx context.Context, f *channel.Facts) channel.Policy {
	k.init()
	policy := k.Settings.Policy(f.PolicyQuery())
	if f.Conversation.Kind == channel.Direct && policy.DM == channel.PolicyPairing {
		f.Sender.Paired, _, _ = k.Pairing.State(ctx, f.Channel, f.Account, f.Sender.ID) // the gate says that it is unknown
	}
	return policy
}
