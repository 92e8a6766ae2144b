package channel

import (
	"context"
	"errors"
	"time"
)

// Parker is a [Claim] whose event can wait for its sender to be paired, and runs again then.
type Parker interface {
	// Park releases the claim. The event runs again when state returns ParkReady, and is over at ParkOver. ok is false where it cannot wait:
	// nothing has happened then.
	Park(_ context.Context, state func(context.Context) ParkState) (ok bool, err error)
}

// ParkState says what becomes of an event that waits.
type ParkState uint8

// The states.
const (
	ParkWaits ParkState = iota
	ParkReady
	ParkOver
)

// errParked is why the claim of an event that waits is released: that is no attempt.
var errParked = errors.New("channel: the event waits for its sender to be paired")

// parkedEvery is how often a door asks whether events that wait are ready. People approve a code by hand.
const parkedEvery = 2 * time.Second

// park lets the first event of a sender who asks to be paired wait for the answer. Later ones do not wait, so that a stranger takes one place
// in line.
func (p *pass) park(ctx context.Context) (parked bool, err error) {
	claim, ok := p.claim.(Parker)
	asker, asks := p.k.Pairing.(Asker)
	if !ok || !asks || p.result.Admission.Reason != ReasonPairingRequired || p.err != nil || len(p.others) > 0 {
		return false, nil
	}
	who, event := challenge{p.facts.Channel, p.facts.Account, p.facts.Sender.ID}, p.key().String()
	if asked, err := asker.Asked(ctx, who.channel, who.account, who.sender); err != nil || !asked {
		return false, nil
	}
	s := &p.k.state
	s.mu.Lock()
	first, taken := s.parked[who]
	if !taken {
		if s.parked == nil {
			s.parked = map[challenge]string{}
		}
		s.parked[who] = event
	}
	s.mu.Unlock()
	if taken && first != event {
		return false, nil
	}
	parked, err = claim.Park(ctx, func(ctx context.Context) ParkState { return p.k.pairingState(ctx, who) })
	if !parked {
		p.k.unpark(who)
	}
	return parked, err
}

// pairingState says whether a sender was paired, or cannot be any more with the code that they were told.
func (k *Kernel) pairingState(ctx context.Context, who challenge) ParkState {
	if paired, err := k.Pairing.Paired(ctx, who.channel, who.account, who.sender); paired || err != nil {
		if err != nil {
			return ParkWaits
		}
		k.unpark(who)
		return ParkReady
	}
	if asker, ok := k.Pairing.(Asker); ok {
		if asked, err := asker.Asked(ctx, who.channel, who.account, who.sender); asked || err != nil {
			return ParkWaits
		}
	}
	k.unpark(who)
	return ParkOver
}

func (k *Kernel) unpark(who challenge) {
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	delete(k.state.parked, who)
}

// Welcomer is a [Pairing] that knows who was paired and not told yet.
type Welcomer interface {
	// Welcome returns true once for each sender who was paired.
	Welcome(_ context.Context, channel, account, sender string) (bool, error)
}

// welcome tells a sender who was paired since their last message that they are.
func (p *pass) welcome(ctx context.Context) {
	f := p.facts
	w, ok := p.k.Pairing.(Welcomer)
	if !ok || p.delivery == nil || p.plan.Trigger != "" || p.observing() || f.Conversation.Kind != Direct || f.Access.DM.Paired != Yes {
		return
	}
	first, err := w.Welcome(ctx, f.Channel, f.Account, f.Sender.ID)
	if err != nil {
		p.warn(ctx, StageDispatch, "unknown whether a sender was told of pairing", err)
	}
	if first {
		p.tellSender(ctx, "You are paired. You can talk here now.")
	}
}

// Park implements [Parker].
func (c *doorClaim) Park(ctx context.Context, state func(context.Context) ParkState) (ok bool, err error) {
	if !c.door.o.Parks || !c.end() {
		return false, nil
	}
	err = c.Claim.Release(ctx, errParked)
	c.door.mu.Lock()
	c.door.parked[c.item] = state
	c.door.mu.Unlock()
	select {
	case c.door.parkedMore <- struct{}{}:
	default: // it has not looked since the last one
	}
	return true, err
}

// watchParked runs the events that wait for their senders to be paired, until ctx ends.
func (d *Door) watchParked(ctx context.Context) {
	timer := time.NewTimer(parkedEvery)
	defer timer.Stop()
	for {
		d.mu.Lock()
		states := make(map[*doorItem]func(context.Context) ParkState, len(d.parked))
		for item, state := range d.parked {
			states[item] = state
		}
		d.mu.Unlock()
		if len(states) == 0 {
			select {
			case <-d.parkedMore:
				continue
			case <-ctx.Done():
				return
			}
		}
		timer.Reset(parkedEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for item, state := range states {
			d.unpark(ctx, item, state(ctx))
		}
	}
}

// unpark lets an event run that waits, or settles it.
func (d *Door) unpark(ctx context.Context, item *doorItem, s ParkState) {
	if s == ParkWaits {
		return
	}
	d.mu.Lock()
	delete(d.parked, item)
	d.mu.Unlock()
	if s == ParkReady {
		d.runAgain(item, 0)
		return
	}
	claim, _, err := d.journal.Claim(ctx, item.entry.Key)
	if err == nil && claim != nil {
		err = claim.Commit(ctx, OutcomeBlocked)
	}
	if err != nil {
		d.o.Log.WarnContext(ctx, "cannot settle an event of an unpaired sender", "channel", d.o.Channel, "error", err)
	}
	d.done(item)
}
