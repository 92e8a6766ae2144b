package channel

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// errEnded says that an agent goes on after its turn.
var errEnded = errors.New("channel: the turn has ended; nothing more is sent")

// sending is what the deliveries of one turn are made of. Only Turn is required.
type sending struct {
	Turn                           string
	Session                        string
	Channel, Account, Conversation string
	Origin                         Origin
	Event                          string   // the key of the event in the ledger and the outbox; "" where none was accepted
	Delivery                       Delivery // nil: the plan is prepared, and only Do sends
	Target                         ReplyPlanFacts
	Observing                      bool
	NoSign                         bool      // nothing works: there is a notice to be sent, at most
	Ledger                         Ledger    // nil: nothing is marked
	Echo                           echoMarks // nil: nothing is marked
	// Allow asks the gates again where the settings have changed since authorize (CH-61); nil passes. It is asked before
	// whatever is visible, until something was: so it is to be quick where nothing has changed.
	Allow func(context.Context) error
	Warn  func(_ context.Context, what string, err error) // nil: nobody is told
}

// echoMarks are told of what is sent, so that it is known when it comes back (CH-80).
type echoMarks interface {
	// sending is called before each send, and unsent when nothing went out.
	sending(channel, account, conversation, text string) (unsent func())
	// sent is called after it, with the ids that the platform gave.
	sent(channel, account, conversation string, ids ...string)
}

// deliveries send what an agent says in one turn: a [Sink], and one goroutine that sends the blocks in the order of emission,
// whatever their kind. Everything of the channel is called by that goroutine, so its methods never overlap. It is started by the
// first thing there is to do and ends before end returns.
type deliveries struct {
	sending
	ctx    context.Context // the turn's life
	kernel *Kernel
	bounds Limits

	// What the delivery can do beside.
	preview  Previewer
	worker   Worker
	rester   Rester
	settler  Settler
	durable  Durabler
	pace     Pacer
	suppress bool // nothing is sent, and receipts say so: reply mode none

	mu      sync.Mutex
	queue   []item // waits from head on
	head    int
	bytes   int
	seq     int
	open    Payload // the newest text of the block that is not emitted yet
	isOpen  bool
	held    *Payload // the error notice, until the end
	noticed bool     // it went out, or was not to
	ended   bool
	running bool
	room    chan struct{} // closed when the queue gets shorter; nil while nobody waits
	result  DispatchResult
	tally   tally
	errs    []error // of the stage

	wake chan struct{}
	done sync.WaitGroup
	line sync.Mutex // of Do where there is no delivery: sends do not overlap

	// Owned by whoever sends: the goroutine, or the holder of line.
	passed bool                  // something was visible: the gates are not asked again
	marked markedAs              // in the ledger
	gone   error                 // why nothing is sent any more
	texted bool                  // a text was seen: no sign of work after it
	signed bool                  // a sign of work may stand there that is to be removed
	asked  map[string]askedBlock // questions that are not decided, by their ids
	shown  showing               // the preview of the block that is open
	warned bool                  // of a preview
	lost   bool                  // it is not known of a part of the answer whether it was seen
	rhythm rhythm
}

// item is a block in the queue, or a send of somebody's own.
type item struct {
	kind ReplyKind
	seq  int
	Payload
	own *ownSend
}

// size is what an item takes of the queue's bytes.
func (i *item) size() int { return len(i.Text) + 64 }

// joins says whether the text of next can stand in the same message.
func (i *item) joins(next *item) bool {
	plain := func(i *item) bool {
		return i.own == nil && len(i.Media) == 0 && i.Question == nil && i.Decided == nil && !i.IsError && i.Text != ""
	}
	return i.kind == next.kind && i.Silent == next.Silent && plain(i) && plain(next)
}

// newDeliveries begins the deliveries of a turn; whoever calls it calls end. With a delivery that shows that work goes on, the
// sign is given at once.
func newDeliveries(ctx context.Context, k *Kernel, s sending) *deliveries {
	d := &deliveries{sending: s, ctx: ctx, kernel: k, bounds: k.Limits, wake: make(chan struct{}, 1)}
	if d.bounds.QueueBlocks <= 0 {
		d.bounds.QueueBlocks = queueBlocks
	}
	if d.bounds.QueueBytes <= 0 {
		d.bounds.QueueBytes = queueBytes
	}
	d.suppress = s.Target.Mode == ReplyNone
	if d.Observing && d.Delivery != nil {
		d.Delivery = NoDelivery{} // none of the channel's methods is called
	}
	if d.Observing || d.suppress || d.Delivery == nil {
		return d
	}
	d.preview, _ = d.Delivery.(Previewer)
	if !d.NoSign {
		d.worker, _ = d.Delivery.(Worker)
		d.rester, _ = d.Delivery.(Rester)
	}
	d.settler, _ = d.Delivery.(Settler)
	d.durable, _ = d.Delivery.(Durabler)
	d.pace, _ = d.Delivery.(Pacer)
	if d.worker != nil {
		d.mu.Lock()
		d.runLocked()
		d.mu.Unlock()
	}
	return d
}

// What waits to be sent in one turn: a slow platform holds the agent back rather than fill the memory.
const (
	queueBlocks = 64
	queueBytes  = 1 << 20
)

// Emit implements [Sink]. It waits where the queue is full and what is in it cannot be joined, until there is room or a context ends.
// A notice of an error is held until the turn has ended, and only the first is kept (CH-60).
func (d *deliveries) Emit(ctx context.Context, kind ReplyKind, p Payload) error {
	if d.Delivery == nil {
		return ErrNoDelivery
	}
	if p.IsError {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.held == nil && !d.ended {
			d.held = new(p)
		}
		return nil
	}
	if d.Observing || strings.TrimSpace(p.Text) == "" && len(p.Media) == 0 && p.Question == nil && (p.Decided == nil || d.settler == nil) {
		return nil
	}
	if d.suppress {
		d.note(kind, Receipt{State: Suppressed}, nil)
		return nil
	}
	return d.put(ctx, item{kind: kind, Payload: p})
}

// put adds to the queue.
func (d *deliveries) put(ctx context.Context, i item) error {
	d.mu.Lock()
	for !d.roomLocked(&i) {
		if d.ended {
			break
		}
		if d.room == nil {
			d.room = make(chan struct{})
		}
		room := d.room
		d.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if d.ended {
		return errEnded
	}
	if err := d.ctx.Err(); err != nil {
		return context.Cause(d.ctx)
	}
	d.seq++
	i.seq = d.seq
	if i.kind != ReplyTool && i.own == nil {
		d.open, d.isOpen = Payload{}, false // this is the block that was open
	}
	if d.head > 0 && len(d.queue) == cap(d.queue) { // use the room in front before there is more
		d.queue = append(d.queue[:0], d.queue[d.head:]...)
		d.head = 0
	}
	d.queue = append(d.queue, i)
	d.bytes += i.size()
	d.runLocked()
	return nil
}

// roomLocked says whether the queue takes an item, after it has joined the texts that wait if need be. One that is larger than the
// whole queue is taken by an empty one.
func (d *deliveries) roomLocked(i *item) bool {
	waiting := len(d.queue) - d.head
	if waiting >= d.bounds.QueueBlocks {
		d.joinLocked()
		waiting = len(d.queue) - d.head
	}
	return waiting == 0 || waiting < d.bounds.QueueBlocks && d.bytes+i.size() <= d.bounds.QueueBytes
}

// joinLocked makes one block of each run of texts that wait. The first gives it its number.
func (d *deliveries) joinLocked() {
	list := d.queue[d.head:]
	kept := 0
	for at := 0; at < len(list); {
		end := at + 1
		for end < len(list) && list[end-1].joins(&list[end]) {
			end++
		}
		first := list[at]
		if end > at+1 {
			var text strings.Builder
			for i := at; i < end; i++ {
				if i > at {
					text.WriteString("\n\n")
				}
				text.WriteString(list[i].Text)
				d.bytes -= list[i].size()
			}
			first.Text = text.String()
			d.bytes += first.size()
		}
		list[kept] = first
		kept++
		at = end
	}
	clear(list[kept:])
	d.queue = d.queue[:d.head+kept]
}

// Preview implements [Sink]: only the newest text is kept, and shown when its time has come and all that was emitted is sent.
func (d *deliveries) Preview(p Payload) {
	if d.preview == nil || strings.TrimSpace(p.Text) == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	wasOpen := d.isOpen
	d.open, d.isOpen = p, true
	if !wasOpen { // else it has been told, or waits for the time of the next
		d.runLocked()
	}
}

// ownSend is a send of somebody's own that waits for its place.
type ownSend struct {
	ctx     context.Context
	block   Block
	send    func(context.Context) (Receipt, error)
	begun   atomic.Bool   // it is being sent, or will never be
	done    chan struct{} // closed when the rest is set
	receipt Receipt
	err     error
}

// Do implements [Sink]: what it sends keeps the order of emission and overlaps no other send of the turn. So send must not call Do.
func (d *deliveries) Do(ctx context.Context, b Block, send func(context.Context) (Receipt, error)) (Receipt, error) {
	if d.Observing {
		return Receipt{State: Suppressed}, nil
	}
	if b.Kind == "" {
		b.Kind = ReplyBlock
	}
	if d.suppress {
		d.note(b.Kind, Receipt{State: Suppressed}, nil)
		return Receipt{State: Suppressed}, nil
	}
	if d.Delivery == nil {
		d.line.Lock()
		defer d.line.Unlock()
		d.mu.Lock()
		ended := d.ended
		d.seq++
		b.Seq = d.seq
		d.mu.Unlock()
		if ended {
			return Receipt{State: NotSent}, &NotSentError{Err: errEnded}
		}
		return d.own(ctx, b, send)
	}
	own := &ownSend{ctx: ctx, block: b, send: send, done: make(chan struct{})}
	if err := d.put(ctx, item{kind: b.Kind, Payload: Payload{Text: b.Text}, own: own}); err != nil {
		return Receipt{State: NotSent}, &NotSentError{Err: err}
	}
	select {
	case <-own.done:
	case <-ctx.Done():
		if own.begun.CompareAndSwap(false, true) { // nobody has: now nobody does
			return Receipt{State: NotSent}, &NotSentError{Err: context.Cause(ctx)}
		}
		<-own.done // it sees the same context
	}
	return own.receipt, own.err
}

// runLocked makes the goroutine look at what there is to do.
func (d *deliveries) runLocked() {
	if !d.running {
		d.running = true
		d.done.Go(d.run)
		return
	}
	select {
	case d.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// end returns when everything that was emitted is sent, or known not to be, and nothing of the channel runs any more. The agent's
// error comes first, then what keeps the stage from being good: a final block that was not sent and that the outbox does not hold,
// and panics. agentErr is also why a preview is abandoned whose block has not come.
func (d *deliveries) end(agentErr error) (DispatchResult, error) {
	d.mu.Lock()
	d.ended = true
	d.isOpen = false
	if d.running {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	if d.room != nil {
		close(d.room)
		d.room = nil
	}
	d.mu.Unlock()
	d.done.Wait()
	d.line.Lock() // a send of somebody's own still runs
	defer d.line.Unlock()
	d.abandon(d.ctx, agentErr)
	for _, id := range slices.Sorted(maps.Keys(d.asked)) {
		d.settle(Decided{ID: id, Why: "the turn has ended"})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Observing {
		return DispatchResult{}, agentErr
	}
	if len(d.errs) == 0 {
		return d.result, agentErr
	}
	return d.result, errors.Join(append([]error{agentErr}, d.errs...)...)
}

// came is what the deliveries have come to so far.
func (d *deliveries) came() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally
}
