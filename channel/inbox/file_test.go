package inbox_test

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/storetest/file"
)

// process is an inbox in a folder, with its engine.
type process struct {
	*inbox.Inbox
	e store.Engine
}

// tryOpen opens the inbox in a folder.
func tryOpen(t testing.TB, dir vfs.Dir, o inbox.Options) (*process, error) {
	t.Helper()
	e, err := file.Open(dir, file.Options{Log: o.Log})
	if err != nil {
		return nil, err
	}
	j, err := inbox.Open(t.Context(), e, o)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return &process{j, e}, nil
}

func open(t testing.TB, dir vfs.Dir, o inbox.Options) *process {
	t.Helper()
	p, err := tryOpen(t, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// Close ends the process as it should.
func (p *process) Close() error {
	err := p.Inbox.Close()
	if again := p.e.Close(); err == nil {
		err = again
	}
	return err
}

// Abandon ends the process at once.
func (p *process) Abandon() {
	p.Inbox.Abandon(nil)
	_ = p.e.Close()
}

func accept(t testing.TB, j channel.Journal, k channel.EventKey, raw string) {
	t.Helper()
	if isNew, err := j.Accept(t.Context(), k, []byte(raw)); err != nil || !isNew {
		t.Fatalf("Accept of %s is %v, %v, expected it to be new", k, isNew, err)
	}
}

func settle(t testing.TB, j channel.Journal, k channel.EventKey) {
	t.Helper()
	c, state, err := j.Claim(t.Context(), k)
	if err != nil || c == nil {
		t.Fatalf("Claim of %s is %q, %v", k, state, err)
	}
	if err := c.Commit(t.Context(), channel.OutcomeVisible); err != nil {
		t.Fatal(err)
	}
}

func pending(t testing.TB, j channel.Journal) (raws []string) {
	t.Helper()
	for e, err := range j.Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, string(e.Raw))
	}
	return raws
}

func key(i int) channel.EventKey {
	return channel.EventKey{Channel: "fake", Conversation: fmt.Sprint("c", i%7), ID: fmt.Sprint(i)}
}
