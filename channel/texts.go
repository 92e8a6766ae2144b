package channel

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Texts keeps small texts by name: [NewTexts] in memory, or a table of a database. Several goroutines, and processes with the same table, may
// use it at once. Nobody changes a text that was passed or returned.
type Texts interface {
	// Load returns a text; nil is none.
	Load(_ context.Context, name string) ([]byte, error)
	// Change replaces a text by what do makes of it; nil is none, both ways. do is called again if another process was faster; it must be
	// quick and must not use Texts. Its error is Change's, and leaves the text as it was.
	Change(_ context.Context, name string, do func(text []byte) ([]byte, error)) error
	// All returns the texts whose names begin with prefix.
	All(_ context.Context, prefix string) (map[string][]byte, error)
}

// memoryTexts are Texts of one process.
type memoryTexts struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, []byte]
}

// NewTexts returns Texts in memory. Beyond most, the text that was changed longest ago goes; 0 is no bound.
func NewTexts(most int) Texts {
	if most <= 0 {
		most = math.MaxInt
	}
	known, _ := simplelru.NewLRU[string, []byte](most, nil) // it fails for a size below 1 only
	return &memoryTexts{known: known}
}

// Load implements [Texts].
func (m *memoryTexts) Load(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, _ := m.known.Peek(name)
	return text, nil
}

// Change implements [Texts].
func (m *memoryTexts) Change(_ context.Context, name string, do func([]byte) ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, _ := m.known.Peek(name)
	next, err := do(old)
	if err == nil {
		err = checkText(next)
	}
	if err != nil || sameText(old, next) {
		return err
	}
	if next == nil {
		m.known.Remove(name)
	} else {
		m.known.Add(name, next)
	}
	return nil
}

// All implements [Texts].
func (m *memoryTexts) All(_ context.Context, prefix string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]byte{}
	for _, name := range m.known.Keys() {
		if strings.HasPrefix(name, prefix) {
			all[name], _ = m.known.Peek(name)
		}
	}
	return all, nil
}

const maxText = 512 << 10 // texts are far smaller

func checkText(text []byte) error {
	if len(text) > maxText {
		return fmt.Errorf("channel: a text of %d bytes is too large; expected at most %d", len(text), maxText)
	}
	return nil
}

// sameText reports whether a text stays as it was; a text that is empty is not none.
func sameText(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
