package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// maxList is how long a list of models may be, in bytes; some say thousands of them about each.
const maxList = 8 << 20

// lister is a provider whose server says which models it has.
type lister struct{ *provider }

// List asks the server for its models, in its order.
func (p *lister) List(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.models(), nil)
	if err != nil {
		return nil, p.Unreachable(err)
	}
	h := http.Header{"Accept": {"application/json"}}
	p.authorize(h, p.Key())
	res, refusal, err := p.Do(req, h)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, p.refused(refusal)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return nil, p.Broken(ctx, err)
	}
	// Only the names: what else compatible servers say of a model, each says in types of its own.
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	// Some send the list without an object around it.
	if err := json.Unmarshal(body, &list); err != nil && json.Unmarshal(body, &list.Data) != nil {
		return nil, p.NotAnswer("a list of models", err, body)
	}
	if list.Data == nil {
		return nil, p.NotAnswer("a list of models", errors.New("no data"), body)
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

var _ adapter.Lister = (*lister)(nil)
