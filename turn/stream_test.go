package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
)

// withReader makes a turn a streaming one.
var withReader = turn.WithSink(func(turn.Event, error) {})

func TestTU_16TheOutputIsTheTextOrTheFinalsText(t *testing.T) {
	for name, row := range map[string]struct {
		items []any
		want  string
	}{
		"text":                      {[]any{"a", "b", final("ignored")}, "ab"},
		"no text":                   {[]any{final("final")}, "final"},
		"empty text":                {[]any{"", final("final")}, "final"},
		"only reasoning":            {[]any{turn.Event{Kind: turn.ReasoningEvent, Delta: "hm"}, final("final")}, "final"},
		"no final":                  {[]any{"a"}, "a"},
		"nothing but other events":  {[]any{turn.Event{Kind: "strange", Delta: "x"}}, ""},
		"a workflow's deltas":       {[]any{turn.Event{Kind: turn.DeltaEvent, URI: "a", Value: json.RawMessage(`1`)}, final(`{"a":1}`)}, `{"a":1}`},
		"a final and then text":     {[]any{final("early"), "a"}, "a"},
		"two finals":                {[]any{final("first"), final("second")}, "second"},
		"a final without its value": {[]any{"a", turn.Event{Kind: turn.FinalEvent}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, opts := range [][]turn.Option{nil, {withReader}} {
				r, err := build(t, says(row.items...)).Process(t.Context(), &turn.Envelope{Content: "content"}, opts...)
				if err != nil || r.Output != row.want {
					t.Errorf("got %q, %v, expected %q", r.Output, err, row.want)
				}
			}
		})
	}
}

func TestTU_17ATextPluginStreamsItsWholeTextOnceItHasAccepted(t *testing.T) {
	for text, want := range map[string]string{"all of it": "text:all of it final:all of it", "": "final:"} {
		var r transcript
		res, err := build(t, answers(text)).Process(t.Context(), &turn.Envelope{Content: "content"}, turn.WithSink(r.sink))
		if err != nil || res.Output != text {
			t.Errorf("got %+v, %v", res, err)
		}
		equal(t, "events", r.String(), want)
	}
	var r transcript
	f := build(t, says("low"), runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
		return "never", false, nil
	}))
	if _, err := f.Process(t.Context(), &turn.Envelope{}, turn.WithSink(r.sink)); err != nil {
		t.Fatal(err)
	}
	equal(t, "events", r.String(), "text:low final:low")
}

func TestTU_18WithoutOutputThePromptIsTheAnswer(t *testing.T) {
	parts := prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
		return turn.Prompt{Text: "not this", Parts: []turn.Part{{Type: "text", Text: "nor this"}}}, true, nil
	})
	text := prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
		return turn.Prompt{Text: "prompt"}, true, nil
	})
	for name, row := range map[string]struct {
		plugins    []any
		want       string
		none       bool
		wantEvents string
	}{
		"all decline":       {[]any{text}, "prompt", true, "text:prompt final:prompt"},
		"an empty stream":   {[]any{text, says()}, "prompt", true, "text:prompt final:prompt"},
		"a prompt of parts": {[]any{parts, says()}, "content", true, "text:content final:content"},
		"accepted nothing":  {[]any{text, answers("")}, "", false, "final:"},
		"only a final":      {[]any{text, says(final(""))}, "", false, "final:"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				var r, events transcript
				var opts []turn.Option
				if streaming {
					opts = append(opts, turn.WithSink(events.sink))
				}
				res, err := build(t, append(row.plugins, r.errors(), r.saves())...).Process(t.Context(), &turn.Envelope{Content: "content"}, opts...)
				if err != nil || res.Output != row.want || res.Partial || len(res.Outbound) != 1 || res.Outbound[0].Content != row.want {
					t.Errorf("got %+v, %v", res, err)
				}
				want := fmt.Sprintf("save(%s,false,<nil>)", row.want)
				if row.none {
					want = fmt.Sprintf("run_model(%v) ", turn.ErrNoOutput) + want
				}
				equal(t, "told", r.String(), want)
				if streaming {
					equal(t, "events", events.String(), row.wantEvents)
				}
			}
		})
	}
}

func TestTU_33ErrorEventsAreToldAndReadingGoesOn(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		var r, events transcript
		var opts []turn.Option
		if streaming {
			opts = append(opts, turn.WithSink(events.sink))
		}
		f := build(t, says("a", failure("one"), "b", failure("two"), turn.Event{Kind: turn.ErrorEvent}), r.errors())
		res, err := f.Process(t.Context(), &turn.Envelope{}, opts...)
		if err != nil || res.Output != "ab" || res.Partial {
			t.Errorf("got %+v, %v", res, err)
		}
		equal(t, "told", r.String(), "run_model(one) run_model(two) run_model(the model stage reported an error)")
		if streaming {
			equal(t, "events", events.String(), "text:a error:one text:b error:two error:the model stage reported an error final:ab")
		}
	}
}

func TestTU_40TheErrorIsTheLastPair(t *testing.T) {
	var r transcript
	rude := streamer(func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
		return func(yield func(turn.Event, error) bool) {
			yield(turn.Text("a"), nil)
			yield(turn.Event{}, errTest)
			yield(turn.Text("b"), nil) // whoever does that has panicked
		}, true, nil
	})
	res, err := build(t, rude).Process(t.Context(), &turn.Envelope{}, turn.WithSink(r.sink))
	if !errors.Is(err, errTest) || res.Output != "a" {
		t.Errorf("got %+v, %v", res, err)
	}
	equal(t, "events", r.String(), "text:a err:broken")
}

func TestTU_41UnknownKindsAreHandedOn(t *testing.T) {
	strange := turn.Event{Kind: "weather", URI: "a/b", Value: json.RawMessage(`{"x":1}`)}
	var got []turn.Event
	sink := func(e turn.Event, err error) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, e)
	}
	usage := turn.Event{Kind: turn.UsageEvent, Usage: &turn.Usage{Model: "demo:echo", Usage: adapter.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}}}
	res, err := build(t, says(strange, usage, usage, turn.Event{Kind: turn.UsageEvent}, "x", final("x"))).Process(t.Context(), &turn.Envelope{}, turn.WithSink(sink))
	if err != nil || res.Output != "x" {
		t.Errorf("got %+v, %v", res, err)
	}
	if diff := cmp.Diff([]turn.Event{strange, usage, usage, {Kind: turn.UsageEvent}, turn.Text("x"), final("x")}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(turn.Usage{Model: "demo:echo", Usage: adapter.Usage{PromptTokens: 2, CompletionTokens: 4, TotalTokens: 6}}, res.Usage); diff != "" {
		t.Error(diff)
	}
}

func TestTU_42WhatIsHandedOnEndsWithOneFinalOrAnError(t *testing.T) {
	for name, row := range map[string]struct {
		items []any
		want  string
	}{
		"one":             {[]any{"a", final("a")}, "text:a final:a"},
		"missing":         {[]any{"a"}, "text:a final:a"},
		"two":             {[]any{"a", final("x"), final("y")}, "text:a final:y"},
		"in the middle":   {[]any{final("x"), "a", "b"}, "text:a text:b final:ab"},
		"both":            {[]any{final("x"), "a", final("y")}, "text:a final:y"},
		"then an error":   {[]any{"a", final("a"), errTest}, "text:a err:broken"},
		"only an error":   {[]any{errTest}, "err:broken"},
		"nothing at all":  {nil, "text:content final:content"},
		"only usage":      {[]any{turn.Event{Kind: turn.UsageEvent}}, "usage: final:"},
		"final with text": {[]any{final("x")}, "final:x"},
	} {
		t.Run(name, func(t *testing.T) {
			var r transcript
			build(t, says(row.items...)).Process(t.Context(), &turn.Envelope{Content: "content"}, turn.WithSink(r.sink))
			equal(t, "events", r.String(), row.want)
		})
	}
}

func TestTU_45NothingIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, read := 0, 0
		f := build(t, streamer(func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
			return func(yield func(turn.Event, error) bool) {
				for range 100 {
					made++
					if !yield(turn.Text("x"), nil) {
						return
					}
				}
			}, true, nil
		}))
		_, err := f.Process(t.Context(), &turn.Envelope{}, turn.WithSink(func(e turn.Event, _ error) {
			time.Sleep(time.Hour) // a slow reader; no limit of this package counts it
			if read++; e.Kind == turn.TextEvent && made != read {
				t.Fatalf("%d events made when %d were read", made, read)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestASinkThatPanicsDoesNotEndTheTurn(t *testing.T) {
	n := 0
	r, err := build(t, says("a", "b")).Process(t.Context(), &turn.Envelope{}, turn.WithSink(func(turn.Event, error) {
		n++
		panic(errTest)
	}))
	if err != nil || r.Output != "ab" || n != 1 {
		t.Errorf("got %+v, %v after %d calls", r, err, n)
	}
}
