package wire

import (
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/adapter"
)

// NewServer completes a server of a provider: with its key, which comes from the prefix in capitals and "_API_KEY" where s names nothing else,
// and with its client. t nil stands for the transport that all providers with these options share.
func NewServer(s Server, key string, t http.RoundTripper, o adapter.TransportOptions) Server {
	if s.KeyName == "" {
		s.KeyName = strings.ToUpper(strings.ReplaceAll(s.Prefix, "-", "_")) + "_API_KEY"
	}
	s.Key = sync.OnceValue(func() string { return key })
	s.Client = NewClient(t, o)
	return s
}

// BaseURL reads the base URL of a provider; example is one that is right, for the error.
func BaseURL(prefix, address, example string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.Fragment != "" {
		return nil, fmt.Errorf("the base URL of %s: expected one like %s", prefix, example)
	}
	return base, nil
}

// Parts returns what a model has said in its order, each call with the part that stands for it. Of a message without Made that is its text and
// its calls. Calls that no part names come last; a part that names none of the message's calls has nil.
func Parts(m *adapter.Message) iter.Seq2[*adapter.MadePart, *adapter.ToolCall] {
	return func(yield func(*adapter.MadePart, *adapter.ToolCall) bool) {
		text := adapter.MadePart{Type: adapter.PartText, Text: m.Content}
		for i := range m.Parts {
			text.Text += m.Parts[i].Text
		}
		parts := []adapter.MadePart{text}
		if m.Made != nil {
			parts = m.Made.Parts
		}
		calls := slices.Clone(m.ToolCalls)
		for i := range parts {
			var call *adapter.ToolCall
			if parts[i].Type == adapter.PartCall {
				if at := slices.IndexFunc(calls, func(c adapter.ToolCall) bool { return c.ID == parts[i].Call }); at >= 0 {
					call = new(calls[at])
					calls = slices.Delete(calls, at, at+1)
				}
			}
			if !yield(&parts[i], call) {
				return
			}
		}
		for i := range calls {
			if !yield(&adapter.MadePart{Type: adapter.PartCall, Call: calls[i].ID}, &calls[i]) {
				return
			}
		}
	}
}
