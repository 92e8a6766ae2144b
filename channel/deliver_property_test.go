package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// deed is one thing that an agent does in a turn, or the platform.
type deed struct {
	What  string // "text", "picture", "tool", "final", "own", "preview", "wait", "cancel"
	Fault string // of the sends from here on: "", "unsent", "unknown", "partial", "permanent", "panic", "slow"
}

// CH-50, CH-53, CH-192: whatever an agent emits and a platform answers, the order holds, no block goes twice, and none is without a
// receipt.
func TestOrderHoldsAndNothingGoesTwiceWhateverHappens(t *testing.T) {
	deeds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		return deed{
			rapid.SampledFrom([]string{"text", "text", "text", "picture", "tool", "final", "own", "preview", "preview", "wait", "cancel"}).Draw(t, "what"),
			rapid.SampledFrom([]string{"", "", "", "", "", "unsent", "unknown", "partial", "permanent", "panic", "slow"}).Draw(t, "fault"),
		}
	}), 1, 40)
	rapid.Check(t, func(rt *rapid.T) {
		list, queue := deeds.Draw(rt, "deeds"), rapid.IntRange(1, 5).Draw(rt, "queue")
		faults := []string{}
		synctest.Test(t, func(t *testing.T) { faults = playTurn(t.Context(), list, queue) })
		if len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "; "))
		}
	})
}

// playTurn does all of it, and says what does not hold.
func playTurn(ctx context.Context, list []deed, queue int) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fault := make(chan string, 1)
	fault <- ""
	room := &desk{answer: func(call string) (Receipt, error) {
		f := <-fault
		fault <- f
		switch why := errors.New(f); f {
		case "unsent":
			return Receipt{}, &NotSentError{Err: why, Retryable: true}
		case "unknown":
			return Receipt{}, why
		case "partial":
			return Receipt{}, &PartialError{Err: why}
		case "permanent":
			return Receipt{}, &NotSentError{Err: why, Permanent: true}
		case "panic":
			panic("a fault of the channel")
		case "slow":
			time.Sleep(3 * time.Second)
		}
		return Receipt{}, nil
	}}
	d := newDeliveries(ctx, &Kernel{Limits: Limits{QueueBlocks: queue}}, turnOf(paced{desk: room}))
	var taken []string // what Emit and Do have taken, in order
	for i, deed := range list {
		<-fault
		fault <- deed.Fault
		text, p, kind := fmt.Sprintf("<%d>", i), Payload{}, ReplyBlock
		p.Text = text
		switch deed.What {
		case "preview":
			d.Preview(p)
			continue
		case "wait":
			time.Sleep(700 * time.Millisecond)
			continue
		case "cancel":
			if i%4 == 0 { // seldom, else little happens
				cancel()
			}
			continue
		case "own":
			r, err := d.Do(ctx, Block{Kind: ReplyTool, Payload: p}, func(context.Context) (Receipt, error) { return room.call("send %s", text) })
			if r.State != NotSent && r.State != Suppressed || err != nil && ctx.Err() == nil {
				taken = append(taken, text)
			}
			continue
		case "picture":
			p.Media = []MediaFact{{Kind: MediaImage}}
		case "tool":
			kind = ReplyTool
		case "final":
			kind = ReplyFinal
		}
		if err := d.Emit(ctx, kind, p); err == nil {
			taken = append(taken, text)
		} else if ctx.Err() == nil {
			wrong("%s was refused: %v", text, err)
		}
	}
	got, _ := d.end(context.Cause(ctx))
	calls := room.said()
	time.Sleep(time.Minute)
	if n := len(room.said()); n != len(calls) {
		wrong("%d calls after the end", n-len(calls))
	}
	if room.overlap {
		wrong("calls overlapped")
	}
	var seen []string
	abandoned := 0
	for _, call := range calls {
		for _, prefix := range []string{"send ", "edit "} {
			if rest, ok := strings.CutPrefix(call, prefix); ok {
				seen = append(seen, strings.FieldsFunc(rest[strings.IndexByte(rest, '<'):], func(r rune) bool { return r == '\n' })...)
			}
		}
		if strings.HasPrefix(call, "abandon") {
			abandoned++
		}
	}
	at := 0
	for _, text := range seen { // a part of what was taken, in its order, and nothing twice
		for at < len(taken) && taken[at] != text {
			at++
		}
		if at == len(taken) {
			wrong("%s was sent out of order or twice: taken %q, sent %q", text, taken, seen)
			return faults
		}
		at++
	}
	came := d.came()
	if ctx.Err() == nil && !came.Permanent && len(seen) != len(taken) {
		wrong("taken %q, sent %q", taken, seen)
	}
	sent := 0
	for _, r := range got.Receipts {
		if r.State.Seen() {
			sent++
		}
	}
	if sent != got.Tool+got.Block+got.Final {
		wrong("%d receipts say sent, the counts %+v", sent, got)
	}
	if sent > 0 && !came.Visible {
		wrong("something was sent, and nothing is visible")
	}
	return faults
}
