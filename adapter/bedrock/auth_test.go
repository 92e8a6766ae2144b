package bedrock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// whole is an answer.
func whole() io.Reader {
	w := adaptertest.Bedrock
	return strings.NewReader(w.Open + w.Text("ok") + w.Finish + w.Done)
}

// asked returns the request that a provider sends.
func asked(t *testing.T, o Options, at AWS, name string) (req *http.Request, body []byte) {
	t.Helper()
	o.Transport = transport(func(r *http.Request) (*http.Response, error) {
		req = r.Clone(context.Background())
		body, _ = io.ReadAll(r.Body)
		return streaming(whole()).RoundTrip(r)
	})
	m, err := newProvider(t, o, at).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(t, m, adapter.Request{Messages: question}); err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
	return req, body
}

func static(t time.Time) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIATEST", SecretAccessKey: "secret-CANARY", SessionToken: "token-CANARY", CanExpire: !t.IsZero(), Expires: t}, nil
	})
}

// MO-30: requests are signed with what is sent: the header of settings, the body, the address with the model's name in it.
func TestRequestsAreSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0"
		req, body := asked(t, Options{Header: http.Header{"X-Amzn-Bedrock-Trace": {"ENABLED"}}}, AWS{Region: "eu-west-1", Credentials: static(time.Time{})}, name)
		if want := "https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream"; req.URL.String() != want {
			t.Errorf("%s", req.URL)
		}
		got := req.Header.Get("Authorization")
		if !strings.Contains(got, "/eu-west-1/bedrock/aws4_request") || !strings.Contains(got, "x-amzn-bedrock-trace") || req.Header.Get("X-Amz-Security-Token") != "token-CANARY" {
			t.Errorf("%s", got)
		}
		// The same request, signed once more, has the same signature.
		second, err := http.NewRequest(http.MethodPost, req.URL.String(), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range []string{"Content-Type", "Accept", "X-Amzn-Bedrock-Trace"} {
			second.Header.Set(header, req.Header.Get(header))
		}
		credentials, _ := static(time.Time{}).Retrieve(t.Context())
		if err := v4.NewSigner().SignHTTP(t.Context(), credentials, second, fmt.Sprintf("%x", sha256.Sum256(body)), "bedrock", "eu-west-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		if want := second.Header.Get("Authorization"); got != want {
			t.Errorf("%s\n%s", got, want)
		}
	})
}

// MO-30: a key goes before credentials, and needs none.
func TestAKeyIsABearerToken(t *testing.T) {
	req, _ := asked(t, Options{Key: "test-key"}, AWS{Region: "cn-north-1"}, lite)
	if req.Header.Get("Authorization") != "Bearer test-key" || req.URL.Host != "bedrock-runtime.cn-north-1.amazonaws.com.cn" {
		t.Errorf("%s %s", req.URL, req.Header)
	}
}

// MO-31: the variables and files that people already have.
func TestAWSSettingsAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[profile work]\nregion = ap-south-1\naws_access_key_id = AKIAWORK\naws_secret_access_key = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		env    map[string]string
		at     AWS
		base   string
		region string
		key    string
	}{
		"variables":        {map[string]string{"AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "x"}, AWS{}, "", "us-west-2", "AKIAENV"},
		"default region":   {map[string]string{"AWS_DEFAULT_REGION": "us-west-1", "AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "x"}, AWS{}, "", "us-west-1", "AKIAENV"},
		"a profile":        {map[string]string{"AWS_PROFILE": "work", "AWS_CONFIG_FILE": file}, AWS{}, "", "ap-south-1", "AKIAWORK"},
		"a named profile":  {map[string]string{"AWS_CONFIG_FILE": file}, AWS{Profile: "work"}, "", "ap-south-1", "AKIAWORK"},
		"a region of ours": {map[string]string{"AWS_REGION": "us-west-2", "AWS_PROFILE": "work", "AWS_CONFIG_FILE": file}, AWS{Region: "eu-north-1"}, "", "eu-north-1", "AKIAWORK"},
		"an address":       {map[string]string{"AWS_PROFILE": "work", "AWS_CONFIG_FILE": file}, AWS{}, "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/", "us-gov-west-1", "AKIAWORK"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range row.env {
				t.Setenv(name, value)
			}
			req, _ := asked(t, Options{BaseURL: row.base}, row.at, lite)
			if got := req.Header.Get("Authorization"); !strings.Contains(got, "Credential="+row.key+"/") || !strings.Contains(got, "/"+row.region+"/bedrock/") || !strings.Contains(req.URL.Host, row.region) {
				t.Errorf("%s %s", req.URL, got)
			}
		})
	}
}

func TestSettingsThatAreMissingAreSaid(t *testing.T) {
	for _, row := range []struct {
		says string
		o    Options
		at   AWS
	}{
		{"set AWS_REGION", Options{Key: "test-key"}, AWS{}},
		{"the base URL", Options{Key: "test-key", BaseURL: "bedrock"}, AWS{Region: "us-east-1"}},
		{"profile", Options{}, AWS{Profile: "no-such", Region: "us-east-1"}},
	} {
		if _, err := New(row.o, row.at); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%+v %+v: %v", row.o, row.at, err)
		}
	}
	p := newProvider(t, Options{Key: "test-key"}, AWS{Region: "us-east-1"})
	for _, name := range []string{"", ".", "..", "a b", "a?b", "a%2e", strings.Repeat("a", 3000)} {
		if _, err := p.Model(name); err == nil {
			t.Errorf("%q is a model", name)
		}
	}
}

// AD-01: looking for credentials ends with the context, and what is wrong with them is an error that says what to set.
func TestCredentialsThatDoNotCome(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	at := AWS{Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		cancel(why)
		<-ctx.Done()
		return aws.Credentials{}, ctx.Err()
	})}
	m, _ := newProvider(t, Options{}, at).Model(lite)
	for _, err := range m.Stream(ctx, adapter.Request{Messages: question}) {
		if !errors.Is(err, why) {
			t.Error(err)
		}
	}
	m, _ = newProvider(t, Options{}, AWS{Region: "us-east-1"}).Model(lite) // nothing is set
	for _, err := range m.Stream(t.Context(), adapter.Request{Messages: question}) {
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeAuth || !strings.Contains(e.Message, "AWS_BEARER_TOKEN_BEDROCK") {
			t.Error(err)
		}
	}
}

// SE-06: Amazon quotes the request when its signature is wrong; the token in it is not logged. Printing shows no credentials.
func TestCredentialsAreNotShown(t *testing.T) {
	p := newProvider(t, Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		said := `{"message":"The Canonical String for this request should have been x-amz-security-token:` + r.Header.Get("X-Amz-Security-Token") + ` secret-CANARY"}`
		return (&adaptertest.Answering{Status: 403, Type: "application/json", Header: http.Header{"X-Amzn-Errortype": {"InvalidSignatureException"}}, Body: strings.NewReader(said)}).RoundTrip(r)
	})}, AWS{Region: "us-east-1", Credentials: static(time.Time{})})
	m, _ := p.Model(lite)
	_, err := collect(t, m, adapter.Request{Messages: question})
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Code != adapter.CodeAuth || !strings.Contains(e.Message, "AWS credentials") || !strings.Contains(e.Cause.Error(), "Canonical String") {
		t.Errorf("%v", err)
	}
	if said := fmt.Sprintf("%v %+v %#v %s %q %v", p, p, p, p, m, e.Cause); strings.Contains(said, "CANARY") {
		t.Errorf("a secret is in %s", said)
	}
}

// The list has the models and the inference profiles that can be asked; it is at another host than the models.
func TestTheListHasModelsAndProfiles(t *testing.T) {
	var hosts []string
	status := http.StatusOK
	p := newProvider(t, Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Host+r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/inference-profiles") {
			return (&adaptertest.Answering{Status: status, Body: strings.NewReader(`{"inferenceProfileSummaries":[{"inferenceProfileId":"us.amazon.nova-2-lite-v1:0"}]}`)}).RoundTrip(r)
		}
		return (&adaptertest.Answering{Body: strings.NewReader(`{"modelSummaries":[
			{"modelId":"openai.gpt-oss-120b-1:0","outputModalities":["TEXT"],"responseStreamingSupported":true,"inferenceTypesSupported":["ON_DEMAND"]},
			{"modelId":"amazon.nova-2-lite-v1:0","outputModalities":["TEXT"],"inferenceTypesSupported":["INFERENCE_PROFILE"]},
			{"modelId":"amazon.titan-embed-text-v2:0","outputModalities":["EMBEDDING"],"inferenceTypesSupported":["ON_DEMAND"]},
			{"modelId":"a.whole-1","outputModalities":["TEXT"],"responseStreamingSupported":false,"inferenceTypesSupported":["ON_DEMAND"]}]}`)}).RoundTrip(r)
	})}, AWS{Region: "us-east-1", Credentials: static(time.Time{})}).(adapter.Lister)
	names, err := p.List(t.Context())
	if want := []string{"openai.gpt-oss-120b-1:0", "us.amazon.nova-2-lite-v1:0"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q %v", names, err)
	}
	if want := []string{"bedrock.us-east-1.amazonaws.com/foundation-models", "bedrock.us-east-1.amazonaws.com/inference-profiles"}; !slices.Equal(hosts, want) {
		t.Errorf("%q", hosts)
	}
	status = http.StatusForbidden
	if names, err := p.List(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("%q %v", names, err)
	}
}
