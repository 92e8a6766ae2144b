package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/turn"
)

// Delivery is how the answer of one turn is sent. Deliver is required; a function that is nil is something that the platform cannot do. No two of
// them run at the same time.
//
// An error is a [*channel.NotSentError] if the message is proven not to be sent, and a [*channel.PartialError] if a part of it is; any other error
// leaves that open.
type Delivery struct {
	// Deliver sends a block. With Block.Preview it replaces that message.
	Deliver func(context.Context, channel.Block) (channel.Receipt, error)
	// Preview shows the text of a block that is not finished; before is the receipt of the preview that stands there, or zero.
	Preview func(_ context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error)
	// Working shows that work goes on, and Rest removes what it has shown.
	Working, Rest func(context.Context) error
	// Settle changes the message of a question that was decided.
	Settle func(_ context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error
	// Durable keeps the end of the answer until it is sent, by the [Sender] of the turn's login.
	Durable bool

	PreviewEvery, WorkingEvery time.Duration // 0: 1 s and 5 s
}

const (
	previewEvery = time.Second
	workingEvery = 5 * time.Second

	// afterCancel bounds what a turn still does on the platform when it was canceled.
	afterCancel = 5 * time.Second
)

// progress is what is stored of a turn's answer, so that it goes on after a crash.
type progress struct {
	Text    int                      `json:"text,omitempty"`    // bytes of the turn's text that are in blocks
	Seq     int                      `json:"seq,omitempty"`     // of the last block
	Preview *channel.Receipt         `json:"preview,omitempty"` // of the block that is not finished
	Sending bool                     `json:"sending,omitempty"` // a block is being sent
	Unsure  bool                     `json:"unsure,omitempty"`  // it is not known of a block whether it was sent
	Visible bool                     `json:"visible,omitempty"` // something of the answer was sent
	Told    bool                     `json:"told,omitempty"`    // a notice was sent, or is being sent
	Asked   map[string]askedQuestion `json:"asked,omitempty"`   // questions that are open, by their ids
}

type askedQuestion struct {
	Block   channel.Block
	Receipt channel.Receipt
}

// sink sends what the agent says in a turn, in the order of emission: it is its [channel.Sink]. One goroutine calls all functions of the delivery.
type sink struct {
	p      *pass
	ctx    context.Context // the life of the turn
	cancel context.CancelCauseFunc
	d      *Delivery
	off    bool // nothing is sent: the turn observes, or its reply plan says so

	mu       sync.Mutex
	ended    bool
	notice   *channel.Payload     // the first error
	tasks    chan func()          // calls of the delivery
	previews chan channel.Payload // the newest text of the block that is not emitted yet
	done     sync.WaitGroup

	// Of the loop, and behind it of end.
	progress   *progress
	unknown    bool    // it is not known of something whether it was sent
	queued     bool    // a reply is stored until it is sent
	gone       error   // why nothing is sent any more
	errs       []error // of the ends of answers
	shown      string  // text of the preview; "" if another process has shown it
	noPreview  bool    // it is not known whether a preview stands there: another one would be a second
	warned     bool    // of previews
	signed     bool    // a sign of work may have to be removed
	failedWork bool
}

// maxTasks is how many calls of a delivery wait before the agent has to.
const maxTasks = 64

func (p *pass) newSink(ctx context.Context, d *Delivery, cancel context.CancelCauseFunc) *sink {
	s := &sink{
		p: p, ctx: ctx, cancel: cancel, d: cmp.Or(d, &Delivery{}), progress: &p.event.progress, unknown: p.event.progress.Unsure,
		tasks: make(chan func(), maxTasks), previews: make(chan channel.Payload, 1),
	}
	if s.off = p.observing() || p.facts.Reply.Mode == channel.ReplyNone; !s.off {
		s.signed = s.d.Rest != nil && p.resumed() // another process may have left a sign of work
		s.done.Go(s.loop)
	}
	return s
}

// final reports whether the turn must not run again, and its failure needs no notice.
func (s *sink) final() bool {
	return s.progress.Visible || s.unknown || s.queued || s.gone != nil
}

// Emit implements [channel.Sink]. It waits for the end of an answer to be sent, so that the next turn of the session follows it. An error is stored until
// the end of the turn; only the first is sent.
func (s *sink) Emit(ctx context.Context, kind channel.ReplyKind, p channel.Payload) error {
	if p.IsError {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.notice == nil && !s.ended {
			s.notice = &p
		}
		return nil
	}
	switch {
	case s.off, strings.TrimSpace(p.Text) == "" && len(p.Media) == 0 && p.Question == nil && p.Decided == nil:
		return nil
	case s.d.Deliver == nil:
		return channel.ErrNoDelivery
	}
	done := make(chan struct{})
	err := s.put(kind != channel.ReplyTool, func() {
		defer close(done)
		s.deliver(kind, p)
	})
	if err != nil || kind != channel.ReplyFinal {
		return err
	}
	select {
	case <-done: // the loop does not end before its queue is empty
	case <-ctx.Done():
	}
	return nil
}

// put adds a call to the tasks. isOpen says that it delivers the block that was open.
func (s *sink) put(isOpen bool, call func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case s.ended:
		return errEnded
	}
	if isOpen {
		s.dropPreview()
	}
	select {
	case s.tasks <- call:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

var errEnded = errors.New("channel: the turn has ended; nothing more is sent")

// Preview implements [channel.Sink].
func (s *sink) Preview(p channel.Payload) {
	if s.d.Preview == nil || s.off || strings.TrimSpace(p.Text) == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.dropPreview()
		s.previews <- p
	}
}

// dropPreview drops the text that waits to be shown.
func (s *sink) dropPreview() {
	select {
	case <-s.previews:
	default:
	}
}

// loop sends blocks, and between them shows that work goes on and what the next block will be, until the turn ends.
func (s *sink) loop() {
	defer s.rest()
	working := time.NewTicker(cmp.Or(s.d.WorkingEvery, workingEvery))
	defer working.Stop()
	previews, canceled := s.previews, s.ctx.Done()
	var pace <-chan time.Time // ends when the next preview may be shown
	for begun := false; ; {
		if len(s.tasks) > 0 { // first
			(<-s.tasks)()
			continue
		}
		if !begun {
			begun = true
			s.work()
		}
		select {
		case task, more := <-s.tasks:
			if !more {
				return
			}
			task()
		case text := <-previews:
			previews, pace = nil, time.After(s.showPreview(text))
		case <-pace:
			previews, pace = s.previews, nil
		case <-working.C:
			s.work()
		case <-canceled:
			canceled = nil
			s.rest() // what else there is to do comes with the end of the turn
		}
	}
}

// work shows that work goes on, until its first error.
func (s *sink) work() {
	if s.d.Working == nil || s.progress.Visible || s.failedWork || s.ready() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, cmp.Or(s.d.WorkingEvery, workingEvery)) // blocks wait meanwhile
	defer cancel()
	s.signed = s.d.Rest != nil
	s.failedWork = s.p.k.guard(ctx, func() error { return s.d.Working(ctx) }) != nil
}

// rest removes the sign of work.
func (s *sink) rest() {
	if !s.signed {
		return
	}
	s.signed = false
	ctx, cancel := outlive(s.ctx, afterCancel)
	defer cancel()
	s.warn("Rest", s.p.k.guard(ctx, func() error { return s.d.Rest(ctx) }))
}

// showPreview shows the newest text of the block that is open, and returns how long the next preview waits.
func (s *sink) showPreview(text channel.Payload) (pause time.Duration) {
	pause = cmp.Or(s.d.PreviewEvery, previewEvery)
	if s.noPreview || s.shown == text.Text || s.ready() != nil {
		return pause
	}
	b, before := s.block(channel.ReplyBlock, text), s.progress.Preview
	r, err := s.p.k.send(s.ctx, s.p.facts, func(ctx context.Context) (channel.Receipt, error) {
		return s.d.Preview(ctx, b, *cmp.Or(before, &channel.Receipt{}))
	})
	s.sent(r, err)
	if r.State.Seen() {
		s.shown = text.Text
		s.rest()
		if before == nil {
			s.progress.Preview = &r
			s.warn("note", s.note(s.ctx, false))
		}
	}
	if err == nil {
		return pause
	}
	s.noPreview = s.noPreview || r.State == channel.UnknownWhether && before == nil
	if !s.warned {
		s.warned = true
		s.warn("Preview", err)
	}
	if not, ok := errors.AsType[*channel.NotSentError](err); ok {
		pause = max(pause, not.RetryAfter)
		s.p.busyUntil = time.Now().Add(not.RetryAfter)
	}
	return pause
}

// block returns the next block of the turn, which replaces the preview, if there is one.
func (s *sink) block(kind channel.ReplyKind, p channel.Payload) channel.Block {
	seq := s.progress.Seq + 1
	return channel.Block{
		Kind: kind, Seq: seq, Key: fmt.Sprintf("%s:%d", s.p.result.TurnID, seq), Payload: p, Target: s.p.facts.Reply, Preview: s.progress.Preview,
	}
}

// deliver sends a block and notes what became of it.
func (s *sink) deliver(kind channel.ReplyKind, p channel.Payload) {
	if p.Decided != nil {
		s.resolveQuestion(*p.Decided)
		return
	}
	q := p.Question
	if q != nil {
		if _, asked := s.progress.Asked[q.ID]; asked { // before a crash
			return
		}
	}
	b := s.block(kind, p)
	if kind == channel.ReplyTool { // it is not what the preview shows
		b.Preview = nil
	}
	r, err := s.send(&b)
	s.unknown = s.unknown || r.State == channel.UnknownWhether
	if r.State.Seen() {
		s.rest()
	}
	switch {
	case q != nil && r.State.Seen():
		if s.progress.Asked == nil {
			s.progress.Asked = map[string]askedQuestion{}
		}
		s.progress.Asked[q.ID] = askedQuestion{b, r}
		s.warn("note", s.note(s.ctx, false))
	case q != nil && q.Failed != nil && (r.State == channel.NotSent || r.State == channel.Suppressed):
		q.Failed()
	case err != nil && b.Kind == channel.ReplyFinal:
		s.errs = append(s.errs, fmt.Errorf("the answer was not delivered: %w", err))
	}
}

// ready returns why nothing can be sent now.
func (s *sink) ready() error { return cmp.Or(s.gone, context.Cause(s.ctx)) }

// send sends a block, or has it stored until it is sent. What is about to be sent is stored before.
func (s *sink) send(b *channel.Block) (r channel.Receipt, err error) {
	notSent := channel.Receipt{State: channel.NotSent}
	if err := s.ready(); err != nil {
		return notSent, &channel.NotSentError{Err: err}
	}
	before := *s.progress
	s.progress.Seq = b.Seq
	s.progress.Text = max(before.Text, b.Upto)
	if b.Kind != channel.ReplyTool { // if the process dies now, the block may be what is shown there
		s.progress.Preview = nil
	}
	if b.Kind == channel.ReplyFinal && s.p.storesEnd() {
		if r, err = s.sendEnd(s.ctx, channel.OutcomeQueued, b); s.p.event.over {
			s.progress.Preview, s.shown = nil, ""
			return r, err
		}
	} else {
		s.progress.Sending = true
		if err := s.note(s.ctx, false); err != nil {
			s.progress.Preview = before.Preview
			return notSent, &channel.NotSentError{Err: fmt.Errorf("what is about to be sent cannot be stored: %w", err)}
		}
		r, err = s.sendEnd(s.ctx, "", b)
	}
	s.progress.Sending = false
	switch r.State {
	case channel.NotSent:
		s.progress.Text, s.progress.Preview = before.Text, before.Preview
	case channel.Suppressed:
		s.progress.Preview = before.Preview
	default:
		s.progress.Unsure = s.progress.Unsure || r.State == channel.UnknownWhether
		if b.Kind != channel.ReplyTool {
			s.shown, s.noPreview = "", false
		}
	}
	s.warn("note", s.note(s.ctx, s.progress.Text > before.Text))
	return r, err
}

// sendEnd sends a block by [pass.sendBlock].
func (s *sink) sendEnd(ctx context.Context, o channel.Outcome, b *channel.Block) (channel.Receipt, error) {
	r, held, err := s.p.sendBlock(ctx, o, b)
	s.queued = s.queued || held
	s.leave(err)
	s.sent(r, err)
	return r, err
}

// sent notes what became of something that was to be sent.
func (s *sink) sent(r channel.Receipt, err error) {
	s.progress.Visible = s.progress.Visible || r.State.Seen()
	if not, ok := errors.AsType[*channel.NotSentError](err); ok && not.Permanent && s.gone == nil {
		s.gone = err
	}
}

// note stores the progress.
func (s *sink) note(ctx context.Context, advanced bool) error {
	err := s.p.event.note(ctx, s.p.result.SessionKey, advanced)
	s.leave(err)
	return err
}

// leave ends the turn here if a write was refused because the event is another replica's by now.
func (s *sink) leave(err error) {
	if errors.Is(err, store.ErrMoved) {
		s.gone = turn.ErrHandedOver
		s.cancel(turn.ErrHandedOver)
	}
}

// resolveQuestion changes the message of a question that was decided.
func (s *sink) resolveQuestion(d channel.Decided) {
	asked, ok := s.progress.Asked[d.ID]
	if !ok {
		return
	}
	delete(s.progress.Asked, d.ID)
	s.warn("note", s.note(s.ctx, false))
	if s.d.Settle == nil {
		return
	}
	ctx, cancel := outlive(s.ctx, afterCancel)
	defer cancel()
	s.warn("Settle", s.p.k.guard(ctx, func() error { return s.d.Settle(ctx, asked.Block, asked.Receipt, d) }))
}

const (
	// cutOff follows the text of an answer that was not finished.
	cutOff = " […]"
	// lostText is shown in place of a preview that another process has shown: its text is not known.
	lostText = "The answer that began here was cut off."
)

// end returns when all that was emitted is sent, or is known not to be. The agent's error comes first, then those of what was sent.
func (s *sink) end(ctx context.Context, agentErr error) error {
	s.mu.Lock()
	s.ended = true
	close(s.tasks)
	s.mu.Unlock()
	s.done.Wait()
	err := errors.Join(append([]error{agentErr}, s.errs...)...)
	if cause := context.Cause(ctx); errors.Is(cause, turn.ErrHandedOver) && (err != nil || s.gone != nil) {
		err = cause // not what the turn has made of it
	}
	handedOver := s.p.meta.Event != nil && (errors.Is(err, turn.ErrHandedOver) || errors.Is(err, turn.ErrDraining))
	if s.d.Deliver != nil && s.gone == nil && !handedOver {
		s.leaveNothingOpen(ctx)
	}
	return err
}

// leaveNothingOpen finishes a preview whose block has not come, and questions that are not decided, and says that a part may be missing.
func (s *sink) leaveNothingOpen(ctx context.Context) {
	ctx, cancel := outlive(ctx, afterCancel)
	defer cancel()
	if s.progress.Preview != nil {
		text := lostText
		if s.shown != "" {
			text = s.shown + cutOff
		}
		b, outcome := s.block(channel.ReplyBlock, channel.Payload{Text: text}), channel.Outcome("")
		if s.p.storesEnd() {
			outcome = channel.OutcomePartial
		}
		_, err := s.sendEnd(ctx, outcome, &b)
		s.warn("Deliver", err)
	}
	for _, id := range slices.Sorted(maps.Keys(s.progress.Asked)) {
		s.resolveQuestion(channel.Decided{ID: id, Why: "the turn has ended"})
	}
	if s.progress.Unsure && s.p.policy.ErrorNotice {
		s.p.notify(ctx, unsureNoticeSeq, unsureNotice)
	}
}

// unsureNotice is sent if it is not known of a part of an answer whether it was sent.
const unsureNotice = "A part of this answer may be missing, because the platform did not confirm it. If it is, please ask again."

// result is what the turn has sent, by the sink or by its own Dispatch.
func (s *sink) result(said channel.DispatchResult) channel.DispatchResult {
	s.progress.Visible = s.progress.Visible || said.Sent && !s.off && !s.final()
	said.Sent = s.progress.Visible
	return said
}

// warn tells of something that does not change the turn.
func (s *sink) warn(what string, err error) {
	if err != nil {
		s.p.warn(s.ctx, channel.StageDispatch, "part of a delivery failed", fmt.Errorf("%s: %w", what, err))
	}
}
