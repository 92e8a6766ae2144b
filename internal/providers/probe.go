package providers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// Statuses of a probe. No is a feature that the model refuses; Fail is one that it should have had.
const (
	OK   = "ok"
	No   = "no"
	Fail = "fail"
	Skip = "skip" // not tested
)

// Probe is the test of one feature of a model.
type Probe struct {
	Check   string  `json:"check"`
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds,omitempty"`
	Code    string  `json:"code,omitempty"`
	Message string  `json:"message,omitempty"`
	Cause   string  `json:"cause,omitempty"` // in the words of its server
}

// heard is an answer of a model.
type heard struct {
	text    strings.Builder
	calls   []adapter.ToolCall
	maker   adapter.Maker
	thought bool // there was reasoning
	model   string
	usage   adapter.Usage
	first   time.Duration // until the first of the answer; 0 where nothing came
}

// maxHeard is how much of an answer is read, in bytes: all questions have short ones.
const maxHeard = 16 << 10

// listen reads an answer, up to maxHeard.
func listen(ctx context.Context, m adapter.Model, req adapter.Request) (*heard, error) {
	h, began, size := new(heard), time.Now(), 0
	for c, err := range m.Stream(ctx, req) {
		if errors.Is(err, adapter.ErrEmpty) { // which a question with few tokens may get
			break
		}
		if err != nil {
			return h, err
		}
		h.maker.Take(&c)
		if c.Model != "" {
			h.model = c.Model
		}
		if c.Usage != nil {
			h.usage = *c.Usage
		}
		if c.Reasoning != "" || c.Beside != nil && c.Beside.Type == adapter.PartReasoning {
			h.thought = true
		}
		h.text.WriteString(c.Text)
		if p := c.ToolCall; p != nil {
			h.call(p)
		}
		if h.first == 0 && (c.Text != "" || c.Reasoning != "" || c.ToolCall != nil) {
			h.first = time.Since(began)
		}
		if size += len(c.Text) + len(c.Reasoning); size > maxHeard {
			break
		}
	}
	return h, nil
}

// call joins the pieces of calls.
func (h *heard) call(p *adapter.ToolCall) {
	for i := range h.calls {
		if c := &h.calls[i]; c.Index == p.Index {
			c.Arguments += p.Arguments
			if c.Name == "" {
				c.Name = p.Name
			}
			if c.ID == "" {
				c.ID = p.ID
			}
			return
		}
	}
	h.calls = append(h.calls, *p)
}

// examine tests the features of a model that answers. Each test has its own timeout.
func (c *Checker) examine(ctx context.Context, t *Result) {
	m, err := c.Models.Model(t.Model)
	if err != nil {
		return // it was found a moment ago
	}
	e := &exam{c: c, m: m, t: t}
	e.tools(ctx)
	e.run(ctx, "two messages", e.neighbours)
	e.run(ctx, "schema", e.schema)
	e.run(ctx, "image", e.image)
}

// exam is the tests of one model.
type exam struct {
	c    *Checker
	m    adapter.Model
	t    *Result
	over bool // a test timed out: the others are skipped
}

// ask sends one request and counts its usage.
func (e *exam) ask(ctx context.Context, req adapter.Request) (*heard, error) {
	h, err := listen(ctx, e.m, req)
	e.t.count(h.usage)
	return h, err
}

// missed is the error of a model that answered, but not as requested.
type missed string

func (m missed) Error() string { return string(m) }

// run runs one test and records its result.
func (e *exam) run(ctx context.Context, name string, check func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	if e.over {
		e.t.Checks = append(e.t.Checks, Probe{Check: name, Status: Skip, Message: "skipped, because the model did not answer before"})
		return
	}
	ctx, cancel := e.c.limit(ctx)
	defer cancel()
	began := time.Now()
	p := probeOf(name, check(ctx))
	p.Seconds = time.Since(began).Seconds()
	e.over = p.Code == adapter.CodeTimeout
	e.t.Checks = append(e.t.Checks, p)
}

// probeOf returns the result of a test that ended with this error.
func probeOf(name string, err error) Probe {
	p := Probe{Check: name, Status: OK}
	if err == nil {
		return p
	}
	if m, ok := errors.AsType[missed](err); ok {
		p.Status, p.Message = Fail, string(m)
		return p
	}
	p.Status, p.Code, p.Message, p.Cause = Fail, Code(err), Message(err), Cause(err)
	if refusedRequest(err) {
		p.Status = No
	}
	return p
}

// refusedRequest reports whether the model, or its adapter, does not support the request.
func refusedRequest(err error) bool {
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return !e.ContextLength
	}
	return e.OfModel || e.Status == 0 && e.Code == adapter.CodeInvalid
}

// maxTokens is the limit of each answer, with room for reasoning.
var maxTokens = new(2048)

// codeWord is the result of the tool. The model cannot guess it.
const codeWord = "mangrove-47"

var roomTool = adapter.Tool{
	Name: "look_up", Description: "Returns the code word of a room.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string","description":"name of the room"}},"required":["room"],"additionalProperties":false}`),
}

// tools tests a tool call with reasoning: a call, its result, and an answer that uses the result. The provider's opaque parts are sent back.
func (e *exam) tools(ctx context.Context) {
	thinking := Probe{Check: "thinking", Status: Skip, Message: "unknown, because the model did not answer"}
	e.run(ctx, "tools", func(ctx context.Context) error {
		messages := []adapter.Message{{Role: adapter.User, Content: "What is the code word of the room Lotus? Call the tool look_up to find out, then answer with the code word alone."}}
		req := adapter.Request{
			Messages: messages, Tools: []adapter.Tool{roomTool},
			Options: adapter.Options{MaxTokens: maxTokens, Reasoning: adapter.Reasoning{Effort: "low"}},
		}
		h, err := e.ask(ctx, req)
		if err != nil && refusedRequest(err) { // perhaps it cannot think, or not in this way
			first := err
			req.Reasoning = adapter.Reasoning{}
			if h, err = e.ask(ctx, req); err == nil {
				thinking = probeOf("thinking", first)
			}
		}
		if err != nil {
			return err
		}
		switch {
		case thinking.Status == No:
		case h.thought || h.usage.ReasoningTokens > 0:
			thinking = Probe{Check: "thinking", Status: OK}
		default:
			thinking.Status, thinking.Message = No, "it returned no reasoning"
		}
		if len(h.calls) == 0 {
			return missed("it did not call the tool")
		}
		answer := adapter.Message{Role: adapter.Assistant, Content: h.text.String()}
		ids := map[int]string{}
		for n, c := range h.calls {
			if c.ID == "" {
				c.ID = fmt.Sprintf("call_%d", n)
			}
			if c.Arguments == "" {
				c.Arguments = "{}"
			}
			if c.Name != roomTool.Name || !json.Valid([]byte(c.Arguments)) {
				return missed("it called the tool with a wrong name, or with arguments that are not JSON")
			}
			ids[c.Index] = c.ID
			answer.ToolCalls = append(answer.ToolCalls, c)
		}
		model := h.model
		if model == "" {
			model = e.t.Model
		}
		answer.Made = h.maker.Made(model, func(index int) string { return ids[index] })
		req.Messages = append(messages, answer)
		for _, c := range answer.ToolCalls {
			req.Messages = append(req.Messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: codeWord})
		}
		if h, err = e.ask(ctx, req); err != nil {
			return fmt.Errorf("the result of the tool: %w", err)
		}
		if !strings.Contains(h.text.String(), codeWord) {
			return missed("it did not use the result of the tool in its answer")
		}
		return nil
	})
	if ctx.Err() == nil {
		e.t.Checks = append(e.t.Checks, thinking)
	}
}

// neighbours tests two successive messages of the same role.
func (e *exam) neighbours(ctx context.Context) error {
	h, err := e.ask(ctx, adapter.Request{
		Messages: []adapter.Message{
			{Role: adapter.System, Content: "You answer with one word."},
			{Role: adapter.User, Content: "My bird is called Pelle."},
			{Role: adapter.User, Content: "What is my bird called?"},
		},
		Options: adapter.Options{MaxTokens: maxTokens},
	})
	if err == nil && !strings.Contains(strings.ToLower(h.text.String()), "pelle") {
		return missed("it ignored the first of two messages")
	}
	return err
}

// schema tests an answer by a JSON Schema.
func (e *exam) schema(ctx context.Context) error {
	h, err := e.ask(ctx, adapter.Request{
		Messages: []adapter.Message{{Role: adapter.User, Content: "Which month comes after April, and how many days does it have? Answer in JSON, with the members month and days."}},
		Format: adapter.Format{JSON: true, Name: "month", Schema: json.RawMessage(
			`{"type":"object","properties":{"month":{"type":"string"},"days":{"type":"integer"}},"required":["month","days"],"additionalProperties":false}`)},
		Options: adapter.Options{MaxTokens: maxTokens},
	})
	if err != nil {
		return err
	}
	var answer struct {
		Month *string
		Days  *int
	}
	d := json.NewDecoder(strings.NewReader(h.text.String()))
	d.DisallowUnknownFields()
	if d.Decode(&answer) != nil || answer.Month == nil || answer.Days == nil {
		return missed("its answer does not match the schema; `on_invalid: retry` retries such an answer")
	}
	return nil
}

// image tests a question about a picture.
func (e *exam) image(ctx context.Context) error {
	h, err := e.ask(ctx, adapter.Request{
		Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{
			{Type: "text", Text: "Which colour is this picture? Answer with one word."},
			{Type: "image_url", Image: redPicture()},
		}}},
		Options: adapter.Options{MaxTokens: maxTokens},
	})
	if err == nil && !strings.Contains(strings.ToLower(h.text.String()), "red") {
		return missed("it did not recognize the picture")
	}
	return err
}

// redPicture returns a red PNG as a data URL.
func redPicture() string {
	picture := image.NewRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{R: 220, A: 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		panic("models: " + err.Error()) // into memory: cannot fail
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}
