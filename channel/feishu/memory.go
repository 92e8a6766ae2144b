package feishu

import (
	"container/list"
	"sync"
)

// memory remembers what was seen last of something, and forgets the rest: as much as a server needs, never more.
type memory[V any] struct {
	max int

	mu    sync.Mutex
	items map[string]*list.Element
	order list.List // of *remembered[V]; the oldest is in front
}

type remembered[V any] struct {
	key   string
	value V
}

func newMemory[V any](size int) *memory[V] {
	return &memory[V]{max: size, items: map[string]*list.Element{}}
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.items[key]; at != nil {
		return at.Value.(*remembered[V]).value, true
	}
	var none V
	return none, false
}

func (m *memory[V]) put(key string, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.items[key]; at != nil {
		at.Value.(*remembered[V]).value = value
		m.order.MoveToBack(at)
		return
	}
	m.addLocked(key, value)
}

// once keeps the first value of a key, and returns it.
func (m *memory[V]) once(key string, value V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.items[key]; at != nil {
		return at.Value.(*remembered[V]).value
	}
	m.addLocked(key, value)
	return value
}

func (m *memory[V]) addLocked(key string, value V) {
	m.items[key] = m.order.PushBack(&remembered[V]{key, value})
	if m.order.Len() > m.max {
		delete(m.items, m.order.Remove(m.order.Front()).(*remembered[V]).key)
	}
}
