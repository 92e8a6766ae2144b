// Package openai speaks the chat completions format of OpenAI and of every server compatible with it.
package openai

import (
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// Options are the settings of a provider.
type Options struct {
	Prefix    string // as it is known in model names, default "openai"
	BaseURL   string // default the OpenAI API's
	Key       string
	Transport http.RoundTripper // default: a shared one sized for thousands of streams
	Names     []string          // models to list
	Timeouts  adapter.Timeouts  // Connect is used for dialing
	MaxEvent  int               // bytes of one event, default 4 MiB
}

// New returns a provider. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) { panic("openai: not built yet") }
