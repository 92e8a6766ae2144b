package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
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

type memoryTexts struct {
	mu    sync.Mutex
	texts map[string][]byte
}

// NewTexts returns Texts in memory.
func NewTexts() Texts { return &memoryTexts{texts: map[string][]byte{}} }

// Load implements [Texts].
func (m *memoryTexts) Load(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[name], nil
}

// Change implements [Texts].
func (m *memoryTexts) Change(_ context.Context, name string, do func([]byte) ([]byte, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := do(m.texts[name])
	switch {
	case err != nil:
		return err
	case next == nil:
		delete(m.texts, name)
	default:
		m.texts[name] = next
	}
	return nil
}

// All implements [Texts].
func (m *memoryTexts) All(_ context.Context, prefix string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.texts)
	maps.DeleteFunc(all, func(name string, _ []byte) bool { return !strings.HasPrefix(name, prefix) })
	return all, nil
}

// values stores values as JSON in texts.
type values[T any] struct{ texts Texts }

func newValues[T any](texts Texts) values[T] {
	if texts == nil {
		texts = NewTexts()
	}
	return values[T]{texts}
}

var errDamaged = errors.New("channel: a stored value is damaged")

// load returns a value; nil for none.
func (v values[T]) load(ctx context.Context, name string) (*T, error) {
	text, err := v.texts.Load(ctx, name)
	if err != nil || text == nil {
		return nil, err
	}
	value := new(T)
	if json.Unmarshal(text, value) != nil {
		return nil, errDamaged
	}
	return value, nil
}

// change replaces a value by the result of do; nil removes it. do gets nil if there is no value, or a damaged one. It is called again if another process was
// faster.
func (v values[T]) change(ctx context.Context, name string, do func(*T) *T) error {
	return v.texts.Change(ctx, name, func(text []byte) ([]byte, error) {
		old := new(T)
		if text == nil || json.Unmarshal(text, old) != nil {
			old = nil
		}
		next := do(old)
		if next == nil {
			return nil, nil
		}
		return json.Marshal(next)
	})
}

// hashedName returns the name of a value in a store, which does not reveal what it is made of.
func hashedName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Exclusive lets one of several processes do what one alone may do, such as asking a platform for the events of an account.
type Exclusive interface {
	// Only waits until this process is the one for what has a name; an error is that of ctx, or that the others cannot be asked any more. alone
	// ends with ctx, and when another process may be the one. The caller ends what it does then, and calls release.
	Only(ctx context.Context, name string) (alone context.Context, release func(), err error)
}
