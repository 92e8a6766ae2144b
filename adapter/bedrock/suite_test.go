package bedrock

import (
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// Nothing of the machine's own AWS settings is read, and no server is asked for any.
func TestMain(m *testing.M) {
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("AWS_CONFIG_FILE", os.DevNull)
	os.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	os.Exit(m.Run())
}

const (
	haiku  = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
	opus   = "global.anthropic.claude-opus-4-6-v1"
	lite   = "us.amazon.nova-2-lite-v1:0"
	gptoss = "openai.gpt-oss-120b-1:0"
)

var subject = adaptertest.Subject{
	Prefix:  "bedrock",
	Model:   haiku,
	KeyName: "AWS_BEARER_TOKEN_BEDROCK",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{
			BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent,
		}, AWS{Region: "us-east-1"})
	},
	Wire: adaptertest.Bedrock,
}

// AD-04, MO-32: the promises that all adapters make.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

func newProvider(t testing.TB, o Options, at AWS) adapter.Provider {
	t.Helper()
	p, err := New(o, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
