package channel

import (
	"context"
	"sync"
	"time"
)

// kernelState is what a kernel keeps between turns. Each part guards itself; what a kernel is not given, it makes here, once.
type kernelState struct {
	once    sync.Once
	journal Journal
	ledger  Ledger // nil where the journal is none
	window  *Window
	echo    echoes
	marks   echoMarks
	budget  budgets
	burst   bursts

	mu         sync.Mutex
	challenged map[challenge]time.Time       // guarded by mu: when a sender was told last how to be paired
	lost       recent[string, lostAnswer]    // guarded by mu: by session
	incomplete recent[string, struct{}]      // guarded by mu: events of which a conversation was told that a crash has cut off their answers
	parked     map[challenge]string          // guarded by mu: the event of each sender that waits for the sender to be paired
	stops      recent[stopNotice, time.Time] // guarded by mu: when a sender was told last why messages are stopped
}

// The parts that turns are made of, as the stages ask them. A nil part is one that this kernel does without.
type (
	// echoes know what was sent from here.
	echoes interface {
		// byID says whether a message is one of those that were sent.
		byID(channel, account, conversation, id string) bool
		// byText says whether a text is being sent to a conversation at this moment.
		byText(channel, account, conversation, text string) bool
	}

	// budgets bound what bots, senders and conversations may start.
	budgets interface {
		use(_ context.Context, f *Facts, p *Policy, counted bool) budgetVerdict
		// takeRate counts a message where the rates let it pass; else it returns how long to wait.
		takeRate(f *Facts, p *Policy) time.Duration
		// heard is told of a message that starts no turn.
		heard(f *Facts)
	}

	// bursts merge events that belong together.
	bursts interface {
		join(context.Context, burstEvent) (burst, error)
	}
)

// budgetVerdict is what the gates loop and rate say.
type budgetVerdict struct {
	verdicts  []Verdict
	admission Admission
	wait      time.Duration // until there is room again
}

// burstEvent is an event that may be merged with others.
type burstEvent struct {
	turn    string // its turn's id
	channel string
	account string
	in      *Input
	class   EventClass
	claim   Claim                    // nil for none
	queued  func()                   // to be called when the event waits
	policy  func(PolicyQuery) Policy // nil: no settings
}

// burst is what became of it.
type burst struct {
	in     *Input  // the event itself, or what it was merged to
	into   string  // the turn that took it; "" where it leads or stands alone
	claims []Claim // of those that it took: they settle with its turn
	placed func()  // to be called when the turn has its place in the lane, or has ended; nil where nothing waits for it
}

// Init makes what the kernel was not given, and lets the outbox ask the kernel's gates. Turns do it by themselves; it is for whoever
// starts the outbox before the first turn comes. The fields are not to be changed after it.
func (k *Kernel) Init() {
	k.state.once.Do(func() {
		s := &k.state
		s.journal = k.Journal
		if s.journal == nil {
			s.journal = NewJournal(nil)
		}
		s.window = k.Window
		if s.window == nil {
			s.window = NewWindow(nil, WindowOptions{Log: k.Log})
		}
		e := newEcho()
		s.echo, s.marks = e, e
		s.budget = newBudget(k.Limits)
		s.burst = newBursts()
		s.ledger, _ = s.journal.(Ledger)
		if k.Outbox != nil {
			k.Outbox.bind(func(ctx context.Context, out Outbound) error {
				return k.stillAllowed(ctx, out.Channel, out.Account, out.Origin)
			}, e, func(out Outbound) { k.noteLost(out.Session, out.Event) })
		}
	})
}
