// Package flow runs workflows: which bots there are, and what starts them. A workflow is a YAML file (a [Spec]) or Go code
// registered under a name; both are a [Workflow] and are run by the same API.
package flow

import (
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/ling"
)

// Workflow is something that can be run under a name. It is immutable and safe for concurrent use.
type Workflow interface {
	Info() Info
	// Run starts the workflow on m and returns when it has started its first bots; work that goes on is registered with m.
	// input has been checked by Registry.Prepare or Prepare. The caller closes m.
	Run(ctx context.Context, m *ling.Manager, input map[string]any) error
}

// Info describes a workflow to its users.
type Info struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Model       string          `json:"model,omitempty"`
	Input       json.RawMessage `json:"input"` // JSON Schema 2020-12
	Graph       *Graph          `json:"graph,omitempty"`
}

// Graph is what starts what.
type Graph struct {
	Bots   []Node  `json:"bots"`
	Events []Event `json:"events,omitempty"`
}

// Node is a bot of a graph.
type Node struct {
	Name   string   `json:"name"`
	Root   string   `json:"root"`
	Format string   `json:"format"`
	Model  string   `json:"model,omitempty"`
	On     *Trigger `json:"on,omitempty"`    // nil: starts with the run
	After  []string `json:"after,omitempty"` // names of the bots that can fire the trigger
}

// Event is a status event of a graph.
type Event struct {
	Name string   `json:"name"`
	On   *Trigger `json:"on"`
}

// Trigger is what starts a bot: exactly one member is set.
type Trigger struct {
	String string `json:"string,omitempty"` // uri pattern: a string is complete there
	Object string `json:"object,omitempty"`
	Value  string `json:"value,omitempty"`
	Done   string `json:"done,omitempty"`
	Error  string `json:"error,omitempty"`
}

// InputError says what does not fit the workflow's input schema.
type InputError struct{ Problems []Problem }

// Problem is one misfit: a JSON Pointer into the input, and what was expected there.
type Problem struct{ Pointer, Detail string }

func (e *InputError) Error() string { panic("flow: not built yet") }

// Prepare checks input (JSON text) against w's schema and returns it decoded. A JSON string becomes the property of a schema
// with exactly one required property that is a string. Errors are *[InputError].
func Prepare(w Workflow, input json.RawMessage) (map[string]any, error) {
	panic("flow: not built yet")
}

// Func makes a workflow of a Go function (FL-05); input may be nil for any object.
func Func(name, description string, input json.RawMessage, run func(ctx context.Context, m *ling.Manager, input map[string]any) error) Workflow {
	panic("flow: not built yet")
}

// FileError says where a workflow file is wrong: file, line, column, message.
type FileError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *FileError) Error() string { panic("flow: not built yet") }

// ParseSpec reads a workflow from YAML or JSON text; file names it in errors, dir (may be nil) resolves `file:` references.
// All problems found are joined; each is a *[FileError].
func ParseSpec(file string, text []byte, dir FileReader) (Workflow, error) {
	panic("flow: not built yet")
}

// FileReader reads the files that a workflow names; *os.Root's FS is one.
type FileReader interface {
	ReadFile(name string) ([]byte, error)
}

// Registry holds the workflows that can be run. It is safe for concurrent use.
type Registry struct{}

// Open reads every *.yaml, *.yml and *.json in dir (which may be "" for none). The error joins the problems of all files;
// the registry holds those that are well.
func Open(dir string) (*Registry, error) { panic("flow: not built yet") }

// Register adds a workflow, or replaces one of the same name.
func (r *Registry) Register(w Workflow) { panic("flow: not built yet") }

// Get finds a workflow by name.
func (r *Registry) Get(name string) (Workflow, bool) { panic("flow: not built yet") }

// All lists the workflows by name.
func (r *Registry) All() []Workflow { panic("flow: not built yet") }

// Reload reads the folder again. A broken file keeps its old workflow in force and is in the error.
func (r *Registry) Reload() error { panic("flow: not built yet") }

// Watch reloads whenever a file of the folder changes, until ctx ends; report is told each outcome.
func (r *Registry) Watch(ctx context.Context, report func(error)) { panic("flow: not built yet") }
