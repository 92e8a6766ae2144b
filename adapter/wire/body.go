package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
)

// Body writes a request, a struct, as JSON, with extra members over its own.
func Body(request any, extra map[string]json.RawMessage) ([]byte, error) {
	body, err := Marshal(request)
	if err != nil || len(extra) == 0 {
		return body, err
	}
	all := ReadObject(body)
	maps.Copy(all, extra)
	return Marshal(all)
}

// Marshal writes JSON without the escapes for HTML: what a provider made is to come back to the byte.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// SchemaName makes a name of a schema that OpenAI's API accepts: 1 to 64 letters, digits, _ and -.
func SchemaName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "answer"
	}
	return name[:min(len(name), 64)]
}

// Effort says how much effort a number of tokens of reasoning is, for servers that know efforts only.
func Effort(budget int) string {
	switch {
	case budget <= 0:
		return "none"
	case budget <= 2<<10:
		return "low"
	case budget <= 16<<10:
		return "medium"
	}
	return "high"
}
