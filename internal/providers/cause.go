package providers

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/textview"
)

// WithCauses returns models that report the cause of each failure: what the model's server said. It is for a terminal, whose user operates
// the server and may read more than its callers do.
func WithCauses(of bot.Models, report func(model, cause string)) bot.Models {
	return reporting{of, report}
}

type reporting struct {
	bot.Models
	report func(model, cause string)
}

// Model implements [bot.Models].
func (o reporting) Model(name string) (adapter.Model, error) {
	m, err := o.Models.Model(name)
	if err != nil {
		return nil, err
	}
	return reportingModel{m, name, o.report}, nil
}

type reportingModel struct {
	adapter.Model
	name   string
	report func(model, cause string)
}

func (m reportingModel) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for chunk, err := range m.Model.Stream(ctx, req) {
			if words := Cause(err); words != "" && ctx.Err() == nil {
				m.report(m.name, words)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// Cause returns what the model's server, or the network, said about an error, on one line and without secrets; "" if it said nothing.
func Cause(err error) string {
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Cause == nil {
		return ""
	}
	words := strings.Join(strings.Fields(textview.Clean(adapter.Redact(e.Cause.Error()))), " ")
	if strings.Contains(e.Message, words) {
		return "" // it is our own sentence
	}
	return words
}
