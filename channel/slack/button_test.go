package slack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/tool"
)

// approvals runs a rig whose agent asks. Ann is an operator; everybody may talk.
func approvals(t *testing.T, mode channel.CommandMode, change func(*slack.Settings)) (*rig, *channeltest.Asker) {
	t.Helper()
	r, asker := setup(t, change, nil, channel.Place{CommandMode: mode, Operators: []string{ann}}), &channeltest.Asker{}
	r.kernel = func(k *kernel.Kernel) { k.Agent = asker }
	r.serve()
	return r, asker
}

// press presses a button of a message as it was. It is an error if the platform is not answered at once with an empty 200.
func (r *rig) press(t *testing.T, m fakeslack.Message, label, user string) {
	t.Helper()
	body := r.fake.Press(m, label, user)
	if body == nil {
		t.Fatalf("there is no button %s", label)
	}
	if d := r.fake.Send(t.Context(), body, 0, ""); d.Status != http.StatusOK || len(d.Body) != 0 || d.Took > 0 {
		t.Errorf("a press is answered with %d %q after %v", d.Status, d.Body, d.Took)
	}
	time.Sleep(2 * time.Second) // messages have their pace
	synctest.Wait()
}

// whispers are the texts that one person is shown.
func (r *rig) whispers(user string) (texts []string) {
	for _, w := range r.fake.Whispers() {
		if w.User == user {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

// DC-15: one tap decides, the platform is answered at once, and the message says who decided what.
func TestDC_15_AQuestionIsAnsweredByOneTap(t *testing.T) {
	for name, test := range map[string]struct {
		conversation, text, replies, button string
		arguments                           string
		settled, final                      string
	}{
		"approved":             {dm, "go", "", "Approve", "", "Approved by <@" + ann + ">.", "It ran."},
		"denied":               {dm, "go", "", "Deny", "", "Denied by <@" + ann + ">.", "It did not run."},
		"remembered":           {dm, "go", "", "Approve for this session", "", "Approved for this session by <@" + ann + ">.", "It ran."},
		"in a thread":          {room, us + " go", "", "Approve", "", "Approved by <@" + ann + ">.", "It ran."},
		"in a channel":         {room, us + " go", slack.ReplyInChannel, "Approve", "", "Approved by <@" + ann + ">.", "It ran."},
		"what would be markup": {dm, "go", "", "Approve", "{\"a\":\"<!here> *b* <@U0ANN> & `c` " + strings.Repeat("<", 700) + "\"}", "Approved by <@" + ann + ">.", "It ran."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asker := approvals(t, "", func(s *slack.Settings) { s.Replies = test.replies })
				asker.Arguments = test.arguments
				asks := r.say(fakeslack.Message{Channel: test.conversation, Text: test.text})
				arguments := test.arguments
				if arguments == "" {
					arguments = `{"cmd":"ls"}`
				}
				call := "The agent wants to call the tool shell with\n" + arguments
				q := r.fake.Shown(test.conversation)[0]
				if got := q.Seen(); got != call+"\n[Approve][Deny][Approve for this session]" {
					t.Errorf("people see %q", got)
				}
				if want := map[bool]string{true: asks.TS}[test.conversation == room && test.replies == ""]; q.Thread != want {
					t.Errorf("the question stands in the thread %q, expected %q", q.Thread, want)
				}
				if q.Text == "" || strings.Contains(q.Text, ",approve") {
					t.Errorf("notifications say %q", q.Text)
				}
				r.press(t, q, test.button, ann)
				shown := r.fake.Shown(test.conversation)
				if len(shown) != 2 || shown[0].Seen() != call+"\n"+test.settled || shown[1].Text != test.final {
					t.Errorf("people see %v", shown)
				}
				if w := r.fake.Whispers(); len(asker.Answers) != 1 || len(w) != 0 {
					t.Errorf("decided %q, whispered %v", asker.Answers, w)
				}
				r.press(t, q, "Approve", ann) // a client that still shows the buttons
				if got := r.whispers(ann); !slices.Equal(got, []string{channel.PressOver.Text()}) || len(asker.Answers) != 1 {
					t.Errorf("a second press is answered with %q; decided %q", got, asker.Answers)
				}
				if d := cmp.Diff(shown, r.fake.Shown(test.conversation)); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// DN-05: arguments that are too long for a message are sent as a file, and the question with its buttons stands below it.
func TestDN_05_LongArgumentsAreAFileAboveTheQuestion(t *testing.T) {
	for name, conversation := range map[string]string{"alone": dm, "in a thread": room} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asker := approvals(t, "", nil)
				asker.Arguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
				asks := r.say(fakeslack.Message{Channel: conversation, Text: us + " go"})
				time.Sleep(2 * time.Second) // messages have their pace
				synctest.Wait()
				got := r.fake.Shown(conversation)
				thread := map[bool]string{true: asks.TS}[conversation == room]
				if len(got) != 2 || got[0].More["files"] == nil || got[0].Thread != thread || got[1].Thread != thread {
					t.Fatalf("got %+v", got)
				}
				name := "arguments-" + channeltest.QuestionID(1) + ".json"
				if called := got[0].More["files"].([]any)[0].(map[string]any)["name"]; called != name {
					t.Errorf("the file is called %v", called)
				}
				if up := r.fake.Calls("upload"); len(up) != 1 || up[0].Params["body"] != asker.Arguments {
					t.Errorf("uploaded %+v", up)
				}
				call := "The agent wants to call the tool shell with the arguments in the file " + name + "\n"
				if seen := got[1].Seen(); seen != call+"\n[Approve][Deny][Approve for this session]" {
					t.Errorf("people see %q", seen)
				}
				if strings.Contains(got[1].Text, ",approve") || !strings.Contains(got[1].Text, name) {
					t.Errorf("notifications say %q", got[1].Text)
				}
				r.press(t, got[1], "Approve", ann)
				if got := r.fake.Shown(conversation); len(got) != 3 || got[1].Seen() != call+"\nApproved by <@"+ann+">." || got[2].Text != "It ran." {
					t.Errorf("people see %v", got)
				}
			})
		})
	}
}

// DN-05: where the file cannot be sent, such as without the scope for it, nothing is asked, and whoever asks is told so.
func TestDN_05_AQuestionWithoutItsFileIsNotAsked(t *testing.T) {
	for _, fault := range []fakeslack.Fault{
		{Method: "files.getUploadURLExternal", Error: "missing_scope", Needed: "files:write"}, {Method: "files.completeUploadExternal", Cut: fakeslack.CutAfter},
	} {
		t.Run(fault.Method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asker := approvals(t, "", nil)
				asker.Arguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
				r.fake.Fail(fault)
				r.say(fakeslack.Message{Channel: dm, Text: "go"})
				wait(2 * time.Minute)
				if got := r.texts(dm); len(got) == 0 || got[len(got)-1] != "It did not run: the question could not be delivered." {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// DC-15: only those who may approve can; whoever else presses is told so, and nobody else sees it.
func TestDC_15_APressByAStrangerDecidesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		mode channel.CommandMode
		role tool.Role
		want string
	}{
		"may give no commands": {"", tool.User, channel.PressRefused.Text()},
		"too low a role":       {channel.CommandsSenders, tool.Operator, channel.PressTooLow.Text()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asker := approvals(t, test.mode, nil)
				asker.Role = test.role
				asks := r.say(fakeslack.Message{Channel: room, Text: us + " go"})
				q := r.fake.Shown(room)[0]
				r.press(t, q, "Approve", bob)
				if d := cmp.Diff([]fakeslack.Whisper{{Channel: room, Thread: asks.TS, User: bob, Text: test.want}}, r.fake.Whispers()); d != "" {
					t.Error(d)
				}
				if now := r.fake.Shown(room); len(now) != 1 || now[0].Blocks != q.Blocks || len(asker.Answers) != 0 {
					t.Errorf("the stranger's press has changed something: %v, %q", now, asker.Answers)
				}
				r.press(t, q, "Approve", ann)
				if len(asker.Answers) != 1 {
					t.Errorf("%q", asker.Answers)
				}
			})
		})
	}
}

// DC-15: after a crash nobody waits for the answer; a press is answered, and the buttons go.
func TestDC_15_APressAfterACrashRemovesTheButtons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _ := approvals(t, "", nil)
		first.say(fakeslack.Message{Channel: dm, Text: "go"})
		q := first.fake.Shown(dm)[0]
		other, _ := approvals(t, "", nil) // which knows nothing of the question
		other.fake.Put(q)
		other.press(t, q, "Deny", ann)
		if got := other.whispers(ann); !slices.Equal(got, []string{channel.PressUnknown.Text()}) {
			t.Errorf("%q", got)
		}
		if got := other.fake.Shown(dm)[0].Seen(); got != "The agent wants to call the tool shell with\n{\"cmd\":\"ls\"}\n"+channel.PressUnknown.Text() {
			t.Errorf("people see %q", got)
		}
	})
}
