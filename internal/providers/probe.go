package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// Statuses of a probe. No means that the model refuses the feature, Fail that it should have it.
const (
	OK   = "ok"
	No   = "no"
	Fail = "fail"
	Skip = "skip" // not tested
)

// Outcome is how a test ended.
type Outcome struct {
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds,omitempty"` // until the first token, or of the whole test
	Code    string  `json:"code,omitempty"`    // of the error
	Message string  `json:"message,omitempty"`
	Cause   string  `json:"cause,omitempty"` // in the words of the model's server, or of the network
}

// Probe is the test of one feature of a model.
type Probe struct {
	Check string `json:"check"`
	Outcome
}

// answer is an answer of a model.
type answer struct {
	text     strings.Builder
	calls    []adapter.ToolCall
	maker    adapter.Maker
	reasoned bool
	model    string
	usage    adapter.Usage
	first    time.Duration // until the first token; 0 without one
}

// maxAnswer is how much of an answer is read, in bytes: all questions have short answers.
const maxAnswer = 16 << 10

// readAnswer reads an answer up to maxAnswer, or to its first token.
func readAnswer(ctx context.Context, m adapter.Model, req adapter.Request, firstToken bool) (*answer, error) {
	a, began, size := new(answer), time.Now(), 0
	for c, err := range m.Stream(ctx, req) {
		if errors.Is(err, adapter.ErrEmpty) { // possible with few tokens
			break
		}
		if err != nil {
			return a, err
		}
		a.maker.Take(&c)
		if c.Model != "" {
			a.model = c.Model
		}
		if c.Usage != nil {
			a.usage = *c.Usage
		}
		a.reasoned = a.reasoned || c.Reasoning != "" || c.Beside != nil && c.Beside.Type == adapter.PartReasoning
		a.text.WriteString(c.Text)
		if c.ToolCall != nil {
			a.addCall(*c.ToolCall)
		}
		if c.Text != "" || c.Reasoning != "" || c.ToolCall != nil {
			if a.first == 0 {
				a.first = time.Since(began)
			}
			if firstToken {
				break
			}
		}
		if size += len(c.Text) + len(c.Reasoning); size > maxAnswer {
			break
		}
	}
	return a, nil
}

// addCall joins the parts of calls. Only the first part has the id and the name.
func (a *answer) addCall(part adapter.ToolCall) {
	i := slices.IndexFunc(a.calls, func(c adapter.ToolCall) bool { return c.Index == part.Index })
	if i < 0 {
		a.calls = append(a.calls, part)
		return
	}
	a.calls[i].Arguments += part.Arguments
}

// exam is the tests of one model.
type exam struct {
	checker  *Checker
	model    adapter.Model
	result   *Result
	timedOut bool // the other tests are skipped
}

// ask sends one request and counts its usage.
func (e *exam) ask(ctx context.Context, req adapter.Request) (*answer, error) {
	a, err := readAnswer(ctx, e.model, req, false)
	e.result.count(a.usage)
	return a, err
}

// unmet is the error of a model that answered, but not as requested.
type unmet string

func (u unmet) Error() string { return string(u) }

// run runs one test with its own timeout, and records its result.
func (e *exam) run(ctx context.Context, name string, test func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	p := Probe{name, Outcome{Status: Skip, Message: "skipped, because the model did not answer before"}}
	if !e.timedOut {
		ctx, cancel := e.checker.limit(ctx)
		defer cancel()
		began := time.Now()
		p.Outcome = outcomeOf(test(ctx))
		p.Seconds = time.Since(began).Seconds()
		e.timedOut = p.Code == adapter.CodeTimeout
	}
	e.result.Checks = append(e.result.Checks, p)
}

// outcomeOf returns the outcome of a test that ended with this error.
func outcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Status: OK}
	}
	if u, ok := errors.AsType[unmet](err); ok {
		return Outcome{Status: Fail, Message: string(u)}
	}
	o := Outcome{Status: Fail, Code: Code(err), Message: Message(err), Cause: Cause(err)}
	if refusedRequest(err) {
		o.Status = No
	}
	return o
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

// maxTokens is the limit of each answer, which includes reasoning.
var maxTokens = new(2048)

// codeWord is the result of the tool. The model cannot guess it.
const codeWord = "mangrove-47"

var roomTool = adapter.Tool{
	Name: "look_up", Description: "Returns the code word of a room.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string","description":"name of the room"}},"required":["room"],"additionalProperties":false}`),
}

// tools tests a tool call with reasoning: a call, its result, and an answer that uses the result.
func (e *exam) tools(ctx context.Context) {
	thinking := Outcome{Status: Skip, Message: "unknown, because the model did not answer"}
	e.run(ctx, "tools", func(ctx context.Context) error {
		req := adapter.Request{
			Messages: []adapter.Message{{Role: adapter.User, Content: "What is the code word of the room Lotus? Call the tool look_up to find out, then answer with the code word alone."}},
			Tools:    []adapter.Tool{roomTool},
			Options:  adapter.Options{MaxTokens: maxTokens, Reasoning: adapter.Reasoning{Effort: "low"}},
		}
		call, err := e.ask(ctx, req)
		if err != nil && refusedRequest(err) { // perhaps it cannot think, or not in this way
			first := err
			req.Reasoning = adapter.Reasoning{}
			if call, err = e.ask(ctx, req); err == nil {
				thinking = outcomeOf(first)
			}
		}
		if err != nil {
			return err
		}
		switch {
		case thinking.Status == No:
		case call.reasoned || call.usage.ReasoningTokens > 0:
			thinking = Outcome{Status: OK}
		default:
			thinking.Status, thinking.Message = No, "it returned no reasoning"
		}
		results, err := e.results(call)
		if err != nil {
			return err
		}
		req.Messages = append(req.Messages, results...)
		end, err := e.ask(ctx, req)
		if err != nil {
			return fmt.Errorf("the result of the tool: %w", err)
		}
		if !strings.Contains(end.text.String(), codeWord) {
			return unmet("it did not use the result of the tool in its answer")
		}
		return nil
	})
	if ctx.Err() == nil {
		e.result.Checks = append(e.result.Checks, Probe{"thinking", thinking})
	}
}

// results returns the messages that follow the calls of an answer: the answer, with all that its provider needs again, and the results.
func (e *exam) results(a *answer) ([]adapter.Message, error) {
	if len(a.calls) == 0 {
		return nil, unmet("it did not call the tool")
	}
	if a.model == "" {
		a.model = e.result.Model
	}
	ids := map[int]string{}
	message := adapter.Message{Role: adapter.Assistant, Content: a.text.String()}
	var results []adapter.Message
	for n, c := range a.calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d", n)
		}
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
		if c.Name != roomTool.Name || !json.Valid([]byte(c.Arguments)) {
			return nil, unmet("it called the tool with a wrong name, or with arguments that are not JSON")
		}
		ids[c.Index] = c.ID
		message.ToolCalls = append(message.ToolCalls, c)
		results = append(results, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: codeWord})
	}
	message.Made = a.maker.Made(a.model, func(index int) string { return ids[index] })
	return append([]adapter.Message{message}, results...), nil
}

// questions are the tests with one request.
var questions = []struct {
	name    string
	request adapter.Request
	valid   func(answer string) bool
	unmet   unmet
}{
	{
		"two messages", adapter.Request{Messages: []adapter.Message{
			{Role: adapter.System, Content: "You answer with one word."},
			{Role: adapter.User, Content: "My bird is called Pelle."},
			{Role: adapter.User, Content: "What is my bird called?"},
		}}, contains("pelle"), "it ignored the first of two messages",
	},
	{
		"schema", adapter.Request{
			Messages: []adapter.Message{{Role: adapter.User, Content: "Which month comes after April, and how many days does it have? Answer in JSON, with the members month and days."}},
			Format: adapter.Format{JSON: true, Name: "month", Schema: json.RawMessage(
				`{"type":"object","properties":{"month":{"type":"string"},"days":{"type":"integer"}},"required":["month","days"],"additionalProperties":false}`)},
		}, isMonth, "its answer does not match the schema; `on_invalid: retry` retries such an answer",
	},
	{
		"image", adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{
			{Type: "text", Text: "Which colour is this picture? Answer with one word."},
			{Type: "image_url", Image: redPicture},
		}}}}, contains("red"), "it did not recognize the picture",
	},
}

func contains(word string) func(string) bool {
	return func(answer string) bool { return strings.Contains(strings.ToLower(answer), word) }
}

func isMonth(answer string) bool {
	var month struct {
		Month *string
		Days  *int
	}
	d := json.NewDecoder(strings.NewReader(answer))
	d.DisallowUnknownFields()
	return d.Decode(&month) == nil && month.Month != nil && month.Days != nil
}

// testFeatures tests the features of a model that answers.
func (e *exam) testFeatures(ctx context.Context) {
	e.tools(ctx)
	for _, q := range questions {
		e.run(ctx, q.name, func(ctx context.Context) error {
			q.request.MaxTokens = maxTokens
			a, err := e.ask(ctx, q.request)
			if err == nil && !q.valid(a.text.String()) {
				return q.unmet
			}
			return err
		})
	}
}

// redPicture is a red PNG of 64 × 64 pixels as a data URL.
const redPicture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAUklEQVR42uzPQQkAAAgEsEPsn9AwRvAtbA3Wk98qAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgKHDQAA//9KTgFfdku36QAAAABJRU5ErkJggg=="
