package turn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/turn"
)

// behaviour is what a hook does: "decline", "accept", "empty" (it accepts nothing), "fail", "panic", and of a stream "late": it
// fails after a word.
type behaviour string

// scripted is a plugin whose hooks do what is written, and write down that they were called.
type scripted struct {
	name   string
	does   map[turn.Stage]behaviour
	model  string // "text", "stream" or "both"
	record *transcript
}

type stageFailure struct{ stage, plugin string }

func (e stageFailure) Error() string { return e.stage + " of " + e.plugin }

func (s *scripted) failure(stage turn.Stage) error { return stageFailure{string(stage), s.name} }

// act writes down the call and fails if that is what it does.
func (s *scripted) act(stage turn.Stage) (behaviour, error) {
	s.record.add("%s:%s", stage, s.name)
	switch b := s.does[stage]; b {
	case "fail":
		return b, s.failure(stage)
	case "panic":
		panic(s.failure(stage))
	default:
		return b, nil
	}
}

func (s *scripted) ResolveSession(context.Context, *turn.Envelope) (turn.SessionID, bool, error) {
	b, err := s.act(turn.StageResolve)
	return map[behaviour]string{"accept": s.name}[b], b != "decline", err
}

func (s *scripted) LoadState(context.Context, *turn.Envelope, turn.SessionID) (turn.State, error) {
	b, err := s.act(turn.StageLoad)
	return map[behaviour]turn.State{"accept": {"of": s.name}, "empty": {}}[b], err
}

func (s *scripted) BuildPrompt(context.Context, *turn.Envelope, turn.SessionID, turn.State) (turn.Prompt, bool, error) {
	b, err := s.act(turn.StagePrompt)
	return turn.Prompt{Text: map[behaviour]string{"accept": s.name}[b]}, b != "decline", err
}

func (s *scripted) SaveState(context.Context, *turn.Outcome) error {
	_, err := s.act(turn.StageSave)
	return err
}

func (s *scripted) RenderOutbound(context.Context, *turn.Outcome) ([]*turn.Envelope, error) {
	b, err := s.act(turn.StageRender)
	return map[behaviour][]*turn.Envelope{"accept": {{Content: s.name}}, "empty": {nil}}[b], err
}

func (s *scripted) DispatchOutbound(context.Context, *turn.Envelope) (bool, error) {
	b, err := s.act(turn.StageDispatch)
	return b == "accept", err
}

func (s *scripted) OnError(_ context.Context, stage turn.Stage, err error, _ *turn.Envelope) {
	s.record.add("told:%s:%s", stage, s.name)
}

// text and stream are the two ways to be a model.
func (s *scripted) text(context.Context, turn.Prompt, turn.SessionID, turn.State) (string, bool, error) {
	b, err := s.act(turn.StageModel)
	return map[behaviour]string{"accept": s.name, "late": s.name}[b], b != "decline", err
}

func (s *scripted) stream(context.Context, turn.Prompt, turn.SessionID, turn.State) (turn.Stream, bool, error) {
	b, err := s.act(turn.StageModel)
	items := map[behaviour][]any{"accept": {s.name}, "late": {s.name, s.failure(turn.StageModel)}}[b]
	if b == "empty" {
		return nil, true, err
	}
	return streamOf(items...), b != "decline", err
}

func (s *scripted) plugin() any {
	switch s.model {
	case "text":
		return struct {
			*scripted
			runner
		}{s, s.text}
	case "stream":
		return struct {
			*scripted
			streamer
		}{s, s.stream}
	}
	return struct {
		*scripted
		runner
		streamer
	}{s, s.text, s.stream}
}

// expectation is what a turn of scripted plugins must do, written as simply as possible.
type expectation struct {
	plugins          []*scripted // in calling order
	calls            []string
	errors           []error
	session, output  string
	prompt, of       string
	partial, resolve bool
	outbound         []string
}

func (x *expectation) call(stage turn.Stage, s *scripted) (behaviour, bool) {
	x.calls = append(x.calls, fmt.Sprintf("%s:%s", stage, s.name))
	b := s.does[stage]
	if b == "fail" || b == "panic" {
		x.errors = append(x.errors, s.failure(stage))
		return b, false
	}
	return b, true
}

func (x *expectation) tell(stage turn.Stage) {
	for _, s := range x.plugins {
		x.calls = append(x.calls, fmt.Sprintf("told:%s:%s", stage, s.name))
	}
}

// first is a first-result stage: the name of who accepts.
func (x *expectation) first(stage turn.Stage, otherwise string) string {
	for _, s := range x.plugins {
		switch b, ok := x.call(stage, s); {
		case !ok:
			return ""
		case b == "accept" || b == "late":
			return s.name
		case b == "empty":
			return otherwise
		}
	}
	return otherwise
}

func (x *expectation) run(streaming bool) {
	x.session = x.first(turn.StageResolve, "default:default")
	if len(x.errors) > 0 {
		x.tell(turn.StageTurn)
		return
	}
	x.resolve = true
	for _, s := range x.plugins {
		if b, ok := x.call(turn.StageLoad, s); ok && b == "accept" && x.of == "" {
			x.of = s.name
		}
	}
	if len(x.errors) == 0 {
		x.prompt = x.first(turn.StagePrompt, "content")
	}
	if len(x.errors) == 0 {
		x.model(streaming)
	}
	failed := len(x.errors)
	for _, s := range x.plugins {
		x.call(turn.StageSave, s)
	}
	if failed == 0 && len(x.errors) == 0 {
		for _, s := range x.plugins {
			if b, ok := x.call(turn.StageRender, s); ok && b == "accept" {
				x.outbound = append(x.outbound, s.name)
			}
		}
		if len(x.errors) == 0 && len(x.outbound) == 0 {
			x.outbound = []string{x.output}
		}
		for range x.outbound {
			for _, s := range x.plugins {
				x.call(turn.StageDispatch, s)
			}
		}
	}
	if len(x.errors) > 0 {
		x.tell(turn.StageTurn)
	}
}

func (x *expectation) model(streaming bool) {
	for _, s := range x.plugins {
		streams := s.model == "stream" || s.model == "both" && streaming
		switch b, ok := x.call(turn.StageModel, s); {
		case !ok:
			return
		case b == "accept" || b == "late":
			x.output = s.name
			if b == "late" && streams {
				x.errors = append(x.errors, s.failure(turn.StageModel))
				x.partial = true
			}
			return
		case b == "empty" && !streams:
			return
		}
	}
	x.output = x.prompt
	x.tell(turn.StageModel)
}

func TestTU_01ToTU_30HoldForAnyCombinationOfHooks(t *testing.T) {
	all := []turn.Stage{turn.StageResolve, turn.StageLoad, turn.StagePrompt, turn.StageModel, turn.StageSave, turn.StageRender, turn.StageDispatch}
	rapid.Check(t, func(t *rapid.T) {
		var record transcript
		var x expectation
		f := turn.New(turn.Options{})
		for i := range rapid.IntRange(0, 3).Draw(t, "plugins") {
			s := &scripted{name: fmt.Sprint("p", i), does: map[turn.Stage]behaviour{}, record: &record}
			s.model = rapid.SampledFrom([]string{"text", "stream", "both"}).Draw(t, "model")
			for _, stage := range all {
				kinds := []behaviour{"decline", "decline", "accept", "accept", "accept", "empty", "fail", "panic"}
				if stage == turn.StageModel {
					kinds = append(kinds, "late")
				}
				s.does[stage] = rapid.SampledFrom(kinds).Draw(t, string(stage))
			}
			if err := f.Register(s.name, s.plugin()); err != nil {
				t.Fatal(err)
			}
			x.plugins = slices.Insert(x.plugins, 0, s)
		}
		mode := rapid.SampledFrom([]string{"whole", "streaming", "lane"}).Draw(t, "mode")
		x.run(mode != "whole")

		var state turn.State
		var events transcript
		if err := f.Register("watch", saver(func(_ context.Context, o *turn.Outcome) error { state = o.State; return nil })); err != nil {
			t.Fatal(err)
		}
		ctx, e := context.Background(), &turn.Envelope{Content: "content"}
		var r *turn.Result
		var err error
		switch mode {
		case "whole":
			r, err = f.Process(ctx, e)
		case "streaming":
			r, err = f.Process(ctx, e, turn.WithSink(events.sink))
		case "lane":
			var k *turn.Ticket
			if k, err = f.Submit(ctx, e, turn.WithSink(events.sink)); err == nil {
				r, err = k.Wait(ctx)
			}
		}
		if got, want := record.String(), strings.Join(x.calls, " "); got != want {
			t.Fatalf("calls:\n got %s\nwant %s", got, want)
		}
		if (err != nil) != (len(x.errors) > 0) {
			t.Fatalf("got %v, expected %v", err, x.errors)
		}
		for _, want := range x.errors {
			if !errors.Is(err, want) {
				t.Fatalf("got %v, expected %v in it", err, want)
			}
		}
		if (r != nil) != x.resolve {
			t.Fatalf("result %+v", r)
		}
		if r == nil {
			return
		}
		var outbound []string
		for _, e := range r.Outbound {
			outbound = append(outbound, e.Content)
		}
		of, _ := state["of"].(string)
		got := fmt.Sprint(r.Session, r.Output, r.Partial, of, outbound)
		if want := fmt.Sprint(x.session, x.output, x.partial, x.of, x.outbound); got != want {
			t.Fatalf("got %s, expected %s", got, want)
		}
		if text := events.String(); text != "" && strings.Count(text, "final:")+strings.Count(text, "err:") != 1 {
			t.Fatalf("events %s", text)
		}
	})
}
