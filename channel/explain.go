package channel

import "context"

type dryKey struct{}

// DryRun says whether an adapter's hook is called for [Explain]: then it must have no effect.
func DryRun(ctx context.Context) bool { return ctx.Value(dryKey{}) != nil }

// Explain says what [Run] would do with an event, and what each gate says to it, without any effect: nothing is claimed, used up,
// loaded, sent or told. Of an event alone nobody can say whether others will come with which it is merged (a burst, an album): what
// is explained is the event by itself. An error is that of the stage that failed; the explanation is filled as far as it got.
func Explain[Raw any](ctx context.Context, k *Kernel, ev Event[Raw]) (Explanation, error) {
	p := k.pass(ev.Meta)
	p.event, p.adapter, p.dry = &eventOf[Raw]{ev.Adapter, ev.Raw}, ev.Adapter, true
	ctx = context.WithValue(ctx, dryKey{}, true)
	for i := range steps[:firstOfPlans+1] {
		if !p.step(ctx, &steps[i]) {
			break
		}
	}
	e := Explanation{
		Admission: p.result.Admission, Class: p.result.Class, SessionKey: p.result.SessionKey, Route: p.result.Route,
		Verdicts: p.result.Verdicts,
	}
	if p.facts != nil {
		e.Reply = p.facts.Reply
	}
	return e, p.err
}
