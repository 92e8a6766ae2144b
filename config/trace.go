package config

// Traces says who is told what a trace is called. Whether there are traces, and where they go, is said by the variables of
// OpenTelemetry alone, as in every other program.
type Traces struct{ Propagate []string }

var traceSettings = []Setting{
	{
		Key: "traces.propagate", Default: "",
		Help: "names of the providers and of the MCP servers that are told which trace a request belongs to (traceparent of W3C Trace Context), " +
			"separated by commas; such as are your own, since others learn from it which requests belong together",
		field: func(c *Config) any { return &c.Traces.Propagate },
	},
}
