package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

const (
	recordTimeout   = 10 * time.Second
	finalizeTimeout = 10 * time.Second
)

// pass is one turn on its way through the stages.
type pass struct {
	k     *Kernel
	meta  Meta
	event *Claimed          // of meta, or one that has nothing stored
	hooks Adapter[struct{}] // of its platform; zero for a turn that came resolved

	in        *channel.Input
	preflight channel.Preflight
	turn      *Turn
	facts     *channel.Facts    // of the turn
	policy    channel.Policy    // of the place
	decision  channel.Decision  // of the gates
	gated     bool              // they have decided
	recorded  *channel.Row      // nil: none was stored
	snapshot  *channel.Snapshot // of the window that the agent sees
	sink      *sink             // of the dispatch; nil before
	busyUntil time.Time         // the platform asked to wait, when it refused a preview

	result   channel.Result
	err      error // of the first stage that failed
	canceled bool  // the turn was ended: by a person, by its lane, or because it goes on elsewhere
	acked    bool
	inLane   atomic.Bool // the turn has its place
	nextMay  atomic.Bool // the next event of the conversation may start
	started  time.Time   // of the stage
}

// stage is a stage and what it does. An admission that is not zero tightens the turn's.
type stage struct {
	name channel.Stage
	do   func(*pass, context.Context) (channel.Admission, error)
}

// stages are all but finalize, which follows them in any case.
var stages = [...]stage{
	{channel.StageIngest, (*pass).ingest},
	{channel.StageClassify, (*pass).classify},
	{channel.StagePreflight, (*pass).preflightEvent},
	{channel.StageResolve, (*pass).resolve},
	{channel.StageAuthorize, (*pass).authorize},
	{channel.StageAssemble, (*pass).assemble},
	{channel.StageRecord, (*pass).record},
	{channel.StageDispatch, (*pass).dispatch},
}

// prepared is the index of the first stage of a turn that comes resolved.
const prepared = 4

func drop(r channel.Reason) channel.Admission {
	return channel.Admission{Kind: channel.Drop, Reason: r}
}

func (k *Kernel) begin(m Meta) *pass {
	k.init()
	if m.TurnID == "" {
		m.TurnID = turn.NewID()
	}
	return &pass{
		k: k, meta: m, event: cmp.Or(m.Event, &Claimed{over: true}), result: channel.Result{TurnID: m.TurnID},
		policy: k.Settings.Policy(channel.PolicyQuery{Channel: m.Channel, Account: m.Account}), // what logs may say of people before the place is known
	}
}

// setTurn makes t the turn.
func (p *pass) setTurn(t *Turn) {
	if t == nil {
		return
	}
	p.turn, p.facts = t, &t.Facts
	p.facts.Channel = cmp.Or(p.facts.Channel, p.meta.Channel)
	p.facts.Account = cmp.Or(p.facts.Account, p.meta.Account)
	p.result.Route = p.facts.Route
	p.result.SessionKey = cmp.Or(p.facts.Route.DispatchSessionKey, p.facts.Route.RouteSessionKey)
}

// run goes through the stages, and then through finalize.
func (p *pass) run(ctx context.Context, list []stage) (channel.Result, error) {
	ctx, end := p.startSpan(ctx)
	defer end()
	for i := range list {
		if !p.step(ctx, &list[i]) {
			break
		}
	}
	p.finish(ctx)
	return p.result, p.err
}

// step runs a stage and reports whether the next one may start.
func (p *pass) step(ctx context.Context, s *stage) bool {
	p.result.Stage = s.name
	if ctx.Err() != nil {
		p.fail(ctx, s.name, context.Cause(ctx))
		return false
	}
	p.started = p.trace(ctx, channel.Trace{Stage: s.name, Phase: channel.PhaseStart})
	var a channel.Admission
	err := p.k.guard(ctx, func() (err error) {
		a, err = s.do(p, ctx)
		return err
	})
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		p.fail(ctx, s.name, err)
		p.trace(ctx, channel.Trace{Stage: s.name, Phase: channel.PhaseError, Err: p.err})
		return false
	}
	p.result.Admission = p.result.Admission.Tighten(a)
	phase := channel.PhaseDone
	switch p.result.Admission.Kind {
	case channel.Drop:
		phase = channel.PhaseDrop
	case channel.Handled:
		phase = channel.PhaseHandled
	}
	p.trace(ctx, channel.Trace{Stage: s.name, Phase: phase})
	return phase == channel.PhaseDone
}

// fail ends the turn with the error of a stage.
func (p *pass) fail(ctx context.Context, s channel.Stage, err error) {
	p.err = &channel.StageError{Stage: s, Err: err}
	p.canceled = channel.IsCanceled(ctx, err)
}

// handedOver reports whether the turn goes on in another process, or in this one later.
func (p *pass) handedOver() bool {
	return p.err != nil && (errors.Is(p.err, turn.ErrHandedOver) || errors.Is(p.err, turn.ErrDraining))
}

func (p *pass) observing() bool { return p.result.Admission.Kind == channel.ObserveOnly }

// letNext lets the next event of the conversation start.
func (p *pass) letNext(ctx context.Context) {
	if p.meta.Queued != nil && !p.nextMay.Swap(true) {
		p.attempt(ctx, p.result.Stage, "cannot start a channel's next event", func() error { p.meta.Queued(); return nil })
	}
}

// ingest normalises the event.
func (p *pass) ingest(ctx context.Context) (channel.Admission, error) {
	in, err := p.hooks.Ingest(ctx, struct{}{})
	switch {
	case err != nil:
		return channel.Admission{}, err
	case in == nil:
		return drop(channel.ReasonIngestNull), nil
	}
	p.in = in
	return channel.Admission{}, nil
}

// classify asks what sort of event it is, and answers the platform if that cannot wait.
func (p *pass) classify(ctx context.Context) (channel.Admission, error) {
	p.result.Class = channel.MessageClass
	if p.hooks.Classify != nil {
		class, err := p.hooks.Classify(ctx, p.in)
		if err != nil {
			return channel.Admission{}, err
		}
		p.result.Class = class
	}
	if p.result.Class.RequiresImmediateAck {
		p.acknowledge(ctx)
	}
	if !p.result.Class.CanStartAgentTurn {
		return channel.Admission{Kind: channel.Handled, Reason: channel.ReasonNotATurn}, nil
	}
	return channel.Admission{}, nil
}

// preflightEvent drops messages that were sent from here, and asks the adapter.
func (p *pass) preflightEvent(ctx context.Context) (channel.Admission, error) {
	if p.in.ID != "" && p.k.guards.sentIDs.Contains(sentKey{p.meta.Channel, p.meta.Account, p.in.ConversationID, p.in.ID}) {
		return drop(channel.ReasonSelfEcho), nil
	}
	if p.hooks.Preflight == nil {
		return channel.Admission{}, nil
	}
	var err error
	p.preflight, err = p.hooks.Preflight(ctx, p.in, p.result.Class)
	return p.preflight.Admission, err
}

// resolve asks the adapter who answers, and where the answer goes.
func (p *pass) resolve(ctx context.Context) (channel.Admission, error) {
	t, err := p.hooks.Resolve(ctx, p.in, p.result.Class, p.preflight)
	if err != nil {
		return channel.Admission{}, err
	}
	p.setTurn(t)
	switch {
	case t == nil:
		return channel.Admission{}, errors.New("the adapter has resolved the event to nothing; expected a turn")
	case t.Admission.Stops():
		return t.Admission, nil
	}
	if p.facts.Route.AgentID == "" {
		agent := p.k.Settings.Policy(p.facts.RouteQuery()).Agent
		if agent == "" {
			return drop(channel.ReasonNoRoute), nil
		}
		p.facts.Route.AgentID, p.result.Route.AgentID = agent, agent
	}
	return t.Admission, nil
}

// assemble makes the context of the agent.
func (p *pass) assemble(ctx context.Context) (channel.Admission, error) {
	f := *p.facts
	if f.Conversation.Kind != channel.Direct {
		p.snapshot = p.k.Window.Snapshot(ctx, f.WindowKey(), p.preflight.History.Limit)
		f.Message.InboundHistory = p.snapshot.Entries
	}
	f.Observing = p.observing()
	c, err := channel.BuildContext(f)
	if err != nil {
		return channel.Admission{}, err
	}
	p.checkMedia(ctx, c.Media)
	for _, e := range c.InboundHistory {
		p.checkMedia(ctx, e.Media)
	}
	p.result.Context, p.result.SessionKey = c, c.SessionKey
	return channel.Admission{}, nil
}

// checkMedia removes the paths that are not to be opened (CH-95).
func (p *pass) checkMedia(ctx context.Context, list []channel.MediaFact) {
	for i, m := range list {
		var err error
		if list[i], err = p.k.Media.Check(m); err != nil {
			p.warn(ctx, channel.StageAssemble, "refused a file's type or size", err)
		}
	}
}

// record writes the row of the session and where its last message came from.
func (p *pass) record(ctx context.Context) (channel.Admission, error) {
	ctx, cancel := outlive(ctx, recordTimeout)
	defer cancel()
	err := p.k.guard(ctx, func() error { return p.write(ctx) })
	if err != nil && p.turn.OnPreDispatchFailure != nil {
		p.attempt(ctx, channel.StageRecord, "hook for failures before dispatch failed", func() error {
			p.turn.OnPreDispatchFailure(ctx, err)
			return nil
		})
	}
	return channel.Admission{}, err
}

func (p *pass) write(ctx context.Context) error {
	o := &p.turn.Record
	key := cmp.Or(p.facts.Route.PersistedSessionKey, p.result.Context.SessionKey)
	if o.SessionKey != nil {
		if key = *o.SessionKey; key == "" {
			return errors.New("the session key to record is blank; expected one, or none set")
		}
	}
	row := channel.Row{
		SessionKey: key, CreateIfMissing: o.CreateIfMissing || p.facts.Route.CreateIfMissing,
		Channel: p.facts.Channel, Account: p.facts.Account, Route: p.facts.Route, Reply: p.facts.Reply,
		Conversation: p.facts.Conversation, Group: o.group(p.facts.Conversation), Sender: p.facts.Sender.ID,
	}
	err := p.k.Recorder.Record(ctx, row, o.UpdateLastRoute)
	switch {
	case err != nil && o.OnError == nil:
		return fmt.Errorf("record the session: %w", err)
	case err != nil:
		o.OnError(ctx, err)
	default:
		p.recorded = &row
	}
	return nil
}

// outlive returns a context that ctx does not end, but a limit does.
func outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}
