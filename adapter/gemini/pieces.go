package gemini

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// functionCall is a call. Vertex AI sends one in pieces where streamFunctionCallArguments was asked for: a piece has values by their
// paths ("$.place.days[0]"), and says whether another follows.
type functionCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Args      json.RawMessage `json:"args"`
	Pieces    []argument      `json:"partialArgs"`
	Continues bool            `json:"willContinue"`
}

type argument struct {
	Path   string       `json:"jsonPath"`
	String *string      `json:"stringValue"`
	Number *json.Number `json:"numberValue"`
	Bool   *bool        `json:"boolValue"`
}

// pieces is a call whose arguments are being joined.
type pieces struct {
	index  int
	args   any
	beside map[string]json.RawMessage
}

// piece joins a piece to its call.
func (a *answer) piece(c *functionCall, beside map[string]json.RawMessage) error {
	p := a.pieces
	if p.beside == nil {
		p.beside = beside
	}
	for name, value := range beside {
		p.beside[name] = value
	}
	for _, arg := range c.Pieces {
		p.args = put(p.args, steps(arg.Path), arg)
	}
	if c.Continues {
		return nil
	}
	return a.endPieces()
}

// endPieces passes on the arguments of a call that came in pieces.
func (a *answer) endPieces() error {
	p := a.pieces
	if p == nil {
		return nil
	}
	a.pieces = nil
	if p.args == nil {
		p.args = map[string]any{}
	}
	text, _ := wire.Marshal(p.args) // of what JSON gave: cannot fail
	if err := a.yield(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: p.index, Arguments: string(text)}}); err != nil {
		return err
	}
	return a.beside(adapter.PartCall, p.index, p.beside)
}

// steps takes a path apart: names, and indexes of lists.
func steps(path string) (out []any) {
	path = strings.TrimPrefix(path, "$")
	for path != "" {
		var step string
		if rest, ok := strings.CutPrefix(path, "["); ok {
			step, path, _ = strings.Cut(rest, "]")
			if n, err := strconv.Atoi(step); err == nil && 0 <= n && n < 1<<12 {
				out = append(out, n)
			} else {
				out = append(out, strings.Trim(step, `'"`))
			}
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		step, path = path[:end], path[end:]
		out = append(out, step)
	}
	return out[:min(len(out), 100)]
}

// put puts a value where a path leads. Strings at one path are joined.
func put(at any, path []any, arg argument) any {
	if len(path) == 0 {
		switch {
		case arg.String != nil:
			before, _ := at.(string)
			return before + *arg.String
		case arg.Number != nil:
			return *arg.Number
		case arg.Bool != nil:
			return *arg.Bool
		default:
			return nil
		}
	}
	switch step := path[0].(type) {
	case int:
		list, _ := at.([]any)
		for len(list) <= step {
			list = append(list, nil)
		}
		list[step] = put(list[step], path[1:], arg)
		return list
	default:
		object, _ := at.(map[string]any)
		if object == nil {
			object = map[string]any{}
		}
		name := step.(string)
		object[name] = put(object[name], path[1:], arg)
		return object
	}
}
