package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// failsAt is a plugin that fails at a stage, with this error.
func failsAt(stage turn.Stage, err error) any {
	switch stage {
	case turn.StageResolve:
		return resolver(func(context.Context, *turn.Envelope) (string, bool, error) { return "", false, err })
	case turn.StageLoad:
		return loads(nil, err)
	case turn.StagePrompt:
		return prompter(func(context.Context, *turn.Envelope, string, turn.State) (turn.Prompt, bool, error) {
			return turn.Prompt{}, false, err
		})
	case turn.StageModel:
		return says("a", err)
	case turn.StageSave:
		return saver(func(context.Context, *turn.Outcome) error { return err })
	case turn.StageRender:
		return renders(err)
	default:
		return dispatcher(func(context.Context, *turn.Envelope) (bool, error) { return false, err })
	}
}

var stages = []turn.Stage{
	turn.StageResolve, turn.StageLoad, turn.StagePrompt, turn.StageModel, turn.StageSave, turn.StageRender, turn.StageDispatch,
}

func TestTU_31AFailingObserverStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r transcript
		var log logged
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		defer cancel()
		f := turn.New(turn.Options{Log: log.logger()})
		register(t, f,
			observer(func(context.Context, turn.Stage, error, *turn.Envelope) { r.add("last") }),
			observer(func(context.Context, turn.Stage, error, *turn.Envelope) { r.add("panics"); panic("observer") }),
			observer(func(ctx context.Context, _ turn.Stage, _ error, _ *turn.Envelope) {
				deadline, _ := ctx.Deadline()
				r.add("%v,%v,%v", ctx.Value(key{}), ctx.Err(), time.Until(deadline))
				<-ctx.Done()
				time.Sleep(time.Minute)
			}),
			runner(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (string, bool, error) {
				<-ctx.Done()
				return "", false, errTest
			}))
		_, err := f.Process(ctx, &turn.Envelope{})
		if err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		equal(t, "observers", r.String(), "value,<nil>,5s panics last")
		if !strings.Contains(log.String(), "panic in a hook") || !strings.Contains(log.String(), "stage=on_error") {
			t.Error(log.String())
		}
	})
}

func TestTU_31AnObserverThatPanicsDoesNotEndAStream(t *testing.T) {
	f := build(t, says("a", failure("x"), "b"), observer(func(context.Context, turn.Stage, error, *turn.Envelope) { panic("observer") }))
	if r, err := f.Process(t.Context(), &turn.Envelope{}); err != nil || r.Output != "ab" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestTU_32OnlyFailuresAreReported(t *testing.T) {
	own := errors.New("the caller's reason")
	for name, row := range map[string]struct {
		cause error // of the cancellation; nil lets the deadline pass
		saves error
		want  string
	}{
		"canceled":                     {own, nil, ""},
		"canceled without a cause":     {context.Canceled, nil, ""},
		"canceled, save_state fails":   {own, errTest, "turn(the caller's reason\nsave_state (p3): broken)"},
		"the deadline passes":          {nil, nil, "turn(context deadline exceeded)"},
		"a deadline above has passed":  {fmt.Errorf("run: %w", context.DeadlineExceeded), nil, "turn(run: context deadline exceeded)"},
		"the deadline, and save_state": {nil, errTest, "turn(context deadline exceeded\nsave_state (p3): broken)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r transcript
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				f := build(t, r.errors(),
					runner(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (string, bool, error) {
						if row.cause != nil {
							cancel(row.cause)
						}
						<-ctx.Done()
						return "", false, ctx.Err()
					}),
					saver(func(context.Context, *turn.Outcome) error { return row.saves }))
				_, err := f.Process(ctx, &turn.Envelope{})
				want := row.cause
				if want == nil {
					want = context.DeadlineExceeded
				}
				if !errors.Is(err, want) || row.saves == nil && err != want {
					t.Errorf("got %v, expected the cause", err)
				}
				equal(t, "told", r.String(), row.want)
			})
		})
	}
}

// secret is what must not reach a user.
const secret = "/etc/passwd https://key@host goroutine 7 [running]"

func TestTU_34TheNoticeHasAFixedSentenceAndAReference(t *testing.T) {
	for _, stage := range stages {
		t.Run(string(stage), func(t *testing.T) {
			var log logged
			var sent []*turn.Envelope
			f := turn.New(turn.Options{Log: log.logger()})
			register(t, f, turn.Notices{}, turn.Notices{}, dispatcher(func(_ context.Context, e *turn.Envelope) (bool, error) {
				if e.Kind == turn.KindError {
					sent = append(sent, e)
				}
				return true, nil
			}), failsAt(stage, errors.New(secret)))
			in := &turn.Envelope{SessionID: "", Channel: "telegram", ChatID: "42", OutputChannel: "email", Content: "x"}
			r, err := f.Process(t.Context(), in)
			if err == nil || len(sent) != 1 {
				t.Fatalf("%d notices for %v", len(sent), err)
			}
			e := sent[0]
			reference, _ := e.Extra["reference"].(string)
			if e.SessionID != in.SessionID || e.Channel != "telegram" || e.ChatID != "42" || e.OutputChannel != "email" {
				t.Errorf("it goes elsewhere: %+v", e)
			}
			if r != nil && r.TurnID != reference {
				t.Errorf("reference %q of turn %q", reference, r.TurnID)
			}
			equal(t, "content", e.Content, "Something went wrong. (reference "+reference+")")
			if strings.Contains(fmt.Sprintf("%+v", e), "passwd") {
				t.Error("the error's text is in the envelope")
			}
			if !strings.Contains(log.String(), "passwd") || !strings.Contains(log.String(), reference) {
				t.Error("the log does not have it under the reference")
			}
		})
	}
}

func TestTU_34ItsOwnFailureIsLoggedAndToldToNobody(t *testing.T) {
	for name, broken := range map[string]dispatcher{
		"fails":  func(context.Context, *turn.Envelope) (bool, error) { return false, errors.New("notice") },
		"panics": func(context.Context, *turn.Envelope) (bool, error) { panic("notice") },
	} {
		t.Run(name, func(t *testing.T) {
			var r transcript
			var log logged
			f := turn.New(turn.Options{Log: log.logger()})
			register(t, f, turn.Notices{}, broken, failsAt(turn.StageLoad, errTest), r.errors())
			_, err := f.Process(t.Context(), &turn.Envelope{})
			if errors.Unwrap(err) != errTest {
				t.Errorf("got %v", err)
			}
			equal(t, "told", r.String(), "turn(load_state (p3): broken)")
			if !strings.Contains(log.String(), "cannot send the notice") {
				t.Error(log.String())
			}
		})
	}
}

func TestTU_34ATurnThatTookTooLongSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := turn.New(turn.Options{Timeout: time.Minute})
		var told []string
		register(t, f, turn.Notices{}, runner(func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (string, bool, error) {
			<-ctx.Done()
			return "", true, context.Cause(ctx)
		}), dispatcher(func(_ context.Context, e *turn.Envelope) (bool, error) {
			told = append(told, e.Content)
			return true, nil
		}))
		r, err := f.Process(t.Context(), &turn.Envelope{Content: "x"})
		if err != turn.ErrTimeout {
			t.Errorf("got %v", err)
		}
		equal(t, "told", told, []string{"The answer took too long and was stopped. (reference " + r.TurnID + ")"})
	})
}

func TestTU_34ErrorsThatTheTurnGoesOnAfterAreNoNotices(t *testing.T) {
	f := build(t, turn.Notices{}, says(failure("x"), "a"), dispatcher(func(_ context.Context, e *turn.Envelope) (bool, error) {
		if e.Kind == turn.KindError {
			t.Errorf("sent %+v", e)
		}
		return true, nil
	}))
	if _, err := f.Process(t.Context(), &turn.Envelope{}); err != nil {
		t.Fatal(err)
	}
}

// TU-34: what is told of an error of the store is what has happened, where nothing else came before it.
func TestTU_34TheStoreIsNamedWhereItIsAway(t *testing.T) {
	for _, row := range []struct {
		name  string
		err   error
		says  string
		again bool
	}{
		{"away", &overloaded{tape.ErrAway}, "unreachable", true},
		{"unsure", &overloaded{errors.Join(tape.ErrAway, tape.ErrUnsure)}, "may or may not be stored", false},
		{"something else", &overloaded{errTest}, "server is busy", true},
		{"too many", turn.ErrQueueFull, "server is busy", true},
		{"a shutdown", turn.ErrDraining, "try again", true},
		{"a model before it", errors.Join(&turn.EventError{Code: "upstream_auth", Message: "x"}, &overloaded{tape.ErrAway}), "refused this server's key", false},
		{"a model that is away", &turn.EventError{Code: "upstream_unavailable", Message: "x"}, "try again later", true},
		{"a rate limit", limited{lasting: false}, "try again later", true},
		{"no credit", limited{lasting: true}, "no credit left or has reached a limit", false}, // DH-09
		{"a fault", errTest, "Something went wrong", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var sent []string
			f := turn.New(turn.Options{})
			register(t, f, turn.Notices{}, dispatcher(func(_ context.Context, e *turn.Envelope) (bool, error) {
				sent = append(sent, e.Content)
				return true, nil
			}), failsAt(turn.StageSave, row.err))
			_, err := f.Process(t.Context(), &turn.Envelope{Content: "x"})
			if err == nil || len(sent) == 0 || !strings.Contains(sent[len(sent)-1], row.says) {
				t.Errorf("told %q of %v, want %q", sent, err, row.says)
			}
			if got := turn.Retryable(f.Code(err), err); got != row.again {
				t.Errorf("retryable: %v", got)
			}
		})
	}
}

type overloaded struct{ error }

func (*overloaded) ErrorCode() string { return turn.CodeOverloaded }
func (e *overloaded) Unwrap() error   { return e.error }

type limited struct{ lasting bool }

func (limited) Error() string     { return "limited" }
func (limited) ErrorCode() string { return adapter.CodeRateLimited }
func (l limited) Lasting() bool   { return l.lasting }

type upstream struct{ code string }

func (upstream) Error() string { return "the model's server" }

func TestTU_35EveryErrorHasACode(t *testing.T) {
	f := turn.New(turn.Options{Code: func(err error) string {
		if e, ok := errors.AsType[upstream](err); ok {
			return e.code
		}
		return ""
	}})
	for _, row := range []struct {
		err  error
		want string
	}{
		{turn.ErrNoPrompt, "invalid_request"},
		{turn.ErrBusy, "conflict"},
		{turn.ErrQueueFull, "overloaded"},
		{turn.ErrDraining, "draining"},
		{turn.ErrInterrupted, "conflict"},
		{turn.ErrStopped, "conflict"},
		{turn.ErrTimeout, "internal"},
		{turn.ErrNoOutput, "internal"},
		{tape.ErrDeleted, "gone"},
		{tape.ErrTooLarge, "too_large"},
		{upstream{"upstream_timeout"}, "upstream_timeout"},
		{&turn.EventError{Code: "output_invalid", Message: "text"}, "output_invalid"},
		{errTest, "internal"},
		{&turn.PanicError{Value: "x"}, "internal"},
		{&turn.PanicError{Value: upstream{"upstream_auth"}}, "upstream_auth"},
	} {
		for _, err := range []error{row.err, fmt.Errorf("wrapped: %w", row.err), &turn.StageError{Stage: turn.StageModel, Err: row.err}, errors.Join(row.err, errTest)} {
			if got := f.Code(err); got != row.want {
				t.Errorf("%v: got %q, expected %q", err, got, row.want)
			}
		}
		if s := turn.Sentence(row.want); s == "" || strings.Contains(s, row.err.Error()) {
			t.Errorf("%q: sentence %q", row.want, s)
		}
	}
	// The model's error counts, whatever save_state did afterwards.
	if got := f.Code(errors.Join(upstream{"upstream_timeout"}, fmt.Errorf("save: %w", turn.ErrBusy))); got != "upstream_timeout" {
		t.Logf("the code of two is %q", got)
		t.Fail()
	}
	for _, code := range []string{"upstream_protocol", "upstream_strange"} {
		if !strings.Contains(turn.Sentence(code), "model's server") {
			t.Errorf("%q: %q", code, turn.Sentence(code))
		}
	}
}

func TestTU_50CancelingReachesTheHookAndNoLaterStageBegins(t *testing.T) {
	own := errors.New("the caller's reason")
	for i, at := range stages {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r transcript
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				hook := func(ctx context.Context, stage turn.Stage) error {
					r.add("%s", stage)
					if stage != at {
						return nil
					}
					if stage == turn.StageSave { // it does not get to know
						cancel(own)
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				plugin := struct {
					resolver
					loader
					prompter
					streamer
					saver
					renderer
					dispatcher
				}{
					func(ctx context.Context, _ *turn.Envelope) (string, bool, error) {
						return "", false, hook(ctx, turn.StageResolve)
					},
					func(ctx context.Context, _ *turn.Envelope, _ string) (turn.State, error) {
						return nil, hook(ctx, turn.StageLoad)
					},
					func(ctx context.Context, _ *turn.Envelope, _ string, _ turn.State) (turn.Prompt, bool, error) {
						return turn.Prompt{}, false, hook(ctx, turn.StagePrompt)
					},
					func(ctx context.Context, _ turn.Prompt, _ string, _ turn.State) (turn.Stream, bool, error) {
						return func(yield func(turn.Event, error) bool) {
							if err := hook(ctx, turn.StageModel); err != nil {
								yield(turn.Event{}, err)
								return
							}
							yield(turn.Text("x"), nil)
						}, true, nil
					},
					func(ctx context.Context, _ *turn.Outcome) error { return hook(ctx, turn.StageSave) },
					func(ctx context.Context, _ *turn.Outcome) ([]*turn.Envelope, error) {
						return nil, hook(ctx, turn.StageRender)
					},
					func(ctx context.Context, _ *turn.Envelope) (bool, error) { return true, hook(ctx, turn.StageDispatch) },
				}
				f := build(t, plugin)
				time.AfterFunc(time.Second, func() { cancel(own) })
				_, err := f.Process(ctx, &turn.Envelope{})
				if err != own {
					t.Errorf("got %v", err)
				}
				want := stages[: i+1 : i+1]
				if i > 0 && i < 4 {
					want = append(want, turn.StageSave)
				}
				equal(t, "stages", r.String(), strings.Trim(fmt.Sprint(want), "[]"))
			})
		})
	}
}

func TestTU_50AProducerThatDoesNotListenIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	made := 0
	f := build(t, streamer(func(context.Context, turn.Prompt, string, turn.State) (turn.Stream, bool, error) {
		return func(yield func(turn.Event, error) bool) {
			for yield(turn.Text("x"), nil) {
				if made++; made == 3 {
					cancel(errTest)
				}
			}
		}, true, nil
	}))
	r, err := f.Process(ctx, &turn.Envelope{})
	if err != errTest || r.Output != "xxx" || !r.Partial || made != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestTU_50ACanceledCallerBeginsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	never := func() { t.Error("a hook was called") }
	f := build(t,
		resolver(func(context.Context, *turn.Envelope) (string, bool, error) { never(); return "", false, nil }),
		loader(func(context.Context, *turn.Envelope, string) (turn.State, error) { never(); return nil, nil }),
		saver(func(context.Context, *turn.Outcome) error { never(); return nil }),
		observer(func(context.Context, turn.Stage, error, *turn.Envelope) { never() }))
	if r, err := f.Process(ctx, &turn.Envelope{}); err != errTest || r != nil {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := f.Submit(ctx, &turn.Envelope{}); err != errTest {
		t.Errorf("got %v", err)
	}
}
