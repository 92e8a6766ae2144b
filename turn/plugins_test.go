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

func TestTU_01PluginsRegisteredLaterRunFirstInEveryStage(t *testing.T) {
	var r transcript
	all := func(name string) any {
		return struct {
			resolver
			loader
			prompter
			runner
			saver
			renderer
			dispatcher
			observer
			systemer
		}{
			func(context.Context, *turn.Envelope) (string, bool, error) {
				r.add("resolve%s", name)
				return "", false, nil
			},
			func(context.Context, *turn.Envelope, string) (turn.State, error) {
				r.add("load%s", name)
				return nil, nil
			},
			func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
				r.add("prompt%s", name)
				return turn.Prompt{}, false, nil
			},
			func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
				r.add("model%s", name)
				return "", false, nil
			},
			func(context.Context, *turn.Outcome) error { r.add("save%s", name); return nil },
			func(context.Context, *turn.Outcome) ([]*turn.Envelope, error) {
				r.add("render%s", name)
				return nil, nil
			},
			func(context.Context, *turn.Envelope) (bool, error) { r.add("dispatch%s", name); return false, errTest },
			func(_ context.Context, s turn.Stage, _ error, _ *turn.Envelope) { r.add("%s%s", s, name) },
			func(context.Context, turn.Prompt, turn.State) (string, error) { return name, nil },
		}
	}
	f := build(t, all("A"), all("B"), all("C"))
	_, err := f.Process(t.Context(), &turn.Envelope{Content: "x"})
	if !errors.Is(err, errTest) {
		t.Fatal(err)
	}
	want := "resolveC resolveB resolveA loadC loadB loadA promptC promptB promptA modelC modelB modelA run_modelC run_modelB run_modelA " +
		"saveC saveB saveA renderC renderB renderA dispatchC dispatchB dispatchA turnC turnB turnA"
	equal(t, "order", r.String(), want)
	for hook, names := range f.Hooks() {
		if diff := cmp.Diff([]string{"p3", "p2", "p1"}, names); diff != "" {
			t.Errorf("Hooks()[%q]: %s", hook, diff)
		}
	}
}

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
		if len(f.Hooks()["run_model"]) == 1 {
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
	if diff := cmp.Diff(map[string][]string{"provide_channels": {"x"}}, f.Hooks()); diff != "" {
		t.Error(diff)
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
	if n := len(f.Hooks()["run_model"]); n != 1 {
		t.Errorf("%d plugins, expected the refused one not to be there", n)
	}
}

func TestTU_03DecliningAndAcceptingNothingAreDifferent(t *testing.T) {
	for _, ok := range []bool{true, false} {
		f := build(t,
			answers("lower"),
			runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) { return "", ok, nil }))
		want := map[bool]string{true: "", false: "lower"}[ok]
		if r, err := f.Process(t.Context(), &turn.Envelope{Content: "x"}); err != nil || r.Output != want {
			t.Errorf("ok %v: got %+v, %v, expected %q", ok, r, err, want)
		}
	}
}

func TestTU_04AnErrorEndsTheSearchOfAFirstResultStage(t *testing.T) {
	never := func() { t.Error("the plugin below was asked") }
	plugins := map[turn.Stage][2]any{
		turn.StageResolve: {
			resolver(func(context.Context, *turn.Envelope) (string, bool, error) { never(); return "", false, nil }),
			resolver(func(context.Context, *turn.Envelope) (string, bool, error) { return "x", true, errTest }),
		},
		turn.StagePrompt: {
			prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
				never()
				return turn.Prompt{}, false, nil
			}),
			prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
				return turn.Prompt{Text: "x"}, true, errTest
			}),
		},
		turn.StageModel: {
			runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
				never()
				return "", false, nil
			}),
			runner(func(context.Context, turn.Prompt, string, turn.State) (string, bool, error) {
				return "x", false, errTest
			}),
		},
	}
	for stage, pair := range plugins {
		t.Run(string(stage), func(t *testing.T) {
			r, err := build(t, pair[0], pair[1]).Process(t.Context(), &turn.Envelope{})
			se, ok := err.(*turn.StageError)
			if !ok || se.Stage != stage || se.Plugin != "p2" || se.Err != errTest {
				t.Errorf("got %#v", err)
			}
			if r != nil && r.Output != "" {
				t.Errorf("output %q", r.Output)
			}
		})
	}
}

func TestTU_04InABroadcastStageAllRunWhateverTheOthersReturn(t *testing.T) {
	var r transcript
	e1, e2 := errors.New("one"), errors.New("two")
	for _, stage := range []turn.Stage{turn.StageLoad, turn.StageSave, turn.StageRender, turn.StageDispatch} {
		t.Run(string(stage), func(t *testing.T) {
			r.take()
			plugin := func(name string, err error) any {
				switch stage {
				case turn.StageLoad:
					return loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { r.add("%s", name); return nil, err })
				case turn.StageSave:
					return saver(func(context.Context, *turn.Outcome) error { r.add("%s", name); return err })
				case turn.StageRender:
					return renderer(func(context.Context, *turn.Outcome) ([]*turn.Envelope, error) { r.add("%s", name); return nil, err })
				default:
					return dispatcher(func(context.Context, *turn.Envelope) (bool, error) { r.add("%s", name); return false, err })
				}
			}
			_, err := build(t, plugin("a", nil), plugin("b", e1), plugin("c", nil), plugin("d", e2), plugin("e", nil)).Process(t.Context(), &turn.Envelope{})
			equal(t, "calls", r.String(), "e d c b a")
			se, ok := err.(*turn.StageError)
			if !ok || se.Stage != stage {
				t.Fatalf("got %#v", err)
			}
			if !errors.Is(err, e1) || !errors.Is(err, e2) {
				t.Errorf("%v: expected both errors", err)
			}
			if text := err.Error(); strings.Index(text, "two") > strings.Index(text, "one") {
				t.Errorf("%q: expected the order of the calls", text)
			}
		})
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
					opts = append(opts, turn.WithStreaming())
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

func TestTU_05APanicWithAnErrorUnwrapsToIt(t *testing.T) {
	f := build(t, says(func() { panic(errTest) }))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
}

func TestTU_06AStageErrorUnwrapsToTheVeryValue(t *testing.T) {
	want := &turn.EventError{Message: "own type"}
	f := build(t, loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { return nil, want }))
	_, err := f.Process(t.Context(), &turn.Envelope{})
	if errors.Unwrap(err) != error(want) {
		t.Errorf("got %#v", err)
	}
	equal(t, "text", err, "load_state (p1): own type")
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
