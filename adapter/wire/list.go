package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxList is how long a list of models may be, in bytes; some say thousands of them about each.
const maxList = 8 << 20

// GetList asks for a list of models: a member with one of these names, or, as some send it, the list without an object around it. It returns
// the models, and what is around them.
func (s *Server) GetList(ctx context.Context, url string, members ...string) (models []Object, around Object, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, s.Unreachable(err)
	}
	res, refusal, err := s.Do(req, Accept("application/json"))
	if err != nil {
		return nil, nil, err
	}
	if refusal != nil {
		return nil, nil, s.Refused(refusal)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return nil, nil, s.Broken(ctx, err)
	}
	around, found := ReadObject(body), false
	if around == nil {
		around = Object{members[0]: json.RawMessage(body)}
	}
	for _, name := range members {
		list, objects := around.List(name), around.Objects(name)
		found = found || list != nil && len(objects) == len(list)
		models = append(models, objects...)
	}
	if !found {
		return nil, nil, s.NotAnswer("a list of models", errors.New("no "+strings.Join(members, " or ")), body)
	}
	return models, around, nil
}

// ListModels asks a server that lists its models as OpenAI does for their names, in its order.
func (s *Server) ListModels(ctx context.Context, url string) ([]string, error) {
	models, _, err := s.GetList(ctx, url, "data")
	names := make([]string, 0, len(models))
	for _, m := range models {
		if id := m.Text("id"); id != "" {
			names = append(names, id)
		}
	}
	return names, err
}
