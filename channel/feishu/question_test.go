package feishu_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/tool"
)

// asking returns a rig whose agent asks. Ann is an operator; everybody may talk.
func asking(t *testing.T, asker *channeltest.Asker, mode channel.CommandMode) *rig {
	t.Helper()
	r := setup(t, options{agent: asker, place: channel.Place{CommandMode: mode, Operators: []string{ann}}})
	r.serve(t)
	return r
}

// press presses a button of a card, and returns the kind and the text of what the person who pressed is shown.
func (r *rig) press(t *testing.T, m fakefeishu.Message, label, by string) string {
	t.Helper()
	event := r.fake.Press(m, label, by)
	if event == nil {
		t.Fatalf("there is no button %s", label)
	}
	return r.postPress(t, event)
}

func (r *rig) postPress(t *testing.T, event map[string]any) string {
	t.Helper()
	p := r.fake.Post(t.Context(), event) // fails if it takes as long as the platform waits
	var answer struct {
		Toast struct{ Type, Content string } `json:"toast"`
	}
	if err := json.Unmarshal([]byte(p.Body), &answer); err != nil || p.Status != http.StatusOK {
		t.Errorf("a press is answered with %d %q", p.Status, p.Body)
	}
	synctest.Wait()
	return strings.TrimPrefix(answer.Toast.Type+": "+answer.Toast.Content, ": ")
}

const question = "The agent wants to call the tool `shell` with\n\n```json\n{\"cmd\":\"ls\"}\n```"

func TestOnePressAnswersAQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		chat, thread, button   string
		toast, settled, finish string
	}{
		"approved":   {private, "", "Approve", "success: Approved.", "Approved by <at id=ou_ann></at>.", "It ran."},
		"denied":     {private, "", "Deny", "success: Denied.", "Denied by <at id=ou_ann></at>.", "It did not run."},
		"remembered": {private, "", "Approve for this session", "success: Approved for this session.", "Approved for this session by <at id=ou_ann></at>.", "It ran."},
		"in a group": {group, "", "Approve", "success: Approved.", "Approved by <at id=ou_ann></at>.", "It ran."},
		"in a topic": {group, "omt_1", "Approve", "success: Approved.", "Approved by <at id=ou_ann></at>.", "It ran."},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				asker := &channeltest.Asker{}
				r := asking(t, asker, "")
				r.say(t, fakefeishu.Said{Chat: test.chat, Thread: test.thread, From: ann, Text: "@_user_1 go", Mentions: fakefeishu.MentionBot()})
				q := r.fake.Ours(test.chat)[0]
				if q.Text != question+"\n[Approve][Deny][Approve for this session]" || q.Thread != test.thread {
					t.Errorf("asked %q", q.Text)
				}
				if got := r.press(t, q, test.button, ann); got != test.toast {
					t.Errorf("answered with %q", got)
				}
				wait(time.Second)
				texts := r.fake.Texts(test.chat)
				if d := cmp.Diff([]string{question + "\n\n" + test.settled, test.finish}, texts); d != "" {
					t.Error(d)
				}
				// A client may still show the buttons.
				if got := r.press(t, q, "Approve", ann); got != "warning: "+channel.PressOver.Text() || len(asker.Answers) != 1 {
					t.Errorf("a second press is answered with %q; decided %q", got, asker.Answers)
				}
				if d := cmp.Diff(texts, r.fake.Texts(test.chat)); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

var longArguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`

// Long arguments are a file. The question below it has buttons.
func TestLongArgumentsAreAFileAboveTheQuestion(t *testing.T) {
	id := channeltest.QuestionID(1)
	for name, test := range map[string]struct{ chat, thread, end string }{
		"alone":      {private, "", "\n[Approve][Deny][Approve for this session]"},
		"in a topic": {group, "omt_1", "\n[Approve][Deny][Approve for this session]"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				asker := &channeltest.Asker{Arguments: longArguments}
				r := asking(t, asker, "")
				r.say(t, fakefeishu.Said{Chat: test.chat, Thread: test.thread, From: ann, Text: "@_user_1 go", Mentions: fakefeishu.MentionBot()})
				got := r.fake.Ours(test.chat)
				if len(got) != 2 || got[0].Thread != test.thread || got[1].Thread != test.thread {
					t.Fatalf("got %+v", got)
				}
				var file map[string]string
				if err := json.Unmarshal([]byte(got[0].Content), &file); err != nil || string(r.fake.Uploaded(file["file_key"])) != longArguments {
					t.Errorf("the first message is %+v", got[0])
				}
				if text := strings.ReplaceAll(got[1].Text, "`", ""); text != "The agent wants to call the tool shell with the arguments in the file arguments-"+id+".json."+test.end {
					t.Errorf("asked %q", text)
				}
				if got := r.press(t, got[1], "Approve", ann); got != "success: Approved." {
					t.Errorf("answered with %q", got)
				}
				wait(time.Second)
				if texts := r.fake.Texts(test.chat); len(texts) != 3 || !strings.HasSuffix(texts[1], "\n\nApproved by <at id=ou_ann></at>.") || texts[2] != "It ran." {
					t.Errorf("got %q", texts)
				}
			})
		})
	}
}

func TestAQuestionWithoutItsFileIsNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := asking(t, &channeltest.Asker{Arguments: longArguments}, "")
		r.fake.Fail(fakefeishu.Fault{Name: "file", Code: 230001})
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		wait(time.Minute)
		if got := r.fake.Texts(private); !slices.Equal(got, []string{"It did not run: the question could not be delivered."}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAPressOfSomebodyWhoMayNotDecidesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		mode channel.CommandMode
		role tool.Role
		want channel.Pressed
	}{
		"no commands":    {"", tool.User, channel.PressRefused},
		"too low a role": {channel.CommandsSenders, tool.Operator, channel.PressTooLow},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				asker := &channeltest.Asker{Role: test.role}
				r := asking(t, asker, test.mode)
				r.mention(t, fakefeishu.Said{Text: "go"})
				q := r.fake.Ours(group)[0]
				if got := r.press(t, q, "Approve", bob); got != "warning: "+test.want.Text() {
					t.Errorf("answered with %q", got)
				}
				if now := r.fake.Ours(group); len(now) != 1 || now[0].Content != q.Content || len(asker.Answers) != 0 {
					t.Errorf("the press has changed something: %v, %q", now, asker.Answers)
				}
				if got := r.press(t, q, "Approve", ann); got != "success: Approved." {
					t.Errorf("the operator is answered with %q", got)
				}
			})
		})
	}
}

// The buttons of a question that is no longer open go when somebody presses one. A card that was forwarded decides nothing in the other conversation.
func TestAPressOfNoQuestionRemovesTheButtons(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asker := &channeltest.Asker{}
		r := asking(t, asker, "")
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		old := r.fake.Ours(private)[0]
		old.ID, old.Chat = "om_old", group
		r.fake.Put(old)
		if got := r.press(t, old, "Approve", ann); got != "warning: "+channel.PressUnknown.Text() || len(asker.Answers) != 0 {
			t.Errorf("answered with %q, decided %q", got, asker.Answers)
		}
		if d := cmp.Diff([]string{channel.PressUnknown.Text()}, r.fake.Texts(group)); d != "" {
			t.Error(d)
		}
	})
}

// slowAgent decides slowly.
type slowAgent struct{ *channeltest.Asker }

func (s *slowAgent) Decide(ctx context.Context, t *channel.Turn, p channel.Press) channel.Pressed {
	time.Sleep(10 * time.Second)
	return s.Asker.Decide(ctx, t, p)
}

func TestASlowPressIsAnsweredInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{agent: &slowAgent{&channeltest.Asker{}}, place: channel.Place{Operators: []string{ann}}})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		if got := r.press(t, r.fake.Ours(private)[0], "Approve", ann); got != "" {
			t.Errorf("answered with %q", got)
		}
		wait(time.Minute)
		if got := r.fake.Texts(private)[0]; !strings.HasSuffix(got, "\n\nApproved by <at id=ou_ann></at>.") {
			t.Errorf("%q", got)
		}
	})
}

func TestPressesOfOtherButtonsDoNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asker := &channeltest.Asker{}
		r := asking(t, asker, "")
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		for _, value := range []any{
			"text", map[string]any{"a": "b"}, nil, map[string]any{"lingserve_question": channeltest.QuestionID(1), "decision": "perhaps", "chat_type": "p2p"},
		} {
			event := r.fake.Event("card.action.trigger", map[string]any{
				"operator": map[string]any{"open_id": ann}, "action": map[string]any{"value": value, "tag": "button"},
				"context": map[string]any{"open_message_id": "om_1", "open_chat_id": private},
			})
			if got := r.postPress(t, event); got != "" {
				t.Errorf("%v is answered with %q", value, got)
			}
		}
		if len(asker.Answers) != 0 {
			t.Errorf("%q", asker.Answers)
		}
	})
}

func TestWithoutACardCommandsAnswerAQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := asking(t, &channeltest.Asker{}, "")
		r.fake.Fail(fakefeishu.Fault{Name: "send", Code: 230099}) // the card is refused
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		if q := r.fake.Ours(private)[0]; q.Type != "text" || !strings.Contains(q.Text, ",approve "+channeltest.QuestionID(1)) {
			t.Errorf("%+v", q)
		}
	})
}

// CH-62: a reaction shows at once that work goes on, until the answer is there or the turn ends.
func TestTheReactionGoesWhenTheAnswerIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		answer agentFunc
		cut    bool // the platform does not confirm the reaction
		stop   bool // the server stops
	}{"an answer": {}, "a failure": {answer: fails}, "the server stops": {stop: true}, "the reaction is not confirmed": {cut: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				answer := test.answer
				if answer == nil {
					answer = says("ok")
				}
				r := setup(t, options{agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					select {
					case <-time.After(10 * time.Second):
						return answer(ctx, turn)
					case <-ctx.Done():
						return channel.DispatchResult{}, context.Cause(ctx)
					}
				})})
				if test.cut {
					r.fake.Fail(fakefeishu.Fault{Name: "react", Cut: fakefeishu.CutAfter})
				}
				r.serve(t)
				_, id := r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				if got := r.fake.Reactions(id); len(got) != 1 || got[0].Emoji != "Typing" {
					t.Errorf("the message has the reactions %v", got)
				}
				if test.stop {
					_ = r.end()
				} else {
					wait(2 * time.Minute)
				}
				if got := r.fake.Reactions(id); len(got) != 0 {
					t.Errorf("the reactions %v are left", got)
				}
			})
		})
	}
}
