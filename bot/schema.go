package bot

import (
	"cmp"
	"encoding/json"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/internal/schema"
)

// schemas are compiled once. A program has few of them; large ones, of which what is made takes several times as much, are not stored.
var schemas, _ = lru.New[string, *schema.Schema](64)

const maxSchema = 64 << 10

// CheckSchema says what is wrong with a JSON Schema, if anything.
func CheckSchema(text json.RawMessage) error {
	_, err := schema.Compile(text)
	return err
}

// CheckForeignSchema is CheckSchema for a schema that was not written for this server: regular expressions that do not compile here may be
// right elsewhere, so answers are not checked against them.
func CheckForeignSchema(text json.RawMessage) error {
	_, err := compileSchema(text)
	return err
}

func compileSchema(text json.RawMessage) (*schema.Schema, error) {
	if s, ok := schemas.Get(string(text)); ok {
		return s, nil
	}
	s, err := schema.CompileForeign(text)
	if err == nil && len(text) <= maxSchema {
		schemas.Add(string(text), s)
	}
	return s, err
}

// maxViolations is how many misfits of one document are reported. More would not help the reader.
const maxViolations = 16

// violation is a place where a document does not fit its schema, or where that is not known.
type violation schema.Misfit

// describeAll returns a sentence for each violation: its JSON Pointer below root, and its message.
func describeAll(list []violation, root string) (found []string) {
	for _, v := range list {
		found = append(found, cmp.Or(root+schema.Pointer(v.At), "the whole document")+": "+v.Message)
	}
	if len(found) == maxViolations {
		found = append(found, "there may be more")
	}
	return found
}

const misfitMessage = "the output does not match its schema: "

// failure is the violation as an error of the run's document.
func (v violation) failure(root string) *Failure {
	what := misfitMessage
	if v.Unchecked {
		what = "the output was not checked against its schema: "
	}
	return &Failure{Code: CodeOutputInvalid, Message: what + v.Message, Pointer: Pointer(root) + schema.Pointer(v.At)}
}

// validate holds a document to a schema and returns the first violations, and behind them what was not checked.
func validate(text, value json.RawMessage) []violation {
	s, err := compileSchema(text)
	if err != nil {
		return []violation{{Message: err.Error(), Unchecked: true}}
	}
	var found []violation
	for _, m := range s.CheckText(value, maxViolations) {
		found = append(found, violation(m))
	}
	for _, message := range s.Left {
		found = append(found, violation{Message: message, Unchecked: true})
	}
	return found
}
