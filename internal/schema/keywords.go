package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// CheckKeywords reports words of a schema that are near misses of a keyword, and properties that are written in the place of keywords. JSON
// Schema allows both, and then nothing is checked. It is for schemas that people write for this server; schemas from elsewhere may have words
// of other dialects. The last element of [Error.At] is the word.
func CheckKeywords(text []byte) []*Error {
	var doc any
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	return checkKeywords(doc, nil)
}

func checkKeywords(schema any, path []string) (found []*Error) {
	if list, ok := schema.([]any); ok {
		for i, item := range list {
			found = append(found, checkKeywords(item, append(path, strconv.Itoa(i)))...)
		}
		return found
	}
	object, _ := schema.(map[string]any)
	words := slices.Sorted(maps.Keys(object))
	anyKnown := slices.ContainsFunc(words, isKnown)
	for _, word := range words {
		value, here := object[word], append(slices.Clone(path), word)
		members, _ := value.(map[string]any)
		switch {
		case isKnown(word):
		case nearest(word) != "":
			found = append(found, &Error{here, fmt.Sprintf("unknown keyword %q, did you mean %q?", wording.Clip(word), nearest(word))})
		case !anyKnown || members["type"] != nil:
			found = append(found, &Error{here, fmt.Sprintf("unknown keyword %[1]q; "+
				"expected a JSON Schema, such as {type: object, properties: {%[1]s: {type: string}}}", wording.Clip(word))})
		}
		switch {
		case slices.Contains(withSchemas, word):
			found = append(found, checkKeywords(value, here)...)
		case slices.Contains(withNamedSchemas, word):
			for _, name := range slices.Sorted(maps.Keys(members)) {
				if _, isList := members[name].([]any); !isList { // of names, in dependencies
					found = append(found, checkKeywords(members[name], append(here, name))...)
				}
			}
		}
	}
	return found
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
