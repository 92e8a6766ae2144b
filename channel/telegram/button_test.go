package telegram_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/tool"
)

// approvals is a rig whose agent asks. Ann is an operator; everybody may talk.
func approvals(t *testing.T, asker *channeltest.Asker, mode channel.CommandMode) *rig {
	t.Helper()
	place := channel.Place{CommandMode: mode, Operators: []string{"7"}}
	return setup(t, options{place: place, agent: asker}).serve()
}

// last is the last message of the bot in a chat.
func (r *rig) last(chat int64) faketelegram.Message {
	r.t.Helper()
	all := r.fake.Messages(chat, r.fake.Me().ID)
	if len(all) == 0 {
		r.t.Fatal("the bot has sent no message")
	}
	return all[len(all)-1]
}

// press presses a button and returns what the person is shown.
func (r *rig) press(m faketelegram.Message, by *faketelegram.User, label string) string {
	r.t.Helper()
	id := r.fake.Press(m.Chat.ID, m.ID, by, label)
	if id == "" {
		r.t.Fatalf("there is no button %s", label)
	}
	return r.pressed(id)
}

// pressed is what the one answer to a press shows.
func (r *rig) pressed(id string) string {
	r.t.Helper()
	synctest.Wait()
	texts, answered := r.fake.Answers(id)
	if !answered || len(texts) != 1 {
		r.t.Errorf("a press was answered %d times, with %q", len(texts), texts)
	}
	return strings.Join(texts, "|")
}

func buttonsOf(id string) *faketelegram.Keyboard {
	return &faketelegram.Keyboard{Rows: [][]faketelegram.Button{
		{{Text: "Approve", Data: "approve:" + id}, {Text: "Deny", Data: "deny:" + id}}, {{Text: "Approve for this session", Data: "remember:" + id}},
	}}
}

// DC-15
func TestAQuestionIsAnsweredByOneTap(t *testing.T) {
	const asks = "The agent wants to call the tool shell with\n\n{\"cmd\":\"ls\"}"
	for name, test := range map[string]struct {
		chat                          faketelegram.Chat
		thread                        int
		button, toast, settled, final string
	}{
		"approved":   {private, 0, "Approve", "Approved.", "Approved by Ann Lee.", "It ran."},
		"denied":     {private, 0, "Deny", "Denied.", "Denied by Ann Lee.", "It did not run."},
		"remembered": {private, 0, "Approve for this session", "Approved for this session.", "Approved for this session by Ann Lee.", "It ran."},
		"in a topic": {forum, 3, "Approve", "Approved.", "Approved by Ann Lee.", "It ran."},
	} {
		bubble(t, name, func(t *testing.T) {
			asker := &channeltest.Asker{}
			r := approvals(t, asker, "")
			r.say(faketelegram.Message{Chat: test.chat, From: ann, Text: "@ling_bot go", ThreadID: test.thread, IsTopic: test.thread != 0})
			q, id := r.last(test.chat.ID), channeltest.QuestionID(1)
			if d := cmp.Diff(buttonsOf(id), q.Keyboard); d != "" || q.Text != asks || q.ThreadID != test.thread {
				t.Errorf("asked %q; %s", q.Text, d)
			}
			if toast := r.press(q, ann, test.button); toast != test.toast {
				t.Errorf("answered with %q", toast)
			}
			if d := cmp.Diff([]string{asks + "\n\n" + test.settled, test.final}, r.ours(test.chat.ID)); d != "" {
				t.Error(d)
			}
			if r.fake.Messages(test.chat.ID, r.fake.Me().ID)[0].Keyboard != nil {
				t.Error("the buttons are still there")
			}
			// A client that still shows the buttons.
			again := r.pressed(r.fake.PressData(test.chat.ID, q.ID, ann, "approve:"+id))
			if again != channel.PressOver.Text() || len(asker.Answers) != 1 || len(r.ours(test.chat.ID)) != 2 {
				t.Errorf("a second press is answered with %q, and %q is shown", again, r.ours(test.chat.ID))
			}
		})
	}
}

// DN-05
func TestLongArgumentsAreAFileAboveTheQuestion(t *testing.T) {
	long := `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
	name := "arguments-" + channeltest.QuestionID(1) + ".json"
	bubble(t, "", func(t *testing.T) {
		r := approvals(t, &channeltest.Asker{Arguments: long}, "")
		r.say(faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot go", ThreadID: 3, IsTopic: true})
		got := r.fake.Messages(forum.ID, r.fake.Me().ID)
		if len(got) != 2 || got[0].Document == nil || got[0].ThreadID != 3 || got[0].ReplyTo != nil {
			t.Fatalf("got %+v", got)
		}
		if f := got[0].Document; f.FileName != name || string(r.fake.File(f.FileID)) != long {
			t.Errorf("the file %s has %.100q", f.FileName, r.fake.File(f.FileID))
		}
		asks := "The agent wants to call the tool shell with the arguments in the file " + name + "."
		if d := cmp.Diff(buttonsOf(channeltest.QuestionID(1)), got[1].Keyboard); d != "" || got[1].Text != asks {
			t.Errorf("asked %q; %s", got[1].Text, d)
		}
		if toast := r.press(got[1], ann, "Approve"); toast != "Approved." {
			t.Errorf("answered with %q", toast)
		}
		if d := cmp.Diff([]string{"", asks + "\n\nApproved by Ann Lee.", "It ran."}, r.ours(forum.ID)); d != "" {
			t.Error(d)
		}
	})
	bubble(t, "without the file there is no question", func(t *testing.T) {
		r := approvals(t, &channeltest.Asker{Arguments: long}, "")
		r.fake.Fail(faketelegram.Fault{Method: "sendDocument", Code: 400, Description: "Bad Request: no"})
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
		if got := r.ours(private.ID); !slices.Equal(got, []string{"It did not run: the question could not be delivered."}) {
			t.Errorf("got %q", got)
		}
	})
}

// DC-15
func TestEveryPressIsAcknowledged(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		asker := &channeltest.Asker{}
		r := approvals(t, asker, "")
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
		q := r.last(private.ID)
		for _, data := range []string{"something else", "approve:", ",approve " + channeltest.QuestionID(1)} {
			if got := r.pressed(r.fake.PressData(private.ID, q.ID, ann, data)); got != "" || len(asker.Answers) != 0 {
				t.Errorf("%q is answered with %q", data, got)
			}
		}
	})
}

// DC-15
func TestAQuestionFitsOrIsNotAsked(t *testing.T) {
	for name, test := range map[string]struct {
		question channel.Question
		shown    string
		buttons  bool
		failed   bool
	}{
		"an id that fits": {channel.Question{ID: strings.Repeat("x", 55), Text: "short"}, "short", true, false},
		"too long a text": {channel.Question{ID: "q", Text: strings.Repeat("word ", 1000)}, "", false, true},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{place: channel.Place{ErrorNotice: new(false)}}).serve()
			failed := false
			test.question.Failed = func() { failed = true }
			r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				err := turn.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: "with commands", Question: &test.question})
				time.Sleep(time.Second)
				return channel.DispatchResult{NoReply: true}, err
			})
			m := r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
			all := r.fake.Messages(private.ID, 0)
			if last := all[len(all)-1]; failed != test.failed || test.shown == "" != (last.ID == m.ID) || test.shown != "" && (last.Text != test.shown || (last.Keyboard != nil) != test.buttons) {
				t.Errorf("failed: %t, shown: %+v", failed, last)
			}
		})
	}
}

// DC-15
func TestMenusHaveTheCommandsThatAPersonMayGive(t *testing.T) {
	commands := []platform.Command{
		{Name: "help", Help: "what there is"}, {Name: "tape.info", Help: "how long it is"}, {Name: "mcp", Help: "the servers", Role: tool.Operator},
	}
	const (
		users     = `[{"command":"help","description":"what there is"},{"command":"tape_info","description":"how long it is"}]`
		operators = `[{"command":"help","description":"what there is"},{"command":"tape_info","description":"how long it is"},{"command":"mcp","description":"the servers"}]`
		weather   = `[{"command":"weather","description":"the weather"}]`
	)
	for name, test := range map[string]struct {
		mode        channel.CommandMode
		before      string // the menu for everybody
		all, ofAnn  string
		commandless bool
	}{
		"everybody":              {mode: channel.CommandsSenders, all: users, ofAnn: operators},
		"those on the lists":     {mode: channel.CommandsAuthorizers, ofAnn: operators},
		"a menu from @BotFather": {mode: channel.CommandsAuthorizers, before: weather, all: weather, ofAnn: operators},
		"off":                    {mode: channel.CommandsOff},
		"the platform's menu":    {mode: channel.CommandsSenders, commandless: true},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{
				place: channel.Place{CommandMode: test.mode, Operators: []string{"7", "9999"}}, // 9999 has not written yet
				settings: func(s *telegram.Settings) {
					s.Commands = commands
					if test.commandless {
						s.Menu = "off"
					}
				},
			})
			if test.before != "" {
				r.fake.SetMenu(test.before)
			}
			r.serve()
			if all, ofAnn := r.fake.Menu("default"), r.fake.Menu("7"); all != test.all || ofAnn != test.ofAnn {
				t.Errorf("everybody sees %s, Ann sees %s", all, ofAnn)
			}
			if log := r.log.String(); strings.Contains(log, "level=WARN") {
				t.Error(log)
			}
		})
	}
}
