// Package bedrock speaks the Converse API of Amazon Bedrock: POST /model/MODEL/converse-stream, answered by an AWS event stream. It is
// the same for all models there: Claude, Nova, gpt-oss, Llama, Mistral, DeepSeek, Qwen.
//
// What a model refuses (a cache point, a schema, a temperature) is left out of the next request and remembered for that model.
//
// # Guarantees
//   - A stream that was cut off, or damaged, is an error, never a short answer.
//   - An error that Bedrock sends, as a status or in the stream, is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at once.
//   - Signatures and redacted reasoning go back as they came.
package bedrock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider.
type Options struct {
	Prefix  string // as it is known in model names, default "bedrock"
	Region  string // default: AWS_REGION, AWS_DEFAULT_REGION, or the region of the profile
	Profile string // of ~/.aws/config, default AWS_PROFILE
	BaseURL string // of the runtime, default https://bedrock-runtime.REGION.amazonaws.com
	// ListURL is where the list of models is, default https://bedrock.REGION.amazonaws.com; or BaseURL, where that is not Amazon's.
	ListURL string
	Key     string // a Bedrock API key (AWS_BEARER_TOKEN_BEDROCK); without one requests are signed
	KeyName string // where the key comes from, named in errors; default AWS_BEARER_TOKEN_BEDROCK
	// Credentials sign requests; default: those that the AWS command line would use (variables, files, SSO, roles).
	Credentials aws.CredentialsProvider
	Header      http.Header       // of every request
	Transport   http.RoundTripper // default: a shared one sized for thousands of streams
	ProxyEnv    bool              // with the default transport: go through the proxy that the environment names
	Names       []string          // models to list
	Timeouts    adapter.Timeouts  // Connect is used for dialing
	MaxEvent    int               // bytes of one event, default 4 MiB
}

const (
	defaultKeyName  = "AWS_BEARER_TOKEN_BEDROCK"
	defaultMaxEvent = 4 << 20
	maxName         = 2048 // bytes of a model's name: the API takes as many
)

// New returns a provider, which is an [adapter.Lister]. Errors: a URL that is none, no region, AWS settings that cannot be read.
func New(o Options) (adapter.Provider, error) {
	if o.Prefix == "" {
		o.Prefix = "bedrock"
	}
	if o.KeyName == "" {
		o.KeyName = defaultKeyName
	}
	if o.MaxEvent <= 0 {
		o.MaxEvent = defaultMaxEvent
	}
	auth, err := newAuth(&o)
	if err != nil {
		return nil, fmt.Errorf("the AWS settings of %s: %w", o.Prefix, err)
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(auth.region, "cn-") {
		domain += ".cn"
	}
	if o.BaseURL == "" {
		o.BaseURL = "https://bedrock-runtime." + auth.region + "." + domain
	}
	if o.ListURL == "" {
		o.ListURL = strings.Replace(o.BaseURL, "://bedrock-runtime.", "://bedrock.", 1)
	}
	p := &provider{
		Server: wire.Server{
			Prefix: o.Prefix, KeyName: o.KeyName, Key: auth.secret, Header: o.Header,
			Client: wire.NewClient(o.Transport, adapter.TransportOptions{Connect: o.Timeouts.Connect, ProxyEnv: o.ProxyEnv}),
		},
		auth: auth, base: strings.TrimSuffix(o.BaseURL, "/"), list: strings.TrimSuffix(o.ListURL, "/"), names: o.Names, maxEvent: o.MaxEvent,
	}
	p.Sign = p.sign
	for _, address := range []string{p.base, p.list} {
		u, err := url.Parse(address)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("the base URL of %s: expected one like https://bedrock-runtime.us-east-1.amazonaws.com", o.Prefix)
		}
	}
	return p, nil
}

// provider is Bedrock in one region. It is safe for concurrent use.
type provider struct {
	wire.Server
	auth       *auth
	base, list string // addresses
	names      []string
	maxEvent   int
	lessons    wire.Lessons
}

// Model returns the model of this name: "anthropic.claude-haiku-4-5-20251001-v1:0", an inference profile ("us.amazon.nova-2-lite-v1:0"),
// or an ARN of either. Which there are is only known to Bedrock.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	if len(name) > maxName || name == "." || name == ".." || strings.ContainsFunc(name, notInName) {
		return nil, errors.New("expected a model's id, an inference profile's id or an ARN, of letters, digits and . _ - : /")
	}
	return &model{p: p, name: name, url: p.base + "/model/" + url.QueryEscape(name) + "/converse-stream", family: familyOf(name)}, nil
}

func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._-:/", r)
}

func (p *provider) Names() []string { return p.names }

// model is one model of a provider.
type model struct {
	p      *provider
	name   string
	url    string
	family family
}

// family is a family of models that take what others refuse.
type family int

const (
	anyFamily family = iota
	claude
	nova
	gptOSS
)

func familyOf(name string) family {
	switch {
	case strings.Contains(name, "claude"):
		return claude
	case strings.Contains(name, "amazon.nova"):
		return nova
	case strings.Contains(name, "gpt-oss"):
		return gptOSS
	}
	return anyFamily
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Stream(ctx, m.name, m.p.maxEvent, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, &req) }, m.read)
}
