package openai

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	goopenai "github.com/sashabaranov/go-openai"
)

// azure is this adapter at Azure's addresses.
var azure = adaptertest.Subject{
	Prefix:  "azure",
	KeyName: "AZURE_OPENAI_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newAzure(t, Options{
			Prefix: "azure", BaseURL: o.BaseURL, Key: o.Key, KeyName: "AZURE_OPENAI_API_KEY",
			Transport: o.Transport, MaxEvent: o.MaxEvent,
		}, "")
	},
	Wire: subject.Wire,
}

// AD-02: Azure is held to the same as all others.
func TestAzureSuite(t *testing.T) { adaptertest.Run(t, azure) }

// What Azure sends that others do not.
func TestRecordedStreamsOfAzureGiveTheirChunks(t *testing.T) {
	adaptertest.Recorded(t, azure, "testdata/azure/*.txtar", *update)
}

// asks returns the first request that is made through a client.
func asks(t *testing.T, ask func(transport func(*http.Request) (*http.Response, error))) *http.Request {
	t.Helper()
	var got *http.Request
	ask(func(r *http.Request) (*http.Response, error) {
		if got == nil {
			got = r
		}
		return bodyOf(func() io.Reader { return strings.NewReader(textEvent("a") + finish) }).RoundTrip(r)
	})
	if got == nil {
		t.Fatal("nothing was asked")
	}
	return got
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// azureAt makes a provider of Azure at an address.
func azureAt(base, version string) func(Options) (adapter.Provider, error) {
	return func(o Options) (adapter.Provider, error) {
		o.BaseURL = base
		return NewAzure(o, version)
	}
}

// AD-02: the address and the key's header are those of go-openai's own client, for OpenAI, for Azure by its deployments, and for
// Azure by /openai/v1.
func TestAddressesAreThoseOfGoOpenAI(t *testing.T) {
	plain, old := goopenai.DefaultConfig("k"), goopenai.DefaultAzureConfig("k", "https://x.openai.azure.com/")
	old.APIVersion, old.AzureModelMapperFunc = "2024-10-21", func(name string) string { return name }
	late := goopenai.DefaultAzureConfig("k", "https://x.openai.azure.com/openai/v1/")
	late.APIType, late.APIVersion = goopenai.APITypeCloudflareAzure, ""
	for _, row := range []struct {
		name    string
		theirs  goopenai.ClientConfig
		ours    func(Options) (adapter.Provider, error)
		model   string
		address string
	}{
		{"OpenAI", plain, New, "gpt-4o", "https://api.openai.com/v1/chat/completions"},
		{
			"Azure by its deployments", old,
			azureAt("https://x.openai.azure.com", ""),
			"gpt-4o",
			"https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
		},
		{
			"Azure with a dot in the name of a deployment", old,
			azureAt("https://x.openai.azure.com/", ""),
			"gpt-4.1-mini",
			"https://x.openai.azure.com/openai/deployments/gpt-4.1-mini/chat/completions?api-version=2024-10-21",
		},
		{
			"Azure with a name that the default would change", old,
			azureAt("https://x.openai.azure.com/", ""),
			"gpt-3.5-turbo",
			"https://x.openai.azure.com/openai/deployments/gpt-3.5-turbo/chat/completions?api-version=2024-10-21",
		},
		{
			"Azure without versions", late,
			azureAt("https://x.openai.azure.com/openai/v1", "2024-10-21"),
			"gpt-4o",
			"https://x.openai.azure.com/openai/v1/chat/completions",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			theirs := asks(t, func(transport func(*http.Request) (*http.Response, error)) {
				row.theirs.HTTPClient = doer(transport)
				stream, err := goopenai.NewClientWithConfig(row.theirs).CreateChatCompletionStream(t.Context(), goopenai.ChatCompletionRequest{Model: row.model})
				if err != nil {
					t.Fatal(err)
				}
				stream.Close()
			})
			ours := asks(t, func(transport func(*http.Request) (*http.Response, error)) {
				p, err := row.ours(Options{Key: "k", Transport: roundTripper(transport)})
				if err != nil {
					t.Fatal(err)
				}
				m, err := p.Model(row.model)
				if err != nil {
					t.Fatal(err)
				}
				if text, err := collect(m, t.Context()); text != "a" || err != nil {
					t.Errorf("%q %v", text, err)
				}
			})
			if theirs.URL.String() != row.address {
				t.Errorf("go-openai asks %s", theirs.URL)
			}
			if ours.URL.String() != row.address || ours.Method != theirs.Method {
				t.Errorf("%s %s", ours.Method, ours.URL)
			}
			for _, name := range []string{"Authorization", "Api-Key", "Content-Type", "Accept"} {
				if diff := cmp.Diff(theirs.Header[name], ours.Header[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// The list of models is asked for as go-openai's client does; only of its answer no more is taken than the names.
func TestTheListIsAskedForAsGoOpenAIDoes(t *testing.T) {
	config := goopenai.DefaultConfig("k")
	theirs := asks(t, func(transport func(*http.Request) (*http.Response, error)) {
		config.HTTPClient = doer(transport)
		if _, err := goopenai.NewClientWithConfig(config).ListModels(t.Context()); err == nil {
			t.Error("a list of models in an answer that is none")
		}
	})
	ours := asks(t, func(transport func(*http.Request) (*http.Response, error)) {
		if _, err := newProvider(t, Options{Key: "k", Transport: roundTripper(transport)}).(adapter.Lister).List(t.Context()); err == nil {
			t.Error("a list of models in an answer that is none")
		}
	})
	for _, header := range []string{"Authorization", "Accept"} {
		if ours.Header.Get(header) != theirs.Header.Get(header) {
			t.Errorf("%s: %q, go-openai has %q", header, ours.Header.Get(header), theirs.Header.Get(header))
		}
	}
	if ours.URL.String() != theirs.URL.String() || ours.Method != theirs.Method {
		t.Errorf("%s %s, go-openai asks %s %s", ours.Method, ours.URL, theirs.Method, theirs.URL)
	}
}

// Azure's addresses in the forms in which its pages show them.
func TestAzureInAllFormsOfItsAddress(t *testing.T) {
	const deployment = "https://x.openai.azure.com/openai/deployments/my.gpt/chat/completions?api-version="
	for _, row := range []struct{ base, version, want string }{
		{"https://x.openai.azure.com/openai", "", deployment + "2024-10-21"},
		{"https://x.openai.azure.com/openai/", "2025-04-01-preview", deployment + "2025-04-01-preview"},
		{"https://x.openai.azure.com/?api-version=2024-06-01", "2024-10-21", deployment + "2024-06-01"},
		{"https://x.openai.azure.com/openai/deployments/other", "2024-06-01", "https://x.openai.azure.com/openai/deployments/other/chat/completions?api-version=2024-06-01"},
		{deployment + "2024-02-01", "2024-06-01", deployment + "2024-02-01"},
		{"https://x.cognitiveservices.azure.com", "1", "https://x.cognitiveservices.azure.com/openai/deployments/my.gpt/chat/completions?api-version=1"},
		{"https://gateway.example/azure?tenant=a", "1", "https://gateway.example/azure/openai/deployments/my.gpt/chat/completions?api-version=1&tenant=a"},
		{"https://x.openai.azure.com/openai/v1/", "", "https://x.openai.azure.com/openai/v1/chat/completions"},
		{"https://x.openai.azure.com", "v1", "https://x.openai.azure.com/openai/v1/chat/completions"},
		{"https://x.openai.azure.com/openai/v1", "preview", "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview"},
		{"https://x.services.ai.azure.com/models", "2024-05-01-preview", "https://x.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview"},
	} {
		p := newAzure(t, Options{Prefix: "azure", BaseURL: row.base}, row.version)
		m, err := p.Model("my.gpt")
		if err != nil {
			t.Fatal(err)
		}
		if got := m.(*model).url; got != row.want {
			t.Errorf("%s %s: %s", row.base, row.version, got)
		}
		if _, lists := p.(adapter.Lister); lists {
			t.Errorf("%s: it lists models that are no deployments", row.base)
		}
	}
	for _, name := range []string{".", "..", "a/b"} {
		if _, err := newAzure(t, Options{BaseURL: endpoint.AzureURL}, "").Model(name); err == nil {
			t.Errorf("a deployment called %q", name)
		}
	}
	_, err := NewAzure(Options{Prefix: "azure"}, "")
	if err == nil || !strings.Contains(err.Error(), "https://NAME.openai.azure.com") {
		t.Errorf("%v", err)
	}
}

// Whatever the names of models are, and callers may name them: what is asked is below the base URL, at its host, with its query.
func FuzzEndpoint(f *testing.F) {
	for _, base := range []string{"", "http://h/v1", "https://x.openai.azure.com/openai/", "https://h/a%2Fb?q=1", "https://h/a%2F/b%2F", "http://h/?api-version=1", "http://[::1]:80/openai/v1"} {
		for _, name := range []string{"gpt-4o", "llama3:8b", "..", "a/../../b", "a?b#c", "%2e%2e/x", "é 🙂"} {
			f.Add(base, name, true)
			f.Add(base, name, false)
		}
	}
	f.Fuzz(func(t *testing.T, base, name string, azure bool) {
		create := New
		if azure {
			create = azureAt(base, "")
		}
		p, err := create(Options{BaseURL: base})
		if err != nil {
			return
		}
		m, err := p.Model(name)
		if err != nil {
			return
		}
		var address string
		switch m := m.(type) {
		case *model:
			address = m.url
		default:
			t.Fatalf("%T", m)
		}
		if base == "" {
			base = endpoint.DefaultURL
		}
		want, _ := url.Parse(base)
		got, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got.Scheme != want.Scheme || got.Host != want.Host || got.User.String() != want.User.String() || got.Fragment != "" {
			t.Errorf("%s: %s", base, got)
		}
		below := strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(want.JoinPath().Path, "/"), "/chat/completions"), "/openai")
		if path := got.JoinPath().Path; !strings.HasPrefix(path, below) || !strings.HasSuffix(path, "/chat/completions") {
			t.Errorf("%s: %s", base, got)
		}
		for key, values := range want.Query() {
			if key != "api-version" && !slices.Equal(got.Query()[key], values) {
				t.Errorf("%s: %s", base, got)
			}
		}
	})
}

// A list of models comes in more forms than one.
func TestListsOfModelsInAllTheirForms(t *testing.T) {
	for _, row := range []struct{ name, base, body, want, address string }{
		{"OpenAI's", "http://h/v1", `{"object":"list","data":[{"id":"b","object":"model","created":1},{"id":"a"}]}`, "b a", "http://h/v1/models"},
		{"with other types", "http://h/v1/", `{"data":[{"id":"a","created":"yesterday","pricing":{}},{"name":"no id"}]}`, "a", "http://h/v1/models"},
		{"without an object around it", "http://h/v1/chat/completions", `[{"id":"a"}]`, "a", "http://h/v1/models"},
		{"none", "http://h/v1?tenant=t", `{"data":[]}`, "", "http://h/v1/models?tenant=t"},
		{"an error with status 200", "http://h", `{"error":"no"}`, "error", "http://h/models"},
		{"of another kind", "http://h", `[1]`, "error", "http://h/models"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked string
			p := newProvider(t, Options{BaseURL: row.base, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = r.Method + " " + r.URL.String()
				return bodyOf(func() io.Reader { return strings.NewReader(row.body) }).RoundTrip(r)
			})})
			names, err := p.(adapter.Lister).List(t.Context())
			if e, failed := errors.AsType[*adapter.Error](err); row.want == "error" {
				if !failed || e.Message != "the model's server (openai) did not answer with a list of models" {
					t.Errorf("%q %v", names, err)
				}
			} else if strings.Join(names, " ") != row.want || err != nil {
				t.Errorf("%q %v", names, err)
			}
			if asked != "GET "+row.address {
				t.Error(asked)
			}
		})
	}
}

// What errors call the key is the provider's own (SE-06, AD-06).
func TestAKeyHasTheNameOfItsPrefix(t *testing.T) {
	for _, row := range []struct{ prefix, name, says string }{
		{"mine-2", "", "the model's server (mine-2) refused the key: check MINE_2_API_KEY"},
		{"qwen", "DASHSCOPE_API_KEY", "the model's server (qwen) refused the key: check DASHSCOPE_API_KEY"},
	} {
		p := newProvider(t, Options{Prefix: row.prefix, Key: "k", KeyName: row.name, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 401, Body: http.NoBody}, nil
		})})
		m, _ := p.Model("m")
		if _, err := collect(m, t.Context()); err == nil || err.Error() != row.says {
			t.Errorf("%v", err)
		}
	}
}
