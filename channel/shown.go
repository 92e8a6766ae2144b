package channel

import (
	"context"
	"log/slog"
	"strings"
)

// Shower is a [Ledger] that keeps what people see of an answer before it is finished, so that a crash does not lose it.
type Shower interface {
	// Shown replaces what is kept of an event. A killed process does not lose it; a power failure may.
	Shown(_ context.Context, event string, s ShownText) error
	// LastShown returns what is kept; the zero value is nothing. Forget of the ledger removes it.
	LastShown(_ context.Context, event string) (ShownText, error)
}

// ShownText is the text that a preview shows, and where it belongs.
type ShownText struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Text    string `json:"text"`
}

// Resumer is an [Agent] that keeps what people saw of an answer that a crash has cut off.
type Resumer interface {
	KeepCutOff(context.Context, ShownText) error
}

// maxShown bounds the text that is kept of an event, in bytes: more than any platform shows in one message.
const maxShown = 64 << 10

// keepShown hands what people saw of a cut off answer to the agent.
func (k *Kernel) keepShown(ctx context.Context, event string, log *slog.Logger) {
	ledger, ok := k.state.ledger.(Shower)
	agent, can := k.Agent.(Resumer)
	if !ok || !can {
		return
	}
	s, err := ledger.LastShown(ctx, event)
	if err == nil && strings.TrimSpace(s.Text) != "" {
		_, err = safely(func() (struct{}, error) { return struct{}{}, agent.KeepCutOff(ctx, s) })
	}
	if err != nil {
		log.WarnContext(ctx, "cannot store a cut-off answer", "error", err)
	}
}

// keepPreview notes what a preview shows.
func (d *deliveries) keepPreview(text string) {
	s, ok := d.Ledger.(Shower)
	if !ok || d.Event == "" || d.Session == "" {
		return
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "")
	}
	ctx := context.WithoutCancel(d.ctx) // what was shown stays shown
	err := caught(ctx, d.kernel.Log, "Ledger", func() error { return s.Shown(ctx, d.Event, ShownText{d.Session, d.Turn, text}) })
	if err != nil && !d.warned {
		d.warned = true
		d.warnOf("ledger", err)
	}
}
