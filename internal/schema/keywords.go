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

// keywordKind says what the value of a keyword holds.
type keywordKind uint8

const (
	single       keywordKind = iota // a value, no schema
	subschemas                      // a schema, or a list of schemas
	namedSchemas                    // a mapping from names to schemas
)

// keywords are those of JSON Schema in its drafts, those of OpenAPI, and notes that tools add.
var keywords = map[string]keywordKind{
	"$schema": single, "$id": single, "$ref": single, "$anchor": single, "$dynamicRef": single, "$dynamicAnchor": single, "$recursiveRef": single,
	"$recursiveAnchor": single, "$vocabulary": single, "$comment": single, "$defs": namedSchemas, "definitions": namedSchemas, "id": single,
	"allOf": subschemas, "anyOf": subschemas, "oneOf": subschemas, "not": subschemas, "if": subschemas, "then": subschemas, "else": subschemas, "dependentSchemas": namedSchemas,
	"prefixItems": subschemas, "items": subschemas, "additionalItems": subschemas, "contains": subschemas, "unevaluatedItems": subschemas,
	"properties": namedSchemas, "patternProperties": namedSchemas, "additionalProperties": subschemas, "propertyNames": subschemas, "unevaluatedProperties": subschemas,
	"dependencies": namedSchemas, "type": single, "enum": single, "const": single, "multipleOf": single, "maximum": single, "exclusiveMaximum": single,
	"minimum": single, "exclusiveMinimum": single, "maxLength": single, "minLength": single, "pattern": single, "maxItems": single, "minItems": single,
	"uniqueItems": single, "maxContains": single, "minContains": single, "maxProperties": single, "minProperties": single, "required": single,
	"dependentRequired": single, "title": single, "description": single, "default": single, "deprecated": single, "readOnly": single, "writeOnly": single,
	"examples": single, "format": single, "contentEncoding": single, "contentMediaType": single, "contentSchema": subschemas, "divisibleBy": single,
	"disallow": single, "extends": single, "nullable": single, "example": single, "discriminator": single, "xml": single, "externalDocs": single,
	"propertyOrdering": single, "enumNames": single, "enumDescriptions": single, "errorMessage": single, "markdownDescription": single,
	"comment": single, "note": single, "notes": single, "media": single,
}

// suggested are the keywords that a mistyped word is compared with, sorted.
var suggested = slices.Sorted(maps.Keys(keywords))

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
			kind, ok := keywords[word]
			switch {
			case !ok && isKnown(word):
			case !ok && nearest(word) != "":
				report(here, "unknown keyword %q, did you mean %q?", wording.Clip(word), nearest(word))
			case !ok && (!known || isSchema(value)):
				report(here, "unknown keyword %q; expected a JSON Schema, such as {type: object, properties: {%s: {type: string}}}", wording.Clip(word), wording.Clip(word))
			case kind == subschemas:
				checkKeywords(value, here, found)
			case kind == namedSchemas:
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
	_, ok := keywords[word]
	return ok || strings.HasPrefix(word, "x-") || strings.HasPrefix(word, "$")
}

// nearest returns the keyword that was probably meant, "" if none is near.
func nearest(word string) string {
	if len(word) < 3 {
		return ""
	}
	return edits.Nearest(word, suggested)
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
