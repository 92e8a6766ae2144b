// Package vectors_test makes and checks the vectors that readers in other languages are held to: they are made by the parser,
// the document, the uris and the patterns of package jsonuri. "go test ./api/vectors -update" writes them.
package vectors_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/jsonuri"
)

var update = flag.Bool("update", false, "write the vectors")

// fold is one list of deltas and what it folds to.
type fold struct {
	Name     string            `json:"name"`
	Text     string            `json:"text,omitempty"` // the document that the parser made the deltas of
	Deltas   []json.RawMessage `json:"deltas"`
	Refused  []int             `json:"refused,omitempty"` // deltas that are an error and change nothing
	Result   json.RawMessage   `json:"result"`
	Reserved json.RawMessage   `json:"reserved,omitempty"`
}

func TestFold(t *testing.T) {
	var all []fold
	for _, c := range folds {
		all = append(all, folded(t, fold{Name: c.name, Deltas: lines(c.deltas)}))
	}
	check(t, "fold.json", all)
}

func TestParse(t *testing.T) {
	var all []fold
	for _, c := range documents {
		for _, size := range []int{1, 7, len(c.text)} {
			f := fold{Name: c.name, Text: c.text, Deltas: parsed(t, c.text, c.root, size)}
			f = folded(t, f)
			// The fold law itself, against the standard decoder.
			got, want := decode(t, f.Result), decode(t, []byte(c.text))
			if c.root != "" {
				segments, err := jsonuri.Parse(c.root)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range slices.Backward(segments) {
					want = map[string]any{s: want}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in chunks of %d (-want +got):\n%s", c.name, size, diff)
			}
			all = append(all, f)
		}
	}
	check(t, "parse.json", all)
}

func TestURIs(t *testing.T) {
	type vector struct {
		URI      string   `json:"uri"`
		Segments []string `json:"segments"`          // null for what is no uri
		Written  string   `json:"written,omitempty"` // as Format writes it, where that is something else
	}
	var all []vector
	for _, segments := range lists {
		all = append(all, vector{URI: jsonuri.Format(segments...), Segments: segments})
	}
	for _, uri := range uris {
		segments, err := jsonuri.Parse(uri)
		v := vector{URI: uri}
		if err == nil {
			v.Segments = segments
			if written := jsonuri.Format(segments...); written != uri {
				v.Written = written
			}
		}
		all = append(all, v)
	}
	check(t, "uris.json", all)
}

func TestPatterns(t *testing.T) {
	type vector struct {
		Pattern string          `json:"pattern"`
		Invalid bool            `json:"invalid,omitempty"`
		Matches map[string]bool `json:"matches,omitempty"`
	}
	var all []vector
	for _, text := range patterns {
		p, err := jsonuri.CompilePattern(text)
		if err != nil {
			all = append(all, vector{Pattern: text, Invalid: true})
			continue
		}
		v := vector{Pattern: text, Matches: map[string]bool{}}
		for _, uri := range matched {
			v.Matches[uri] = p.Match([]byte(uri))
		}
		all = append(all, v)
	}
	check(t, "patterns.json", all)
}

// folded applies f's deltas to a document and notes what comes out.
func folded(t *testing.T, f fold) fold {
	t.Helper()
	var d jsonuri.Document
	for i, line := range f.Deltas {
		var e struct {
			URI   string
			Delta json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %s: %v", f.Name, line, err)
		}
		delta := jsonuri.Delta{URI: []byte(e.URI), Op: jsonuri.Set, Value: e.Delta}
		if e.Delta[0] == '"' {
			delta.Op, delta.Value = jsonuri.Append, e.Delta[1:len(e.Delta)-1]
		}
		if err := d.Apply(delta); err != nil {
			f.Refused = append(f.Refused, i)
		}
	}
	f.Result = d.AppendJSON(nil)
	if reserved := d.AppendReserved(nil); string(reserved) != "{}" {
		f.Reserved = reserved
	}
	return f
}

// parsed returns the deltas that the parser makes of text, cut into chunks of size bytes.
func parsed(t *testing.T, text, root string, size int) (deltas []json.RawMessage) {
	t.Helper()
	p := jsonuri.NewParser(jsonuri.Handler{
		Delta: func(d jsonuri.Delta) { deltas = append(deltas, d.AppendJSON(nil)) },
	}, &jsonuri.Options{Root: root})
	for chunk := range slices.Chunk([]byte(text), size) {
		if _, err := p.Write(chunk); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return deltas
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func lines(deltas []string) (all []json.RawMessage) {
	for _, d := range deltas {
		all = append(all, json.RawMessage(d))
	}
	return all
}

// check holds the committed vectors to those that are made now.
func check[V any](t *testing.T, name string, all []V) {
	t.Helper()
	// One vector a line: a change shows as the lines that it changes.
	var b bytes.Buffer
	for i, v := range all {
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		line := json.NewEncoder(&b)
		line.SetEscapeHTML(false)
		if err := line.Encode(v); err != nil {
			t.Fatal(err)
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("\n]\n")
	if *update {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("%s is not what package jsonuri does; run the test with -update (-want +got):\n%s", name, diff)
	}
}
