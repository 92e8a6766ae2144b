package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
	"github.com/lingserve/lingserve/adapter"
)

// auth is what requests are authorized with: a key, or credentials that sign them. Both are behind functions, so that printing a provider
// does not print them.
type auth struct {
	key         func() string                                  // "" without one
	credentials func(context.Context) (aws.Credentials, error) // nil with a key
	region      string
	signer      *v4.Signer
	used        atomic.Pointer[aws.Credentials] // those of the last request
}

// regionOf finds the region in an address of Amazon's: bedrock-runtime.us-east-1.amazonaws.com.
var regionOf = regexp.MustCompile(`[/.]bedrock-runtime[^./]*\.([^./:]+)\.`)

// newAuth reads the AWS settings, so far as the options leave something to them. It asks no server: credentials are looked for by the first
// request.
func newAuth(o *Options, at *AWS) (*auth, error) {
	key := o.Key
	a := &auth{region: at.Region, signer: v4.NewSigner()}
	if at.Credentials != nil {
		a.credentials = at.Credentials.Retrieve
	}
	if found := regionOf.FindStringSubmatch(o.BaseURL); found != nil {
		a.region = cmp.Or(a.region, found[1])
	}
	needsRegion := a.region == "" && (key == "" || o.BaseURL == "")
	if !needsRegion && (key != "" || a.credentials != nil) {
		return a, nil
	}
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})} // it would write to stderr by itself
	if at.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(at.Profile))
	}
	settings, err := config.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, err
	}
	if a.region = cmp.Or(a.region, settings.Region); a.region == "" && needsRegion {
		return nil, errors.New("no region: set AWS_REGION, such as us-east-1")
	}
	if key == "" && a.credentials == nil {
		a.credentials = settings.Credentials.Retrieve
	}
	return a, nil
}

// secret is what must not be in a log.
func (a *auth) secret() string {
	if c := a.used.Load(); c != nil {
		return c.SecretAccessKey
	}
	return a.key()
}

// hide takes out of an answer what Amazon quotes of a request whose signature is wrong.
func (a *auth) hide(said []byte) []byte {
	if c := a.used.Load(); c != nil && c.SessionToken != "" {
		return bytes.ReplaceAll(said, []byte(c.SessionToken), []byte("***"))
	}
	return said
}

// sign signs a request that has no key. It is complete with that: what is signed is what is sent.
func (p *provider) sign(req *http.Request) error {
	if p.auth.key() != "" {
		return nil
	}
	ctx := req.Context()
	credentials, err := p.auth.credentials(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &adapter.Error{
			Code:    adapter.CodeAuth,
			Message: p.Name() + " asks for a key: set " + p.KeyName + ", or the AWS credentials of the AWS command line",
			Cause:   adapter.RedactError(err, p.Key()),
		}
	}
	p.auth.used.Store(&credentials)
	sum := sha256.New()
	if req.GetBody != nil {
		body, _ := req.GetBody() // of bytes: cannot fail
		io.Copy(sum, body)
	}
	if err := p.auth.signer.SignHTTP(ctx, credentials, req, hex.EncodeToString(sum.Sum(nil)), "bedrock", p.auth.region, time.Now()); err != nil {
		return &adapter.Error{Code: adapter.CodeAuth, Message: p.Name() + " cannot be used: the AWS credentials cannot sign requests", Cause: adapter.RedactError(err, p.Key())}
	}
	return nil
}
