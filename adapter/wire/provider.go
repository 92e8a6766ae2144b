package wire

import (
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// Options are the settings that every provider has.
type Options struct {
	Prefix    string            // as it is known in model names; default by the adapter
	BaseURL   string            // default by the adapter
	Key       string            // an API key; "" sends none
	KeyNow    func() string     // the key at the time of a request, where it may change; Key is the first
	KeyName   string            // where the key comes from, named in errors; default the prefix in capitals and "_API_KEY"
	Header    http.Header       // of every request, over what the adapter sends
	Transport http.RoundTripper // default: a shared one sized for thousands of streams
	Names     []string          // models to list
	MaxEvent  int               // bytes of one event, default 4 MiB
}

const defaultMaxEvent = 4 << 20

// NewServer returns the server that these options describe. Its key is a bearer token.
func NewServer(o Options) Server {
	if o.KeyName == "" {
		o.KeyName = strings.ToUpper(strings.ReplaceAll(o.Prefix, "-", "_")) + "_API_KEY"
	}
	if o.MaxEvent <= 0 {
		o.MaxEvent = defaultMaxEvent
	}
	key := o.KeyNow
	if key == nil {
		key = func() string { return o.Key }
	}
	if o.Transport == nil {
		o.Transport = adapter.Transport(adapter.TransportOptions{})
	}
	return Server{
		Prefix: o.Prefix, KeyName: o.KeyName, Key: key, Header: o.Header, Listed: o.Names, MaxEvent: o.MaxEvent,
		Client: &http.Client{
			Transport: o.Transport,
			// A redirect would carry the key and the prompt to wherever it says.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Authorize: func(h http.Header) {
			if key := key(); key != "" {
				h.Set("Authorization", "Bearer "+key)
			}
		},
	}
}

// Names lists the models that the settings name.
func (s *Server) Names() []string { return s.Listed }

// BaseURL reads the base URL of a provider; example is a right one, for the error.
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
