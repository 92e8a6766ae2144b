package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
)

// keywords are those of JSON Schema in its drafts, those of OpenAPI, and notes that tools add; sorted.
var keywords = slices.Sorted(strings.FieldsSeq(`
	$schema $id $ref $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary $comment $defs definitions id
	allOf anyOf oneOf not if then else dependentSchemas prefixItems items additionalItems contains unevaluatedItems properties
	patternProperties additionalProperties propertyNames unevaluatedProperties dependencies type enum const multipleOf maximum exclusiveMaximum
	minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties
	required dependentRequired title description default deprecated readOnly writeOnly examples format contentEncoding contentMediaType
	contentSchema divisibleBy disallow extends nullable example discriminator xml externalDocs propertyOrdering enumNames enumDescriptions
	errorMessage markdownDescription comment note notes media`))

var (
	// The values of these are a schema, or a list of schemas.
	withSchemas = strings.Fields(`allOf anyOf oneOf not if then else prefixItems items additionalItems contains unevaluatedItems
		additionalProperties propertyNames unevaluatedProperties contentSchema`)
	// The values of these are mappings from names to schemas.
	withNamedSchemas = strings.Fields("$defs definitions dependentSchemas properties patternProperties dependencies")
)

var typeNames = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// CheckKeywords reports words of a schema that are near misses of a keyword, and properties that are written in the place of keywords. JSON
// Schema allows both, and then nothing is checked. It is for schemas that people write for this server; schemas from elsewhere may have words
// of other dialects. The last element of [Error.At] is the word.
func CheckKeywords(text []byte) []*Error {
	var doc any
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	var found []*Error
	checkKeywords(doc, nil, &found)
	return found
}

func checkKeywords(schema any, at []string, found *[]*Error) {
	report := func(at []string, format string, args ...any) {
		*found = append(*found, &Error{At: slices.Clone(at), Message: fmt.Sprintf(format, args...)})
	}
	switch s := schema.(type) {
	case string:
		if len(at) > 0 && slices.Contains(typeNames, s) {
			report(at, "expected a JSON Schema, such as {type: %s}", s)
		}
		return
	case []any:
		for i, item := range s {
			checkKeywords(item, append(at, fmt.Sprint(i)), found)
		}
		return
	case map[string]any:
		known := slices.ContainsFunc(slices.Collect(maps.Keys(s)), isKnown)
		for _, word := range slices.Sorted(maps.Keys(s)) {
			value, here := s[word], append(at[:len(at):len(at)], word)
			switch {
			case !isKnown(word) && nearest(word) != "":
				report(here, "unknown keyword %q, did you mean %q?", wording.Clip(word), nearest(word))
			case !isKnown(word) && (!known || isSchema(value)):
				report(here, "unknown keyword %q; expected a JSON Schema, such as {type: object, properties: {%s: {type: string}}}", wording.Clip(word), wording.Clip(word))
			case slices.Contains(withSchemas, word):
				checkKeywords(value, here, found)
			case slices.Contains(withNamedSchemas, word):
				schemas, _ := value.(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(schemas)) {
					if _, list := schemas[name].([]any); list && word == "dependencies" {
						continue // names of properties
					}
					checkKeywords(schemas[name], append(here[:len(here):len(here)], name), found)
				}
			}
		}
	}
}

// isKnown reports whether a word is a keyword, or a note that is named as such.
func isKnown(word string) bool {
	return slices.Contains(keywords, word) || strings.HasPrefix(word, "x-") || strings.HasPrefix(word, "$")
}

// nearest returns the keyword that was probably meant, "" if none is near.
func nearest(word string) string {
	if len(word) < 3 {
		return ""
	}
	return edits.Nearest(word, keywords)
}

// isSchema reports whether an unknown keyword's value is surely meant as a schema.
func isSchema(value any) bool {
	switch v := value.(type) {
	case string:
		return slices.Contains(typeNames, v)
	case map[string]any:
		if t, ok := v["type"].(string); ok && slices.Contains(typeNames, t) {
			return true
		}
		for _, word := range []string{"properties", "enum", "const", "$ref", "items", "anyOf", "oneOf", "allOf"} {
			if _, ok := v[word]; ok {
				return true
			}
		}
	}
	return false
}
