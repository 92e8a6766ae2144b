package schema

import (
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/internal/wording"
)

// strictSchema is the schema of JSON Schemas that have only keywords: those of draft 2020-12 and of OpenAPI, and notes that tools add.
var strictSchema = sync.OnceValue(func() *Schema {
	s, err := Compile([]byte(`{
		"$id": "schema:///strict.json", "$dynamicAnchor": "meta", "$ref": "https://json-schema.org/draft/2020-12/schema",
		"properties": {
			"nullable": true, "example": true, "discriminator": true, "xml": true, "externalDocs": true, "propertyOrdering": true, "enumNames": true,
			"enumDescriptions": true, "errorMessage": true, "markdownDescription": true, "comment": true, "note": true, "notes": true
		},
		"patternProperties": {"^(x-|\\$)": true},
		"unevaluatedProperties": false
	}`))
	if err != nil {
		panic(err)
	}
	return s
})

// CheckKeywords reports words in a schema that are no keywords, the innermost ones. JSON Schema allows them, and then nothing is checked. It is
// for schemas that people write for this server, of draft 2020-12; schemas from elsewhere may have words of other dialects. A schema that does
// not compile has other errors. The last element of [Error.At] is the word.
func CheckKeywords(text []byte) (found []*Error) {
	s, err := Compile(text)
	if err != nil {
		return nil
	}
	if object, ok := s.doc.(map[string]any); ok && object["$schema"] != nil {
		return nil
	}
	// Where a schema has a wrong word, the schemas around it do not fit either.
	innermost := 0
	for _, m := range strictSchema().Check(s.doc, maxValues) {
		if len(m.At) > innermost {
			innermost, found = len(m.At), nil
		}
		if len(m.At) == innermost && innermost > 0 {
			word := wording.Clip(m.At[innermost-1])
			found = append(found, &Error{m.At, fmt.Sprintf("unknown keyword %q; properties belong in \"properties\", and names of notes begin with x-", word)})
		}
	}
	return found
}
