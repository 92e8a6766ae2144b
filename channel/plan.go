package channel

import "context"

// Trigger says that the server starts a turn by itself; "" is a message of somebody.
type Trigger string

// The triggers.
const (
	TriggerSchedule Trigger = "schedule"
	TriggerResume   Trigger = "resume"
)

// Plan is what an adapter resolves an event to: [*Assembled] or [*Prepared].
type Plan interface{ common() *Common }

// Assembled is a plan whose delivery alone is the channel's.
type Assembled struct {
	Common
	Delivery Delivery
}

// Prepared is a plan whose dispatch, too, is the channel's: previews, cards, the tube of a run.
type Prepared struct {
	Common
	Dispatch func(context.Context, *Turn, Agent) (DispatchResult, error)
}

// Common is what plans of both kinds have. Hooks may be nil.
type Common struct {
	Facts     Facts
	Context   *TurnContext // nil: made of the facts
	Snapshot  *Snapshot    // of the window, with a context that is ready
	Admission Admission
	Trigger   Trigger
	Record    RecordOptions

	OnPreDispatchFailure func(context.Context, error)
	OnFinalize           func(context.Context, Result) error
}

func (c *Common) common() *Common { return c }

// RecordOptions say what is written before dispatch.
type RecordOptions struct {
	SessionKey      *string // overrides the key that is written, and nothing else
	CreateIfMissing bool
	UpdateLastRoute bool
	OnError         func(context.Context, error) // is told of a row that cannot be written, and the turn goes on
	Group           *SessionGroup                // of the session; nil is the conversation itself, if it is none of two people
	// Track is told of the task of an [Enricher], which has been started: wait waits for its end, or that of a context, and returns its
	// error.
	Track func(wait func(context.Context) error)
}

// Preflight is what an adapter knows before it resolves. The kernel itself reads it for a drop alone.
type Preflight struct {
	Admission    Admission
	Access       *AccessFacts
	Message      MessageFacts
	Supplemental SupplementalFacts
	Media        []MediaFact
	History      HistoryHint
}

// HistoryHint says how a message that is dropped goes to the window.
type HistoryHint struct {
	Key          WindowKey // zero is the conversation and thread of the input
	Limit        int       // entries; 0 is the window's own, negative turns it off
	MediaLimit   *int      // media an entry; nil is 4
	ShouldRecord func() bool
	RecordOnDrop bool
	Sender       SenderFacts
	Conversation ConversationFacts
	LoadMedia    func(context.Context) ([]MediaFact, error)
}

// Parts returns the platform's messages of an input, in order: several where it was merged.
func Parts[Message any](in *Input) (list []Message) {
	for _, p := range in.Parts {
		if m, ok := p.Raw.(Message); ok {
			list = append(list, m)
		}
	}
	if m, ok := in.Raw.(Message); ok && len(list) == 0 {
		list = append(list, m)
	}
	return list
}

// PolicyAt returns the policy of a place, and who a sender is to its gates. That a store of pairs cannot be read is for the gate to say.
func (k *Kernel) PolicyAt(ctx context.Context, q PolicyQuery, from SenderFacts) (policy Policy, who Identity) {
	if k.Settings != nil {
		policy = k.Settings.Policy(q)
	}
	who = from.Identity()
	if q.Kind == Direct {
		who.Paired, _ = PairedFact(ctx, k.Pairing, policy.DM, q.Channel, q.Account, from.ID)
	}
	return policy, who
}

// LetsIn says whether the gates let a message in.
func LetsIn(f *Facts) bool {
	a := Evaluate(*f).Admission.Kind
	return a == Dispatch || a == ObserveOnly
}

// Label is what a sender is called in the envelope.
func (s SenderFacts) Label() string {
	switch {
	case s.Username == "":
		return s.Name
	case s.Name == "":
		return "@" + s.Username
	}
	return s.Name + " (@" + s.Username + ")"
}
