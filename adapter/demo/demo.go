// Package demo is a model that needs no network and no account: a scripted, deterministic stand-in that says so. It answers
// in-process over the OpenAI wire format, so that everything but the far end is the real path.
package demo

import "github.com/lingserve/lingserve/adapter"

// Options are the settings of the demo model.
type Options struct {
	Pace float64 // tokens per second, default 50; negative: as fast as it can
}

// New returns the provider. Its models: "demo" (the default), and "fast", the same without pace.
func New(o *Options) adapter.Provider { panic("demo: not built yet") }
