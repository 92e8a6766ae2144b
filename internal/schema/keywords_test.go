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
		{"older drafts", `{"definitions":{"a":{"id":"x"}},"dependencies":{"a":["b"],"c":{"required":["d"]}},"items":[{"type":"string"}],"additionalItems":false}`, nil},
		{"notes", `{"type":"string","ui":{"widget":"area"},"nullable":true,"example":"string","note":"x","default":{"tpye":1},"const":{"requird":1},"examples":[{"itms":1}]}`, nil},
		{"booleans", `{"properties":{"a":true},"additionalProperties":false}`, nil},
		{"empty", `{}`, nil},

		{"requird", `{"requird":["town"]}`, []string{`/requird: unknown keyword "requird", did you mean "required"?`}},
		{"propertys", `{"type":"object","propertys":{"town":{}}}`, []string{`/propertys: unknown keyword "propertys", did you mean "properties"?`}},
		{"another case", `{"minlength":1,"anyof":[]}`, []string{`/anyof: unknown keyword "anyof", did you mean "anyOf"?`, `/minlength: unknown keyword "minlength", did you mean "minLength"?`}},
		{"underscores", `{"type":"string","max_length":1}`, []string{`/max_length: unknown keyword "max_length", did you mean "maxLength"?`}},
		{"a property in the place of keywords", `{"town":"string"}`, []string{`/town: unknown keyword "town"; expected a JSON Schema, such as {type: object, properties: {town: {type: string}}}`}},
		{"a property with a schema", `{"type":"object","town":{"type":"string"}}`, []string{`/town: unknown keyword "town"; expected a JSON Schema, such as {type: object, properties: {town: {type: string}}}`}},
		{"a property without a schema", `{"town":{}}`, []string{`/town: unknown keyword "town"; expected a JSON Schema, such as {type: object, properties: {town: {type: string}}}`}},
		{"deep inside", `{"properties":{"a":{"items":{"anyOf":[{"tpye":"string"}]}}},"$defs":{"b":{"enums":["x"]}}}`, []string{
			`/$defs/b/enums: unknown keyword "enums", did you mean "enum"?`, `/properties/a/items/anyOf/0/tpye: unknown keyword "tpye", did you mean "type"?`,
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
