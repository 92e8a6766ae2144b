package nats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
)

// Texts is a channel.Texts: small texts by name, each of which is the last message of a subject. What is read is what was stored last,
// by whichever replica.
type Texts struct {
	log   *log
	c     *cluster.Cluster
	space string
	locks locks
}

// TextsOptions of texts. Name is required.
type TextsOptions struct {
	Name  string        // of the stream, in upper case: "WINDOWS"
	Life  time.Duration // of a text since it was saved; 0 is for ever
	Bytes int64         // of all of them: 64 MiB; those saved longest ago go first. The servers set as much aside
}

var _ channel.Texts = (*Texts)(nil)

const (
	defaultTextBytes = 64 << 20
	maxText          = 512 << 10 // they are far smaller

	headerName = "Text-Name"
	headerGone = "Text-Gone" // of a text that was removed
	goneLife   = time.Minute
)

// OpenTexts opens the texts of an installation that have a name.
func OpenTexts(ctx context.Context, c *cluster.Cluster, o TextsOptions) (*Texts, error) {
	space := strings.ToLower(o.Name)
	stream, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: o.Name, Subjects: []string{c.Subject(space, "*")}, Description: "texts that channels share",
		MaxMsgsPerSubject: 1, MaxAge: o.Life, MaxBytes: cmp.Or(max(o.Bytes, 0), defaultTextBytes), Discard: jetstream.DiscardOld, AllowMsgTTL: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open what channels share: %w", err)
	}
	return &Texts{log: &log{c: c, stream: stream, publish: c.JetStream().PublishMsg}, c: c, space: space}, nil
}

func (t *Texts) subject(name string) string { return t.c.Subject(t.space, cluster.Token(name)) }

// Names implements [channel.WindowStore].
func (t *Texts) Names(ctx context.Context) ([]string, error) {
	type saved struct {
		name string
		seq  uint64
	}
	var all []saved
	err := t.log.each(ctx, t.c.Subject(t.space, "*"), func(_ string, m message) error {
		if m.header.Get(headerGone) == "" {
			all = append(all, saved{m.header.Get(headerName), m.seq})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what channels share: %w", err)
	}
	slices.SortFunc(all, func(a, b saved) int { return cmp.Compare(a.seq, b.seq) })
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	return names, nil
}

// Load implements [channel.WindowStore].
func (t *Texts) Load(ctx context.Context, name string) ([]byte, error) {
	m, err := t.log.last(ctx, t.subject(name))
	if err != nil {
		return nil, fmt.Errorf("read what channels share: %w", err)
	}
	return textOf(m), nil
}

// textOf is nil where there is no text.
func textOf(m message) []byte {
	if m.seq == 0 || m.header.Get(headerGone) != "" {
		return nil
	}
	return append([]byte{}, m.data...) // one that is empty is there
}

// Save implements [channel.WindowStore].
func (t *Texts) Save(ctx context.Context, name string, text []byte) error {
	return t.change(ctx, name, true, func([]byte) ([]byte, error) { return text, nil })
}

// Change implements [channel.Texts].
func (t *Texts) Change(ctx context.Context, name string, do func([]byte) ([]byte, error)) error {
	return t.change(ctx, name, false, do)
}

// change stores what do makes of a text; one that stays as it was only where it is to be the one saved last.
func (t *Texts) change(ctx context.Context, name string, anew bool, do func([]byte) ([]byte, error)) error {
	defer t.locks.lock(name)() // those of one process need not race
	if _, err := t.log.change(ctx, t.subject(name), func(last message) (*step, error) {
		old := textOf(last)
		next, err := do(old)
		switch {
		case err != nil:
			return nil, err
		case len(next) > maxText:
			return nil, fmt.Errorf("a text of %d bytes is too large; expected at most %d", len(next), maxText)
		case old == nil && next == nil, !anew && old != nil && next != nil && string(old) == string(next):
			return nil, nil
		}
		s := &step{header: client.Header{headerName: {name}}, data: next}
		if next == nil {
			s.header.Set(headerGone, "1")
			s.life = goneLife
		}
		return s, nil
	}); err != nil {
		return fmt.Errorf("keep what channels share: %w", err)
	}
	return nil
}
