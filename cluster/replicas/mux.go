package replicas

import (
	"context"
	"sync"
)

// Mux lets several users share a bus: each has requests with a command of its own.
type Mux struct {
	bus Bus

	mu    sync.Mutex
	serve map[string]func(Message, func(Message)) // by command; "": all other commands
}

// NewMux returns a mux of a bus that nobody else serves.
func NewMux(bus Bus) (*Mux, error) {
	m := &Mux{bus: bus, serve: map[string]func(Message, func(Message)){}}
	_, err := bus.Serve(m.take) // until the bus ends
	return m, err
}

func (m *Mux) take(request Message, answer func(Message)) {
	m.mu.Lock()
	serve, known := m.serve[request.Command]
	if !known {
		serve = m.serve[""]
	}
	m.mu.Unlock()
	if serve == nil {
		answer(NobodyServes())
		return
	}
	serve(request, answer)
}

// Of returns the bus of a command, which it sets in each request. The bus of "" has all commands that no other has.
func (m *Mux) Of(command string) Bus { return &muxed{m, command} }

type muxed struct {
	mux     *Mux
	command string
}

// Ask implements [Bus].
func (b *muxed) Ask(ctx context.Context, replica string, request Message) (Message, error) {
	if b.command != "" {
		request.Command = b.command
	}
	return b.mux.bus.Ask(ctx, replica, request)
}

// Serve implements [Bus].
func (b *muxed) Serve(serve func(Message, func(Message))) (stop func(), err error) {
	b.mux.mu.Lock()
	defer b.mux.mu.Unlock()
	b.mux.serve[b.command] = serve
	return func() {
		b.mux.mu.Lock()
		defer b.mux.mu.Unlock()
		b.mux.serve[b.command] = nil
	}, nil
}
