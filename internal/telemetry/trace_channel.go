package telemetry

import "go.opentelemetry.io/otel/trace"

// Channels returns the tracer of channels' turns: a message that comes from a platform begins a trace, as a request does. It is nil if spans go nowhere.
func (t *Traces) Channels() trace.Tracer {
	if p := t.Provider(); p != nil {
		return p.Tracer("github.com/lingserve/lingserve/channel")
	}
	return nil
}
