package turns_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel/turns"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// tapeWith has a session whose turn another process has begun.
func tapeWith(t *testing.T, turnID string, entries ...tape.Entry) func(context.Context, string) (*tape.Tape, error) {
	t.Helper()
	d, err := db.Open(t.Context(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	tapes := d.Tapes(nil)
	if len(entries) > 0 {
		opened, err := tape.Open(t.Context(), tapes, "w", "fake:42")
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			m := tape.MetaOf(e)
			if m.Turn == "" {
				m.Turn = turnID
			}
			entries[i] = e.With(m)
		}
		if _, err := opened.Append(t.Context(), entries...); err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context, session string) (*tape.Tape, error) {
		return tape.Lookup(ctx, tapes, "w", session)
	}
}

// CH-72: what people have seen of an answer is not said again, and what they have not is.
func TestAnAnswerGoesOnBehindWhatWasShown(t *testing.T) {
	question := tape.NewMessage(adapter.User, "weather?")
	called := tape.NewToolCall("Let me look.", tape.Call{ID: "c1"})
	for name, test := range map[string]struct {
		entries []tape.Entry
		shown   int
		says    []string // what the model says now
		want    []string
	}{
		"it had not begun":                 {nil, 0, []string{"Sunny."}, []string{"final: Sunny."}},
		"nothing was said":                 {[]tape.Entry{tape.NewEvent("turn.start", nil), question}, 0, []string{"Sunny."}, []string{"final: Sunny."}},
		"a block was shown":                {[]tape.Entry{tape.NewEvent("turn.start", nil), question, called}, len("Let me look."), []string{"\n\nSunny."}, []string{"final: \n\nSunny."}},
		"a block was written, not shown":   {[]tape.Entry{tape.NewEvent("turn.start", nil), question, called}, 0, []string{"\n\nSunny."}, []string{"final: Let me look.\n\nSunny."}},
		"half of what is written is shown": {[]tape.Entry{tape.NewEvent("turn.start", nil), question, called}, len("Let me"), []string{"\n\nSunny."}, []string{"final:  look.\n\nSunny."}},
		"more was shown than is written":   {[]tape.Entry{tape.NewEvent("turn.start", nil), question}, 100, []string{"Sunny."}, []string{"final: Sunny."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sink{}
			m := message("weather?", s)
			m.Resumed, m.Shown = true, test.shown
			a := newAgent(t, framework(t, say(test.says...)), &turns.Options{Tape: tapeWith(t, m.ID, test.entries...)})
			if _, err := a.Dispatch(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, s.said); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A message that the turn of another one has used is not answered again.
func TestAMessageThatWasSteeredIsNotAnsweredAfterACrash(t *testing.T) {
	s := &sink{}
	m := message("and tomorrow?", s)
	m.Resumed = true
	steered := tape.NewMessage(adapter.User, "and tomorrow?").With(tape.Meta{Steered: true, Turn: "t-other", Message: m.Context.MessageID})
	a := newAgent(t, framework(t, say("Sunny.")), &turns.Options{Tape: tapeWith(t, "t-other", tape.NewEvent("turn.start", nil), steered)})
	r, err := a.Dispatch(t.Context(), m)
	if err != nil || !r.Deferred || len(s.said) != 0 {
		t.Errorf("got %+v, %v, said %q", r, err, s.said)
	}
}
