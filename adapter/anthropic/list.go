package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

const (
	maxList  = 8 << 20 // bytes of one page of the list of models
	maxPages = 20      // of 1000 models each
)

// List asks the server for its models, in its order.
func (p *provider) List(ctx context.Context) ([]string, error) {
	names := []string{}
	for after, page := "", 0; page < maxPages; page++ {
		at := p.models
		query := at.Query()
		query.Set("limit", "1000")
		if after != "" {
			query.Set("after_id", after)
		}
		at.RawQuery = query.Encode()
		body, err := p.get(ctx, at.String())
		if err != nil {
			return nil, err
		}
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			More bool   `json:"has_more"`
			Last string `json:"last_id"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, p.NotAnswer("a list of models", err, body)
		}
		if list.Data == nil {
			return nil, p.NotAnswer("a list of models", errors.New("no data"), body)
		}
		for _, m := range list.Data {
			if m.ID != "" {
				names = append(names, m.ID)
			}
		}
		if !list.More || list.Last == "" || list.Last == after {
			break
		}
		after = list.Last
	}
	return names, nil
}

func (p *provider) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, p.Unreachable(err)
	}
	res, refusal, err := p.Do(req, p.header("application/json"))
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, p.Refused(refusal)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return nil, p.Broken(ctx, err)
	}
	return body, nil
}

var _ interface {
	adapter.Provider
	adapter.Lister
} = (*provider)(nil)
