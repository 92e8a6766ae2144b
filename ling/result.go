package ling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/tube"
)

// Result is what a run made.
type Result struct {
	Run       string                    `json:"run"`
	Session   string                    `json:"session,omitempty"`
	Status    string                    `json:"status"`           // running, completed, failed, interrupted, canceled
	Reason    string                    `json:"reason,omitempty"` // of canceled, as the event says it
	Result    json.RawMessage           `json:"result"`
	Reserved  json.RawMessage           `json:"reserved,omitempty"`
	Usage     map[string]adapter.Usage  `json:"usage"`  // by bot name, summed
	Models    map[string][]string       `json:"models"` // by bot name, those that answered
	Repairs   map[string]map[string]int `json:"repairs,omitempty"`
	Truncated bool                      `json:"truncated,omitempty"`
	Errors    []ErrorData               `json:"errors"`
}

// ErrorData is the data of an "error" event.
type ErrorData struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Bot       string `json:"bot,omitempty"`
	Pointer   string `json:"pointer,omitempty"`
	Retryable bool   `json:"retryable"`
	Fatal     bool   `json:"fatal"`
	// Failed says that the bot or task failed of it. It is false for what a bot reports and goes on.
	Failed bool `json:"failed,omitempty"`
	// Handled says that something else does the work of the bot that failed: the run does not fail because of it.
	Handled bool `json:"handled,omitempty"`
	// Filtered says that the content filter of the model's provider stopped the answer.
	Filtered bool `json:"filtered,omitempty"`
	// RetryAfter is how many seconds the model's server asks to wait.
	RetryAfter int `json:"retry_after,omitempty"`
	// ID is by which the server's log has the cause of what is internal.
	ID string `json:"id,omitempty"`
}

// Result waits for every bot's inference and every task. The error is that of the first bot or task that failed, or the cause
// where the run was canceled; the result is then what there is. It may be asked for at any time, any number of times: before
// anything was started it waits for that, too.
func (m *Manager) Result(ctx context.Context) (Result, error) {
	if err := m.wait(ctx, func() bool { return m.active == 0 && (m.used || m.over) }); err != nil {
		return m.Peek(true), err
	}
	r := m.Peek(true)
	return r, m.failure()
}

// Peek returns what there is, without waiting; all includes what clients may not see.
func (m *Manager) Peek(all bool) Result {
	r := m.Outcome()
	// After the status: once that says that the run has ended, nothing can be missing from the document.
	r.Result, r.Reserved = m.tube.Snapshot(all)
	if string(r.Reserved) == "{}" {
		r.Reserved = nil
	}
	return r
}

// Outcome is Peek without the document, which takes time and memory to encode.
func (m *Manager) Outcome() Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.sum
	r.Run, r.Session, r.Status = m.options.Run, m.options.Session, cmp.Or(r.Status, "running")
	if r.Status == "canceled" {
		r.Reason = reason(m.canceled)
	}
	r.Errors, r.Usage, r.Models, r.Repairs = slices.Clone(r.Errors), maps.Clone(r.Usage), maps.Clone(r.Models), maps.Clone(r.Repairs)
	for name, models := range r.Models {
		r.Models[name] = slices.Clone(models)
	}
	return r
}

// failure returns what the run failed of first.
func (m *Manager) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.fatal != nil:
		return m.fatal
	case m.canceled != nil:
		return m.canceled
	case len(m.failures) == 0:
		return nil
	}
	return m.failures[0]
}

// Report sends an "error" event that does not end the run, nor make it a failed one. The text of err is shown as it is.
func (m *Manager) Report(botName string, err error) {
	if _, known := bot.Describe(err); !known {
		err = &bot.Failure{Message: err.Error(), Cause: err}
	}
	m.report(ErrorData{Bot: botName}, err)
}

// OnFailure registers a function that is called each time that b fails, before the "error" event is sent. If it returns true, something
// else does the work of b: the event and the result say that the failure was handled, and the run does not fail because of it.
func (m *Manager) OnFailure(b bot.Bot, handle func(err error) (handled bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers[b] = handle
}

// botReport is the Report of bots.
func (m *Manager) botReport(b *bot.ChatBot, err error) { m.report(ErrorData{Bot: b.Name()}, err) }

// report sends an "error" event and keeps it for the result. data says which bot failed and what that means for the run; the rest is err's.
func (m *Manager) report(data ErrorData, err error) {
	f, known := bot.Describe(err)
	if !known {
		f = *bot.Internal(m.work(), m.log, "internal error in a bot or task", err)
	} else {
		m.log.InfoContext(m.work(), "error event",
			"code", f.Code, "message", f.Message, "bot", data.Bot, "id", f.ID, "cause", f.Cause)
	}
	data.Code, data.Message, data.ID, data.Pointer, data.Retryable, data.Filtered = f.Code, f.Message, f.ID, f.Pointer, f.Retryable, f.Filtered
	data.RetryAfter = int((f.RetryAfter + time.Second - 1) / time.Second)
	m.mu.Lock()
	if len(m.sum.Errors) < maxErrors {
		m.sum.Errors = append(m.sum.Errors, data)
	}
	m.mu.Unlock()
	m.send("error", data)
}

// maxErrors is how many errors a result keeps: at most one for each bot and task, and some for what bots report.
const maxErrors = 4096

// failed notes that a bot or task (nil) has failed.
func (m *Manager) failed(b bot.Bot, err error) {
	if m.ctx.Err() != nil {
		return // it was stopped with the run, and the run's end says why
	}
	m.mu.Lock()
	handle := m.handlers[b]
	m.mu.Unlock()
	handled := handle != nil && handle(err)
	name, failure := "", err
	if b, ok := b.(interface{ Name() string }); ok && b.Name() != "" {
		name, failure = b.Name(), fmt.Errorf("bot %s: %w", b.Name(), err)
	}
	if !handled {
		m.mu.Lock()
		m.failures = append(m.failures, failure)
		m.mu.Unlock()
	}
	m.report(ErrorData{Bot: name, Failed: true, Handled: handled}, err)
}

// botEnded takes from a bot what the result needs.
func (m *Manager) botEnded(b *bot.ChatBot, err error) {
	r := b.Response()
	m.mu.Lock()
	m.sum.add(b.Name(), r.Model, r.Usage)
	if len(r.Repairs) > 0 {
		m.sum.Repairs[b.Name()] = bot.AddRepairs(m.sum.Repairs[b.Name()], r.Repairs)
	}
	m.sum.Truncated = m.sum.Truncated || r.Truncated
	delete(m.writers, b)
	m.mu.Unlock()
	if err != nil {
		m.failed(b, err)
	} else if m.options.Finished != nil {
		m.options.Finished()
	}
}

// sendBot sends that a bot has started or ended. Clients do not see that of a quiet bot.
func (m *Manager) sendBot(b *bot.ChatBot, state string) {
	_ = m.sendEvent("bot", struct { // a run that has ended takes no more
		Bot   string `json:"bot"`
		Root  string `json:"root"`
		State string `json:"state"`
	}{b.Name(), b.Root(), state}, b.Config().Quiet)
}

// send sends a named event.
func (m *Manager) send(name string, data any) error { return m.sendEvent(name, data, false) }

func (m *Manager) sendEvent(name string, data any, hidden bool) error {
	text, err := rawjson.Marshal(data)
	if err != nil {
		return fmt.Errorf("ling: the data of the event %q has no JSON form: %w", name, errors.Unwrap(err))
	}
	_, err = m.tube.Send(tube.Event{Kind: tube.Named, Name: name, Value: text, Hidden: hidden})
	return err
}
