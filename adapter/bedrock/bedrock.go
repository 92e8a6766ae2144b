// Package bedrock speaks the Converse API of Amazon Bedrock: POST /model/MODEL/converse-stream, answered by an AWS event stream. It is
// the same for all models there: Claude, Nova, gpt-oss, Llama, Mistral, DeepSeek, Qwen.
//
// If a model refuses what the adapter adds by itself (a cache point, a schema), the adapter asks once more without it.
//
// # Guarantees
//   - A stream that was cut off, or damaged, is an error, never a short answer.
//   - An error that Bedrock sends, as a status or in the stream, is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at once.
//   - Signatures and redacted reasoning go back as they came.
package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "bedrock"; BaseURL is that of the runtime, default
// https://bedrock-runtime.REGION.amazonaws.com; Key is a Bedrock API key, without one requests are signed; the default of KeyName is
// AWS_BEARER_TOKEN_BEDROCK.
type Options = wire.Options

// AWS is where Bedrock is, and who asks.
type AWS struct {
	Region  string // default: AWS_REGION, AWS_DEFAULT_REGION, or the region of the profile
	Profile string // of ~/.aws/config, default AWS_PROFILE
	// Credentials sign requests; default: those that the AWS command line would use (variables, files, SSO, roles).
	Credentials aws.CredentialsProvider
}

// modelName is a model's id, an inference profile's id or an ARN.
var modelName = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)

const maxName = 2048 // bytes of a model's name: the API takes as many

// New returns a provider, which is an [adapter.Lister]. Errors: a URL that is none, no region, AWS settings that cannot be read.
func New(o Options, at AWS) (adapter.Provider, error) {
	o.Prefix, o.KeyName = cmp.Or(o.Prefix, "bedrock"), cmp.Or(o.KeyName, "AWS_BEARER_TOKEN_BEDROCK")
	auth, err := newAuth(&o, &at)
	if err != nil {
		return nil, fmt.Errorf("the AWS settings of %s: %w", o.Prefix, err)
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(auth.region, "cn-") {
		domain += ".cn"
	}
	o.BaseURL = cmp.Or(o.BaseURL, "https://bedrock-runtime."+auth.region+"."+domain)
	if u, err := wire.BaseURL(o.Prefix, o.BaseURL, exampleURL); err != nil {
		return nil, err
	} else if u.RawQuery != "" {
		return nil, fmt.Errorf("the base URL of %s: expected one without a query, like %s", o.Prefix, exampleURL)
	}
	p := &provider{Server: wire.NewServer(o), auth: auth, base: strings.TrimSuffix(o.BaseURL, "/")}
	p.list = strings.Replace(p.base, "://bedrock-runtime.", "://bedrock.", 1)
	auth.key = p.Key
	p.Key, p.Sign, p.Explain, p.Accept = auth.secret, p.sign, p.explain, wire.AWSStreamType
	return p, nil
}

const exampleURL = "https://bedrock-runtime.us-east-1.amazonaws.com"

// provider is Bedrock in one region. It is safe for concurrent use.
type provider struct {
	wire.Server
	auth       *auth
	base, list string // addresses; the second is that of the models, which is the first where that is not Amazon's
}

// Model returns the model of this name: "anthropic.claude-haiku-4-5-20251001-v1:0", an inference profile ("us.amazon.nova-2-lite-v1:0"),
// or an ARN of either. Which there are is only known to Bedrock.
func (p *provider) Model(name string) (adapter.Model, error) {
	if len(name) > maxName || name == "." || name == ".." || !modelName.MatchString(name) {
		return nil, errors.New("expected a model's id, an inference profile's id or an ARN, of letters, digits and . _ - : /")
	}
	return &model{p: p, name: name, url: p.base + "/model/" + url.QueryEscape(name) + "/converse-stream", family: familyOf(name)}, nil
}

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
	return m.p.Answer(ctx, m.name, m.url, &asking{model: m, req: &req}, m.read)
}
