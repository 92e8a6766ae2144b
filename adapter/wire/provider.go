package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/heavy"
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

// Write makes the body of a request: what is sent, with extra members over its own. join lays them over; nil is [Body].
func (s *Server) Write(req *adapter.Request, sent any, join func(any, map[string]json.RawMessage) ([]byte, error)) (body []byte, err error) {
	if join == nil {
		join = Body
	}
	heavy.Do(int(req.Size()), func() { body, err = join(sent, req.ExtraBody) })
	if err != nil {
		return nil, &adapter.Error{
			Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema, or a member of extra_body, is not JSON",
			Cause: adapter.RedactError(err, s.Key()),
		}
	}
	return body, nil
}
