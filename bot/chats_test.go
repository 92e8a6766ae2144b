package bot

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// asked is what a model was asked, one line for each request.
func asked(requests []adapter.Request) (lines []string) {
	for _, r := range requests {
		var words []string
		for _, m := range r.Messages {
			words = append(words, m.Role+": "+m.Content)
		}
		lines = append(lines, strings.Join(words, " | "))
	}
	return lines
}

// chats answers the requests with these scripts in turn, and keeps the requests.
func chats(requests *[]adapter.Request, scripts ...script) script {
	return func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
		*requests = append(*requests, r)
		scripts[len(*requests)-1](ctx, r, yield)
	}
}

// DM-01: a bot that has ended can be asked again; it remembers what was said, and its new answer takes the place of the last one.
func TestABotCanBeAskedAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		config  Config
		root    string
		scripts []script
		asked   []string
		values  []string // "!" is a failure
		want    string   // the document
	}{
		{
			"JSON",
			Config{},
			"a",
			[]script{says("stop", `{"x":"one","y":1}`), says("stop", `{"x":"two"}`)},
			[]string{"system: Be brief. | user: ask 0", `system: Be brief. | user: ask 0 | assistant: {"x":"one","y":1} | user: ask 1`},
			[]string{`{"x":"one","y":1}`, `{"x":"two"}`},
			`{"a":{"x":"two"}}`,
		},
		{
			"text",
			Config{Format: Text},
			"a",
			[]script{says("stop", "One\n"), says("stop", "Two")},
			[]string{"system: Be brief. | user: ask 0", "system: Be brief. | user: ask 0 | assistant: One\n | user: ask 1"},
			[]string{`"One\n"`, `"Two"`},
			`{"a":"Two"}`,
		},
		{
			"without a root",
			Config{},
			"",
			[]script{says("stop", `{"x":"one"}`), says("stop", `{"x":"two","y":1}`), says("stop", `{"x":"three"}`)},
			[]string{
				"system: Be brief. | user: ask 0", `system: Be brief. | user: ask 0 | assistant: {"x":"one"} | user: ask 1`,
				`system: Be brief. | user: ask 0 | assistant: {"x":"one"} | user: ask 1 | assistant: {"x":"two","y":1} | user: ask 2`,
			},
			[]string{`{"x":"one"}`, `{"x":"two","y":1}`, `{"x":"three"}`},
			`{"x":"three"}`,
		},
		{
			"after a failure",
			Config{},
			"a",
			[]script{fails(adapter.CodeUnavailable, `{"x":"half`), says("stop", `{"y":1}`)},
			[]string{"system: Be brief. | user: ask 0", "system: Be brief. | user: ask 1"},
			[]string{"!", `{"y":1}`},
			`{"a":{"y":1}}`,
		},
		{
			"with a retry in each",
			Config{OnInvalid: RetryThenFail, Schema: json.RawMessage(`{"required":["x"]}`)},
			"a",
			[]script{says("stop", `{"y":1}`), says("stop", `{"x":1}`), says("stop", `{"z":1}`), says("stop", `{"z":2}`)},
			nil,
			[]string{`{"x":1}`, "!"},
			`{"a":{"z":2}}`,
		},
		{
			"nothing is kept of what nobody wants",
			Config{NoValue: true},
			"a",
			[]script{says("stop", `{"x":"one","z":1}`), says("stop", `{"x":"two"}`)},
			[]string{"system: Be brief. | user: ask 0", "system: Be brief. | user: ask 1"},
			[]string{"", ""},
			`{"a":{"x":"two"}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []adapter.Request
				w := newWorld(t, chats(&requests, test.scripts...))
				w.Alone = func(b *ChatBot, f func(json.RawMessage) bool) bool {
					document, _ := w.Tube.Snapshot(true)
					here := map[string]json.RawMessage{}
					if b.root == "" {
						return f(document)
					}
					return json.Unmarshal(document, &here) == nil && f(here[b.root])
				}
				b := New(w.Env, "b", test.root, test.config)
				if err := b.SetPrompt("Be brief.", nil); err != nil {
					t.Fatal(err)
				}
				var log []string
				b.Listen(journal(&log))
				for i, want := range test.values {
					if err := b.Chat(Message{Text: "ask " + string(rune('0'+i))}); err != nil {
						t.Fatal(err)
					}
					r, err := b.Wait(t.Context())
					if (err != nil) != (want == "!") || err == nil && string(r.Value) != want {
						t.Errorf("chat %d: %s, %v", i, r.Value, err)
					}
					if err == nil && (b.State() != Finished || b.Err() != nil) || err != nil && b.State() != Error {
						t.Errorf("chat %d: the state is %s, the error %v", i, b.State(), b.Err())
					}
				}
				ends := 0
				for _, line := range log {
					if strings.HasPrefix(line, "response") || strings.HasPrefix(line, "error") {
						ends++
					}
				}
				if ends != len(test.values) {
					t.Errorf("%d ends were told: %v", ends, log)
				}
				if test.asked != nil {
					if diff := cmp.Diff(test.asked, asked(requests)); diff != "" {
						t.Error(diff)
					}
				}
				if document, _ := w.Tube.Snapshot(true); string(document) != test.want {
					t.Errorf("the document is %s, expected %s", document, test.want)
				}
			})
		})
	}
}

// DM-01: while a bot chats, or its callbacks are called, it cannot be asked.
func TestABotThatChatsCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		w := newWorld(t, chats(&requests, says("stop", "Well.")))
		b := New(w.Env, "b", "a", Config{Format: Text})
		refused := 0
		ask := func(Response) {
			if err := b.Chat(Message{Text: "again"}); errors.Is(err, ErrStarted) {
				refused++
			}
		}
		b.Listen(Listener{InferenceDone: ask, Response: ask})
		if err := b.Chat(Message{Text: "first"}); err != nil {
			t.Fatal(err)
		}
		ask(Response{})
		if r, err := b.Wait(t.Context()); err != nil || string(r.Value) != `"Well."` || refused != 3 {
			t.Errorf("%s, %v, refused %d times", r.Value, err, refused)
		}
	})
}

// DM-01: a bot that was ended by hand can be asked, too.
func TestABotThatWasEndedByHandCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		hang := func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			yield(adapter.Chunk{Text: "Half"}, nil)
			<-ctx.Done()
		}
		w := newWorld(t, chats(&requests, hang, says("stop", "Whole.")))
		b := New(w.Env, "b", "a", Config{Format: Text})
		b.Finish()
		if r, err := b.Wait(t.Context()); err != nil || string(r.Value) != "null" {
			t.Errorf("%s, %v", r.Value, err)
		}
		if err := b.Chat(Message{Text: "first"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.Finish()
		if r, err := b.Wait(t.Context()); err != nil || string(r.Value) != `"Half"` {
			t.Errorf("%s, %v", r.Value, err)
		}
		b.Finish() // of nothing
		if r, err := chat(t, b); err != nil || string(r.Value) != `"Whole."` {
			t.Errorf("%s, %v", r.Value, err)
		}
		w.wg.Wait()
	})
}
