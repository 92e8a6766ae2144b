package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
)

var errTest = errors.New("broken")

// platform records the calls that it gets, and shows messages.
type platform struct {
	mu      sync.Mutex
	calls   []string
	at      []time.Time
	blocks  []channel.Block
	inside  int
	overlap bool
	answer  func(call string) (channel.Receipt, error) // nil: sent, with an id

	messages []message
	index    map[string]int          // of messages, by their ids
	fail     func(text string) error // of the next sends, which are not shown; nil: they succeed
	cut      func(text string) error // of the next sends, which are shown; nil
	keys     map[string]bool         // of what was shown
	finished map[string]bool         // messages that are blocks, and no previews any more
	replaced []string                // finished messages that were edited
	onKey    func(key, text string)  // gets each block that is sent; nil
}

type message struct{ to, text string }

func (d *platform) call(format string, args ...any) (channel.Receipt, error) {
	call := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.calls, d.at = append(d.calls, call), append(d.at, time.Now())
	d.inside++
	d.overlap = d.overlap || d.inside > 1
	id, answer := fmt.Sprint("m", len(d.calls)), d.answer
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.inside--
		d.mu.Unlock()
	}()
	r, err := channel.Receipt{}, error(nil)
	if answer != nil {
		r, err = answer(call)
	}
	if err == nil && r.State == channel.Sent && r.MessageIDs == nil {
		r.MessageIDs = []string{id}
	}
	return r, err
}

func (d *platform) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.calls...)
}

func (d *platform) deliver(_ context.Context, b channel.Block) (r channel.Receipt, err error) {
	d.mu.Lock()
	d.blocks = append(d.blocks, b)
	if d.fail != nil {
		err = d.fail(b.Text)
	}
	if d.onKey != nil && err == nil {
		d.onKey(b.Key, b.Text)
	}
	d.mu.Unlock()
	if err != nil {
		return r, err
	}
	edited := ""
	if b.Preview != nil && len(b.Preview.MessageIDs) > 0 {
		edited = b.Preview.MessageIDs[0]
		r, err = d.call("edit %s %s", edited, b.Text)
	} else {
		r, err = d.call("send %s", b.Text)
	}
	if err != nil || len(r.MessageIDs) == 0 {
		return r, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.show(b, edited, r.MessageIDs[0])
	if d.cut != nil {
		err = d.cut(b.Text)
	}
	return r, err
}

// show shows a block in place of the message edited, or as a new one.
func (d *platform) show(b channel.Block, edited, id string) {
	if d.index == nil {
		d.index, d.keys, d.finished = map[string]int{}, map[string]bool{}, map[string]bool{}
	}
	if i, known := d.index[edited]; known {
		if id = edited; d.finished[id] {
			d.replaced = append(d.replaced, d.messages[i].text)
		}
		d.messages[i].text = b.Text
	} else {
		d.index[id] = len(d.messages)
		d.messages = append(d.messages, message{b.Target.To, b.Text})
	}
	d.keys[b.Key], d.finished[id] = true, b.Key != ""
}

// hasShown reports whether a block was shown.
func (d *platform) hasShown(b channel.Block) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[b.Key]
}

func (d *platform) shown() string { return strings.Join(d.shownTo(""), "\n") }

// shownTo returns the messages to a sender; "" matches all senders.
func (d *platform) shownTo(who string) (texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.messages {
		if who == "" || m.to == who {
			texts = append(texts, m.text)
		}
	}
	return texts
}

func (d *platform) failWith(fail func(text string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

// delivery returns a delivery with the named functions: preview, working, rest, settle.
func (d *platform) delivery(can ...string) *kernel.Delivery {
	x := &kernel.Delivery{Deliver: d.deliver}
	for _, word := range can {
		switch word {
		case "preview":
			x.Preview = func(_ context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
				return d.call("preview %v %s", before.MessageIDs, b.Text)
			}
		case "working":
			x.Working = func(context.Context) error { _, err := d.call("working"); return err }
		case "rest":
			x.Rest = func(context.Context) error { _, err := d.call("rest"); return err }
		case "settle":
			x.Settle = func(_ context.Context, asked channel.Block, sent channel.Receipt, to channel.Decided) error {
				_, err := d.call("settle %v %s: %s", sent.MessageIDs, asked.Question.ID, to.Text(to.By))
				return err
			}
		}
	}
	return x
}

var openAccess = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}, Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true}}

// facts are of a message in a direct conversation that everybody may write in.
func facts(id, text string) channel.Facts {
	return channel.Facts{
		MessageID: id, Sender: channel.SenderFacts{ID: "42"}, Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42"},
		Route: channel.RouteFacts{AgentID: "a", RouteSessionKey: "fake:42"}, Reply: channel.ReplyPlanFacts{To: "42"},
		Access: openAccess, Message: channel.MessageFacts{RawBody: text},
	}
}

// rig is a turn with hooks that a test can change. It records their calls.
type rig struct {
	kernel.Recorder // for Record alone

	mu    sync.Mutex
	calls []string
	do    func(hook string) error // nil does nothing

	kernel    *kernel.Kernel
	facts     channel.Facts
	in        *channel.Input // nil: ingest gives none
	class     channel.EventClass
	pre       channel.Preflight
	admission channel.Admission                                                    // of resolve
	dispatch  func(context.Context, *channel.Turn) (channel.DispatchResult, error) // nil: the kernel's agent
	record    kernel.RecordOptions
	platform  *platform
	delivery  *kernel.Delivery

	traces  []channel.Trace
	onTrace func(channel.Trace)
	acked   []channel.Result
	queued  int
	final   []channel.Result
}

func newRig() *rig {
	s := &rig{platform: &platform{}, facts: facts("1", "hi"), class: channel.MessageClass, in: &channel.Input{ID: "1", RawText: "hi", ConversationID: "42", SenderID: "42"}}
	s.kernel = &kernel.Kernel{Observer: s, Recorder: s, Agent: agentWithoutPlace(s.answer)}
	s.delivery = s.platform.delivery()
	return s
}

func (s *rig) called(hook string) error {
	s.mu.Lock()
	s.calls = append(s.calls, hook)
	s.mu.Unlock()
	if s.do == nil {
		return nil
	}
	return s.do(hook)
}

// failAt lets a hook fail.
func (s *rig) failAt(at string, err error) {
	s.do = func(hook string) error {
		if hook == at {
			return err
		}
		return nil
	}
}

func (s *rig) Observe(_ context.Context, t channel.Trace) {
	s.traces = append(s.traces, t)
	if s.onTrace != nil {
		s.onTrace(t)
	}
}

func (s *rig) Record(context.Context, channel.Row, bool) error { return s.called("record") }
func (s *rig) Policy(channel.PolicyQuery) (p channel.Policy)   { return p }
func (s *rig) group(mentioned bool) {
	s.facts.Conversation.Kind = channel.Group
	s.facts.Access.Mentions = channel.MentionFacts{CanDetect: true, WasMentioned: mentioned}
}

// answer is the kernel's agent.
func (s *rig) answer(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	if err := s.called("dispatch"); err != nil {
		return channel.DispatchResult{}, err
	}
	t.Queued()
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "hello"})
}

func (s *rig) turn() *kernel.Turn {
	return &kernel.Turn{
		Facts: s.facts, Admission: s.admission, Record: s.record, Delivery: s.delivery, Dispatch: s.dispatch,
		OnPreDispatchFailure: func(context.Context, error) { _ = s.called("preDispatchFailure") },
		OnFinalize: func(_ context.Context, r channel.Result) error {
			s.final = append(s.final, r)
			return s.called("onFinalize")
		},
	}
}

func (s *rig) adapter() *kernel.Adapter[string] {
	return &kernel.Adapter[string]{
		Ingest: func(context.Context, string) (*channel.Input, error) { return s.in, s.called("ingest") },
		Classify: func(context.Context, *channel.Input) (channel.EventClass, error) {
			err := s.called("classify")
			return s.class, err
		},
		Preflight: func(context.Context, *channel.Input, channel.EventClass) (channel.Preflight, error) {
			err := s.called("preflight")
			return s.pre, err
		},
		Resolve: func(context.Context, *channel.Input, channel.EventClass, channel.Preflight) (*kernel.Turn, error) {
			err := s.called("resolve")
			return s.turn(), err
		},
		Finalize: func(_ context.Context, r channel.Result) error {
			s.final = append(s.final, r)
			return s.called("finalize")
		},
	}
}

func (s *rig) meta() kernel.Meta {
	return kernel.Meta{
		Channel: "fake", Ack: func(_ context.Context, r channel.Result) { s.acked = append(s.acked, r) }, Queued: func() { s.queued++ },
	}
}

// run runs an event by the entry point that has all stages.
func (s *rig) run(ctx context.Context) (channel.Result, error) {
	return kernel.Run(ctx, s.kernel, s.meta(), "raw", s.adapter())
}

// enter runs the turn by an entry point: "run", "assembled" or "prepared".
func (s *rig) enter(ctx context.Context, by string) (channel.Result, error) {
	switch by {
	case "assembled":
		return s.kernel.RunAssembled(ctx, s.meta(), s.turn())
	case "prepared":
		s.dispatch = s.kernel.Agent.Dispatch
		return s.kernel.RunPrepared(ctx, s.meta(), s.turn())
	}
	return s.run(ctx)
}

// phases are the traces that the observer got, as stage:phase.
func (s *rig) phases() (list []string) {
	for _, t := range s.traces {
		list = append(list, string(t.Stage)+":"+string(t.Phase))
	}
	return list
}

// noting is a store that records how events end.
type noting struct {
	kernel.Store
	mu     sync.Mutex
	states []string
}

func (n *noting) note(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.states = append(n.states, state)
}

func (n *noting) End(ctx context.Context, e store.EventEnd) (int64, bool, error) {
	n.note("end " + e.Outcome)
	return n.Store.End(ctx, e)
}

func (n *noting) Release(ctx context.Context, r store.EventRelease) error {
	switch {
	case r.Failed:
		n.note("retry")
	case r.Parked != "":
		n.note("park " + r.Parked)
	default:
		n.note("hand over")
	}
	return n.Store.Release(ctx, r)
}

// runQueued runs the event by a queue. It returns the first result, and what was stored of the event after that.
func (s *rig) runQueued(t *testing.T, d *db.DB) (r channel.Result, state string, err error) {
	t.Helper()
	n := &noting{Store: d.Events()}
	s.kernel.Store = n
	q := kernel.NewQueue(s.kernel, kernel.QueueOptions{Replica: "a"})
	ctx, stop := context.WithCancel(t.Context())
	ran := false
	h := kernel.Handler{Channel: "fake", Grace: time.Second, Run: func(ctx context.Context, _ *kernel.Claimed, m kernel.Meta) (channel.Result, error) {
		if ran {
			<-ctx.Done()
			return channel.Result{}, errTest
		}
		ran = true
		queued := m.Queued
		m.Queued = func() { s.queued++; queued() }
		r, err = kernel.Run(ctx, s.kernel, m, "raw", s.adapter())
		stop()
		return r, err
	}}
	_, acceptErr := q.Accept(ctx, kernel.Arrival{Key: channel.EventKey{Channel: "fake", Conversation: "42", ID: "1"}, Raw: []byte("raw")})
	if acceptErr != nil {
		t.Fatal(acceptErr)
	}
	if serveErr := q.Serve(ctx, h, nil); serveErr != nil {
		t.Error(serveErr)
	}
	q.Close()
	return r, n.states[0], err
}
