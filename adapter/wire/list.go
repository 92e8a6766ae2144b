package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/lingserve/lingserve/adapter"
)

// maxList is how long a list of models may be, in bytes; some say thousands of them about each.
const maxList = 8 << 20

// Get asks for JSON that lists models and reads it into what is given; it returns the JSON, too. refused makes the error of a refusal.
func (s *Server) Get(ctx context.Context, url string, header http.Header, into any, refused func(*Refusal) *adapter.Error) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, s.Unreachable(err)
	}
	res, refusal, err := s.Do(req, header)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refused(refusal)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return nil, s.Broken(ctx, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return body, s.NotAnswer("a list of models", err, body)
	}
	return body, nil
}

// ListModels asks a server that lists its models as OpenAI does for their names, in its order. refused makes the error of a refusal.
func (s *Server) ListModels(ctx context.Context, url string, header http.Header, refused func(*Refusal) *adapter.Error) ([]string, error) {
	names, _, err := s.listPage(ctx, url, header, refused)
	return names, err
}

// maxPages is how many pages of 1000 models a list may have.
const maxPages = 20

// ListPages is ListModels for a server that lists its models in pages as Anthropic does.
func (s *Server) ListPages(ctx context.Context, at url.URL, header http.Header, refused func(*Refusal) *adapter.Error) ([]string, error) {
	names := []string{}
	query := at.Query()
	query.Set("limit", "1000")
	for range maxPages {
		at.RawQuery = query.Encode()
		page, last, err := s.listPage(ctx, at.String(), header, refused)
		if err != nil {
			return nil, err
		}
		if names = append(names, page...); last == "" {
			break
		}
		query.Set("after_id", last)
	}
	return names, nil
}

// listPage returns the names of a page and, where there is one more, the last of them.
func (s *Server) listPage(
	ctx context.Context, url string, header http.Header, refused func(*Refusal) *adapter.Error,
) (names []string, last string, err error) {
	var body json.RawMessage
	if _, err := s.Get(ctx, url, header, &body, refused); err != nil {
		return nil, "", err
	}
	// Only the names: each server has other types for the rest.
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		More bool   `json:"has_more"`
		Last string `json:"last_id"`
	}
	// Some send the list without an object around it.
	if err := json.Unmarshal(body, &list); err != nil && json.Unmarshal(body, &list.Data) != nil {
		return nil, "", s.NotAnswer("a list of models", err, body)
	}
	if list.Data == nil {
		return nil, "", s.NotAnswer("a list of models", errors.New("no data"), body)
	}
	names = make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	if !list.More {
		list.Last = ""
	}
	return names, list.Last, nil
}
