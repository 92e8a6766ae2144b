package channel

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// albumWindow is how long the next part of an album is waited for, with debounce or without.
	albumWindow = time.Second
	// maxWindows bounds how long the first event of a burst waits, in windows.
	maxWindows = 5
	// maxParts bounds a burst. More than this nobody types within five windows; the next begins a burst of its own.
	maxParts = 100
)

// gatherer merges events that belong together: what one sender writes within the window, and the parts of an album. The first
// leads: its turn waits, takes the others, and goes on with all of them. Whatever comes behind a burst in its conversation and
// thread stays behind it.
type gatherer struct {
	mu     sync.Mutex
	places map[burstPlace]*gathering // the last of each place that has not reached the lane
}

func newBursts() *gatherer { return &gatherer{places: map[burstPlace]*gathering{}} }

type burstPlace struct{ channel, account, conversation, thread string }

// gathering is one burst. Its fields are guarded by the gatherer's mu.
type gathering struct {
	place  burstPlace
	turn   string
	sender string
	group  string // of an album; "" is text
	window time.Duration
	parts  []*Input
	claims []Claim

	open   bool
	opened time.Time
	timer  *time.Timer
	flush  chan struct{} // closed when no more can join
	placed chan struct{} // closed when its turn has reached the lane, or has ended without
}

// join implements bursts. A leader's error comes with the claims that it has taken by then: they settle with its turn.
func (g *gatherer) join(ctx context.Context, e burstEvent) (burst, error) {
	place := burstPlace{e.channel, e.account, e.in.ConversationID, e.in.ThreadID}
	window := e.window()
	g.mu.Lock()
	before := g.places[place]
	if before != nil && before.open {
		if before.takes(e, window) {
			before.add(e)
			into := before.turn
			g.mu.Unlock()
			return burst{into: into}, nil
		}
		before.closeLocked()
	}
	if window <= 0 {
		g.mu.Unlock()
		if before == nil {
			return burst{in: e.in}, nil
		}
		return burst{in: e.in}, before.follow(ctx)
	}
	own := &gathering{
		place: place, turn: e.turn, sender: e.in.SenderID, group: e.in.GroupID, window: window,
		parts: []*Input{e.in}, open: true, opened: time.Now(),
		flush: make(chan struct{}), placed: make(chan struct{}),
	}
	own.timer = time.AfterFunc(window, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		own.closeLocked()
	})
	g.places[place] = own
	g.mu.Unlock()

	if e.queued != nil {
		e.queued() // the next event may join
	}
	var err error
	select {
	case <-own.flush:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	g.mu.Lock()
	own.closeLocked()
	g.mu.Unlock() // nobody adds to it any more
	if err == nil && before != nil {
		err = before.follow(ctx)
	}
	b := burst{in: e.in, claims: own.claims, placed: sync.OnceFunc(func() { g.place(own) })}
	if err != nil {
		return b, err
	}
	if len(own.parts) > 1 {
		b.in = MergeInputs(own.parts)
	}
	return b, nil
}

// window is how long an event waits for others; 0 is not at all.
func (e *burstEvent) window() time.Duration {
	if e.in.SenderID == "" || e.in.ConversationID == "" {
		return 0
	}
	if e.in.GroupID != "" {
		return albumWindow
	}
	if e.policy == nil || e.in.HasMedia || e.class.Kind != EventMessage || isCommand(e.in) || strings.TrimSpace(e.in.text()) == "" {
		return 0
	}
	return e.policy(PolicyQuery{
		Channel: e.channel, Account: e.account, Conversation: e.in.ConversationID, Thread: e.in.ThreadID,
	}).Debounce
}

// isCommand says whether an event is to be read as a command: nothing waits for it or is added to it.
func isCommand(in *Input) bool {
	text := in.TextForCommands
	if text == "" {
		text = in.text()
	}
	return strings.HasPrefix(strings.TrimSpace(text), ",")
}

// text is what an agent would read.
func (in *Input) text() string {
	if strings.TrimSpace(in.TextForAgent) != "" {
		return in.TextForAgent
	}
	return in.RawText
}

// takes says whether an event belongs to an open burst.
func (b *gathering) takes(e burstEvent, window time.Duration) bool {
	return window > 0 && e.in.SenderID == b.sender && e.in.GroupID == b.group && len(b.parts) < maxParts
}

// add takes an event in and waits for the next, as long as the first has not waited for all that it may.
func (b *gathering) add(e burstEvent) {
	b.parts = append(b.parts, e.in)
	if e.claim != nil {
		b.claims = append(b.claims, e.claim)
	}
	b.timer.Reset(min(b.window, max(0, maxWindows*b.window-time.Since(b.opened))))
}

// closeLocked ends the waiting.
func (b *gathering) closeLocked() {
	if b.open {
		b.open = false
		b.timer.Stop()
		close(b.flush)
	}
}

// follow waits until a burst is in its place before what comes behind it.
func (b *gathering) follow(ctx context.Context) error {
	select {
	case <-b.placed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// place lets go what waits behind a burst.
func (g *gatherer) place(b *gathering) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(b.placed)
	if g.places[b.place] == b {
		delete(g.places, b.place)
	}
}

// MergeInputs merges the events of a burst, in order: every text by line, the id and the time of the last, which is what the reply
// goes to. Parts are the events themselves, for what only their channel can merge: media, and mentions ([MergeMentions]).
func MergeInputs(parts []*Input) *Input {
	if len(parts) == 0 {
		return nil
	}
	m := *parts[len(parts)-1]
	m.Parts = slices.Clone(parts)
	m.RawText = joinLines(parts, func(in *Input) string { return in.RawText })
	m.TextForAgent = joinLines(parts, (*Input).text)
	m.TextForCommands = joinLines(parts, func(in *Input) string {
		if in.TextForCommands != "" {
			return in.TextForCommands
		}
		return in.RawText
	})
	for _, p := range parts {
		m.HasMedia = m.HasMedia || p.HasMedia
	}
	return &m
}

func joinLines(parts []*Input, text func(*Input) string) string {
	lines := make([]string, 0, len(parts))
	for _, p := range parts {
		if t := text(p); t != "" {
			lines = append(lines, t)
		}
	}
	return strings.Join(lines, "\n")
}

// MergeMentions is what the parts of a burst say together: whoever is addressed in one of them is.
func MergeMentions(parts ...MentionFacts) MentionFacts {
	var m MentionFacts
	for _, p := range parts {
		m.CanDetect = m.CanDetect || p.CanDetect
		m.WasMentioned = m.WasMentioned || p.WasMentioned
		m.HasAnyMention = m.HasAnyMention || p.HasAnyMention
		for _, k := range p.Implicit {
			if !slices.Contains(m.Implicit, k) {
				m.Implicit = append(m.Implicit, k)
			}
		}
		if p.AllowedImplicit != nil {
			m.AllowedImplicit = p.AllowedImplicit
		}
	}
	return m
}
