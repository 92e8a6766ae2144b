package wire_test

import (
	"testing"

	"github.com/lingserve/lingserve/adapter/wire"
)

// DT-01
func TestParametersAreWhatProvidersTake(t *testing.T) {
	for name, row := range map[string][2]string{
		"none":                    {``, `{"type":"object","properties":{}}`},
		"an object without any":   {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		"true":                    {`true`, `{"type":"object","properties":{}}`},
		"null":                    {`null`, `{"type":"object","properties":{}}`},
		"one that is good":        {`{"type":"object", "properties":{"b":{"type":"string"}, "a":{}}}`, `{"type":"object","properties":{"b":{"type":"string"},"a":{}}}`},
		"a root without type":     {`{"properties":{"a":{"type":"string"}},"required":["a"]}`, `{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		"a root that may be null": {`{"type":["object","null"],"properties":{}}`, `{"properties":{},"type":"object"}`},
		"a list without items":    {`{"type":"object","properties":{"a":{"type":["array","null"]}}}`, `{"type":"object","properties":{"a":{"type":["array","null"],"items":{}}}}`},
		"an object inside":        {`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{}}}}}`},
		"a property called type":  {`{"type":"object","properties":{"type":{"type":"string"},"properties":{"type":"object"}}}`, `{"type":"object","properties":{"type":{"type":"string"},"properties":{"type":"object","properties":{}}}}`},
		"required is null":        {`{"type":"object","properties":{"a":{"default":null}},"required":null}`, `{"type":"object","properties":{"a":{"default":null}}}`},
		"alternatives": {
			`{"anyOf":[{"type":"object","properties":{"kind":{"const":"a"},"n":{"type":"number"}},"required":["kind","n"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}}}`,
			`{"$defs":{"b":{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}},"properties":{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]},"n":{"type":"number"}},"type":"object"}`,
		},
		"all of several": {
			`{"type":"object","properties":{"a":{}},"required":["a"],"allOf":[{"properties":{"b":{}},"required":["b"]}]}`,
			`{"type":"object","required":["a"],"properties":{"a":{},"b":{}}}`,
		},
		"a root that refers": {
			`{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"$ref":"#/definitions/In"}}}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/definitions/In"}},"definitions":{"In":{"type":"object","properties":{"a":{"$ref":"#/definitions/In"}}}}}`,
		},
		"a root that refers to itself": {`{"$ref":"#/$defs/x","$defs":{"x":{"$ref":"#/$defs/x"}}}`, `{"$defs":{"x":{"$ref":"#/$defs/x"}},"type":"object","properties":{}}`},
	} {
		if got := string(wire.Parameters([]byte(row[0]))); got != row[1] {
			t.Errorf("%s:\n%s becomes\n%s, want\n%s", name, row[0], got, row[1])
		}
	}
}
