package tube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// fold is the document of a client, which leaves out what a document refuses.
type fold struct{ jsonuri.Document }

func newFold() *fold { return new(fold) }

// normal is JSON text with sorted members.
func normal(text []byte) string {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		panic(err)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(sorted)
}

func (f *fold) String() string { return normal(f.AppendJSON(nil)) + normal(f.AppendReserved(nil)) }

// wire applies the delta of one event.
func (f *fold) wire(uri string, delta []byte) error {
	if delta[0] == '"' {
		_ = f.Append([]byte(uri), delta[1:len(delta)-1])
	} else {
		_ = f.Set([]byte(uri), delta)
	}
	return nil
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
