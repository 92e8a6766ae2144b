package config

// Traces says who gets the ids of traces. OpenTelemetry's own variables say whether traces are recorded, and where they go.
type Traces struct{ Propagate []string }

var traceSettings = []Setting{
	{Key: "traces.propagate", Help: "providers and MCP servers that get a request's trace (traceparent); name only your own"},
}
