// Package gemini speaks Google's generateContent: the Gemini API, and Vertex AI under its own addresses and credentials.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - Thought signatures go back byte for byte, on the part that they came with (MO-02).
//   - If a model refuses a field (a signature, a schema, a kind of thinking), the adapter asks once more without it and remembers that.
//   - One event gives one chunk for each of its parts: nothing waits for more than what it is part of.
package gemini

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "gemini", or "vertex"; BaseURL is what comes before /models, or before
// /projects of Vertex AI, and gets a version (/v1beta) where it has none; MaxEvent is by default 32 MiB of models for images, where an image is one
// event.
type Options = wire.Options

// Vertex is a place in Google's cloud.
type Vertex struct {
	Project  string // may be empty with a key
	Location string // a region, "us", "eu" or "global"; default "global"
}

const (
	defaultURL    = "https://generativelanguage.googleapis.com"
	imageMaxEvent = 32 << 20
	global        = "global"
)

// version is the last part of a base URL that has one.
var version = regexp.MustCompile(`/v[0-9]+((alpha|beta)[0-9]*)?$`)

// New returns a provider for the Gemini API, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "gemini"), cmp.Or(o.BaseURL, defaultURL)
	return providerAt(o, "v1beta")
}

// NewVertex returns a provider for Vertex AI, which is an [adapter.Lister]. Vertex AI takes a key in its express mode; without one it is asked with
// Google's application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's own, or those of a machine in
// Google's cloud. Errors: a BaseURL that is no http(s) URL; no project.
func NewVertex(o Options, at Vertex) (adapter.Provider, error) {
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "vertex"), cmp.Or(o.BaseURL, vertexURL(at.Location))
	if o.Key == "" {
		o.KeyName = cmp.Or(o.KeyName, "GOOGLE_APPLICATION_CREDENTIALS")
	}
	p, err := providerAt(o, "v1beta1")
	if err != nil {
		return nil, err
	}
	if p.vertex = true; o.Key == "" {
		p.tokens = &tokens{turn: make(chan struct{}, 1), client: p.Client}
		p.Key = p.tokens.last // so that a token is taken out of what is logged
	}
	switch {
	case at.Project != "":
		p.place = []string{"projects", at.Project, "locations", cmp.Or(at.Location, global)}
	case o.Key == "":
		return nil, fmt.Errorf("%s: expected the ID of a project in Google's cloud", o.Prefix)
	}
	return p, nil
}

func providerAt(o Options, api string) (*provider, error) {
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, defaultURL)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimRight(base.Path, "/")
	if !version.MatchString(base.Path) {
		base = base.JoinPath(api)
	}
	return &provider{Server: wire.NewServer(o), base: *base, maxEvent: max(o.MaxEvent, 0)}, nil
}

// vertexURL is where Vertex AI answers for a location.
func vertexURL(location string) string {
	switch location {
	case "", global:
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-aiplatform.googleapis.com"
}

// provider is one server and what is known of it. It is safe for concurrent use.
type provider struct {
	wire.Server
	base     url.URL // with the version
	vertex   bool
	place    []string     // of Vertex AI: projects/P/locations/L
	tokens   *tokens      // nil where there is a key
	maxEvent int          // 0 is the default
	learned  wire.Lessons // see giveIn
}

// Model returns the model of this name, which may have its publisher in front: publishers/google/models/NAME, models/NAME or google/NAME.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	path := p.path(name)
	for i, part := range path {
		if part == "" || part == "." || part == ".." {
			return nil, fmt.Errorf("no model can be called %q", name) // it would be another address
		}
		path[i] = url.PathEscape(part)
	}
	path[len(path)-1] += ":streamGenerateContent"
	return &model{p: p, name: name, url: p.address(path, "alt", "sse"), generation: generation(name)}, nil
}

// address returns an address on the server, with more parameters: names and values. One that is empty is left out.
func (p *provider) address(path []string, more ...string) string {
	u := p.base.JoinPath(path...)
	query := u.Query()
	for i := 0; i < len(more); i += 2 {
		if more[i+1] != "" {
			query.Set(more[i], more[i+1])
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// path returns where a model is, from the version on.
func (p *provider) path(name string) []string {
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	if !p.vertex {
		if parts[0] == "tunedModels" {
			return parts
		}
		return []string{"models", last}
	}
	switch {
	case parts[0] == "projects":
		return parts
	case parts[0] == "publishers" || parts[0] == "endpoints":
	case len(parts) == 2 && parts[0] != "models":
		parts = []string{"publishers", parts[0], "models", last}
	default:
		parts = []string{"publishers", "google", "models", last}
	}
	return slices.Concat(p.place, parts)
}

// header returns what every request needs.
func (p *provider) header(ctx context.Context, accept string) (http.Header, error) {
	h := http.Header{"Accept": {accept}}
	if p.tokens == nil {
		if key := p.Key(); key != "" {
			h.Set("X-Goog-Api-Key", key)
		}
		return h, nil
	}
	token, err := p.tokens.get(ctx)
	if err != nil {
		return nil, p.noToken(ctx, err)
	}
	h.Set("Authorization", "Bearer "+token)
	return h, nil
}

// model is one model of a provider.
type model struct {
	p          *provider
	name       string
	url        string
	generation int // 25 is Gemini 2.5, 30 is Gemini 3; 0 is not known
}

var generations = regexp.MustCompile(`^gemini-([0-9])(?:\.([0-9]))?(?:-|$)`)

// generation reads the version of Gemini out of a model's name.
func generation(name string) int {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	if found := generations.FindStringSubmatch(name); found != nil {
		n, _ := strconv.Atoi(found[1] + cmp.Or(found[2], "0"))
		return n
	}
	if strings.HasPrefix(name, "gemini-") && strings.HasSuffix(name, "-latest") {
		return 25 // or later: what Gemini 2.5 understands, the later ones do, too
	}
	return 0
}

// says reports whether a word is part of the model's name.
func (m *model) says(word string) bool { return strings.Contains(strings.ToLower(m.name), word) }

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Stream(ctx, m.name, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, req) }, m.read)
}
