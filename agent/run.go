package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Kinds of events that the loop adds to those of package turn. Their data is in Value.
const (
	HandoffEvent          turn.EventKind = "handoff"           // {"name"}
	RetryingEvent         turn.EventKind = "retrying"          // {"bot","reason","seconds","attempt","of"}
	ApprovalRequiredEvent turn.EventKind = "approval_required" // a [Question]
	ApprovalResolvedEvent turn.EventKind = "approval_resolved" // {"id","call","subagent"?,"decision","remember"?,"by"?,"reason"?}
)

// Names of the event entries that the loop writes.
const (
	entryStart    = "turn.start"
	entryEnd      = "turn.end"
	entryAborted  = "turn.aborted"
	entryResumed  = "turn.resumed"
	entryStep     = "loop.step"
	entryApproval = "approval"
	entryCommand  = "command"
)

// The data of these entries.
type (
	started struct {
		Model string `json:"model"`
	}
	// Ended is the data of turn.end.
	Ended struct {
		Status string         `json:"status"`
		Steps  int            `json:"steps,omitempty"`
		Usage  *adapter.Usage `json:"usage,omitempty"`
	}
	stepped struct {
		Step   int            `json:"step"`
		Status string         `json:"status"`
		Model  string         `json:"model,omitempty"`
		Finish string         `json:"finish,omitempty"`
		Usage  *adapter.Usage `json:"usage,omitempty"` // of the turn so far
	}
)

// StartEntry returns the entry that begins a turn.
func StartEntry(data any, e *turn.Envelope) tape.Entry {
	return tape.NewEvent(entryStart, data).With(tape.Meta{Agent: e.Agent})
}

// EndEntry returns the entry that ends a turn.
func EndEntry(data Ended, usage adapter.Usage) tape.Entry {
	if usage != (adapter.Usage{}) {
		data.Usage = &usage
	}
	return tape.NewEvent(entryEnd, data)
}

// Statuses of turn.end and loop.step.
const (
	StatusOK          = "ok"
	StatusError       = "error"
	StatusCanceled    = "canceled"
	statusAutoHandoff = "auto_handoff"
)

// Anchors of the handoffs that the loop makes by itself.
const (
	anchorOverflow = "auto_handoff/context_overflow" // a model has refused the request
	anchorLimit    = "auto_handoff/context_limit"    // the request was larger than [Options.MaxContext]
)

// Errors of the loop.
var (
	// ErrMaxSteps is that of a turn whose model goes on calling tools when it may not any more.
	ErrMaxSteps error = &turn.EventError{Code: turn.CodeOutput, Message: "agent: the model kept calling tools and did not answer"}
	// ErrTooLong is that of a turn that does not fit the model, not even without its past.
	ErrTooLong error = &turn.EventError{Code: turn.CodeTooLarge, Message: "agent: the message is too long for the model's context"}
)

// run is one turn of the loop, or one of a subagent.
type run struct {
	agent   *Agent
	ctx     context.Context
	turn    *turn.Turn
	id      string // of the turn
	scope   string // what the keys of its calls are derived from: the turn's id, or the key of the subagent's call
	session string
	state   turn.State
	prompt  turn.Prompt
	inbox   turn.Inbox // nil for none
	tape    *tape.Tape
	models  []string
	tools   func() []*tool.Tool
	parent  *run   // whose tool it is, of a subagent
	of      string // the id of that tool's call
	instead string // where it is set, the system prompt

	yield  func(turn.Event, error) bool
	left   bool                    // the reader has left
	cancel context.CancelCauseFunc // of ctx

	selector  tape.Selector
	system    string // the system prompt of the last request
	withMedia bool   // of what the last request asks for the first time
	overBase  bool   // a request was larger than the limit right behind an anchor, so that another one would not help
	progress
	before paragraphs        // this step's text
	gap    string            // before that text
	past   *record           // what another process has done of the turn; nil if it begins here
	asks   map[string]string // ids of the questions whether a call with an unknown outcome may run again, by the call's key

	mu      sync.Mutex // also guards begun
	handoff *handoff   // asked for in this step
}

// progress is how far a turn is.
type progress struct {
	asked    []tape.Entry // the prompt and what was steered, as they lie on the tape first
	steps    int
	text     string        // of the last reply
	finish   string        // of the last reply
	usage    adapter.Usage // of all
	handoffs int           // that the loop has made because a model refused a request
	begun    bool          // the step before has ended with an anchor that was asked for
	paragraphs
}

// handoff is an anchor to come.
type handoff struct {
	name  string
	state any
}

type runKey struct{}

// runOf returns the run that a tool's context belongs to; nil where a tool is called outside of a turn.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// root is the run of the turn, of which this one may be a subagent's.
func (r *run) root() *run {
	for r.parent != nil {
		r = r.parent
	}
	return r
}

// RunModelStream is the loop, or a command.
func (a *Agent) RunModelStream(ctx context.Context, p turn.Prompt, id turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, errors.New("agent: the loop runs only in a turn")
	}
	if e := t.Envelope(); e.Kind == turn.KindCommand {
		return a.commandStream(ctx, t, e, id), true, nil
	}
	if p.Empty() {
		return nil, false, turn.ErrNoPrompt
	}
	r := &run{agent: a, ctx: ctx, turn: t, id: t.ID(), scope: t.ID(), session: id, state: s, prompt: p, inbox: t.Inbox(), tools: a.tools.Tools}
	return r.stream, true, nil
}

// stream runs the turn and tells what happens.
func (r *run) stream(yield func(turn.Event, error) bool) {
	r.yield = yield
	r.ctx, r.cancel = context.WithCancelCause(r.ctx)
	defer r.cancel(context.Canceled)
	err := r.turnOf()
	switch {
	case r.left:
	case err != nil:
		yield(turn.Event{}, err)
	default:
		yield(turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: true, Text: r.text, Reason: r.finish}}, nil)
	}
}

// errLeft ends a turn whose reader has gone away.
var errLeft = errors.New("agent: the reader has left the stream")

// turnOf is the turn from its first entry to its last.
func (r *run) turnOf() (err error) {
	if err := r.begin(); err != nil {
		return err
	}
	if r.past != nil && r.past.Ended {
		return r.past.Failure
	}
	status := StatusError // also where something panics
	defer func() {
		if r.handedOver() {
			err = context.Cause(r.ctx)
			return
		}
		err = errors.Join(err, r.end(status))
	}()
	err = r.loop()
	switch {
	case err == nil:
		status = StatusOK
	case r.ctx.Err() != nil || errors.Is(err, turn.ErrStopped):
		status = StatusCanceled
	}
	if err != nil && r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return err
}

// write bounds what is written; it is written after a cancellation too.
func (r *run) write() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), writing)
}

// handedOver reports whether another process goes on with the turn.
func (r *run) handedOver() bool { return errors.Is(context.Cause(r.ctx), turn.ErrHandedOver) }

// append appends entries of this turn, unless another process goes on with it, and sets their ids.
func (r *run) append(entries ...tape.Entry) error {
	if r.handedOver() {
		return context.Cause(r.ctx)
	}
	return r.appendAlways(entries...)
}

// appendAlways is append for what would be lost if another process went on without it.
func (r *run) appendAlways(entries ...tape.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first, err := r.tape.AppendPatiently(r.ctx, r.mark(entries)...)
	if err != nil {
		return fmt.Errorf("write to the tape: %w", err)
	}
	for i := range entries {
		entries[i].ID = first + int64(i)
	}
	return nil
}

// mark adds the turn's id to entries.
func (r *run) mark(entries []tape.Entry) []tape.Entry {
	for i, e := range entries {
		entries[i] = e.With(tape.Meta{Turn: r.id})
	}
	return entries
}

// emit hands an event to the reader. It ends the turn if the reader leaves.
func (r *run) emit(e turn.Event) {
	if !r.left && !r.yield(e, nil) {
		r.left = true
		r.cancel(errLeft)
	}
}

// begin opens the tape and writes what comes before the first call of a model.
func (r *run) begin() (err error) {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.tape == nil {
		if r.tape, err = OpenTape(r.ctx, r.turn.Framework(), r.session); err != nil {
			return err
		}
	}
	if r.selector, err = r.turn.Selector(r.ctx, r.state); err != nil {
		return err
	}
	if r.turn.Envelope().Resumed && r.parent == nil {
		past, err := readRecord(r.ctx, r.tape, r.id)
		if err != nil {
			return err
		}
		if past.Begun {
			r.past, r.progress = past, past.progress
			if past.Ended {
				return nil
			}
		}
	}
	settings, _ := r.state[KeySettings].(map[string]json.RawMessage)
	r.models = r.agent.modelsOf(settings)
	lastSystem, err := r.lastSystem()
	if err != nil {
		return err
	}
	if r.system, err = r.systemPrompt(); err != nil {
		return err
	}
	r.awaitTools()
	var entries []tape.Entry
	if r.past == nil {
		if entries, err = r.startEntries(); err != nil {
			return err
		}
	}
	if r.system != lastSystem {
		entries = append(entries, tape.NewSystem(r.system))
	}
	recalled, found, err := r.recallMessage()
	switch {
	case err != nil:
		return err
	case len(r.asked) > 0: // the tape has it
	case found:
		r.asked = append(r.asked, recalled)
	default:
		entries = append(entries, r.promptEntry())
	}
	err = r.append(entries...)
	for _, e := range entries {
		if e.Kind == tape.KindMessage { // the prompt
			r.asked = append(r.asked, e)
		}
	}
	return err
}

// startEntries returns the entries with which a turn begins that no process has begun.
func (r *run) startEntries() ([]tape.Entry, error) {
	start := StartEntry(started{r.models[0]}, r.turn.Envelope())
	if r.parent != nil {
		start.Meta = nil
		return []tape.Entry{start}, nil
	}
	entries, err := Aborted(r.ctx, r.tape)
	return append(entries, start), err
}

// promptEntry returns the entry of the message that the turn answers.
func (r *run) promptEntry() tape.Entry {
	prompt := r.message(r.prompt)
	if r.parent != nil {
		return prompt
	}
	return titled(prompt.With(tape.Meta{Message: r.messageID()}), r.turn.Envelope())
}

// toolsWait is how long a turn waits for tools that are being connected to.
const toolsWait = 5 * time.Second

// awaitTools waits for them, and tells who listens what the turn goes on without.
func (r *run) awaitTools() {
	if r.agent.options.AwaitTools == nil || r.parent != nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, toolsWait)
	defer cancel()
	if missing := r.agent.options.AwaitTools(ctx); len(missing) > 0 && r.ctx.Err() == nil {
		r.emit(turn.Event{Kind: turn.ErrorEvent, Err: &turn.EventError{
			Code: turn.CodeOverloaded, Message: "still connecting to tools of " + strings.Join(missing, ", ") + "; this turn goes on without them",
		}})
	}
}

// titled adds the beginning of the sender's words to a message that begins with facts or with words of others. Without words, the title is the kinds of media.
func titled(m tape.Entry, e *turn.Envelope) tape.Entry {
	if words := e.Words(); len(e.Context)+len(e.Media) > 0 || words != e.Content {
		title := tape.Title(words)
		if title == "" {
			title = mediaTitle(e.Media)
		}
		return m.With(tape.Meta{Title: title})
	}
	return m
}

// mediaTitle is the title of a message without words, such as "[image] [file]".
func mediaTitle(media []turn.Media) string {
	var kinds []string
	for _, m := range media {
		if kind := "[" + cmp.Or(m.Type, "file") + "]"; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return "[message]"
	}
	return strings.Join(kinds, " ")
}

// messageID is the id of the message that the turn answers, "" if the channel has no ids.
func (r *run) messageID() string {
	if e := r.turn.Envelope(); e.ID != r.id {
		return e.ID
	}
	return ""
}

// recallMessage finds the message of a turn that is run again, if nothing was said since but replies that were cut off. The model does not see these.
func (r *run) recallMessage() (message tape.Entry, found bool, err error) {
	e := r.turn.Envelope()
	if !e.Repeated || len(r.asked) > 0 || r.parent != nil || r.messageID() == "" {
		return tape.Entry{}, false, nil
	}
	kinds := []tape.Kind{tape.KindAnchor, tape.KindMessage}
	for entry, err := range r.tape.Read(r.ctx, tape.Query{Kinds: kinds, Newest: true}) {
		if err != nil {
			return tape.Entry{}, false, err
		}
		m := tape.MetaOf(entry)
		if entry.Kind == tape.KindMessage && m.Message == e.ID {
			r.selector = tape.Without(r.selector, func(other tape.Entry) bool {
				return other.ID > entry.ID && other.Kind == tape.KindMessage && tape.MetaOf(other).Partial
			})
			return entry, true, nil
		}
		if entry.Kind != tape.KindMessage || !m.Partial {
			break
		}
	}
	return tape.Entry{}, false, nil
}

// end writes the turn's last entry.
func (r *run) end(status string) error {
	return r.append(EndEntry(Ended{Status: status, Steps: r.steps}, r.usage))
}

// lastSystem returns the last system prompt since the anchor.
func (r *run) lastSystem() (string, error) {
	for e, err := range r.tape.Read(r.ctx, tape.Query{FromLast: true, Kinds: []tape.Kind{tape.KindSystem}, Newest: true, Limit: 1}) {
		if err != nil {
			return "", err
		}
		return decode[string](tape.PayloadOf(e).Content), nil
	}
	return "", nil
}

// Aborted returns the entry with which a turn begins on this tape if the last turn has no end, because its process ended first; none
// otherwise.
func Aborted(ctx context.Context, t *tape.Tape) ([]tape.Entry, error) {
	for e, err := range t.Read(ctx, tape.Query{Kinds: []tape.Kind{tape.KindEvent}, Newest: true}) {
		if err != nil {
			return nil, err
		}
		switch name, _ := eventOf(e); name {
		case entryEnd, entryAborted:
			return nil, nil
		case entryStart:
			if unfinished := tape.MetaOf(e).Turn; unfinished != "" {
				return []tape.Entry{tape.NewEvent(entryAborted, map[string]string{"turn": unfinished})}, nil
			}
			return nil, nil
		}
	}
	return nil, nil
}

// eventOf reads an event.
func eventOf(e tape.Entry) (name string, data json.RawMessage) {
	p := tape.PayloadOf(e) // one without a name means nothing here
	return p.Name, p.Data
}

// message makes an entry of a prompt. Large media go to the blobs.
func (r *run) message(p turn.Prompt) tape.Entry {
	if len(p.Parts) == 0 {
		return tape.NewMessage(adapter.User, p.Text)
	}
	parts := slices.Clone(p.Parts)
	kept := r.storeMedia(parts)
	return tape.NewMessage(adapter.User, parts).With(tape.Meta{Spill: kept})
}

// storeMedia moves large media to the blobs, and puts their addresses in their place. Media that cannot be stored become a note.
func (r *run) storeMedia(parts []turn.Part) (kept []tape.Spill) {
	for i := range parts {
		data := mediaOf(&parts[i])
		if data == nil || len(*data) <= spillBytes {
			continue
		}
		blob, ok := r.putBlob(*data)
		if !ok {
			parts[i] = turn.Part{Type: "text", Text: fmt.Sprintf("[%s: it could not be kept]", parts[i].Type)}
			continue
		}
		blob.Index = i
		kept, *data = append(kept, blob), tape.BlobURL(blob.Handle)
	}
	return kept
}

// putBlob stores data beside the tape; ok is false, and the log has the reason, if that fails.
func (r *run) putBlob(data string) (blob tape.Spill, ok bool) {
	ctx, cancel := r.write()
	defer cancel()
	handle, err := r.tape.PutBlob(ctx, []byte(data))
	if err != nil {
		r.agent.log.WarnContext(ctx, "cannot store a large result, an image or a sound", "session", r.session, "error", adapter.RedactError(err))
	}
	return tape.Spill{Handle: handle, Size: int64(len(data))}, err == nil
}

// mediaOf is what may be large in a part, as a string of p's own; nil where nothing is.
func mediaOf(p *turn.Part) *string {
	switch {
	case p.ImageURL != nil:
		p.ImageURL = new(*p.ImageURL)
		return &p.ImageURL.URL
	case p.VideoURL != nil:
		p.VideoURL = new(*p.VideoURL)
		return &p.VideoURL.URL
	case p.InputAudio != nil:
		p.InputAudio = new(*p.InputAudio)
		return &p.InputAudio.Data
	case p.File != nil:
		p.File = new(*p.File)
		return &p.File.Data
	}
	return nil
}

// loop makes steps until there is an answer.
func (r *run) loop() error {
	if over, err := r.resume(); over || err != nil {
		return err
	}
	for {
		r.steps++
		last := r.steps >= r.agent.options.MaxSteps
		rep, err := r.ask(last)
		if err != nil {
			return err
		}
		more, err := r.step(rep, last)
		if err != nil {
			return err
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if last || !more && (r.inbox == nil || r.inbox.CloseIfEmpty()) {
			return nil
		}
	}
}

// steer takes what was said meanwhile.
func (r *run) steer() error {
	if r.inbox == nil || r.handedOver() {
		return nil
	}
	for _, e := range r.inbox.Take() {
		p, err := r.turn.BuildPrompt(r.ctx, e, r.state)
		if err != nil {
			return err
		}
		if p.Empty() {
			continue
		}
		m := []tape.Entry{titled(r.message(p), e).With(tape.Meta{Steered: true, Run: e.Run})}
		if err := r.appendAlways(m...); err != nil {
			return err
		}
		r.asked = append(r.asked, m...)
	}
	return nil
}

// systemPrompt is what all plugins say, and the list of skills behind it.
func (r *run) systemPrompt() (string, error) {
	if r.instead != "" {
		return r.instead, nil
	}
	text, err := r.turn.SystemPrompt(r.ctx, r.prompt, r.state)
	if err != nil {
		return "", err
	}
	parts := []string{text, "", r.agent.skillsList()}
	if e := r.turn.Envelope(); len(e.Context) == 0 { // else each message has its date
		zone := cmp.Or(e.Timezone, time.UTC)
		parts[1] = time.Now().In(zone).Format("Today is Monday, 2 January 2006 (") + zone.String() + ")."
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n"), nil
}

// lastStep is added to the system prompt of the last call that a turn has.
const lastStep = "You have used up the calls of tools for this message. There are no tools any more: answer now with what you know, " +
	"and say what is missing."

// request makes the request of a step: the view of the tape as it is now.
func (r *run) request(last bool) (adapter.Request, error) {
	view, err := r.tape.View(r.ctx, r.selector)
	if err != nil {
		return adapter.Request{}, err
	}
	system := r.system
	if last {
		system = strings.TrimSpace(system + "\n\n" + lastStep)
	}
	req := adapter.Request{Messages: make([]adapter.Message, 0, len(view.Messages)+1), Options: r.agent.options.Options, CacheKey: tape.Tag(r.session)}
	if system != "" {
		req.Messages = append(req.Messages, adapter.Message{Role: adapter.System, Content: system})
	}
	for _, m := range view.Messages {
		if m.Starts() {
			continue
		}
		if msg, ok := toMessage(m.JSON); ok {
			req.Messages = append(req.Messages, msg)
		}
	}
	if err := r.loadMedia(req.Messages); err != nil {
		return adapter.Request{}, err
	}
	req.Messages = adapter.MediaBehindResults(req.Messages)
	r.withMedia = withMedia(req.Messages)
	if !last {
		for _, t := range r.tools() {
			req.Tools = append(req.Tools, adapter.Tool{Name: t.Wire(), Description: t.Description, Parameters: t.Parameters()})
		}
	}
	return req, nil
}
