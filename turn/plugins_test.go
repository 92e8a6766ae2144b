package turn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

func TestTU_01NamesAreUnique(t *testing.T) {
	f := build(t, answers("a"))
	if err := f.Register("p1", answers("b")); err == nil || !strings.Contains(err.Error(), `"p1"`) {
		t.Errorf("got %v, expected an error that names the plugin", err)
	}
	if err := f.Register("", answers("b")); err == nil {
		t.Error("a plugin without a name was taken")
	}
	r, err := f.Process(t.Context(), &turn.Envelope{})
	if err != nil || r.Output != "a" {
		t.Errorf("got %+v, %v: the refused plugin runs", r, err)
	}
}

func TestTU_01ARunningTurnKeepsThePluginsItHas(t *testing.T) {
	f := turn.New(turn.Options{})
	register(t, f, answers("old"), loader(func(context.Context, *turn.Envelope, string) (turn.State, error) {
		if len(turn.Implementers[turn.ModelRunner](f)) == 1 {
			return nil, f.Register("late", answers("new"))
		}
		return nil, nil
	}))
	for _, want := range []string{"old", "new"} {
		if r, err := f.Process(t.Context(), &turn.Envelope{}); err != nil || r.Output != want {
			t.Errorf("got %+v, %v, expected %q", r, err, want)
		}
	}
}

// wrongSignature has a method with a hook's name, and is none.
type wrongSignature struct{}

func (wrongSignature) RunModel(context.Context, turn.Prompt) (string, error) { return "", nil }

type channels interface{ Channels() []string }

type channelPlugin struct{}

func (channelPlugin) Channels() []string { return []string{"telegram"} }

func TestTU_02APluginWithoutAHookIsRefused(t *testing.T) {
	f := turn.New(turn.Options{})
	for _, p := range []any{struct{}{}, wrongSignature{}, nil, channelPlugin{}} {
		if err := f.Register("x", p); err == nil {
			t.Errorf("%T was taken", p)
		}
	}
	turn.Declare[channels](f, "provide_channels")
	if err := f.Register("x", channelPlugin{}); err != nil {
		t.Fatal(err)
	}
}

func TestImplementersFindsHooksOfOtherPackages(t *testing.T) {
	f := turn.New(turn.Options{})
	turn.Declare[channels](f, "provide_channels")
	if err := errors.Join(f.Register("a", channelPlugin{}), f.Register("b", answers("")), f.Register("c", channelPlugin{})); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range turn.Implementers[channels](f) {
		names = append(names, n.Name+n.Hook.Channels()[0])
	}
	if diff := cmp.Diff([]string{"ctelegram", "atelegram"}, names); diff != "" {
		t.Error(diff)
	}
}

type attaching struct {
	runner
	f   *turn.Framework
	err error
}

func (a *attaching) AttachFramework(f *turn.Framework) error { a.f = f; return a.err }

func TestAnAttacherIsToldWhereItIsRegistered(t *testing.T) {
	f := turn.New(turn.Options{})
	a := &attaching{runner: answers("x")}
	if err := f.Register("a", a); err != nil || a.f != f {
		t.Error(err, a.f)
	}
	if err := f.Register("b", &attaching{runner: answers("x"), err: errTest}); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	if n := len(turn.Implementers[turn.ModelRunner](f)); n != 1 {
		t.Errorf("%d plugins, expected the refused one not to be there", n)
	}
}

func TestTU_05APanicIsTheErrorOfItsStage(t *testing.T) {
	boom := func() { panic("boom") }
	plugins := map[turn.Stage]any{
		turn.StageResolve: resolver(func(context.Context, *turn.Envelope) (string, bool, error) { boom(); return "", false, nil }),
		turn.StageLoad:    loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { boom(); return nil, nil }),
		turn.StagePrompt: prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
			boom()
			return turn.Prompt{}, false, nil
		}),
		turn.StageModel: runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
			boom()
			return "", false, nil
		}),
		turn.StageSave:     saver(func(context.Context, *turn.Outcome) error { boom(); return nil }),
		turn.StageRender:   renderer(func(context.Context, *turn.Outcome) ([]*turn.Envelope, error) { boom(); return nil, nil }),
		turn.StageDispatch: dispatcher(func(context.Context, *turn.Envelope) (bool, error) { boom(); return false, nil }),
		"stream":           says("a", boom),
		"stream's start": streamer(func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
			boom()
			return nil, false, nil
		}),
	}
	for stage, plugin := range plugins {
		for _, streaming := range []bool{false, true} {
			t.Run(string(stage)+map[bool]string{true: " streaming"}[streaming], func(t *testing.T) {
				var log logged
				f := turn.New(turn.Options{Log: log.logger()})
				register(t, f, plugin)
				var opts []turn.Option
				if streaming {
					opts = append(opts, withReader)
				}
				_, err := f.Process(t.Context(), &turn.Envelope{}, opts...)
				se, ok := err.(*turn.StageError)
				if !ok || se.Plugin != "p1" || se.Stage != stage && !strings.HasPrefix(string(stage), "stream") {
					t.Fatalf("got %#v", err)
				}
				if pe, ok := se.Err.(*turn.PanicError); !ok || pe.Value != "boom" {
					t.Errorf("got %#v", se.Err)
				}
				if strings.Contains(err.Error(), "goroutine") || !strings.Contains(log.String(), "plugins_test.go") {
					t.Error("the stack belongs to the log and nowhere else")
				}
			})
		}
	}
}

func TestSystemPromptJoinsTheLowestFirst(t *testing.T) {
	system := func(text string, err error) systemer {
		return func(context.Context, turn.Prompt, turn.State) (string, error) { return text, err }
	}
	var got string
	var failed error
	f := build(t, system("default", nil), system("", nil), system("lost", errTest), system("mine", nil),
		loader(func(ctx context.Context, _ *turn.Envelope, _ string) (turn.State, error) {
			got, failed = turn.FromContext(ctx).SystemPrompt(ctx, turn.Prompt{}, nil)
			return nil, nil
		}))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "prompt", got, "default\n\nmine")
	if !errors.Is(failed, errTest) {
		t.Errorf("got %v", failed)
	}
}

type noSelector struct{ tape.Selector }

func TestTheFirstSelectorDecides(t *testing.T) {
	want := &noSelector{}
	var got tape.Selector
	f := build(t,
		selecter(func(context.Context, string, turn.State) (tape.Selector, bool, error) {
			t.Error("asked")
			return nil, true, nil
		}),
		selecter(func(_ context.Context, id string, s turn.State) (tape.Selector, bool, error) {
			return want, id == "default:default" && s["k"] == 1, nil
		}),
		selecter(func(context.Context, string, turn.State) (tape.Selector, bool, error) { return nil, false, nil }),
		loader(func(ctx context.Context, _ *turn.Envelope, _ string) (_ turn.State, err error) {
			got, err = turn.FromContext(ctx).Selector(ctx, turn.State{"k": 1})
			return nil, err
		}))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); err != nil || got != tape.Selector(want) {
		t.Error(got, err)
	}
}

type noStore struct{ tape.Store }

func TestTheStoreIsAskedForUntilThereIsOne(t *testing.T) {
	asked, have := 0, errTest
	want := &noStore{}
	f := build(t,
		storer(func(context.Context) (tape.Store, bool, error) { asked++; return want, have == nil, have }),
		storer(func(context.Context) (tape.Store, bool, error) { return nil, false, nil }))
	if _, err := f.Store(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	have = nil
	for range 3 {
		if s, err := f.Store(t.Context()); err != nil || s != tape.Store(want) {
			t.Error(s, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, expected none after the one that gave a store", asked)
	}
	if s, err := build(t, answers("")).Store(t.Context()); s != nil || err != nil {
		t.Error(s, err)
	}
}
