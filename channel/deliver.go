package channel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// rhythm is when something is to be done next that time brings.
type rhythm struct {
	work    time.Time // the sign that work goes on
	preview time.Time
}

// Defaults of [Limits].
const (
	previewEvery = time.Second
	workingEvery = 5 * time.Second
)

// todo is what the goroutine does next.
type todo uint8

const (
	doWait todo = iota
	doBlock
	doPreview
	doWork
	doRest
	doEnd
)

// run is the goroutine of a turn's deliveries.
func (d *deliveries) run() {
	var timer *time.Timer // only where something has an interval
	canceled := d.ctx.Done()
	for {
		i, what, due := d.next()
		switch what {
		case doBlock:
			d.deliver(&i)
		case doPreview:
			d.showPreview(i.Payload, i.seq)
		case doWork:
			d.work()
		case doRest:
			d.rest()
		case doEnd:
			if timer != nil {
				timer.Stop()
			}
			return
		case doWait:
			var tick <-chan time.Time
			if !due.IsZero() {
				if timer == nil {
					timer = time.NewTimer(time.Until(due))
				} else {
					timer.Reset(time.Until(due))
				}
				tick = timer.C
			}
			select {
			case <-d.wake:
			case <-tick:
			case <-canceled:
				canceled = nil // what waits is looked at once more, and then only what comes
			}
		}
	}
}

// next says what to do, and if there is nothing yet, until when: zero is until something comes. Blocks come first; then, while the
// turn lives, the sign of work, and what is shown of the block that is open.
func (d *deliveries) next() (i item, what todo, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.head < len(d.queue) {
		i = d.queue[d.head]
		d.queue[d.head] = item{}
		d.head++
		if d.head == len(d.queue) {
			d.queue, d.head = d.queue[:0], 0
		}
		d.bytes -= i.size()
		if d.room != nil {
			close(d.room)
			d.room = nil
		}
		return i, doBlock, due
	}
	if d.signed && (d.texted || d.ended || d.ctx.Err() != nil) {
		return i, doRest, due
	}
	if d.ended {
		return i, doEnd, due
	}
	if d.ctx.Err() != nil {
		return i, doWait, due
	}
	working := d.worker != nil && !d.texted
	if !working && !d.isOpen {
		return i, doWait, due
	}
	now := time.Now()
	if working {
		if !now.Before(d.rhythm.work) {
			return i, doWork, due
		}
		due = d.rhythm.work
	}
	if d.isOpen {
		if !now.Before(d.rhythm.preview) {
			i = item{Payload: d.open, seq: d.seq + 1}
			d.open, d.isOpen = Payload{}, false
			return i, doPreview, due
		}
		if due.IsZero() || d.rhythm.preview.Before(due) {
			due = d.rhythm.preview
		}
	}
	return i, doWait, due
}

// work shows that work goes on, until its first error.
func (d *deliveries) work() {
	every := d.bounds.Working
	if d.pace != nil {
		if own := d.pace.WorkingEvery(); own > 0 {
			every = own
		}
	}
	if every <= 0 {
		every = workingEvery
	}
	if !d.mayShow(d.ctx) {
		d.worker = nil
		return
	}
	// What hangs here holds the blocks up, so it may take no longer than it is good for.
	ctx, cancel := context.WithTimeout(d.ctx, every)
	defer cancel()
	d.signed = d.rester != nil
	if err := caught(ctx, d.kernel.Log, "Working", func() error { return d.worker.Working(ctx) }); err != nil {
		d.worker = nil
		return
	}
	d.rhythm.work = time.Now().Add(every)
}

// rest removes the sign of work. The turn may be over or canceled.
func (d *deliveries) rest() {
	d.signed = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), abandonIn)
	defer cancel()
	d.warnOf("Rest", caught(ctx, d.kernel.Log, "Rest", func() error { return d.rester.Rest(ctx) }))
}

// askedBlock is a question that stands in the conversation.
type askedBlock struct {
	block   Block
	receipt Receipt
}

// settle has the channel change the message of a question that is decided. The turn may be over or canceled.
func (d *deliveries) settle(x Decided) {
	q, ok := d.asked[x.ID]
	if !ok {
		return
	}
	delete(d.asked, x.ID)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), abandonIn)
	defer cancel()
	d.warnOf("Settle", caught(ctx, d.kernel.Log, "Settle", func() error { return d.settler.Settle(ctx, q.block, q.receipt, x) }))
}

// deliver sends one block and notes what became of it.
func (d *deliveries) deliver(i *item) {
	if own := i.own; own != nil {
		if own.begun.CompareAndSwap(false, true) {
			own.block.Seq = i.seq
			own.receipt, own.err = d.own(own.ctx, own.block, own.send)
			close(own.done)
		}
		return
	}
	if i.Decided != nil {
		d.settle(*i.Decided)
		return
	}
	b := Block{Kind: i.kind, Seq: i.seq, Payload: i.Payload, Target: d.Target, Key: d.key(i.seq)}
	if i.kind != ReplyTool { // it was not what a preview showed
		b.Preview = d.shown.receipt
	}
	r, held, err := d.send(&b)
	if held {
		d.mu.Lock()
		d.tally.Queued = true
		d.mu.Unlock()
		d.taken(&b, nil)
		return
	}
	d.note(b.Kind, r, err)
	if q := b.Question; q != nil && q.Failed != nil && (r.State == NotSent || r.State == Suppressed) {
		q.Failed()
	}
	d.lost = d.lost || r.State == UnknownWhether && b.Kind != ReplyTool
	if d.settler != nil && b.Question != nil && r.State.Seen() {
		if d.asked == nil {
			d.asked = map[string]askedBlock{}
		}
		d.asked[b.Question.ID] = askedBlock{b, r}
	}
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		d.fail(err)
	} else if err != nil && b.Kind == ReplyFinal && !errors.Is(err, errDenied) {
		d.fail(fmt.Errorf("the answer was not delivered: %w", err))
	}
	switch {
	case err == nil && r.State == Suppressed:
		d.taken(&b, ErrSuppress)
	case r.State == Suppressed || r.State == NotSent:
		d.taken(&b, err)
	default:
		d.taken(&b, nil)
	}
}

// taken says that a block has come that a preview was of. What the preview shows is given up where the block is not there in its
// place, for the cause.
func (d *deliveries) taken(b *Block, cause error) {
	if b.Kind == ReplyTool {
		return
	}
	if cause != nil {
		d.abandon(d.ctx, cause)
	}
	d.shown = showing{}
}

// key is the same for every attempt to send a block.
func (d *deliveries) key(seq int) string { return d.Turn + ":" + strconv.Itoa(seq) }

// send sends a block, or gives it to the outbox, which may hold it for later. A receipt that is suppressed without
// an error is the channel's own decision; with one, it says why nothing is sent any more.
func (d *deliveries) send(b *Block) (r Receipt, held bool, err error) {
	ctx := d.ctx
	if r, err := d.ready(ctx); err != nil {
		return r, false, err
	}
	if d.durable != nil && b.Kind == ReplyFinal && d.kernel.Outbox != nil {
		direct, r, held, err := d.keep(ctx, b)
		if !direct {
			return r, held, err
		}
	}
	r, err = d.wire(ctx, b, "Deliver", func() (Receipt, error) { return d.Delivery.Deliver(ctx, *b) })
	return r, false, err
}

// keep gives a block to the outbox, where the channel wants that and its sender can. direct says that it was not, and that nothing
// is written of it.
func (d *deliveries) keep(ctx context.Context, b *Block) (direct bool, r Receipt, held bool, err error) {
	var how *Durable
	if err := caught(ctx, d.kernel.Log, "Durable", func() error { how = d.durable.Durable(*b); return nil }); err != nil {
		return false, Receipt{State: NotSent}, false, &NotSentError{Err: err}
	}
	if how == nil {
		return true, r, false, nil
	}
	out := Outbound{
		Channel: d.Channel, Account: d.Account, TurnID: d.Turn, Session: d.Session, Event: d.Event, Sender: how.Sender,
		Origin: d.Origin, Block: *b,
	}
	switch can, err := d.kernel.Outbox.can(how); {
	case err != nil:
		return false, Receipt{State: NotSent}, false, &NotSentError{Err: err}
	case !can:
		return true, r, false, nil
	}
	id, err := d.kernel.Outbox.put(ctx, out)
	if errors.Is(err, ErrOutboxFull) { // nothing is written, and a reply that a crash can lose is better than none
		d.warnOf("outbox", err)
		return true, r, false, nil
	}
	if err != nil {
		return false, Receipt{State: NotSent}, false, &NotSentError{Err: err}
	}
	tried := false
	r, err = d.wire(ctx, b, "Send", func() (r Receipt, err error) {
		tried = true
		r, held, err = d.kernel.Outbox.first(ctx, id)
		return r, err
	})
	if !tried { // that it is sent cannot be noted, or another process has the event by now: so it is not, later either
		d.kernel.Outbox.drop(id, err)
	}
	return false, r, held, err
}

// errDenied says that the gates do not let the reply go any more (CH-61).
var errDenied = errors.New("channel: the settings changed and no longer allow an answer in this conversation")

// ready says whether something may be sent now; else the receipt of what is not, and why.
func (d *deliveries) ready(ctx context.Context) (Receipt, error) {
	if d.gone == nil && ctx.Err() != nil {
		return Receipt{State: NotSent}, &NotSentError{Err: context.Cause(ctx)}
	}
	if !d.mayShow(ctx) {
		return Receipt{State: Suppressed}, d.gone
	}
	return Receipt{}, nil
}

// mayShow says whether anything may be visible. The gates are asked until something was.
func (d *deliveries) mayShow(ctx context.Context) bool {
	if d.gone == nil && !d.passed && d.Allow != nil {
		if err := caught(ctx, d.kernel.Log, "Allow", func() error { return d.Allow(ctx) }); err != nil {
			d.gone = fmt.Errorf("%w: %w", errDenied, err)
			d.mu.Lock()
			d.tally.Denied = true
			d.mu.Unlock()
		}
	}
	return d.gone == nil
}

// own sends what somebody sends by himself.
func (d *deliveries) own(ctx context.Context, b Block, send func(context.Context) (Receipt, error)) (Receipt, error) {
	r, err := d.ready(ctx)
	if err == nil {
		if cause := context.Cause(d.ctx); cause != nil {
			r, err = Receipt{State: NotSent}, &NotSentError{Err: cause}
		} else {
			r, err = d.wire(ctx, &b, "Do", func() (Receipt, error) { return send(ctx) })
		}
	}
	d.note(b.Kind, r, err)
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		d.fail(err)
	}
	if errors.Is(err, errDenied) {
		err = nil // nothing is wrong: it is as where nothing may be seen
	}
	return r, err
}

// wire makes one call that may be seen, marked before and after.
func (d *deliveries) wire(ctx context.Context, b *Block, method string, call func() (Receipt, error)) (r Receipt, err error) {
	if err := d.mark(ctx); err != nil {
		return Receipt{State: NotSent}, &NotSentError{Err: fmt.Errorf("the send cannot be noted: %w", err)}
	}
	var unsent func()
	if d.Echo != nil && b.Text != "" {
		unsent = d.Echo.sending(d.Channel, d.Account, d.Conversation, b.Text)
	}
	d.mu.Lock()
	d.tally.Attempted = true
	d.mu.Unlock()
	err = caught(ctx, d.kernel.Log, method, func() (err error) {
		r, err = call()
		return err
	})
	r, err = ReceiptOf(r, err)
	d.unmark(ctx, r.State)
	if r.State.Seen() {
		d.passed, d.texted = true, true
		if d.Echo != nil && len(r.MessageIDs) > 0 {
			d.Echo.sent(d.Channel, d.Account, d.Conversation, r.MessageIDs...)
		}
	} else if unsent != nil && r.State != UnknownWhether {
		unsent()
	}
	if permanent(err) && d.gone == nil {
		d.gone = err
	}
	return r, err
}

// markedAs is what the ledger has of the turn.
type markedAs uint8

const (
	markedNot     markedAs = iota // nothing, or that a send came to nothing
	markedSending                 // a send has begun: whether it was seen is not known
	markedSeen                    // nothing that comes can say more
)

// mark notes that something is about to be sent.
func (d *deliveries) mark(ctx context.Context) error {
	if d.Ledger == nil || d.Event == "" || d.marked != markedNot {
		return nil
	}
	err := caught(ctx, d.kernel.Log, "Ledger", func() error { return d.Ledger.Sending(ctx, d.Event) })
	if err == nil {
		d.marked = markedSending
	}
	return err
}

// unmark notes what became of it. Where that cannot be written, the mark before stays: it says less, and nothing wrong.
func (d *deliveries) unmark(ctx context.Context, s ReceiptState) {
	if d.Ledger == nil || d.Event == "" || d.marked != markedSending || s == UnknownWhether {
		return
	}
	// Not for the turn's life: what was sent stays sent.
	ctx = context.WithoutCancel(ctx)
	if err := caught(ctx, d.kernel.Log, "Ledger", func() error { return d.Ledger.Sent(ctx, d.Event, s) }); err != nil {
		d.warnOf("ledger", err)
		return
	}
	d.marked = markedNot
	if s.Seen() {
		d.marked = markedSeen
	}
}

// fail keeps an error for the stage.
func (d *deliveries) fail(err error) {
	const enough = 8 // more say nothing new
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.errs) < enough {
		d.errs = append(d.errs, err)
	}
}

// warnOf tells of something that the turn goes on after.
func (d *deliveries) warnOf(what string, err error) {
	if err != nil && d.Warn != nil {
		d.Warn(d.ctx, what, err)
	}
}
