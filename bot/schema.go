package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// closedLoader keeps schemas from reading files or the network through "$ref".
type closedLoader struct{}

func (closedLoader) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to another document")
}

// schemas are compiled once. A program has few of them; if there come more than maxSchemas, all are compiled anew.
var schemas struct {
	sync.Mutex
	compiled map[string]*jsonschema.Schema
}

const maxSchemas = 256

// CheckSchema says what is wrong with a JSON Schema, if anything.
func CheckSchema(schema json.RawMessage) error {
	_, err := compileSchema(schema)
	return err
}

func compileSchema(text json.RawMessage) (*jsonschema.Schema, error) {
	schemas.Lock()
	defer schemas.Unlock()
	if s := schemas.compiled[string(text)]; s != nil {
		return s, nil
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(closedLoader{})
	const name = "output.json"
	if err := c.AddResource(name, parsed); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	if schemas.compiled == nil || len(schemas.compiled) >= maxSchemas {
		schemas.compiled = map[string]*jsonschema.Schema{}
	}
	schemas.compiled[string(text)] = s
	return s, nil
}

// maxViolations is how many misfits of one document are reported; whoever reads them has seen enough then.
const maxViolations = 16

var english = message.NewPrinter(language.English)

// violation is a place where a document does not fit its schema.
type violation struct {
	at      []string // keys and indices from the document's root
	message string
}

// place is where the violation is, as a model is told.
func (v violation) place() string {
	if len(v.at) == 0 {
		return "the whole document"
	}
	return pointer("", v.at)
}

// failure is the violation as an error of the run's document.
func (v violation) failure(root string) *Failure {
	return &Failure{
		Code:    CodeOutputInvalid,
		Message: "the output does not fit its schema: " + v.message,
		Pointer: pointer(Pointer(root), v.at),
	}
}

// validate holds a document to a schema and returns the first violations.
func validate(schema, value json.RawMessage) []violation {
	s, err := compileSchema(schema)
	if err != nil {
		return []violation{{message: err.Error()}}
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []violation{{message: "it is not JSON"}}
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](s.Validate(parsed))
	if !ok {
		return nil
	}
	var found []violation
	pending := []*jsonschema.ValidationError{invalid}
	for len(pending) > 0 && len(found) < maxViolations {
		v := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if len(v.Causes) > 0 {
			for i := len(v.Causes) - 1; i >= 0; i-- {
				pending = append(pending, v.Causes[i])
			}
			continue
		}
		found = append(found, violation{v.InstanceLocation, v.ErrorKind.LocalizedString(english)})
	}
	return found
}
