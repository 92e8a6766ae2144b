package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxList is how long a list of models may be, in bytes; some say thousands of them about each.
const maxList = 8 << 20

// Get asks for JSON that lists models and reads it into what is given; it returns the JSON, too.
func (s *Server) Get(ctx context.Context, url string, into any) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, s.Unreachable(err)
	}
	res, refusal, err := s.Do(req, Accept("application/json"))
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, s.Refused(refusal)
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

// ListModels asks a server that lists its models as OpenAI does for their names, in its order.
func (s *Server) ListModels(ctx context.Context, url string) ([]string, error) {
	var body json.RawMessage
	if _, err := s.Get(ctx, url, &body); err != nil {
		return nil, err
	}
	// Only the names: each server has other types for the rest.
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	// Some send the list without an object around it.
	if err := json.Unmarshal(body, &list); err != nil && json.Unmarshal(body, &list.Data) != nil {
		return nil, s.NotAnswer("a list of models", err, body)
	}
	if list.Data == nil {
		return nil, s.NotAnswer("a list of models", errors.New("no data"), body)
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}
