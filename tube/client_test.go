package tube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/tube"
)

// fold is the document of a client that goes by PROTOCOL 1.1 and by nothing else: decoded values, and wire events alone.
// It is also what the tubes of these tests fold into, so that the two ends are compared by the same rules.
type fold struct {
	root     any // starts as {}
	reserved map[string]any
}

func newFold() *fold { return &fold{root: map[string]any{}, reserved: map[string]any{}} }

func newDocument() tube.Document { return newFold() }

func (f *fold) Append(uri, content []byte) error {
	return f.wire(string(uri), []byte(`"`+string(content)+`"`))
}

// Set of a string must never reach a document: tubes turn it into an Append, which is what it means on the wire.
func (f *fold) Set(uri, value []byte) error {
	if value[0] == '"' {
		return fmt.Errorf("set of a string at %q", uri)
	}
	return f.wire(string(uri), value)
}

func (f *fold) AppendJSON(dst []byte) []byte { return append(dst, marshal(f.root)...) }

func (f *fold) AppendReserved(dst []byte) []byte { return append(dst, marshal(f.reserved)...) }

// normal is JSON text in the form of this fold, whatever wrote it.
func normal(text []byte) string {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		panic(err)
	}
	return string(marshal(v))
}

func (f *fold) String() string { return string(f.AppendReserved(f.AppendJSON(nil))) }

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// str is a string that grows.
type str []byte

func (s *str) MarshalJSON() ([]byte, error) { return json.Marshal(string(*s)) }

// wire applies the delta of one event.
func (f *fold) wire(uri string, delta []byte) error {
	in := json.NewDecoder(bytes.NewReader(delta))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return fmt.Errorf("delta %q: %w", delta, err)
	}
	var path []string
	if uri != "" {
		path = strings.Split(uri, "/")
	}
	for i, s := range path {
		if strings.HasPrefix(s, "$") {
			key := strings.Join(path[:i+1], "/")
			f.reserved[key] = change(f.reserved[key], path[i+1:], v)
			return nil
		}
	}
	f.root = change(f.root, path, v)
	return nil
}

func change(at any, path []string, v any) any {
	if len(path) == 0 {
		switch v := v.(type) {
		case string:
			old, ok := at.(*str)
			if !ok {
				whole, _ := at.(string) // it came as a part of an object or array
				old = new(str(whole))
			}
			*old = append(*old, v...)
			return old
		case map[string]any:
			if _, ok := at.(map[string]any); ok && len(v) == 0 {
				return at
			}
		}
		return v
	}
	if array, ok := at.([]any); ok {
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < 1000 {
			for len(array) <= i {
				array = append(array, nil)
			}
			array[i] = change(array[i], path[1:], v)
			return array
		}
	}
	object, ok := at.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object[path[0]] = change(object[path[0]], path[1:], v)
	return object
}

// client reads a tube as a browser would: it folds deltas, notes named events, and knows an id only from events that have one.
type client struct {
	doc   *fold
	named []string
	done  map[string]bool
	id    string // Last-Event-ID
}

func newClient() *client { return &client{doc: newFold(), done: map[string]bool{}} }

func (c *client) take(e tube.Event) {
	var v struct {
		URI   string
		Delta json.RawMessage
		Done  bool
		Event string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(e.AppendJSON(nil), &v); err != nil {
		panic(fmt.Sprintf("%s: %v", e.AppendJSON(nil), err))
	}
	switch {
	case v.Event != "":
		c.named = append(c.named, v.Event+string(v.Data))
	case v.Done:
		c.done[v.URI] = true
	default:
		if err := c.doc.wire(v.URI, v.Delta); err != nil {
			panic(err)
		}
	}
	if !e.Part {
		c.id = string(e.AppendID(nil, "run"))
	}
}

// from is where the client resumes: behind the id it has.
func (c *client) from() uint64 {
	if c.id == "" {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(c.id, "run:"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n + 1
}
