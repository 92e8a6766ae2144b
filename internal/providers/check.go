package providers

import (
	"cmp"
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

// Checker finds out what models can do.
type Checker struct {
	Models  *adapter.Registry
	Quick   bool          // ask for one word only
	Timeout time.Duration // of each question
}

// Statuses of an [Outcome]. No means that the model refuses the feature, Fail that it should have it.
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

// verdict is an error with the outcome that it means.
type verdict Outcome

func (v verdict) Error() string { return v.Message }

// unmet is the error of a model that answered, but not as requested.
func unmet(message string) error { return verdict{Status: Fail, Message: message} }

// outcomeOf returns the outcome of a test that ended with this error.
func outcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Status: OK}
	}
	if v, ok := errors.AsType[verdict](err); ok {
		return Outcome(v)
	}
	e := adapter.AsError(err)
	o := Outcome{Status: Fail, Code: e.Code, Message: e.Message, Cause: Cause(err)}
	if refusedRequest(err) {
		o.Status = No
	}
	return o
}

// refusedRequest reports whether the model, or its adapter, does not support the request.
func refusedRequest(err error) bool {
	e := adapter.AsError(err)
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return !e.ContextLength
	}
	return e.OfModel || e.Status == 0 && e.Code == adapter.CodeInvalid
}

// Probe is the test of one feature of a model.
type Probe struct {
	Check string `json:"check"`
	Outcome
}

// Result is the result of the check of a model, or of a provider without configured models, whose list is read.
type Result struct {
	Model    string         `json:"model,omitempty"`
	Provider string         `json:"provider,omitempty"` // instead of the model
	Outcome                 // ok, fail, or skip if nothing can be checked
	Checks   []Probe        `json:"checks,omitempty"` // in order; none if the model does not answer
	Usage    *adapter.Usage `json:"usage,omitempty"`  // of all requests
}

// Name returns the model, or the provider with a colon.
func (t *Result) Name() string {
	if t.Model != "" {
		return t.Model
	}
	return t.Provider + ":"
}

// Check checks the model or the provider that t names, and fills in the rest of t.
func (c *Checker) Check(ctx context.Context, t Result) Result {
	e := &exam{checker: c, result: &t}
	if t.Model == "" {
		t.Outcome = c.run(ctx, func(ctx context.Context) error { return c.checkList(ctx, t.Provider) })
	} else {
		var first time.Duration
		t.Outcome = c.run(ctx, func(ctx context.Context) (err error) {
			first, err = e.checkAnswer(ctx)
			return err
		})
		t.Seconds = cmp.Or(first.Seconds(), t.Seconds)
	}
	t.Message = strings.TrimPrefix(t.Message, fmt.Sprintf("the model %q: ", t.Model)) // which is in the line already
	switch {
	case t.Status == No:
		t.Status = Fail
	case t.Status == Skip:
		t.Seconds = 0
	case t.Status == OK && t.Model != "" && !c.Quick && !strings.HasPrefix(t.Model, "demo:"): // which is scripted
		e.testFeatures(ctx)
	}
	return t
}

// run runs one test with its own timeout.
func (c *Checker) run(ctx context.Context, test func(context.Context) error) Outcome {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	began := time.Now()
	o := outcomeOf(test(ctx))
	o.Seconds = time.Since(began).Seconds()
	return o
}

// limit bounds the time of one test.
func (c *Checker) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, &adapter.Error{
		Code: adapter.CodeTimeout, Message: fmt.Sprintf("no answer within %v", c.Timeout),
	})
}

// checkList checks a provider without configured models by its list, which shows that key and address are right. The result is a verdict, or the
// error of the list.
func (c *Checker) checkList(ctx context.Context, prefix string) error {
	key := "providers." + prefix + ".models"
	if _, lists := c.Models.Provider(prefix).(adapter.Lister); !lists {
		return verdict{Status: Skip, Message: fmt.Sprintf("no model is configured; list your models in %s, or test one with \"lingserve models check %s:NAME\"", key, prefix)}
	}
	names, err := c.List(ctx, prefix)
	if err != nil {
		return err
	}
	count := fmt.Sprintf("%d models, e.g. ", len(names))
	switch len(names) {
	case 0:
		return verdict{Status: OK, Message: "the provider has no models"}
	case 1:
		count = "1 model, "
	}
	return verdict{Status: OK, Message: count + strings.Join(names[:min(len(names), 3)], ", ") + "; list your models in " + key}
}

// List returns the models that a provider's server offers, sorted. The provider is an [adapter.Lister].
func (c *Checker) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	names, err := c.Models.Provider(prefix).(adapter.Lister).List(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// exam is the tests of one model.
type exam struct {
	checker  *Checker
	model    adapter.Model
	result   *Result
	timedOut bool // the other tests are skipped
}

// checkAnswer asks the model for one word, and measures the time to the first token. An empty answer is also an answer.
func (e *exam) checkAnswer(ctx context.Context) (first time.Duration, err error) {
	if e.model, err = e.checker.Models.Model(e.result.Model); err != nil {
		return 0, err
	}
	began := time.Now()
	for c, err := range e.model.Stream(ctx, adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "Say yes."}}}) {
		switch {
		case errors.Is(err, adapter.ErrEmpty):
			return 0, nil
		case err != nil:
			return 0, err
		case c.Text != "" || c.Reasoning != "":
			return time.Since(began), nil
		}
	}
	return 0, nil
}

// answer is an answer of a model.
type answer struct {
	text     string
	calls    []adapter.ToolCall
	maker    adapter.Maker
	reasoned bool
	model    string
}

// maxAnswer is how much of an answer is read, in bytes: all questions have short answers.
const maxAnswer = 16 << 10

// ask sends a request, reads its answer up to maxAnswer, and counts its usage.
func (e *exam) ask(ctx context.Context, req adapter.Request) (*answer, error) {
	a, size := &answer{model: e.result.Model}, 0
	var usage adapter.Usage
	defer func() {
		if e.result.Usage == nil {
			e.result.Usage = new(adapter.Usage)
		}
		e.result.Usage.Add(usage)
	}()
	for c, err := range e.model.Stream(ctx, req) {
		if err != nil && !errors.Is(err, adapter.ErrEmpty) {
			return a, err
		}
		a.add(&c)
		if c.Usage != nil {
			usage = *c.Usage
			a.reasoned = a.reasoned || usage.ReasoningTokens > 0
		}
		if size += len(c.Text) + len(c.Reasoning); size > maxAnswer {
			break
		}
	}
	return a, nil
}

// add adds a chunk. Of the pieces of a call, only the first one has the id and the name.
func (a *answer) add(c *adapter.Chunk) {
	a.maker.Take(c)
	a.text += c.Text
	a.reasoned = a.reasoned || c.Reasoning != "" || c.Beside != nil && c.Beside.Type == adapter.PartReasoning
	a.model = cmp.Or(c.Model, a.model)
	if part := c.ToolCall; part != nil {
		i := slices.IndexFunc(a.calls, func(c adapter.ToolCall) bool { return c.Index == part.Index })
		if i < 0 {
			a.calls = append(a.calls, *part)
		} else {
			a.calls[i].Arguments += part.Arguments
		}
	}
}

// run runs one test, unless the one before has timed out, and records its result.
func (e *exam) run(ctx context.Context, name string, test func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	o := Outcome{Status: Skip, Message: "skipped, because the model did not answer before"}
	if !e.timedOut {
		o = e.checker.run(ctx, test)
		e.timedOut = o.Code == adapter.CodeTimeout
	}
	e.result.Checks = append(e.result.Checks, Probe{name, o})
}

// testFeatures tests the features of a model that answers.
func (e *exam) testFeatures(ctx context.Context) {
	thinking := Outcome{Status: Skip, Message: "unknown, because the model did not answer"}
	e.run(ctx, "tools", func(ctx context.Context) error { return e.tools(ctx, &thinking) })
	if ctx.Err() == nil {
		e.result.Checks = append(e.result.Checks, Probe{"thinking", thinking})
	}
	for _, q := range questions {
		e.run(ctx, q.name, func(ctx context.Context) error {
			q.request.MaxTokens = maxTokens
			a, err := e.ask(ctx, q.request)
			if err == nil && !q.valid(a.text) {
				return unmet(q.unmet)
			}
			return err
		})
	}
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
func (e *exam) tools(ctx context.Context, thinking *Outcome) error {
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
			*thinking = outcomeOf(first)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case thinking.Status == No:
	case call.reasoned:
		*thinking = Outcome{Status: OK}
	default:
		*thinking = Outcome{Status: No, Message: "it returned no reasoning"}
	}
	results, err := e.results(call)
	if err != nil {
		return err
	}
	req.Messages = append(req.Messages, results...)
	end, err := e.ask(ctx, req)
	if err == nil && !strings.Contains(end.text, codeWord) {
		return unmet("it did not use the result of the tool in its answer")
	}
	return err
}

// results returns the messages that follow the calls of an answer: the answer, with all that its provider needs again, and the results.
func (e *exam) results(a *answer) ([]adapter.Message, error) {
	if len(a.calls) == 0 {
		return nil, unmet("it did not call the tool")
	}
	ids := map[int]string{}
	message := adapter.Message{Role: adapter.Assistant, Content: a.text}
	var results []adapter.Message
	for n, c := range a.calls {
		c.ID, c.Arguments = cmp.Or(c.ID, fmt.Sprintf("call_%d", n)), cmp.Or(c.Arguments, "{}")
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
	unmet   string
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

// redPicture is a red PNG of 64 × 64 pixels as a data URL.
const redPicture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAUklEQVR42uzPQQkAAAgEsEPsn9AwRvAtbA3Wk98qAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgKHDQAA//9KTgFfdku36QAAAABJRU5ErkJggg=="
