package turn_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/turn"
)

// resolves is a plugin that accepts or declines with this id.
func resolves(id string, ok bool) resolver {
	return func(context.Context, *turn.Envelope) (string, bool, error) { return id, ok, nil }
}

func TestTU_10AndTU_11TheSessionIsThatOfThePluginOrOfTheChat(t *testing.T) {
	for name, row := range map[string]struct {
		plugins       []any
		channel, chat string
		want          string
	}{
		"nobody":                       {nil, "telegram", "42", "telegram:42"},
		"nobody, without a channel":    {nil, "", "42", "default:42"},
		"nobody, without a chat":       {nil, "telegram", "", "telegram:default"},
		"nobody, with nothing":         {nil, "", "", "default:default"},
		"a plugin":                     {[]any{resolves("mine", true)}, "telegram", "42", "mine"},
		"one that declines":            {[]any{resolves("mine", false)}, "telegram", "42", "telegram:42"},
		"the upper of two":             {[]any{resolves("lower", true), resolves("upper", true)}, "a", "b", "upper"},
		"the lower, the upper decline": {[]any{resolves("lower", true), resolves("upper", false)}, "a", "b", "lower"},
		"an accepted empty one":        {[]any{resolves("lower", true), resolves("", true)}, "a", "b", "a:b"},
		"white space":                  {[]any{resolves(" ", true)}, "a", "b", " "},
	} {
		t.Run(name, func(t *testing.T) {
			e := &turn.Envelope{Channel: row.channel, ChatID: row.chat, SessionID: "before"}
			var seen string
			f := build(t, append(row.plugins, loader(func(_ context.Context, e *turn.Envelope, id string) (turn.State, error) {
				seen = e.SessionID + "," + id
				return nil, nil
			}))...)
			r, err := f.Process(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if r.Session != row.want || e.SessionID != row.want || seen != row.want+","+row.want {
				t.Errorf("result %q, envelope %q, hooks %q, expected %q", r.Session, e.SessionID, seen, row.want)
			}
		})
	}
}

func TestTU_12AnIdIsShortTextWithoutControlCharacters(t *testing.T) {
	for id, good := range map[string]bool{
		"x": true, strings.Repeat("x", 512): true, strings.Repeat("x", 513): false, "天气:1": true, "a\x00b": false,
		"a\nb": false, "a\x7fb": false, "a\u0085b": false, "a\xffb": false, "../../etc/passwd": true,
	} {
		e := &turn.Envelope{SessionID: "before"}
		loaded := false
		f := build(t, resolves(id, true), loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { loaded = true; return nil, nil }))
		r, err := f.Process(t.Context(), e)
		switch {
		case good && (err != nil || !loaded || e.SessionID != id):
			t.Errorf("%q: got %v", id, err)
		case !good && (f.Code(err) != "invalid_request" || loaded || r != nil || e.SessionID != "before"):
			t.Errorf("%q: got %v, %v, session %q", id, r, err, e.SessionID)
		}
	}
	// The channel's own words are held to it too.
	if _, err := build(t).Process(t.Context(), &turn.Envelope{Channel: "a", ChatID: "\n"}); err == nil {
		t.Error("a chat with a line break was taken")
	}
}

// loads is a plugin that returns this state.
func loads(s turn.State, err error) loader {
	return func(context.Context, *turn.Envelope, string) (turn.State, error) { return s, err }
}

func TestTU_13TheStateOfLaterPluginsWinsOverTheSeedToo(t *testing.T) {
	dir := t.TempDir()
	var got turn.State
	f := turn.New(turn.Options{Workspace: dir})
	register(t, f,
		loads(turn.State{"a": 1, "b": 1, "c": 1}, nil),
		loads(nil, nil),
		loads(turn.State{"b": 2, "c": 2}, nil),
		loads(turn.State{"c": 3}, nil),
		prompter(func(_ context.Context, _ *turn.Envelope, _ string, s turn.State) (turn.Prompt, bool, error) {
			got = s
			return turn.Prompt{}, false, nil
		}))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(turn.State{"_runtime_workspace": dir, "a": 1, "b": 2, "c": 3}, got); diff != "" {
		t.Error(diff)
	}

	register2 := build(t, loads(turn.State{"_runtime_workspace": "mine"}, nil), saver(func(_ context.Context, o *turn.Outcome) error {
		got = o.State
		return nil
	}))
	if _, err := register2.Process(t.Context(), &turn.Envelope{}); err != nil || got["_runtime_workspace"] != "mine" {
		t.Error(got, err)
	}
	if w := turn.New(turn.Options{Workspace: "."}).Workspace(); !filepath.IsAbs(w) {
		t.Errorf("workspace %q, expected an absolute path", w)
	}
}

func TestTU_13ALoadersMapIsItsOwn(t *testing.T) {
	mine := turn.State{"k": "mine"}
	f := build(t, loads(mine, nil), loads(turn.State{"k": "upper"}, nil))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(turn.State{"k": "mine"}, mine); diff != "" {
		t.Errorf("the plugin's map was changed: %s", diff)
	}
}

func TestTU_14ThePromptIsThePluginsOrTheContent(t *testing.T) {
	parts := []turn.Part{{Type: "text", Text: "see"}, {Type: "image_url", ImageURL: &turn.PartURL{URL: "data:,"}}}
	prompts := func(p turn.Prompt, ok bool) prompter {
		return func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
			return p, ok, nil
		}
	}
	for name, row := range map[string]struct {
		plugins []any
		want    turn.Prompt
	}{
		"nobody":           {nil, turn.Prompt{Text: "content"}},
		"text":             {[]any{prompts(turn.Prompt{Text: "p"}, true)}, turn.Prompt{Text: "p"}},
		"white space":      {[]any{prompts(turn.Prompt{Text: " "}, true)}, turn.Prompt{Text: " "}},
		"parts":            {[]any{prompts(turn.Prompt{Parts: parts}, true)}, turn.Prompt{Parts: parts}},
		"declined":         {[]any{prompts(turn.Prompt{Text: "p"}, false)}, turn.Prompt{Text: "content"}},
		"the lower":        {[]any{prompts(turn.Prompt{Text: "lower"}, true), prompts(turn.Prompt{}, false)}, turn.Prompt{Text: "lower"}},
		"falsy":            {[]any{prompts(turn.Prompt{}, true)}, turn.Prompt{Text: "content"}},
		"falsy, no lower":  {[]any{prompts(turn.Prompt{Text: "lower"}, true), prompts(turn.Prompt{}, true)}, turn.Prompt{Text: "content"}},
		"falsy, no parts":  {[]any{prompts(turn.Prompt{Parts: []turn.Part{}}, true)}, turn.Prompt{Text: "content"}},
		"parts of no text": {[]any{prompts(turn.Prompt{Parts: parts[1:]}, true)}, turn.Prompt{Parts: parts[1:]}},
	} {
		t.Run(name, func(t *testing.T) {
			var got turn.Prompt
			f := build(t, append(row.plugins, runner(func(_ context.Context, p turn.Prompt, _ string, _ turn.State) (string, bool, error) {
				got = p
				return "", true, nil
			}))...)
			if _, err := f.Process(t.Context(), &turn.Envelope{Content: "content"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lateEnd is a context that is found to have ended when it has been asked some times.
type lateEnd struct {
	context.Context
	asked *int
}

func (c lateEnd) Err() error {
	if *c.asked--; *c.asked < 0 {
		return context.Canceled
	}
	return nil
}

func TestTU_20SaveStateRunsOnlyWhereLoadStateHasBegunWheneverTheContextEnds(t *testing.T) {
	finished := false
	for n := 0; !finished; n++ {
		loads, saves, asked := 0, 0, n
		f := build(t, answers("x"),
			loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { loads++; return nil, nil }),
			saver(func(context.Context, *turn.Outcome) error { saves++; return nil }))
		_, err := f.Process(lateEnd{t.Context(), &asked}, &turn.Envelope{Content: "a"})
		if loads != saves {
			t.Errorf("ended when asked %d times: %d loaded, %d saved", n, loads, saves)
		}
		if finished = err == nil; !finished && !errors.Is(err, context.Canceled) {
			t.Fatalf("ended when asked %d times: got %v", n, err)
		}
	}
}

func TestTU_21SaveStateOutlivesTheCallerAndHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var values []any
		begin := time.Now()
		slow := saver(func(ctx context.Context, _ *turn.Outcome) error {
			values = append(values, ctx.Value(key{}), ctx.Err())
			<-ctx.Done()
			time.Sleep(time.Minute) // overruns, and is waited for
			return ctx.Err()
		})
		quick := saver(func(ctx context.Context, _ *turn.Outcome) error {
			deadline, _ := ctx.Deadline()
			values = append(values, ctx.Err(), time.Until(deadline))
			return nil
		})
		_, err := build(t, quick, slow, says(func() { cancel() })).Process(ctx, &turn.Envelope{})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		equal(t, "what save_state saw", values, []any{"value", nil, nil, 10 * time.Second})
		equal(t, "time", time.Since(begin), 70*time.Second)
	})
}

func TestTU_22TheStreamIsClosedBeforeSaveState(t *testing.T) {
	for name, end := range map[string]func(yield func(turn.Event, error) bool){
		"ends":        func(func(turn.Event, error) bool) {},
		"fails":       func(yield func(turn.Event, error) bool) { yield(turn.Event{}, errTest) },
		"panics":      func(func(turn.Event, error) bool) { panic(errTest) },
		"is canceled": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var r transcript
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := build(t, r.saves(), streamer(func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
				return func(yield func(turn.Event, error) bool) {
					defer r.add("closed")
					yield(turn.Text("x"), nil)
					if end == nil {
						cancel()
						yield(turn.Text("y"), nil)
						return
					}
					end(yield)
				}, true, nil
			}))
			f.Process(ctx, &turn.Envelope{}, withReader)
			if !strings.HasPrefix(r.String(), "closed save(x,") {
				t.Error(r.String())
			}
		})
	}
}

// renders is a plugin that returns envelopes with these contents; "" is a nil one.
func renders(err error, contents ...string) renderer {
	return func(context.Context, *turn.Outcome) ([]*turn.Envelope, error) {
		var list []*turn.Envelope
		for _, c := range contents {
			if c == "" {
				list = append(list, nil)
			} else {
				list = append(list, &turn.Envelope{Content: c})
			}
		}
		return list, err
	}
}

func TestTU_24TheEnvelopeMadeOfTheOutputGoesBackWhereItCameFrom(t *testing.T) {
	in := &turn.Envelope{ID: "7", Channel: "telegram", ChatID: "42", OutputChannel: "email", Content: "in", Kind: turn.KindCommand}
	r, err := build(t, answers("out")).Process(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := []*turn.Envelope{{SessionID: "telegram:42", Channel: "telegram", ChatID: "42", OutputChannel: "email", Content: "out"}}
	if diff := cmp.Diff(want, r.Outbound); diff != "" {
		t.Error(diff)
	}
}

func TestTU_26EachEnvelopeIsOfferedToEachPlugin(t *testing.T) {
	var r transcript
	dispatches := func(name string, does func(content string) (bool, error)) dispatcher {
		return func(_ context.Context, e *turn.Envelope) (bool, error) {
			r.add("%s%s", name, e.Content)
			return does(e.Content)
		}
	}
	var log logged
	f := turn.New(turn.Options{Log: log.logger()})
	register(t, f,
		renders(nil, "1", "2", "3"),
		dispatches("b", func(c string) (bool, error) { return c == "1", nil }),
		dispatches("a", func(c string) (bool, error) {
			if c == "2" {
				panic(errTest)
			}
			return c == "1", nil
		}))
	res, err := f.Process(t.Context(), &turn.Envelope{})
	equal(t, "calls", r.String(), "a1 b1 a2 b2 a3 b3")
	if !errors.Is(err, errTest) {
		t.Error(err)
	}
	equal(t, "deliveries", res.Deliveries, []bool{true, false, false})
	if n := strings.Count(log.String(), "reply to an unknown channel"); n != 1 {
		t.Errorf("%d lines of the log about undelivered envelopes", n)
	}
}

func TestTU_27TurnIdsAreRandomAndThereIsAResultBesideAnError(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := turn.NewID()
		text, found := strings.CutPrefix(id, "t-") // five bits a character
		if !found || len(text) < 26 || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	f := build(t, loads(nil, errTest))
	r, err := f.Process(t.Context(), &turn.Envelope{}, turn.WithID("t-mine"))
	if err == nil || r == nil || r.TurnID != "t-mine" || r.Session != "default:default" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestHooksFindTheirTurn(t *testing.T) {
	in := &turn.Envelope{Content: "x"}
	var got *turn.Turn
	f := turn.New(turn.Options{})
	register(t, f,
		resolver(func(ctx context.Context, _ *turn.Envelope) (string, bool, error) {
			return "", false, map[bool]error{true: errTest}[turn.FromContext(ctx) == nil]
		}),
		runner(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (string, bool, error) {
			got = turn.FromContext(ctx)
			p, err := got.BuildPrompt(ctx, &turn.Envelope{Content: "other"}, nil)
			return p.Text, true, err
		}),
		saver(func(ctx context.Context, _ *turn.Outcome) error {
			return map[bool]error{true: errTest}[turn.FromContext(ctx) != got]
		}))
	r, err := f.Process(t.Context(), in, withReader)
	if err != nil || r.Output != "other" {
		t.Fatal(r, err)
	}
	if got.ID() != r.TurnID || got.Session() != r.Session || got.Envelope() != in || got.Framework() != f || !got.Streaming() || got.Inbox() != nil {
		t.Errorf("got %+v", got)
	}
	if n := len(turn.PluginsOf[turn.StateSaver](got)); n != 1 {
		t.Errorf("%d savers", n)
	}
	if turn.FromContext(t.Context()) != nil {
		t.Error("a turn in a context without one")
	}
}
