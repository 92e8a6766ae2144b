package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	recordTimeout   = 10 * time.Second
	finalizeTimeout = 10 * time.Second

	// LoaderTimeout bounds a function that loads media or sends a pairing code. Channels use it too.
	LoaderTimeout = 15 * time.Second
)

func drop(r Reason) Admission    { return Admission{Kind: Drop, Reason: r} }
func handled(r Reason) Admission { return Admission{Kind: Handled, Reason: r} }

// ingest normalises the event.
func (p *pass) ingest(ctx context.Context) (Admission, error) {
	in, err := p.event.ingest(ctx)
	switch {
	case err != nil:
		return Admission{}, err
	case in == nil:
		return drop(ReasonIngestNull), nil
	}
	p.in = in
	return Admission{}, nil
}

// classify asks what sort of event it is, and answers the platform where it cannot wait.
func (p *pass) classify(ctx context.Context) (Admission, error) {
	p.result.Class = MessageClass
	if c, ok := p.adapter.(Classifier); ok {
		class, err := c.Classify(ctx, p.in)
		if err != nil {
			return Admission{}, err
		}
		p.result.Class = class
	}
	if p.result.Class.RequiresImmediateAck {
		p.acknowledge(ctx)
	}
	if !p.result.Class.CanStartAgentTurn {
		return handled(ReasonNotATurn), nil
	}
	return Admission{}, nil
}

// preflightStage keeps away what was seen before and what came from here, waits for the rest of a burst, and asks the adapter.
func (p *pass) preflightStage(ctx context.Context) (Admission, error) {
	if a, err := p.claimOnce(ctx, p.key()); err != nil || a.Kind != "" {
		return a, err
	}
	if e := p.k.state.echo; e != nil && p.in.ID != "" && e.byID(p.meta.Channel, p.meta.Account, p.in.ConversationID, p.in.ID) {
		return drop(ReasonSelfEcho), nil
	}
	if a, err := p.merge(ctx); err != nil || a.Kind != "" {
		return a, err
	}
	f, ok := p.adapter.(Preflighter)
	if !ok {
		return Admission{}, nil
	}
	var err error
	p.preflight, err = f.Preflight(ctx, p.in, p.result.Class)
	return p.preflight.Admission, err
}

// key names the event, as the journal has it.
func (p *pass) key() EventKey {
	if c, ok := p.claim.(KeyedClaim); ok {
		return c.Key()
	}
	if p.in != nil {
		return EventKey{
			Channel: p.meta.Channel, Account: p.meta.Account, Conversation: p.in.ConversationID, Thread: p.in.ThreadID,
			ID: p.in.ID, Synthetic: p.in.Synthetic,
		}
	}
	f := p.facts
	return EventKey{
		Channel: p.meta.Channel, Account: p.meta.Account, Conversation: f.Conversation.ID, Thread: f.Conversation.ThreadID,
		ID: f.MessageID,
	}
}

// claimOnce claims the event, so that it runs once.
func (p *pass) claimOnce(ctx context.Context, key EventKey) (Admission, error) {
	if p.claim != nil || key.ID == "" { // an event without an id cannot come a second time
		return Admission{}, nil
	}
	claim, _, err := p.k.state.journal.Claim(ctx, key)
	if err != nil {
		return Admission{}, fmt.Errorf("claim the event: %w", err)
	}
	if claim == nil {
		return drop(ReasonDedupe), nil
	}
	p.claim = claim
	return Admission{}, nil
}

// merge waits for the rest of a burst. The first event leads and goes on with all of it.
func (p *pass) merge(ctx context.Context) (Admission, error) {
	if p.k.state.burst == nil {
		return Admission{}, nil
	}
	e := burstEvent{
		turn: p.result.TurnID, channel: p.meta.Channel, account: p.meta.Account,
		in: p.in, class: p.result.Class, claim: p.claim, queued: func() { p.queued(ctx) },
	}
	if p.k.Settings != nil {
		e.policy = p.k.Settings.Policy
	}
	b, err := p.k.state.burst.join(ctx, e)
	p.others, p.placed = b.claims, b.placed
	if err != nil {
		return Admission{}, err
	}
	if b.into != "" {
		p.result.MergedInto = b.into
		return handled(ReasonMerged), nil
	}
	if b.in != nil {
		p.in = b.in
	}
	return Admission{}, nil
}

// resolve asks the adapter where the message belongs and where the reply goes.
func (p *pass) resolve(ctx context.Context) (Admission, error) {
	plan, err := p.event.resolve(ctx, p.in, p.result.Class, p.preflight)
	if err != nil {
		return Admission{}, err
	}
	p.take(plan)
	if p.plan == nil {
		return Admission{}, errors.New("the adapter has resolved the event to nothing; expected an *Assembled or a *Prepared plan")
	}
	if p.plan.Admission.Stops() {
		return p.plan.Admission, nil
	}
	if p.plan.Context == nil && p.facts.Route.AgentID == "" && p.k.Routes != nil {
		agent, ok := p.k.Routes.Route(p.facts.RouteQuery())
		if !ok {
			return drop(ReasonNoRoute), nil
		}
		p.facts.Route.AgentID, p.result.Route.AgentID = agent, agent
	}
	return p.plan.Admission, nil
}

// authorize asks the gates, and then the budgets.
func (p *pass) authorize(ctx context.Context) (Admission, error) {
	if p.event == nil { // the plan came with the call
		if p.plan == nil {
			return Admission{}, errors.New("the plan is missing; expected an *Assembled or a *Prepared plan")
		}
		if err := p.plan.Admission.Check(StageResolve); err != nil {
			return Admission{}, err
		}
		if p.plan.Admission.Stops() {
			return p.plan.Admission, nil
		}
		p.result.Admission = p.result.Admission.Tighten(p.plan.Admission)
		if p.plan.Trigger == "" {
			if a, err := p.claimOnce(ctx, p.key()); err != nil || a.Kind != "" {
				return a, err
			}
		}
	}
	if p.dispatch == nil {
		return Admission{}, errors.New("the plan has no dispatch; expected a *Prepared plan with one")
	}
	if p.k.Settings != nil {
		p.policy = p.k.Settings.Policy(p.facts.PolicyQuery())
	}
	f := *p.facts
	f.Trigger, f.Observing = p.plan.Trigger, p.result.Admission.Kind == ObserveOnly
	p.decision = Evaluate(f)
	a := p.decision.Admission
	if p.echoes() {
		p.decision.echo()
		a = p.decision.Admission
	}
	p.result.Verdicts = p.decision.Verdicts
	if p.k.state.budget != nil && p.plan.Trigger == "" && !a.Stops() {
		b := p.k.state.budget.use(ctx, p.facts, &p.policy, p.meta.Counted)
		p.result.Verdicts = append(p.result.Verdicts, b.verdicts...)
		if b.admission.Kind != "" {
			a, p.result.RetryAfter = b.admission, b.wait
		}
	}
	if a.Reason == ReasonPairingRequired {
		p.challenge(ctx)
	}
	if a.Stops() && p.k.state.budget != nil && p.decision.Talks() {
		p.k.state.budget.heard(p.facts)
	}
	if a.Kind == "" && p.result.Admission.Kind == "" {
		a.Kind = Dispatch
	}
	return a, nil
}

// echoes says whether the message is what is being sent from here at this moment. People may say the same.
func (p *pass) echoes() bool {
	if p.k.state.echo == nil || p.plan.Trigger != "" || !p.facts.Sender.IsBot && p.facts.Sender.ID != "" {
		return false
	}
	return p.k.state.echo.byText(p.facts.Channel, p.facts.Account, p.facts.Conversation.ID, p.facts.Message.RawBody)
}

// echo makes the gate self block: it is asked first, so what it says decides.
func (d *Decision) echo() {
	d.Admission = drop(ReasonSelfEcho)
	for i := range d.Verdicts {
		if d.Verdicts[i].Gate == GateSelf {
			d.Verdicts[i] = Verdict{Gate: GateSelf, State: Blocked, Reason: ReasonSelfEcho, Setting: "default:self", Value: "echo", Hint: "the message is what this agent has just sent"}
		}
	}
}

// challengeEvery is how seldom a sender is told how to be paired.
const challengeEvery = time.Hour

// challenge names whom a challenge is for.
type challenge struct{ channel, account, sender string }

// challenge tells a sender how to be paired, at most once an hour.
func (p *pass) challenge(ctx context.Context) {
	c, ok := p.adapter.(Challenger)
	if !ok {
		return
	}
	who, now := challenge{p.facts.Channel, p.facts.Account, p.facts.Sender.ID}, time.Now()
	s := &p.k.state
	s.mu.Lock()
	last, told := s.challenged[who]
	due := !told || now.Sub(last) >= challengeEvery || !p.asked(ctx)
	if due {
		if s.challenged == nil {
			s.challenged = map[challenge]time.Time{}
		}
		for other, at := range s.challenged { // what is over, and more than is to be remembered
			if now.Sub(at) >= challengeEvery || len(s.challenged) >= maxEvents {
				delete(s.challenged, other)
			}
		}
		s.challenged[who] = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, LoaderTimeout)
	defer cancel()
	p.attempt(ctx, StageAuthorize, "cannot tell a sender how to pair", func() error { return c.Challenge(ctx, p.facts.Sender) })
}

// asked says whether what a sender was told still lets them in, as far as the store can tell: whoever was removed is told anew.
func (p *pass) asked(ctx context.Context) bool {
	a, ok := p.k.Pairing.(Asker)
	if !ok {
		return true
	}
	asked, err := a.Asked(ctx, p.facts.Channel, p.facts.Account, p.facts.Sender.ID)
	return err != nil || asked
}

// assemble makes what the agent is told.
func (p *pass) assemble(ctx context.Context) (Admission, error) {
	c := p.plan.Context
	if c != nil {
		if err := c.Check(); err != nil {
			return Admission{}, err
		}
		ready := *c
		c, p.snapshot = &ready, p.plan.Snapshot
	} else {
		f := *p.facts
		if f.Conversation.Kind != Direct && p.plan.Trigger == "" {
			p.snapshot = p.k.state.window.Snapshot(ctx, f.WindowKey(), p.preflight.History.Limit)
			f.Message.InboundHistory = p.snapshot.Entries
		}
		f.Trigger, f.Observing = p.plan.Trigger, p.result.Admission.Kind == ObserveOnly
		var err error
		if c, err = BuildContext(f); err != nil {
			return Admission{}, err
		}
	}
	c.Media = p.checkMedia(ctx, c.Media)
	for i := range c.InboundHistory {
		if checked := p.checkMedia(ctx, c.InboundHistory[i].Media); len(checked) > 0 && &checked[0] != &c.InboundHistory[i].Media[0] {
			c.InboundHistory = slices.Clone(c.InboundHistory) // it may be the caller's
			c.InboundHistory[i].Media = checked
		}
	}
	c.Trigger, c.ObserveOnly = p.plan.Trigger, p.result.Admission.Kind == ObserveOnly
	p.result.Context, p.result.SessionKey = c, c.SessionKey
	return Admission{}, nil
}

// errBlankKey is what a session key that is set to nothing comes to.
var errBlankKey = errors.New("the session key to record is blank; expected one, or none set")

// record writes the row of the session and where its last message came from, before anything is dispatched.
func (p *pass) record(ctx context.Context) (Admission, error) {
	if p.k.Recorder == nil && p.plan.Record.SessionKey == nil {
		return Admission{}, nil
	}
	ctx, cancel := outlive(ctx, recordTimeout)
	defer cancel()
	err := p.guard(ctx, func() error { return p.write(ctx) })
	if err != nil && p.plan.OnPreDispatchFailure != nil {
		p.attempt(ctx, StageRecord, "hook for failures before dispatch failed", func() error {
			p.plan.OnPreDispatchFailure(ctx, err)
			return nil
		})
	}
	return Admission{}, err
}

func (p *pass) write(ctx context.Context) error {
	o := &p.plan.Record
	key := p.result.Context.SessionKey
	if persisted := p.facts.Route.PersistedSessionKey; persisted != "" {
		key = persisted
	}
	if o.SessionKey != nil {
		if key = *o.SessionKey; strings.TrimSpace(key) == "" {
			return errBlankKey
		}
	}
	if p.k.Recorder == nil {
		return nil
	}
	row := Row{
		SessionKey: key, CreateIfMissing: o.CreateIfMissing || p.facts.Route.CreateIfMissing,
		Channel: p.facts.Channel, Account: p.facts.Account, Route: p.facts.Route, Reply: p.facts.Reply,
		Conversation: p.facts.Conversation, Group: o.group(p.facts.Conversation), Sender: p.facts.Sender.ID, At: time.Now(),
	}
	if err := p.k.Recorder.Record(ctx, row); err != nil {
		if o.OnError == nil {
			return fmt.Errorf("record the session: %w", err)
		}
		if err := p.guard(ctx, func() error { o.OnError(ctx, err); return nil }); err != nil {
			return err
		}
	} else {
		p.enrich(ctx, row)
	}
	if !o.UpdateLastRoute {
		return nil
	}
	if main := p.facts.Route.MainSessionKey; main != "" {
		owner, err := p.owner(ctx, main)
		if err != nil {
			return fmt.Errorf("find the session's owner: %w", err)
		}
		if owner != p.facts.Sender.ID {
			return nil
		}
	}
	if err := p.k.Recorder.LastRoute(ctx, row); err != nil {
		return fmt.Errorf("record the last route: %w", err)
	}
	return nil
}

// group is the group that is recorded with a session of this conversation.
func (o *RecordOptions) group(c ConversationFacts) SessionGroup {
	switch {
	case o.Group != nil:
		return *o.Group
	case c.Kind == Direct:
		return SessionGroup{}
	}
	return SessionGroup{Kind: c.Kind, ID: c.ID, Label: c.Label}
}

// enrich starts the task that a recorder has beside the turn, whose end the pass waits for.
func (p *pass) enrich(ctx context.Context, row Row) {
	e, ok := p.k.Recorder.(Enricher)
	if !ok {
		return
	}
	var task func(context.Context) error
	p.attempt(ctx, StageRecord, "cannot make the recorder's task", func() error {
		task = e.Enrich(row)
		return nil
	})
	if task == nil {
		return
	}
	ctx, cancel := outlive(ctx, recordTimeout)
	done := make(chan struct{})
	var failure error
	p.beside.Go(func() {
		defer cancel()
		defer close(done)
		if failure = caught(ctx, p.k.Log, "Enrich", func() error { return task(ctx) }); failure != nil {
			p.log(ctx, slog.LevelWarn, "recorder's background task failed", slog.Any("error", failure))
		}
	})
	if p.plan.Record.Track == nil {
		return
	}
	wait := func(ctx context.Context) error {
		select {
		case <-done:
			return failure
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.attempt(ctx, StageRecord, "hook for the recorder's task failed", func() error {
		p.plan.Record.Track(wait)
		return nil
	})
}

// owner is who may change the last route of a main session; "" for nobody.
func (p *pass) owner(ctx context.Context, main string) (string, error) {
	if o, ok := p.k.Recorder.(Owners); ok {
		return o.Owner(ctx, main)
	}
	return "", nil
}
