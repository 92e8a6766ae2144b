package anthropic

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/adapter"
)

// maxPages is how many pages of 1000 models a list may have.
const maxPages = 20

// List asks the server for its models, in its order.
func (p *provider) List(ctx context.Context) ([]string, error) {
	names, at := []string{}, p.models
	query := at.Query()
	query.Set("limit", "1000")
	for range maxPages {
		at.RawQuery = query.Encode()
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			More bool   `json:"has_more"`
			Last string `json:"last_id"`
		}
		body, err := p.Get(ctx, at.String(), p.header("application/json"), &list, p.Refused)
		if err == nil && list.Data == nil {
			err = p.NotAnswer("a list of models", errors.New("no data"), body)
		}
		if err != nil {
			return nil, err
		}
		for _, m := range list.Data {
			if m.ID != "" {
				names = append(names, m.ID)
			}
		}
		if !list.More || list.Last == "" {
			break
		}
		query.Set("after_id", list.Last)
	}
	return names, nil
}

var _ adapter.Lister = (*provider)(nil)
