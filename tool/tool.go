// Package tool is what a model may call: functions with a name, a description and a JSON Schema of their arguments, the sets that an
// agent has of them, and the running of the calls of one reply.
//
// # Guarantees
//   - Nothing is global: a tool is known where a [Set] has it, and nowhere else.
//   - Every call has exactly one [Result]. What goes wrong with a tool, or with what a model wrote, is a result that the model
//     reads; it is never an error of the turn.
//   - A tool that asks for approval runs only after it was given, with the very arguments that were shown.
//   - Arguments are held to the tool's schema before it runs, in bounded time.
//
// The words are those of the turn: a *call* is what the model asks for, a *result* is what comes of it.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
)

// Tool is something that a model may call. Make it with [New], or by hand; once it is in use, it must not be changed nor copied. A tool
// is safe for concurrent use if its Run is.
type Tool struct {
	// Name is what the tool is called: segments of letters, digits, `_` and `-`, joined by dots, 64 bytes at most.
	Name        string
	Description string
	// Schema is the JSON Schema (2020-12) of the arguments, which are an object; nil takes any object.
	Schema json.RawMessage
	// Timeout is how long one call may run; 0 is what the runner says.
	Timeout time.Duration
	// Approval says whether a person is asked before each call.
	Approval Approval
	// Role is who may approve a call, or use the tool by a command.
	Role Role
	// Serial calls run alone: no other call of the same step runs at the same time.
	Serial bool
	// Idempotent says that a call may run twice with the same arguments and has the effect of one: a tool that only reads, for example. After a
	// crash the server runs only such calls again.
	Idempotent bool
	// Lenient says that the schema is not ours: what of it cannot be compiled is not checked, see [Tool.Unchecked].
	Lenient bool
	// Run does what the tool is for. It should return when its context ends. An error is a result that the model reads: where it
	// is an [*Error], that one.
	Run func(context.Context, Call) (Result, error)

	once      sync.Once
	compiled  *schema.Schema
	unchecked []string
	broken    error // why the tool cannot be used
}

// Call is one call that a model asks for.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`      // as the model wrote it; within Run the tool's own
	Arguments json.RawMessage `json:"arguments"` // as the model wrote them; within Run an object that fits the schema
	// Key identifies the call: it stays the same when the call runs again after a crash. The function finds it with [Key]. The caller of a
	// [Runner] sets it; "" is none.
	Key string `json:"-"`
	// Asked is when a person was first asked whether the call may run, which bounds how long the answer may take; zero is now. The caller of a
	// [Runner] sets it.
	Asked time.Time `json:"-"`
}

// Approval says whether a call needs the consent of a person.
type Approval string

// The approvals; "" is Never.
const (
	Never  Approval = "never"
	Always Approval = "always"
)

// Role is what a person may do. A higher one may do all that the lower ones may.
type Role int

// The roles, from the lowest.
const (
	User Role = iota
	Operator
	Admin
)

var roles = [...]string{"user", "operator", "admin"}

func (r Role) String() string {
	if r < User || r > Admin {
		return fmt.Sprintf("role(%d)", int(r))
	}
	return roles[r]
}

// MarshalText writes a role as in a configuration.
func (r Role) MarshalText() ([]byte, error) {
	if r < User || r > Admin {
		return nil, fmt.Errorf("tool: unknown role %d", int(r))
	}
	return []byte(roles[r]), nil
}

// UnmarshalText reads a role as a configuration has it.
func (r *Role) UnmarshalText(text []byte) error {
	if i := slices.Index(roles[:], string(text)); i >= 0 {
		*r = Role(i)
		return nil
	}
	return fmt.Errorf("expected the role user, operator or admin, got %q", wording.Clip(string(text)))
}

// MaxName is how long a name may be, in bytes: providers take no longer one.
const MaxName = 64

// Wire is the name towards a model: providers allow no dots.
func (t *Tool) Wire() string { return Wire(t.Name) }

// Wire makes the name that a model sees of a tool's name.
func Wire(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Check says why a tool cannot be used: its name, its schema, or no function. It is nil for a good one.
func (t *Tool) Check() error {
	t.once.Do(func() { t.broken = t.check() })
	return t.broken
}

func (t *Tool) check() error {
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if t.Run == nil {
		return fmt.Errorf("tool %s: expected a function that runs it", t.Name)
	}
	if t.Approval != "" && t.Approval != Never && t.Approval != Always {
		return fmt.Errorf("tool %s: expected the approval never or always, got %q", t.Name, wording.Clip(string(t.Approval)))
	}
	if len(t.Schema) == 0 {
		return nil
	}
	if t.Lenient {
		t.compiled = schema.CompileLenient(t.Schema)
		t.unchecked = t.compiled.Left
		return nil
	}
	compiled, err := schema.Compile(t.Schema)
	if err != nil {
		return fmt.Errorf("tool %s: the schema of its arguments: %w", t.Name, err)
	}
	t.compiled = compiled
	return nil
}

// Unchecked says what of a [Tool.Lenient] tool's schema arguments are not held to, and why; nil is that all of it is checked.
func (t *Tool) Unchecked() []string {
	_ = t.Check() // which a tool that is used has passed
	return t.unchecked
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// CheckName says why a tool cannot have a name.
func CheckName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("tool %.16s…: expected a name of at most %d bytes, got %d", name, MaxName, len(name))
	}
	if !goodName.MatchString(name) {
		return fmt.Errorf("tool %q: expected letters, digits, _ and -, in segments joined by dots", name)
	}
	return nil
}

// Parameters is the schema of the arguments as a model gets it; never empty.
func (t *Tool) Parameters() json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return t.Schema
}

// Option changes a tool while it is made.
type Option func(*Tool)

// WithTimeout bounds each call.
func WithTimeout(d time.Duration) Option { return func(t *Tool) { t.Timeout = d } }

// WithApproval says whether a person is asked before each call.
func WithApproval(a Approval) Option { return func(t *Tool) { t.Approval = a } }

// WithRole says who may approve.
func WithRole(r Role) Option { return func(t *Tool) { t.Role = r } }

// WithSerial lets nothing else run beside a call.
func WithSerial() Option { return func(t *Tool) { t.Serial = true } }

// WithIdempotent sets [Tool.Idempotent].
func WithIdempotent() Option { return func(t *Tool) { t.Idempotent = true } }
