package bedrock

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// List asks for the models and inference profiles of the region that can be asked as they are named; they come sorted.
func (p *provider) List(ctx context.Context) ([]string, error) {
	models, _, err := p.GetList(ctx, p.list+"/foundation-models", "modelSummaries")
	if err != nil {
		return nil, err
	}
	names := []string{}
	has := func(m wire.Object, list, word string) bool {
		return !m.Has(list) || strings.Contains(string(m[list]), word)
	}
	for _, m := range models {
		writes, streams := has(m, "outputModalities", `"TEXT"`), has(m, "responseStreamingSupported", "true")
		if writes && streams && has(m, "inferenceTypesSupported", `"ON_DEMAND"`) {
			names = append(names, m.Text("modelId"))
		}
	}
	profiles, _, err := p.GetList(ctx, p.list+"/inference-profiles?maxResults=1000", "inferenceProfileSummaries")
	if e, ok := errors.AsType[*adapter.Error](err); err != nil && (!ok || e.Status != http.StatusForbidden) { // the right to list them is another one
		return nil, err
	}
	for _, profile := range profiles {
		names = append(names, profile.Text("inferenceProfileId"))
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, err := p.Model(name); return err != nil })
	slices.Sort(names)
	return slices.Compact(names), nil
}

var _ adapter.Lister = (*provider)(nil)
