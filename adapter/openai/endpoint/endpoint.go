// Package endpoint makes the addresses of servers that speak as OpenAI does, Azure's among them, and the header that has their key.
package endpoint

import (
	"net/http"
	"net/url"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"
)

const (
	// AzureURL is an example of an endpoint of Azure's.
	AzureURL = "https://NAME.openai.azure.com"
	// defaultVersion is the last version of Azure's API that was declared generally available before /openai/v1 did away with
	// them. It has all that is sent: streamed usage, tools, JSON Schema.
	defaultVersion = "2024-10-21"
	completions    = "/chat/completions"
	responses      = "/responses"
)

// Endpoint knows where a server takes requests. What kind of server it is, and so how its addresses are made and which header
// has the key, is go-openai's configuration, without the key.
type Endpoint struct {
	base   url.URL // what comes before /chat/completions or /responses or, for Azure's deployments, before /openai; with the query
	config goopenai.ClientConfig
}

// New reads a base URL, which may end in the path of a call. version is that of Azure's API, where the URL has none.
func New(base url.URL, azure bool, version string) Endpoint {
	query := base.Query()
	if v := query.Get("api-version"); v != "" {
		azure, version = true, v
	}
	trim := func(suffix string) {
		base.RawPath = strings.TrimSuffix(strings.TrimRight(base.EscapedPath(), "/"), suffix) // %2F at the end is part of a name
		base.Path, _ = url.PathUnescape(base.RawPath)                                         // of a path that was read: cannot fail
	}
	trim(completions)
	trim(responses)
	config := goopenai.DefaultConfig("")
	if azure {
		config = goopenai.DefaultAzureConfig("", "")
		// The default takes dots and colons out of names. Deployments may have dots in theirs, and have no colons.
		config.AzureModelMapperFunc = nil
		if config.APIVersion = version; version == "" {
			config.APIVersion = defaultVersion
		}
		switch {
		case strings.HasSuffix(base.Path, "/openai/v1"):
			// As OpenAI's, but for the header: go-openai knows that of Cloudflare. A version that is a date is of the old addresses.
			config.APIType = goopenai.APITypeCloudflareAzure
			if strings.HasPrefix(config.APIVersion, "20") {
				config.APIVersion = ""
			}
		case strings.Contains(base.Path, "/deployments/") || strings.HasSuffix(base.Path, "/models"):
			config.APIType = goopenai.APITypeCloudflareAzure // of one deployment, or of all by the model that a request names
		default:
			trim("/openai")
		}
	}
	query.Del("api-version")
	if config.APIVersion != "" {
		query.Set("api-version", config.APIVersion)
	}
	base.RawQuery = query.Encode()
	return Endpoint{base: base, config: config}
}

// Azure says whether the server is Azure's.
func (e *Endpoint) Azure() bool { return e.config.APIType != goopenai.APITypeOpenAI }

// Chat returns the address of chat completions.
func (e *Endpoint) Chat(model string) string {
	if e.config.APIType == goopenai.APITypeAzure {
		return e.base.JoinPath("openai", "deployments", url.PathEscape(e.config.GetAzureDeploymentByModel(model)), completions).String()
	}
	return e.base.JoinPath(completions).String()
}

// Responses returns the address of responses.
func (e *Endpoint) Responses() string {
	if e.config.APIType == goopenai.APITypeAzure {
		return e.base.JoinPath("openai", responses).String() // deployments are named in the body
	}
	return e.base.JoinPath(responses).String()
}

// Models returns the address of the list of models.
func (e *Endpoint) Models() string { return e.base.JoinPath("models").String() }

// Authorize puts the key into a header.
func (e *Endpoint) Authorize(h http.Header, key string) {
	switch {
	case key == "":
	case e.Azure():
		h.Set(goopenai.AzureAPIKeyHeader, key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}
