package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

const (
	maxList  = 8 << 20 // bytes of a page of a list of models
	maxPages = 50      // of 1000 models
)

// List asks the server for its models, in its order. Those that cannot generate content are left out.
func (p *provider) List(ctx context.Context) (names []string, err error) {
	path := []string{"models"}
	if p.vertex {
		path = []string{"publishers", "google", "models"}
	}
	u := p.base.JoinPath(path...)
	query := u.Query()
	query.Set("pageSize", "1000")
	for range maxPages {
		u.RawQuery = query.Encode()
		next, page, err := p.page(ctx, u.String())
		if err != nil {
			return nil, err
		}
		names = append(names, page...)
		if next == "" {
			break
		}
		query.Set("pageToken", next)
	}
	return names, nil
}

// page asks for one page of the list.
func (p *provider) page(ctx context.Context, url string) (next string, names []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", nil, p.Unreachable(err)
	}
	header, err := p.header(ctx, "application/json")
	if err != nil {
		return "", nil, err
	}
	res, refusal, err := p.Do(req, header)
	if err != nil {
		return "", nil, err
	}
	if refusal != nil {
		return "", nil, p.refused(refusal)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return "", nil, p.Broken(ctx, err)
	}
	type entry struct {
		Name    string   `json:"name"`
		Methods []string `json:"supportedGenerationMethods"`
	}
	var list struct {
		Models    []entry `json:"models"`
		Published []entry `json:"publisherModels"` // Vertex AI's
		Next      string  `json:"nextPageToken"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", nil, p.NotAnswer("a list of models", err, body)
	}
	if list.Models == nil && list.Published == nil {
		return "", nil, p.NotAnswer("a list of models", errors.New("no models"), body)
	}
	for _, m := range append(list.Models, list.Published...) {
		name := m.Name[strings.LastIndexByte(m.Name, '/')+1:]
		if name != "" && (m.Methods == nil || slices.Contains(m.Methods, "generateContent")) {
			names = append(names, name)
		}
	}
	return list.Next, names, nil
}

var _ adapter.Lister = (*provider)(nil)
