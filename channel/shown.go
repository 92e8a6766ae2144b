package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/lingserve/lingserve/internal/vfs"
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

// shownPrefix begins the names of the files that have what is shown, one for each event.
const shownPrefix = "shown-"

func shownFile(event string) string {
	sum := sha256.Sum256([]byte(event))
	return shownPrefix + hex.EncodeToString(sum[:16]) + ".json"
}

// Shown implements [Shower].
func (l *ledger) Shown(_ context.Context, event string, s ShownText) error {
	l.mu.Lock()
	l.shown[shownFile(event)] = s
	l.mu.Unlock()
	if l.root == nil {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return vfs.CacheFile(l.root, shownFile(event), func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// LastShown implements [Shower].
func (l *ledger) LastShown(_ context.Context, event string) (s ShownText, err error) {
	l.mu.Lock()
	s, ok := l.shown[shownFile(event)]
	l.mu.Unlock()
	if !ok || s.Turn != "" || l.root == nil {
		return s, nil
	}
	text, err := vfs.ReadFile(l.root, shownFile(event)) // an earlier process has left it
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// forgetShown removes what is kept of an event.
func (l *ledger) forgetShown(event string) error {
	name := shownFile(event)
	l.mu.Lock()
	_, ok := l.shown[name]
	delete(l.shown, name)
	l.mu.Unlock()
	if !ok || l.root == nil {
		return nil
	}
	err := l.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadShown notes which events an earlier process has left texts of.
func (l *ledger) loadShown() error {
	names, err := vfs.Names(l.root, ".")
	for _, name := range names {
		if strings.HasPrefix(name, shownPrefix) {
			l.shown[name] = ShownText{} // it is read when it is asked for
		}
	}
	return err
}
