package request

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/run"
)

// The members of a run's request that mean the same on every wire.

// MaxName is the length of a name of a workflow, an agent or a model, in bytes. It only has to be larger than anything sensible.
const MaxName = 256

// nameTag has the limits of names, and of the names in a chain of models.
const nameTag reflect.StructTag = `max:"256" items:"8"`

// Name reads a string of 1 to MaxName bytes.
func (d *Decoder) Name(pointer string, raw json.RawMessage) (name string) {
	d.read(pointer, raw, reflect.ValueOf(&name).Elem(), nameTag)
	return name
}

// Model reads the name of a model, or a list of names: a chain, in which the next is asked when one fails.
func (d *Decoder) Model(pointer string, raw json.RawMessage) string {
	if raw[0] != '[' {
		return Chain(d.Name(pointer, raw))
	}
	var names []string
	d.read(pointer, raw, reflect.ValueOf(&names).Elem(), nameTag)
	if names != nil && len(names) == 0 {
		d.Fail(pointer, "expected at least one model")
	}
	return Chain(strings.Join(names, ","))
}

// Chain writes names of models that are separated by commas in one way.
func Chain(names string) string {
	parts := strings.Split(names, ",")
	for i, name := range parts {
		parts[i] = strings.TrimSpace(name)
	}
	return strings.Join(parts, ",")
}

// AboutFiles is the input of a user who sends files and no text.
const AboutFiles = "What is this?"

// Input reads the input of a run. A list of parts is its text, and the images and files become those of the run.
func (d *Decoder) Input(q *run.Request, pointer string, raw json.RawMessage) {
	if q.Input = raw; raw[0] == '[' {
		q.Input, _ = json.Marshal(cmp.Or(d.Parts(q, pointer, raw), AboutFiles))
	}
}

// Parts adds the images and files of a list of parts to a request, and returns the text.
func (d *Decoder) Parts(q *run.Request, pointer string, raw json.RawMessage) string {
	var list []json.RawMessage
	if !d.As(pointer, raw, '[', "an array of parts", &list) {
		return ""
	}
	text, media, i, inside, detail := mediapart.ReadAll(list)
	if detail != "" {
		d.Fail(Item(pointer, i)+inside, "%s", detail)
	}
	q.Files = append(q.Files, media...)
	return text
}

// Bounds of what a caller says beside its message.
const (
	MaxInstructions = 64 << 10 // bytes
	MaxHistory      = 1000     // messages
	MaxHistoryBytes = 1 << 20  // of their texts
)

// Conversation splits messages into the instructions, which are those of the system, and the texts of the user and the assistant.
// Results of tools are left out.
func Conversation(list []adapter.Message) (instructions string, before []adapter.Message) {
	var system []string
	for _, m := range list {
		switch text := textOf(m); {
		case text == "":
		case m.Role == adapter.System:
			system = append(system, text)
		case m.Role != adapter.ToolRole:
			before = append(before, adapter.Message{Role: m.Role, Content: text})
		}
	}
	return strings.Join(system, "\n\n"), before
}

// textOf is what a message says in words; of images and files it says that they were there.
func textOf(m adapter.Message) string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
		case p.Image != "":
			texts = append(texts, "[an image]")
		default:
			texts = append(texts, "[a file]")
		}
	}
	return strings.Join(texts, "\n")
}

// CheckConversation checks the instructions and the earlier messages of a request. The fault has no place: the reader of the body knows it.
func CheckConversation(q *run.Request) *run.Field {
	size, detail := 0, ""
	for _, m := range q.History {
		if size += len(m.Content); m.Role != adapter.User && m.Role != adapter.Assistant {
			detail = "expected earlier messages of the roles user and assistant, found " + wording.Quote(m.Role)
		}
	}
	switch n := len(q.History); {
	case len(q.Instructions) > MaxInstructions:
		detail = fmt.Sprintf("expected instructions of at most %d bytes, found %d", MaxInstructions, len(q.Instructions))
	case n > MaxHistory:
		detail = fmt.Sprintf("expected at most %d earlier messages, found %d; use a session, which stores messages", MaxHistory, n)
	case detail == "" && size > MaxHistoryBytes:
		detail = fmt.Sprintf("expected earlier messages of at most %d bytes, found %d; use a session, which stores messages", MaxHistoryBytes, size)
	}
	if detail == "" {
		return nil
	}
	return &run.Field{Detail: detail}
}

// Params reads the parameters of templates. Their numbers keep their digits.
func (d *Decoder) Params(q *run.Request, pointer string, raw json.RawMessage) {
	var object json.RawMessage
	if !d.As(pointer, raw, '{', "an object", &object) {
		return
	}
	numbers := json.NewDecoder(bytes.NewReader(object))
	numbers.UseNumber()
	_ = numbers.Decode(&q.Params) // it is an object
}

// Options reads the options of a model.
func (d *Decoder) Options(q *run.Request, pointer string, raw json.RawMessage) {
	o, misfits := adapter.ReadOptions(raw, false)
	for _, m := range misfits {
		at := pointer
		for _, name := range m.At {
			at += schema.Pointer([]string{name})
		}
		d.Fail(at, "%s", m.Detail)
	}
	q.Options = o
}

// Filter reads which deltas are sent.
func (d *Decoder) Filter(q *run.Request, pointer string, raw json.RawMessage) {
	var filter struct {
		Exclude []string `field:"exclude" max:"1024" items:"64"`
		Include []string `field:"include" max:"1024" items:"64"`
	}
	if d.Read(pointer, raw, &filter) {
		q.Exclude, q.Include = filter.Exclude, filter.Include
		d.checkPatterns(pointer+"/exclude", q.Exclude)
		d.checkPatterns(pointer+"/include", q.Include)
	}
}

func (d *Decoder) checkPatterns(pointer string, patterns []string) {
	for i, text := range patterns {
		if _, err := jsonuri.CompilePattern(text); err != nil {
			d.Fail(Item(pointer, i), "%s", strings.TrimPrefix(err.Error(), "jsonuri: "))
		}
	}
}
