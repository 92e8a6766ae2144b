package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A schema that refers to itself is written out to an end.
func TestAGoogleSchemaEnds(t *testing.T) {
	out, _ := json.Marshal(GoogleSchema(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"const":"x"},"c":{"anyOf":[{"type":"string","format":"uri"},{"type":"null"}]},` +
		`"d":{"type":"array"},"f":{"type":["array","null"],"items":{"type":"integer"}},"g":{"enum":["a",null]},"h":{"allOf":[{"type":"boolean"}]},"e":{"oneOf":[{"type":"string"},{"type":"number"}]}},"$defs":{"n":{"type":"object","properties":{"l":{"$ref":"#/$defs/n"},"r":{"$ref":"#/$defs/n"},"s":{"$ref":"#/$defs/n"}}}}}`)))
	if len(out) > 1<<20 {
		t.Errorf("%d bytes", len(out))
	}
	var got struct{ Properties map[string]any }
	json.Unmarshal(out, &got)
	delete(got.Properties, "a")
	var want map[string]any
	json.Unmarshal([]byte(`{"b":{"type":"STRING","enum":["x"]},"c":{"type":"STRING","nullable":true},"d":{"type":"ARRAY","items":{"type":"STRING"}},"e":{"anyOf":[{"type":"STRING"},{"type":"NUMBER"}]},`+
		`"f":{"type":"ARRAY","nullable":true,"items":{"type":"INTEGER"}},"g":{"type":"STRING","enum":["a"]},"h":{"type":"BOOLEAN"}}`), &want)
	if diff := cmp.Diff(want, got.Properties); diff != "" {
		t.Error(diff)
	}
	if GoogleSchema(json.RawMessage(`{"type":"object"}`)) != nil {
		t.Error("an object without properties")
	}
}
