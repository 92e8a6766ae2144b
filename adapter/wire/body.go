package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Body is the JSON of a request, an object, with extra members over its own.
func Body(request any, extra map[string]json.RawMessage) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil || len(extra) == 0 {
		return body, err
	}
	var own map[string]json.RawMessage
	if err := json.Unmarshal(body, &own); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	write := func(name string, value json.RawMessage) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		quoted, _ := json.Marshal(name)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if _, over := extra[name]; !over {
			write(name, own[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		write(name, extra[name])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
