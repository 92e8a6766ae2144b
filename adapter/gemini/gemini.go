// Package gemini speaks Google's generateContent: the Gemini API, and Vertex AI under its own addresses and credentials.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - Thought signatures go back byte for byte, on the part that they came with (MO-02).
//   - If a model refuses what the adapter adds by itself (a signature, a schema), the adapter asks once more without it.
//   - One event gives one chunk for each of its parts: nothing waits for more than what it is part of.
package gemini

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "gemini", or "vertex"; BaseURL is what comes before /models, or before
// /projects of Vertex AI, and gets a version (/v1beta) where it has none; MaxEvent is at least 32 MiB for models of images, which send an image
// as one event.
type Options = wire.Options

// Vertex is a place in Google's cloud.
type Vertex struct {
	Project  string // may be empty with a key
	Location string // a region, "us", "eu" or "global"; default "global"
}

const (
	defaultURL    = "https://generativelanguage.googleapis.com"
	imageMaxEvent = 32 << 20
)

// version is the last part of a base URL that has one.
var version = regexp.MustCompile(`/v[0-9]+((alpha|beta)[0-9]*)?$`)

// New returns a provider for the Gemini API, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "gemini"), cmp.Or(o.BaseURL, defaultURL)
	return providerAt(o, "v1beta")
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
	p := &provider{Server: wire.NewServer(o), base: *base, catalog: "models/"}
	p.Authorize = func(h http.Header) {
		if key := p.Key(); key != "" && p.tokens == nil { // a token is added when the request is complete
			h.Set("X-Goog-Api-Key", key)
		}
	}
	return p, nil
}

// provider is one server. It is safe for concurrent use.
type provider struct {
	wire.Server
	base    url.URL // with the version
	catalog string  // the path of Google's models, with a slash at its end
	place   string  // of Vertex AI: projects/P/locations/L/
	tokens  *tokens // nil where there is a key
}

// Model returns the model of this name, which may have its publisher in front: publishers/google/models/NAME, models/NAME or google/NAME.
func (p *provider) Model(name string) (adapter.Model, error) {
	path := strings.Split(p.path(name), "/")
	for i, part := range path {
		if strings.Trim(part, ".") == "" {
			return nil, fmt.Errorf("invalid model name %q", name) // it would be another address
		}
		path[i] = url.PathEscape(part)
	}
	address := p.address(strings.Join(path, "/")+":streamGenerateContent", url.Values{"alt": {"sse"}})
	return &model{p: p, name: name, url: address, generation: generation(name)}, nil
}

// path returns where a model is, from the version on.
func (p *provider) path(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	last := name[strings.LastIndexByte(name, '/')+1:]
	switch vertex := p.catalog != "models/"; {
	case vertex && first == "projects", !vertex && first == "tunedModels":
		return name
	case vertex && (first == "publishers" || first == "endpoints"):
		return p.place + name
	case vertex && rest == last && first != "models":
		return p.place + "publishers/" + first + "/models/" + last
	}
	return p.place + p.catalog + last
}

// address returns an address on the server.
func (p *provider) address(path string, query url.Values) string {
	u := p.base.JoinPath(path)
	maps.Copy(query, u.Query())
	u.RawQuery = query.Encode()
	return u.String()
}

// maxPages is how many pages a list of models may have.
const maxPages = 50

// List asks the server for its models, in its order. Those that cannot generate content are left out.
func (p *provider) List(ctx context.Context) (names []string, err error) {
	query := url.Values{"pageSize": {"1000"}} // a server may send fewer
	for range maxPages {
		address := p.address(p.catalog[:len(p.catalog)-1], query)
		models, page, err := p.GetList(ctx, address, "models", "publisherModels") // the second is Vertex AI's
		if err != nil {
			return nil, err
		}
		for _, m := range models {
			methods, path := m["supportedGenerationMethods"], m.Text("name")
			name := path[strings.LastIndexByte(path, '/')+1:]
			if name != "" && (methods == nil || strings.Contains(string(methods), `"generateContent"`)) {
				names = append(names, name)
			}
		}
		next := page.Text("nextPageToken")
		if next == "" {
			break
		}
		query.Set("pageToken", next)
	}
	return names, nil
}

var _ adapter.Lister = (*provider)(nil)

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

// gemini3 reports whether the model is known to be Gemini 3 or a later one.
func (m *model) gemini3() bool { return m.generation >= 30 || m.generation > 0 && m.nameHas("-latest") }

// nameHas reports whether a word is part of the model's name.
func (m *model) nameHas(word string) bool { return strings.Contains(strings.ToLower(m.name), word) }

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Answer(ctx, m.name, m.url, &asking{model: m, req: &req}, m.read)
}
