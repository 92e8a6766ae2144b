package bedrock

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// List asks for the models and inference profiles of the region that can be asked as they are named; they come sorted.
func (p *provider) List(ctx context.Context) ([]string, error) {
	var models struct {
		List *[]struct {
			ID        string   `json:"modelId"`
			Outputs   []string `json:"outputModalities"`
			Inference []string `json:"inferenceTypesSupported"`
			Streams   *bool    `json:"responseStreamingSupported"`
		} `json:"modelSummaries"`
	}
	body, err := p.Get(ctx, p.list+"/foundation-models", &models)
	if err == nil && models.List == nil {
		err = p.NotAnswer("a list of models", errors.New("no modelSummaries"), body)
	}
	if err != nil {
		return nil, err
	}
	names := []string{}
	has := func(list []string, what string) bool { return len(list) == 0 || slices.Contains(list, what) }
	for _, m := range *models.List {
		if has(m.Outputs, "TEXT") && has(m.Inference, "ON_DEMAND") && (m.Streams == nil || *m.Streams) {
			names = append(names, m.ID)
		}
	}
	var profiles struct {
		List []struct {
			ID string `json:"inferenceProfileId"`
		} `json:"inferenceProfileSummaries"`
	}
	_, err = p.Get(ctx, p.list+"/inference-profiles?maxResults=1000", &profiles)
	if e, ok := errors.AsType[*adapter.Error](err); err != nil && (!ok || e.Status != http.StatusForbidden) { // the right to list them is another one
		return nil, err
	}
	for _, profile := range profiles.List {
		names = append(names, profile.ID)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, err := p.Model(name); return err != nil })
	slices.Sort(names)
	return slices.Compact(names), nil
}

var _ adapter.Lister = (*provider)(nil)
