package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// MaxID is the length of the longest valid id of a run.
const MaxID = 64

// idChars are the characters of ids of runs.
const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// ValidID reports whether a text can be the id of a run, so that no other text reaches a map or a log.
func ValidID(text string) bool {
	return text != "" && len(text) <= MaxID && strings.Trim(text, idChars) == ""
}

// Completion is a call of a model without an agent or a workflow. Its messages are [Request].History.
type Completion struct {
	JSON       bool            `json:"json,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`
	SchemaName string          `json:"schema_name,omitempty"`
}

// CompletionName is the name of the workflow of a completion, and of its only bot.
const CompletionName = "completion"

// workflow returns a workflow with one bot that calls the model.
func (c *Completion) workflow() flow.Workflow {
	return resumable{flow.Func(CompletionName, "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
		b, err := m.CreateBot(CompletionName, "", func(config *bot.Config) {
			config.NoValue, config.Format = true, bot.Text
			if c.JSON {
				config.Format, config.Schema, config.SchemaName = bot.JSON, c.Schema, c.SchemaName
			}
		})
		if err != nil {
			return err
		}
		return b.Chat(bot.Message{}) // behind the history
	})}
}

// resumable is a workflow that begins once more if its server is lost.
type resumable struct{ flow.Workflow }

func (w resumable) Info() flow.Info {
	info := w.Workflow.Info()
	info.Resume = true
	return info
}

// Request is what to run. Two requests with equal JSON are the same request, in any framing.
type Request struct {
	Who        access.Principal  `json:"-"` // who asks
	Caller     string            `json:"-"` // the name that the run counts for; "" is none
	Key        string            `json:"-"` // Idempotency-Key; "" is none
	Trace      trace.SpanContext `json:"-"` // of who asks; zero is none
	Unattended bool              `json:"-"` // who asks waits for the document, and can answer no question
	Attached   bool              `json:"-"` // the run ends with the connection of who asks, and so with its server
	KeyTag     string            `json:"-"` // of the API key by which they ask, see [access.Grant.KeyTag]; "" is none
	Account    *adapter.Account  `json:"-"` // pays for the request, and then for the run; nil is a new one

	Subject
	Inline  json.RawMessage `json:"inline,omitempty"` // a workflow of the request's own
	Session string          `json:"session,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Model   string          `json:"model,omitempty"`
	Params  map[string]any  `json:"params,omitempty"`
	Options adapter.Options `json:"options"`
	Exclude []string        `json:"exclude,omitempty"`
	Include []string        `json:"include,omitempty"`
	Done    bool            `json:"done,omitempty"`
	HTML    bool            `json:"html,omitempty"`
	Strict  bool            `json:"strict,omitempty"` // an answer that does not fit its schema fails its bot
	OnBusy  string          `json:"on_busy,omitempty"`

	// Of clients that keep their conversations themselves.
	Instructions string            `json:"instructions,omitempty"` // beside an agent's own; a workflow has its own and takes none
	History      []adapter.Message `json:"history,omitempty"`      // before the input; a session that has a tape takes none

	Files      []adapter.Part `json:"files,omitempty"`      // images and files beside the input: data, or the ids of uploaded files
	Completion *Completion    `json:"completion,omitempty"` // in place of a workflow or an agent: the model alone
}

// Hash identifies a request. The order of members and white space do not count.
func (a Request) Hash() [16]byte {
	text, _ := json.Marshal(a)
	var value any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	_ = dec.Decode(&value)
	text, _ = json.Marshal(value) // with all members in order
	sum := sha256.Sum256(text)
	return [16]byte(sum[:])
}

// Subject is the workflow or the agent of a run.
type Subject struct {
	Workflow string `json:"workflow,omitempty"`
	Agent    string `json:"agent,omitempty"`
}

// attr is the subject in the log.
func (s Subject) attr() slog.Attr {
	if s.Agent != "" {
		return slog.String("agent", s.Agent)
	}
	return slog.String("workflow", s.Workflow)
}

// spec is a run that has been checked and can be started.
type spec struct {
	origin
	request  *Request
	workflow flow.Workflow
	agent    *agentRun // nil for a run that is no turn
	input    map[string]any
	files    []adapter.Part // beside the input
	model    string         // named in the started event
	config   bot.Config
	history  []adapter.Message // of a workflow's run that is in no session, which has its own
	hash     [16]byte          // of the request, if it has a key
	steered  bool              // its message was given to the turn of another run
	queued   bool              // its work waits for its turn or for a slot
	span     trace.Span        // of the run; nil until it is started, or without a tracer
	resumed  *leftRun          // nil for a run that begins
	account  *adapter.Account  // of the request, and then of the run; nil is a new one
	ctx      context.Context   // of the run; nil until [Service.runContext] has made it
}

// accepted reports whether the run was accepted before: its message was steered to another turn, or it goes on.
func (sp *spec) accepted() bool { return sp.steered || sp.resumed != nil }

// NewID makes a run's id: 130 random bits in lower-case base32, fit for urls and for file names of any system.
func NewID() string { return strings.ToLower(rand.Text()) }

// filters returns the filters of the events that the caller wants. The patterns are known to be valid.
func (a *Request) filters() []tube.Filter {
	if len(a.Exclude)+len(a.Include) == 0 {
		return nil
	}
	compile := func(patterns []string) (list []tube.Matcher) {
		for _, text := range patterns {
			if p, err := jsonuri.CompilePattern(text); err == nil {
				list = append(list, p)
			}
		}
		return list
	}
	return []tube.Filter{{Exclude: compile(a.Exclude), Include: compile(a.Include)}}
}

// Outcome is how a start got its run. The zero value is a run that the request started.
type Outcome struct {
	Replayed bool   // an earlier request with the key started the run
	Steered  bool   // the turn of the run took the message
	FollowUp string // of a steered message: the run that answers if the host does not; "" is unknown
}

// keyTaken is the error of a start whose key leads to another run.
type keyTaken struct{ store.IdempotencyKey }

func (*keyTaken) Error() string { return "run: the Idempotency-Key leads to another run" }

// keyOf returns the row of a start's key that leads to a run; nil without a key.
func (s *Service) keyOf(sp *spec, run string) *store.IdempotencyKey {
	if sp.request.Key == "" {
		return nil
	}
	return &store.IdempotencyKey{Owner: sp.owner, Key: sp.request.Key, Hash: sp.hash, Run: run, Expires: time.Now().Add(s.o.KeyRetention)}
}

// moveKey makes the key of a message lead to the run that took the message, or back to its own.
func (s *Service) moveKey(sp *spec, to string) {
	k := s.keyOf(sp, to)
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	if err := s.store.SetKey(ctx, *k); err != nil {
		s.log.WarnContext(ctx, "cannot link an idempotency key to its run", "run", to, "error", err)
	}
}
