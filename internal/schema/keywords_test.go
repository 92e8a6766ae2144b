package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/schema"
)

// DN-09: a schema whose words are mistyped would check nothing.
func TestMistypedWordsOfASchemaAreFound(t *testing.T) {
	for _, test := range []struct {
		name, schema string
		want         []string
	}{
		{"good", `{"type":"object","required":["town"],"properties":{"town":{"type":"string","x-widget":"area"},"requird":{"enum":["tpye"]}},"$defs":{"propertys":{"minLength":1}}}`, nil},
		{"older drafts", `{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"a":{"id":"x"}},"items":[{"type":"string"}]}`, nil},
		{"notes", `{"type":"string","x-ui":{"widget":"area"},"nullable":true,"example":"string","note":"x","default":{"tpye":1},"const":{"requird":1},"examples":[{"itms":1}]}`, nil},
		{"booleans", `{"properties":{"a":true},"additionalProperties":false}`, nil},
		{"empty", `{}`, nil},

		{"requird", `{"requird":["town"]}`, []string{`/requird: unknown keyword "requird"; properties belong in "properties", and names of notes begin with x-`}},
		{"propertys", `{"type":"object","propertys":{"town":{}}}`, []string{`/propertys: unknown keyword "propertys"; properties belong in "properties", and names of notes begin with x-`}},
		{"another case", `{"minlength":1,"anyof":[]}`, []string{`/anyof: unknown keyword "anyof"; properties belong in "properties", and names of notes begin with x-`, `/minlength: unknown keyword "minlength"; properties belong in "properties", and names of notes begin with x-`}},
		{"underscores", `{"type":"string","max_length":1}`, []string{`/max_length: unknown keyword "max_length"; properties belong in "properties", and names of notes begin with x-`}},
		{"a property in the place of keywords", `{"town":"string"}`, []string{`/town: unknown keyword "town"; properties belong in "properties", and names of notes begin with x-`}},
		{"a property with a schema", `{"type":"object","town":{"type":"string"}}`, []string{`/town: unknown keyword "town"; properties belong in "properties", and names of notes begin with x-`}},
		{"a property without a schema", `{"town":{}}`, []string{`/town: unknown keyword "town"; properties belong in "properties", and names of notes begin with x-`}},
		{"deep inside", `{"properties":{"a":{"items":{"anyOf":[{"tpye":"string"}]}}},"$defs":{"b":{"enums":["x"]}}}`, []string{
			`/properties/a/items/anyOf/0/tpye: unknown keyword "tpye"; properties belong in "properties", and names of notes begin with x-`,
		}},
		{"no JSON", `{`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, e := range schema.CheckKeywords([]byte(test.schema)) {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
