package openai

import (
	"context"
	"net/http"

	"github.com/lingserve/lingserve/adapter"
)

// lister is a provider whose server says which models it has.
type lister struct{ *provider }

// List asks the server for its models, in its order.
func (p *lister) List(ctx context.Context) ([]string, error) {
	h := http.Header{"Accept": {"application/json"}}
	p.Endpoint.Authorize(h, p.Key())
	return p.ListModels(ctx, p.Models(), h, p.refused)
}

var _ adapter.Lister = (*lister)(nil)
