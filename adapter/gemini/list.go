package gemini

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

const (
	maxPages = 50 // of a list of models
	pageSize = "1000"
)

// List asks the server for its models, in its order. Those that cannot generate content are left out.
func (p *provider) List(ctx context.Context) (names []string, err error) {
	header := p.header("application/json")
	path := []string{"models"}
	if p.vertex {
		path = []string{"publishers", "google", "models"}
	}
	type entry struct {
		Name    string   `json:"name"`
		Methods []string `json:"supportedGenerationMethods"`
	}
	for next, page := "", 0; page == 0 || next != "" && page < maxPages; page++ {
		var list struct {
			Models    []entry `json:"models"`
			Published []entry `json:"publisherModels"` // Vertex AI's
			Next      string  `json:"nextPageToken"`
		}
		body, err := p.Get(ctx, p.address(path, "pageSize", pageSize, "pageToken", next), header, &list, p.refused)
		if err != nil {
			return nil, err
		}
		if list.Models == nil && list.Published == nil {
			return nil, p.NotAnswer("a list of models", errors.New("no models"), body)
		}
		for _, m := range append(list.Models, list.Published...) {
			name := m.Name[strings.LastIndexByte(m.Name, '/')+1:]
			if name != "" && (m.Methods == nil || slices.Contains(m.Methods, "generateContent")) {
				names = append(names, name)
			}
		}
		next = list.Next
	}
	return names, nil
}

var _ adapter.Lister = (*provider)(nil)
