package channel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// pass is one turn on its way through the kernel.
type pass struct {
	k       *Kernel
	meta    Meta
	event   event // nil where the plan came with the call
	adapter any   // for what it can do beside; nil like event

	in        *Input
	preflight Preflight
	plan      *Common
	delivery  Delivery // of an assembled plan
	dispatch  func(context.Context, *Turn, Agent) (DispatchResult, error)
	facts     *Facts // of the plan
	policy    Policy // of the place; zero where there are no settings
	decision  Decision
	snapshot  *Snapshot // of the window that the turn sees

	claim  Claim   // nil for none
	others []Claim // of the events that were merged to this one
	placed func()  // of the burst that the turn leads; nil

	result    Result
	err       error // of the first stage that failed
	why       error // the lane has refused the turn
	canceled  bool  // err is why somebody ended the turn
	draining  bool  // and that somebody is this server, which shuts down
	tally     tally // of the deliveries
	permanent bool  // err says that nothing can be sent there any more
	acked     bool
	notices   int            // that were sent beside the answer
	inLane    atomic.Bool    // the turn has its place in the lane
	letIn     atomic.Bool    // the next event of the conversation may come
	started   time.Time      // of the stage
	beside    sync.WaitGroup // tasks that go on beside the turn
}

// step is a stage and what it does. An admission that is not zero tightens the turn's; drop and handled stop it.
type step struct {
	stage Stage
	do    func(*pass, context.Context) (Admission, error)
}

// steps are the stages but finalize, which follows them whatever they came to. A turn that comes with its plan begins at
// steps[firstOfPlans].
var steps = [...]step{
	{StageIngest, (*pass).ingest},
	{StageClassify, (*pass).classify},
	{StagePreflight, (*pass).preflightStage},
	{StageResolve, (*pass).resolve},
	{StageAuthorize, (*pass).authorize},
	{StageAssemble, (*pass).assemble},
	{StageRecord, (*pass).record},
	{StageDispatch, (*pass).send},
}

const firstOfPlans = 4

// pass begins a turn.
func (k *Kernel) pass(m Meta) *pass {
	k.Init()
	if m.TurnID == "" {
		m.TurnID = turn.NewID()
	}
	p := &pass{k: k, meta: m, result: Result{TurnID: m.TurnID}, claim: m.Claim}
	if k.Settings != nil && k.Observer != nil { // what is told of people before the place is known
		p.policy = k.Settings.Policy(PolicyQuery{Channel: m.Channel, Account: m.Account})
	}
	return p
}

// take makes a plan the turn's.
func (p *pass) take(plan Plan) {
	switch plan := plan.(type) {
	case *Assembled:
		if plan == nil {
			return
		}
		p.delivery = plan.Delivery
		p.dispatch = func(ctx context.Context, t *Turn, a Agent) (DispatchResult, error) {
			if greeted, err := p.greet(ctx, t); greeted {
				return DispatchResult{}, err
			}
			return a.Dispatch(ctx, t)
		}
		p.plan = &plan.Common
	case *Prepared:
		if plan == nil {
			return
		}
		p.dispatch = plan.Dispatch
		p.plan = &plan.Common
	default:
		return
	}
	p.facts = &p.plan.Facts
	if p.facts.Channel == "" {
		p.facts.Channel = p.meta.Channel
	}
	if p.facts.Account == "" {
		p.facts.Account = p.meta.Account
	}
	p.result.Route = p.facts.Route
	if c := p.plan.Context; c != nil {
		p.result.SessionKey = c.SessionKey
		return
	}
	p.result.SessionKey = p.facts.Route.DispatchSessionKey
	if p.result.SessionKey == "" {
		p.result.SessionKey = p.facts.Route.RouteSessionKey
	}
}

// run goes through the stages, and then to the end.
func (p *pass) run(ctx context.Context, steps []step) (Result, error) {
	outer := ctx
	ctx, end := p.span(ctx, "turn")
	ended := p.begun(outer, ctx)
	for i := range steps {
		if !p.step(ctx, &steps[i]) {
			break
		}
	}
	p.finish(ctx)
	ended()
	end(p.err)
	return p.result, p.err
}

// step runs a stage and says whether the next one may begin.
func (p *pass) step(ctx context.Context, s *step) bool {
	p.result.Stage = s.stage
	if ctx.Err() != nil {
		p.fail(ctx, s.stage, context.Cause(ctx))
		return false
	}
	p.started = p.tell(ctx, Trace{Stage: s.stage, Phase: PhaseStart})
	a, err := p.guarded(ctx, s)
	if err == nil && !(p.event == nil && p.plan != nil && a == p.plan.Admission) { // what a caller says is looked at where it is read
		err = a.Check(s.stage)
	}
	if err != nil {
		p.fail(ctx, s.stage, err)
		p.tell(ctx, Trace{Stage: s.stage, Phase: PhaseError, Err: p.err})
		return false
	}
	p.result.Admission = p.result.Admission.Tighten(a)
	switch p.result.Admission.Kind {
	case Drop:
		p.tell(ctx, Trace{Stage: s.stage, Phase: PhaseDrop})
		return false
	case Handled:
		p.tell(ctx, Trace{Stage: s.stage, Phase: PhaseHandled})
		return false
	default:
		p.tell(ctx, Trace{Stage: s.stage, Phase: PhaseDone})
		return true
	}
}

// guarded runs a stage, whose panic is its error.
func (p *pass) guarded(ctx context.Context, s *step) (a Admission, err error) {
	ctx, end := p.span(ctx, string(s.stage))
	err = p.guard(ctx, func() (err error) {
		a, err = s.do(p, ctx)
		return err
	})
	end(err)
	return a, err
}

// fail ends the turn with the error of a stage.
func (p *pass) fail(ctx context.Context, s Stage, err error) {
	p.err = &StageError{Stage: s, Err: err}
	p.draining = isDraining(err)
	p.canceled = IsCanceled(ctx, err)
}

// IsCanceled says whether an error is that the turn was not to go on: somebody, the lane, or the server's end wanted that.
func IsCanceled(ctx context.Context, err error) bool {
	return isDraining(err) || errors.Is(err, turn.ErrStopped) || errors.Is(err, turn.ErrInterrupted) || gaveUp(ctx, err)
}

// isDraining says whether an error is that the server shuts down.
func isDraining(err error) bool {
	return errors.Is(err, ErrDraining)
}

// gaveUp says whether an error is that somebody has canceled the turn's context. A deadline is nobody's wish.
func gaveUp(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && !errors.Is(cause, context.DeadlineExceeded) && (errors.Is(err, cause) || errors.Is(err, context.Canceled))
}

// queued lets the next event of the conversation come.
func (p *pass) queued(ctx context.Context) {
	if p.placed != nil {
		p.placed() // what waits behind the burst that this turn leads
	}
	if p.meta.Queued == nil || p.letIn.Swap(true) {
		return
	}
	if err := p.guard(ctx, func() error { p.meta.Queued(); return nil }); err != nil {
		p.log(ctx, slog.LevelWarn, "cannot read a channel's next event", slog.Any("error", err))
	}
}
