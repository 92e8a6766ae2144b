package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/lingserve/lingserve/ling"
)

// Workflow is something that can be run under a name: [ParseSpec] and [Func] make one. It is immutable and safe for concurrent use.
type Workflow interface {
	Info() Info
	// Run starts the workflow on m and returns when it has started its first bots; work that goes on is registered with m.
	// input has been checked by [Prepare]. The caller closes m.
	Run(ctx context.Context, m *ling.Manager, input map[string]any) error
	schema() *inputSchema
}

// described has what every workflow has.
type described struct {
	info  Info
	input *inputSchema
}

func (d *described) Info() Info           { return d.info }
func (d *described) schema() *inputSchema { return d.input }

// Info describes a workflow to its users.
type Info struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Model       string          `json:"model,omitempty"`
	Input       json.RawMessage `json:"input"` // JSON Schema 2020-12
	Graph       *Graph          `json:"graph,omitempty"`
	// Resume says that a run goes on if its server is lost: bots that had ended are not run again.
	Resume bool `json:"resume,omitempty"`
}

// Func makes a workflow of a Go function (FL-05), which does not go on if its server is lost; input is the JSON Schema of what it takes, nil for any object. It panics
// if the name is not allowed or the schema does not compile.
func Func(name, description string, input json.RawMessage, run func(ctx context.Context, m *ling.Manager, input map[string]any) error) Workflow {
	if !validName(name) {
		panic(fmt.Sprintf("flow: %q is not a valid name for a workflow; expected %s", name, nameRule))
	}
	if input == nil {
		input = anyObject
	}
	s, err := compileInput(input)
	if err != nil {
		panic(fmt.Sprintf("flow: the input schema of %s: %v", name, err))
	}
	return &function{described{Info{Name: name, Description: description, Input: input}, s}, run}
}

type function struct {
	described
	run func(context.Context, *ling.Manager, map[string]any) error
}

func (f *function) Run(ctx context.Context, m *ling.Manager, input map[string]any) error {
	if _, ok := m.Resumed(); ok {
		retractAll(m)
	}
	return f.run(ctx, m, input)
}

// nameRule is what PROTOCOL 1.3 allows as a name; workflows and bots keep to it too, since events have their names.
const nameRule = "a letter, then at most 63 letters, digits, dots, dashes or underscores"

var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`).MatchString
