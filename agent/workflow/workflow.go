// Package workflow lets a workflow answer in a session, in place of a model: it is the model stage of such turns. The workflow's
// bots get the earlier messages of the session, and the new ones, its document included, are written to the session's tape.
//
// # Guarantees
//   - The turn's output is the document as clients may see it: its text where it is a string, JSON otherwise.
//   - When the first event of a stream comes, nothing of the workflow runs any more, and the tape says how the turn ended.
package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/turn"
)

// Workflows finds a workflow by name; [flow.Registry] does.
type Workflows interface {
	Get(name string) (flow.Workflow, bool)
}

// Stage is a plugin: the model stage of turns that one workflow answers, on any channel. The input is the envelope's content; workflows
// get neither media nor facts.
type Stage struct {
	Workflow  string    // its name
	Workflows Workflows // is asked in each turn, so that a workflow may be replaced meanwhile
	// Bot is the default of the workflow's bots. A model that the workflow names goes before this one's.
	Bot bot.Config
	// Models and limits of a run; what names it is set by the turn.
	Run ling.Options
}

// RunModelStream implements [turn.ModelStreamer]. Errors are those of an operator, which have the code internal: a workflow that is
// not there, or one that takes no text; and of the text itself, invalid_request.
func (s *Stage) RunModelStream(ctx context.Context, _ turn.Prompt, session turn.SessionID, state turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, errNoTurn
	}
	text := t.Envelope().Content
	if text == "" {
		return nil, false, turn.ErrNoPrompt
	}
	w, ok := s.Workflows.Get(s.Workflow)
	if !ok {
		return nil, false, fmt.Errorf("workflow: unknown workflow %q", s.Workflow)
	}
	input, err := FromText(w, text)
	if err != nil {
		return nil, false, err
	}
	a := &Answer{Workflow: w, Input: input, Bot: s.Bot, Run: s.Run}
	a.Bot.Model = cmp.Or(w.Info().Model, s.Bot.Model)
	a.Run.Run, a.Run.Workflow, a.Run.Session, a.Run.Model = t.ID(), w.Info().Name, session, a.Bot.Model
	return a.Stream(ctx, state), true, nil
}

var errNoTurn = errors.New("workflow: it runs only in a turn")

// FromText makes the input of a workflow of a message's text. Errors: a workflow that takes more than a text, and a text that
// does not fit, which has the code invalid_request.
func FromText(w flow.Workflow, text string) (map[string]any, error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	input, err := flow.Prepare(w, quoted)
	if err == nil {
		return input, nil
	}
	if misfit, ok := errors.AsType[*flow.InputError](err); ok {
		for _, p := range misfit.Problems {
			if p.Pointer != "" { // a property, which is the text
				return nil, turn.Invalid(fmt.Errorf("workflow %s: %w", w.Info().Name, err))
			}
		}
	}
	return nil, fmt.Errorf("workflow %s cannot answer messages, because its input is more than one text: %w", w.Info().Name, err)
}
