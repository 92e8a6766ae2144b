package providers

import (
	"context"
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

// Result is the result of the check of a model, or of a provider without configured models, whose list is read.
type Result struct {
	Model    string         `json:"model,omitempty"`
	Provider string         `json:"provider,omitempty"` // instead of the model
	Outcome                 // ok, fail, or skip if nothing can be checked
	Checks   []Probe        `json:"checks,omitempty"` // in order; none if the model does not answer
	Usage    *adapter.Usage `json:"usage,omitempty"`  // of all requests
}

// count adds the usage of a request.
func (t *Result) count(u adapter.Usage) {
	if u == (adapter.Usage{}) {
		return
	}
	if t.Usage == nil {
		t.Usage = new(adapter.Usage)
	}
	t.Usage.Add(u)
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
	limited, cancel := c.limit(ctx)
	defer cancel()
	began := time.Now()
	e := &exam{checker: c, result: &t}
	var err error
	if t.Model == "" {
		t.Status, t.Message, err = c.checkList(limited, t.Provider)
	} else {
		t.Status = OK
		err = e.checkAnswer(limited)
	}
	if t.Seconds == 0 && t.Status != Skip {
		t.Seconds = time.Since(began).Seconds()
	}
	if err != nil {
		t.Status, t.Code, t.Cause = Fail, Code(err), Cause(err)
		t.Message = strings.TrimPrefix(Message(err), fmt.Sprintf("the model %q: ", t.Model)) // which is in the line already
		return t
	}
	if t.Model != "" && !c.Quick && !strings.HasPrefix(t.Model, "demo:") { // which is scripted
		e.testFeatures(ctx)
	}
	return t
}

// tokenLimits are tried in order while the server refuses the request: some accept no limit below 16, and reasoning models may refuse any
// limit. nil is no limit; the check reads only the first piece of the answer.
var tokenLimits = []*int{new(1), new(16), nil}

// checkAnswer asks the model for one word, and measures the time to the first token. An empty answer is also an answer.
func (e *exam) checkAnswer(ctx context.Context) (err error) {
	if e.model, err = e.checker.Models.Model(e.result.Model); err != nil {
		return err
	}
	for _, limit := range tokenLimits {
		var a *answer
		a, err = readAnswer(ctx, e.model, adapter.Request{
			Messages: []adapter.Message{{Role: adapter.User, Content: "Say yes."}},
			Options:  adapter.Options{MaxTokens: limit},
		}, true)
		e.result.count(a.usage)
		e.result.Seconds = a.first.Seconds()
		refusal, refused := errors.AsType[*adapter.Error](err)
		if !refused || refusal.Status != http.StatusBadRequest && refusal.Status != http.StatusUnprocessableEntity {
			return err
		}
	}
	return err
}

// checkList checks a provider without configured models by its list, which shows that key and address are right.
func (c *Checker) checkList(ctx context.Context, prefix string) (status, message string, err error) {
	if _, lists := c.Models.Provider(prefix).(adapter.Lister); !lists {
		return "skip", fmt.Sprintf("no model is configured; list your models in %s, or test one with \"lingserve models check %s:NAME\"",
			namesKey(prefix), prefix), nil
	}
	names, err := c.List(ctx, prefix)
	if err != nil {
		return "", "", err
	}
	if len(names) == 0 {
		return "ok", "the provider has no models", nil
	}
	count := fmt.Sprintf("%d models, e.g. ", len(names))
	if len(names) == 1 {
		count = "1 model, "
	}
	return "ok", count + strings.Join(names[:min(len(names), 3)], ", ") + "; list your models in " + namesKey(prefix), nil
}

// namesKey is the setting that lists a provider's models.
func namesKey(prefix string) string { return "providers." + prefix + ".models" }

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

// limit bounds the time of one question.
func (c *Checker) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, &adapter.Error{
		Code: adapter.CodeTimeout, Message: fmt.Sprintf("no answer within %v", c.Timeout),
	})
}

// Code returns the code of a model's error.
func Code(err error) string {
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return e.Code
	}
	return adapter.CodeProtocol
}

// Message returns the text of a model's error, which may be shown; other errors may not.
func Message(err error) string {
	if e, ok := errors.AsType[*adapter.Error](err); ok {
		return e.Message
	}
	return "the model failed"
}
