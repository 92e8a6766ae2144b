package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tool/fs"
	"github.com/lingserve/lingserve/turn"
)

// addTools adds the default tools, and those of the options.
func (a *Agent) addTools() error {
	if !a.options.Bare {
		if err := a.tools.Add(a.defaultTools()...); err != nil {
			return err
		}
	}
	if a.options.Tools == nil {
		return nil
	}
	// What clashes is an error where it is known already; what comes later is left out.
	for _, t := range a.options.Tools.Tools() {
		if other, taken := a.tools.Find(t.Name); taken {
			return fmt.Errorf("tool %s: another tool is already called %s", t.Name, other.Name)
		}
	}
	a.tools.Attach(a.options.Tools)
	return nil
}

// needsApproval reports whether a person is asked before a tool runs: as the most specific pattern of the options says, or else the
// tool. The tool's name is more specific than "prefix.*", and a longer prefix than a shorter one. Of two that name the tool, with dots
// and without, the one that asks counts.
func (a *Agent) needsApproval(t *tool.Tool) bool {
	approval, longest := t.Approval, -1
	for pattern, one := range a.options.Approvals {
		n := len(pattern)
		if tool.Named(t.Name, pattern) {
			n = tool.MaxName + 1
		}
		if (n > longest || n == longest && one == tool.Always) && tool.Matches(t.Name, pattern) {
			longest, approval = n, one
		}
	}
	return approval == tool.Always
}

// addFiles adds the tools that look at files, once it is known below which folder. Tools of the options that are called the same
// stay.
func (a *Agent) addFiles(dir string) error {
	list, err := fs.Tools(dir)
	if err != nil || a.options.Bare {
		return err
	}
	files, err := tool.NewSet(list...)
	a.tools.Attach(files)
	return err
}

// defaultTools only read, but for the anchor that tape.handoff writes.
func (a *Agent) defaultTools() []*tool.Tool {
	reads := tool.WithIdempotent() // and two calls of tape.handoff in a step write one anchor
	list := []*tool.Tool{
		tool.Must(tool.New("tape.info", "Says how long this conversation's tape is and where its last anchor is.", inTurn(tapeInfo), reads)),
		tool.Must(tool.New("tape.search", "Finds earlier entries of this conversation, also such as are not in the context any more. "+
			"Each word of the query has to occur.", inTurn(tapeSearch), reads)),
		tool.Must(tool.New("tape.anchors", "Lists the anchors of this conversation, newest first.", inTurn(tapeAnchors), reads)),
		tool.Must(tool.New("tape.handoff", "Begins a new chapter: leaves the conversation so far behind an anchor. Only the summary, and the "+
			"message that is being answered, stay in the context; say in the summary what will be needed.", inTurn(tapeHandoff), reads)),
		tool.Must(tool.New(spillRead, "Reads a piece of a large result that was spilled: from offset on, limit bytes.", inTurn(readSpill), reads)),
		tool.Must(tool.New("subagent", "Gives a task to a helper, which has the same tools but knows nothing of this conversation, and returns "+
			"what it answers. Say in the task all that it needs to know.", inTurn(subagent), tool.WithTimeout(subagentTimeout))),
	}
	if a.options.Skills != nil {
		list = append(list, tool.Must(tool.New("skill", "Reads a skill: instructions for a kind of task. The system prompt lists them.", a.skill, reads)))
	}
	return list
}

// inTurn returns a tool's function that calls fn with the run that the call belongs to. An error that is no [tool.Error] is logged: the
// failure of the store is not for the model.
func inTurn[In, Out any](fn func(context.Context, *run, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		r := runOf(ctx)
		if r == nil {
			return out, &tool.Error{Kind: tool.KindUnavailable, Message: "this works only in a conversation"}
		}
		out, err = fn(ctx, r, in)
		if _, known := errors.AsType[*tool.Error](err); err == nil || known || ctx.Err() != nil {
			return out, err
		}
		r.agent.log.ErrorContext(ctx, "tool cannot use the tape", "session", r.session, "turn", r.id, "error", adapter.RedactError(err))
		return out, &tool.Error{Kind: tool.KindUnavailable, Message: "the tape is unavailable now"}
	}
}

type none struct{}

type tapeInfoOut struct {
	Entries      int64  `json:"entries"`
	Anchors      int64  `json:"anchors"`
	LastAnchor   string `json:"last_anchor,omitempty"`
	SinceAnchor  int64  `json:"entries_since_last_anchor"`
	Created      string `json:"created"`
	LastActivity string `json:"last_activity"`
}

func tapeInfo(ctx context.Context, r *run, _ none) (tapeInfoOut, error) {
	i, err := r.tape.Info(ctx)
	return tapeInfoOut{
		Entries: i.Entries, Anchors: i.Anchors, LastAnchor: i.LastAnchor.Name, SinceAnchor: i.LastID - i.LastAnchor.ID,
		Created: r.date(i.Created), LastActivity: r.date(i.Updated),
	}, err
}

// date writes a date in the time zone of the conversation.
func (r *run) date(t time.Time) string {
	return t.In(cmp.Or(r.turn.Envelope().Timezone, time.UTC)).Format(time.RFC3339)
}

type tapeSearchIn struct {
	Query string `json:"query" jsonschema:"the words to look for"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many entries at most, 20 unless said"`
}

type tapeHit struct {
	ID      int64  `json:"id"`
	Kind    string `json:"kind"`
	Date    string `json:"date"`
	Excerpt string `json:"excerpt"`
}

// maxHits bounds a search, and a list of anchors.
const maxHits = 50

func tapeSearch(ctx context.Context, r *run, in tapeSearchIn) ([]tapeHit, error) {
	if strings.TrimSpace(in.Query) == "" {
		return nil, &tool.Error{Kind: tool.KindArguments, Message: "query: expected a word to look for"}
	}
	limit := cmp.Or(max(in.Limit, 0), 20)
	return collect(r.tape.Search(ctx, tape.Query{Text: in.Query, Limit: min(limit, maxHits)}), maxHits, func(h tape.Hit) tapeHit {
		return tapeHit{ID: h.ID, Kind: string(h.Kind), Date: r.date(h.Date), Excerpt: h.Text}
	})
}

// collect makes a list of the first values of a sequence, at most so many.
func collect[V, T any](values iter.Seq2[V, error], max int, element func(V) T) ([]T, error) {
	list := []T{}
	for v, err := range values {
		if err != nil {
			return nil, err
		}
		if list = append(list, element(v)); len(list) == max {
			break
		}
	}
	return list, nil
}

type tapeAnchor struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Date string `json:"date"`
}

func tapeAnchors(ctx context.Context, r *run, _ none) ([]tapeAnchor, error) {
	return collect(r.tape.Anchors(ctx), maxHits, func(a tape.AnchorRef) tapeAnchor { return tapeAnchor{a.ID, a.Name, r.date(a.Date)} })
}

type tapeHandoffIn struct {
	Name    string `json:"name" jsonschema:"of the chapter that begins, a few words"`
	Summary string `json:"summary" jsonschema:"what has to be known of the conversation so far"`
}

func tapeHandoff(_ context.Context, r *run, in tapeHandoffIn) (string, error) {
	h := in.handoff()
	if h == nil {
		return "", &tool.Error{Kind: tool.KindArguments, Message: "name: expected some text"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun { // a model that is asked for a new chapter does not see that it has begun one, and would do so forever
		return "A new chapter has begun just now, and nothing has happened since. Go on with the answer.", nil
	}
	r.handoff = h // of several in one step the last counts
	return fmt.Sprintf("The anchor %q is written when this step is over.", h.name), nil
}

// handoff returns the anchor that a call asks for, or nil if it has no name.
func (in *tapeHandoffIn) handoff() *handoff {
	name := wording.ClipTo(oneLine(in.Name, 40), 128-len("…")) // as long as a name of an anchor may be
	if name == "" {
		return nil
	}
	state := map[string]string{}
	if in.Summary != "" {
		state["summary"] = in.Summary
	}
	return &handoff{name, state}
}

type spillReadIn struct {
	Handle string `json:"handle" jsonschema:"of the result, as it was given"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where to begin, in bytes"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"how many bytes, 8192 unless said"`
}

type skillIn struct {
	Name string `json:"name"`
	File string `json:"file,omitempty" jsonschema:"a file of the skill's folder, in place of its text"`
}

func (a *Agent) skill(_ context.Context, in skillIn) (text skill.Text, err error) {
	if in.File == "" {
		text, err = a.options.Skills.Load(in.Name)
	} else {
		text.Content, err = a.options.Skills.Read(in.Name, in.File)
	}
	if err != nil {
		return skill.Text{}, &tool.Error{Kind: tool.KindFailed, Message: err.Error()}
	}
	return text, nil
}

// skillsList returns the list of skills in the system prompt.
func (a *Agent) skillsList() string {
	if a.options.Skills == nil {
		return ""
	}
	list := skill.Prompt(a.options.Skills.List())
	if list == "" {
		return ""
	}
	return "Skills, to be read with the tool skill before a task that one of them is for:\n" + list
}

// subagentTimeout is how long a helper may take.
const subagentTimeout = 10 * time.Minute

type subagentIn struct {
	Task  string   `json:"task" jsonschema:"what is to be done, with all that has to be known for it"`
	Tools []string `json:"tools,omitempty" jsonschema:"the names of the tools that it may use; all of yours unless said"`
}

const subagentNote = "You are the helper of another agent. What follows is your task. Nobody can answer questions: do what can be done, and answer " +
	"with the result alone."

// subagent runs a task in a fork of the tape that is dropped afterwards. A helper has no helpers: so their number is bounded by the
// number of calls.
func subagent(ctx context.Context, r *run, in subagentIn) (string, error) {
	if strings.TrimSpace(in.Task) == "" {
		return "", &tool.Error{Kind: tool.KindArguments, Message: "task: expected some text"}
	}
	excluded := func(t *tool.Tool) bool {
		named := slices.ContainsFunc(in.Tools, func(name string) bool { return tool.Named(t.Name, name) })
		return t.Name == "subagent" || len(in.Tools) > 0 && !named
	}
	return r.sub(ctx, in.Task, func() []*tool.Tool { return slices.DeleteFunc(slices.Clone(r.tools()), excluded) })
}

// sub runs a task as a subagent and returns what it answers.
func (r *run) sub(ctx context.Context, task string, tools func() []*tool.Tool) (string, error) {
	var answer string
	err := tape.WithFork(ctx, r.tape, false, func(ctx context.Context, f *tape.Fork) error {
		// The fork sees the conversation, which is of no use to the task; it can still be searched.
		if _, err := f.Handoff(ctx, "subagent", map[string]string{"owner": "agent"}); err != nil {
			return err
		}
		child := &run{
			agent: r.agent, ctx: ctx, turn: r.turn, id: r.id, session: r.session, state: r.state, prompt: turn.Prompt{Text: task},
			tape: f.Tape, tools: tools, parent: r, of: tool.CallID(ctx), scope: tool.Key(ctx), instead: strings.TrimSpace(r.system + "\n\n" + subagentNote),
		}
		for e, err := range child.stream {
			if err != nil {
				return err
			}
			switch e.Kind {
			case turn.UsageEvent, RetryingEvent, ApprovalRequiredEvent, ApprovalResolvedEvent:
				r.emitFromTool(ctx, e)
			}
		}
		answer = child.text
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		r.agent.log.WarnContext(ctx, "subagent failed", "session", r.session, "turn", r.id, "error", adapter.Explain(err))
		_, message := describe(err)
		return "", &tool.Error{Kind: tool.KindFailed, Message: "the helper failed: " + message}
	}
	return answer, nil
}

// settings are what was set in a session; nil where it has no tape yet.
func (a *Agent) settings(ctx context.Context, id turn.SessionID) (map[string]json.RawMessage, error) {
	t, err := a.lookupTape(ctx, id)
	if errors.Is(err, tape.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return t.Settings(ctx)
}

// settingModel is the name of the setting that has the session's model.
const settingModel = "model"

// modelsOf are the models of a session, in the order in which they are asked; one at least.
func (a *Agent) modelsOf(settings map[string]json.RawMessage) []string {
	first := a.options.Model
	var chosen string
	if json.Unmarshal(settings[settingModel], &chosen) == nil && chosen != "" {
		first = chosen
	}
	var names []string
	for _, chain := range append([]string{first}, a.options.Fallback...) {
		for _, name := range adapter.Links(chain) {
			if name != "" || len(names) == 0 {
				names = append(names, name)
			}
		}
	}
	return names
}
