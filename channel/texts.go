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

// Texts stores small texts by name: [NewTexts] in memory, or a table of a database. Goroutines and processes can use it concurrently. A text
// that was passed or returned must not be changed.
type Texts interface {
	// Load returns a text, or nil for none.
	Load(_ context.Context, name string) ([]byte, error)
	// Change replaces a text by the result of do; nil means no text. do is called again if another process was faster. It must be quick and
	// must not use Texts. Change returns its error and then does not change the text.
	Change(_ context.Context, name string, do func(text []byte) ([]byte, error)) error
	// All returns the texts whose names begin with prefix.
	All(_ context.Context, prefix string) (map[string][]byte, error)
}

const maxText = 512 << 10 // texts are far smaller

type memoryTexts struct {
	mu    sync.Mutex
	texts *simplelru.LRU[string, []byte]
}

// NewTexts returns Texts in memory for limit texts; then the one that was changed longest ago is dropped. 0 is no limit.
func NewTexts(limit int) Texts {
	if limit <= 0 {
		limit = math.MaxInt
	}
	texts, _ := simplelru.NewLRU[string, []byte](limit, nil) // it fails only for a size below 1
	return &memoryTexts{texts: texts}
}

// Load implements [Texts].
func (m *memoryTexts) Load(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, _ := m.texts.Peek(name)
	return text, nil
}

// Change implements [Texts].
func (m *memoryTexts) Change(_ context.Context, name string, do func([]byte) ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, _ := m.texts.Peek(name)
	next, err := do(old)
	switch {
	case err != nil:
		return err
	case len(next) > maxText:
		return fmt.Errorf("channel: a text of %d bytes is too large; expected at most %d", len(next), maxText)
	case (old == nil) == (next == nil) && bytes.Equal(old, next): // not a change; an empty text is a text
	case next == nil:
		m.texts.Remove(name)
	default:
		m.texts.Add(name, next)
	}
	return nil
}

// All implements [Texts].
func (m *memoryTexts) All(_ context.Context, prefix string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]byte{}
	for _, name := range m.texts.Keys() {
		if strings.HasPrefix(name, prefix) {
			all[name], _ = m.texts.Peek(name)
		}
	}
	return all, nil
}
