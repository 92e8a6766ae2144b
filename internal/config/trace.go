package config

// Traces says who is told what a trace is called. Whether there are traces, and where they go, is said by the variables of
// OpenTelemetry alone, as in every other program.
type Traces struct{ Propagate []string }

var traceSettings = []Setting{
	{Key: "traces.propagate", Help: "providers and MCP servers that get a request's trace (traceparent); name only your own"},
}
