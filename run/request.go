package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// MaxID is the longest run id that is looked at.
const MaxID = 64

// ValidID reports whether a text could be the id of a run, so that nothing else reaches a map, a log or a file name.
func ValidID(text string) bool {
	if text == "" || len(text) > MaxID {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// mediaOf are the files of a request as an envelope has them.
func mediaOf(files []adapter.Part) (list []turn.Media) {
	for i := range files {
		p := &files[i]
		kind := p.Kind()
		if kind != adapter.KindImage && kind != adapter.KindAudio {
			kind = "file"
		}
		list = append(list, turn.Media{Type: kind, URL: p.Image + p.File, Name: p.Name})
	}
	return list
}

// Said is something that was said before, as a client tells it that keeps its conversations itself.
type Said struct {
	Role string `json:"role"` // [adapter.User] or [adapter.Assistant]
	Text string `json:"text"`
}

// Bounds of what a caller says beside its message.
const (
	MaxInstructions = 64 << 10 // bytes
	MaxHistory      = 1000     // messages
	MaxHistoryBytes = 1 << 20  // of their texts
)

// CheckSaid checks what the caller says beside its message. Where that stands in a body, the reader of the body knows.
func (a *Request) CheckSaid() error {
	if n := len(a.Instructions); n > MaxInstructions {
		return misfitting(Field{Detail: fmt.Sprintf("expected instructions of at most %d bytes, found %d", MaxInstructions, n)})
	}
	if n := len(a.History); n > MaxHistory {
		return misfitting(Field{Detail: fmt.Sprintf("expected at most %d earlier messages, found %d; use a session, which stores messages", MaxHistory, n)})
	}
	size := 0
	for _, s := range a.History {
		if s.Role != adapter.User && s.Role != adapter.Assistant {
			return misfitting(Field{Detail: "expected earlier messages of the roles user and assistant, found " + wording.Quote(s.Role)})
		}
		size += len(s.Text)
	}
	if size > MaxHistoryBytes {
		return misfitting(Field{Detail: fmt.Sprintf(
			"expected earlier messages of at most %d bytes, found %d; use a session, which stores messages", MaxHistoryBytes, size,
		)})
	}
	return nil
}

// messages are what was said as models read it.
func messages(history []Said) []adapter.Message {
	list := make([]adapter.Message, 0, len(history))
	for _, s := range history {
		list = append(list, adapter.Message{Role: s.Role, Content: s.Text})
	}
	return list
}

// Completion is what a model is asked for without an agent or a workflow around it: the messages as they are.
type Completion struct {
	Messages   []adapter.Message `json:"messages"`
	JSON       bool              `json:"json,omitempty"`
	Schema     json.RawMessage   `json:"schema,omitempty"`
	SchemaName string            `json:"schema_name,omitempty"`
}

// CompletionName is what the run of a completion is called, and its only bot.
const CompletionName = "completion"

// workflow is one bot that asks the model.
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
		b.SetHistory(c.Messages...)
		return b.Chat(bot.Message{})
	})}
}

// resumable is a workflow that begins once more if its server is lost.
type resumable struct{ flow.Workflow }

func (w resumable) Info() flow.Info {
	info := w.Workflow.Info()
	info.Resume = true
	return info
}

// Request is what is to run. Two requests with equal members are the same request, whatever framing they want.
type Request struct {
	Who        access.Principal  `json:"-"` // who asks
	Caller     string            `json:"-"` // whom the run is counted for; "" is nobody
	Key        string            `json:"-"` // Idempotency-Key; "" is none
	Trace      trace.SpanContext `json:"-"` // of who asks; zero is none
	Unattended bool              `json:"-"` // who asks waits for the document, and can answer no question
	KeyTag     string            `json:"-"` // of the API key by which they ask, see [access.Grant.KeyTag]; "" is none
	Account    *adapter.Account  `json:"-"` // pays for the request, and then for the run; nil is a new one

	Subject
	Inline     json.RawMessage   `json:"inline,omitempty"` // a workflow of the request's own
	Session    string            `json:"session,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Properties map[string]string `json:"properties,omitempty"` // input.NAME=… of a query; typed once the schema is known
	Model      string            `json:"model,omitempty"`
	Params     map[string]any    `json:"params,omitempty"`
	Options    adapter.Options   `json:"options"`
	Exclude    []string          `json:"exclude,omitempty"`
	Include    []string          `json:"include,omitempty"`
	Done       bool              `json:"done,omitempty"`
	HTML       bool              `json:"html,omitempty"`
	Strict     bool              `json:"strict,omitempty"` // an answer that does not fit its schema fails its bot
	OnBusy     string            `json:"on_busy,omitempty"`

	// Of clients that keep their conversations themselves.
	Instructions string `json:"instructions,omitempty"` // beside an agent's own; a workflow has its own and takes none
	History      []Said `json:"history,omitempty"`      // before the input; a session that has a tape takes none

	Files      []adapter.Part `json:"files,omitempty"`      // images and files beside the input: data, or the ids of uploaded files
	Completion *Completion    `json:"completion,omitempty"` // in place of a workflow or an agent: the model alone
}

// Hash tells two requests apart. Members are in a fixed order and spaces are out, so that a client may write the same request
// differently.
func (a Request) Hash() (h [16]byte) {
	for _, raw := range []*json.RawMessage{&a.Input, &a.Inline} {
		if len(*raw) == 0 {
			continue
		}
		var value any
		dec := json.NewDecoder(bytes.NewReader(*raw))
		dec.UseNumber()
		if dec.Decode(&value) == nil {
			*raw, _ = json.Marshal(value)
		}
	}
	text, _ := json.Marshal(a)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:])
}

// Subject is what a run is of: a workflow or an agent.
type Subject struct {
	Workflow string `json:"workflow,omitempty"`
	Agent    string `json:"agent,omitempty"`
}

// attr names it in the log.
func (s Subject) attr() slog.Attr {
	if s.Agent != "" {
		return slog.String("agent", s.Agent)
	}
	return slog.String("workflow", s.Workflow)
}

// setID sets the id of the run, and of its turn.
func (sp *spec) setID(id string) {
	if sp.id = id; sp.agent == nil {
		return
	}
	if sp.session == sp.agent.id {
		sp.session = id
	}
	sp.agent.id, sp.agent.envelope.ID = id, id
	if _, ok := sp.agent.envelope.Extra[turn.ExtraRun]; ok {
		sp.agent.envelope.Extra[turn.ExtraRun] = id
	}
}

// newID returns an id for the run: at first the one that its turn has.
func (sp *spec) newID() string {
	if sp.id == "" && sp.agent != nil {
		return sp.agent.id
	}
	return NewID()
}

// accepted reports whether the run was accepted before: its message was steered to another turn, or it goes on.
func (sp *spec) accepted() bool { return sp.steered || sp.resumed != nil }

// lane is the session that the run is a turn of, as tapes and turns call it; "" for none.
func (sp *spec) lane() string {
	if sp.session == "" {
		return ""
	}
	return webchannel.SessionKey(sp.owner, sp.session)
}

// spec is a run that has been checked and can be started.
type spec struct {
	id       string    // of the run; "" until it is started
	owner    string    // who starts it
	role     tool.Role // of who starts it
	keyTag   string    // of the API key that it is started by; "" is none
	caller   string    // whom it is counted for; "" is nobody
	workflow flow.Workflow
	agent    *agentRun // a run that is a turn; then workflow stands for it
	session  string
	input    map[string]any
	files    []adapter.Part // beside the input
	model    string         // named in the started event
	config   bot.Config
	params   map[string]any
	filters  []tube.Filter
	history  []adapter.Message // of a workflow's run that is in no session, which has its own
	key      string
	hash     [16]byte
	steered  bool              // its message was given to the turn of another run
	queued   bool              // its turn waits in the lane of its session
	request  *Request          // what the run goes on from if its server is lost; nil: it does not
	trace    trace.SpanContext // of whoever asks; zero for none
	span     trace.Span        // of the run; nil until it is started, or where nobody traces
	resumed  *resumed          // nil for a run that begins
	account  *adapter.Account  // that pays for its memory; nil until it is started, or where nobody counts
	asked    *adapter.Account  // that pays for the request, and then for the run; nil is a new one
}

// of is what the run is named after: of an agent's, the workflow only stands for it.
func (sp *spec) of() Subject {
	if sp.agent != nil && sp.agent.answer == nil {
		return Subject{Agent: sp.agent.name}
	}
	if sp.agent != nil && sp.agent.as != "" {
		return Subject{Agent: sp.agent.as}
	}
	return Subject{Workflow: sp.workflow.Info().Name}
}

// NewID makes a run's id: 130 random bits in lower-case base32, fit for urls and for file names of any system.
func NewID() string { return strings.ToLower(rand.Text()) }

// filters choose the events that the caller wants to see; none if it wants all.
func (a *Request) filters() []tube.Filter {
	if len(a.Exclude)+len(a.Include) == 0 {
		return nil
	}
	return []tube.Filter{{Exclude: matchers(a.Exclude), Include: matchers(a.Include)}}
}

// matchers compiles patterns that have been checked.
func matchers(patterns []string) []tube.Matcher {
	var list []tube.Matcher
	for _, text := range patterns {
		if p, err := jsonuri.CompilePattern(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// InputFor puts the input together: the properties of a query go over those of the object, each as its schema wants it.
func (a *Request) InputFor(schema json.RawMessage) (json.RawMessage, error) {
	if len(a.Properties) == 0 {
		if a.Input == nil {
			return json.RawMessage("{}"), nil
		}
		return a.Input, nil
	}
	object := map[string]json.RawMessage{}
	if a.Input != nil && json.Unmarshal(a.Input, &object) != nil {
		return nil, misfitting(Field{Parameter: "input", Detail: "expected an object together with input.NAME, found " + rawjson.Kind(a.Input)})
	}
	var shape struct {
		Properties map[string]struct{ Type any } `json:"properties"`
	}
	_ = json.Unmarshal(schema, &shape) // a property that the schema says nothing about is a string
	for name, text := range a.Properties {
		quoted, _ := json.Marshal(text)
		object[name] = quoted
		if p, ok := shape.Properties[name]; ok && !isString(p.Type) && json.Valid([]byte(text)) {
			object[name] = json.RawMessage(text)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, misfitting(Field{Parameter: "input", Detail: "expected JSON"})
	}
	return text, nil
}

// isString says whether a schema's type allows a string, or anything.
func isString(t any) bool {
	switch t := t.(type) {
	case nil:
		return true
	case string:
		return t == "string"
	case []any:
		return slices.Contains(t, any("string"))
	}
	return false
}

// fileBytes is how many bytes the files of a request take, as text, together with those that it names.
func (s *Service) fileBytes(a *Request) (n int64) {
	count := func(list []adapter.Part) {
		for i := range list {
			p := &list[i]
			n += int64(len(p.Image) + len(p.File))
			if id := mediapart.Ref(p); id != "" {
				n += s.o.Files.Size(a.Who, id) / 3 * 4
			}
		}
	}
	count(a.Files)
	if a.Completion != nil {
		for _, m := range a.Completion.Messages {
			count(m.Parts)
		}
	}
	return n
}

// Outcome says how a start got its run.
type Outcome struct {
	Kind     Kind
	FollowUp string // of a steered message: the run that answers it if its host does not; "" is unknown
}

// Kind is a way to get a run.
type Kind int

// Kinds of outcomes.
const (
	New      Kind = iota // the request started the run
	Replayed             // the request, or one with its key, had started it before
	Steered              // the message was given to the run
)
