package bedrock

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// maxList is how long a list of models may be, in bytes; a model takes about 500.
const maxList = 8 << 20

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
	body, err := p.get(ctx, "/foundation-models", &models)
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
	_, err = p.get(ctx, "/inference-profiles?maxResults=1000", &profiles)
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

// get asks for a piece of JSON, which it returns too.
func (p *provider) get(ctx context.Context, path string, into any) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.list+path, nil)
	if err != nil {
		return nil, p.Unreachable(err)
	}
	req.Header.Set("Accept", "application/json")
	if err := p.authorize(req, nil); err != nil {
		return nil, err
	}
	res, refusal, err := p.Do(req, nil)
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
	if err := json.Unmarshal(body, into); err != nil {
		return nil, p.NotAnswer("a list of models", err, body)
	}
	return body, nil
}

var _ adapter.Lister = (*provider)(nil)
