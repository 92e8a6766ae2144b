package telegram

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/tool"
)

// approvals is a rig whose agent asks. Ann is an operator; everybody may talk.
func approvals(t *testing.T, mode channel.CommandMode, change func(*Settings)) (*rig, *channeltest.Asker) {
	t.Helper()
	r := setup(t, change, nil)
	asker := &channeltest.Asker{}
	k := kernel(t, channel.Place{CommandMode: mode, Operators: []string{"7"}})
	k.Agent, k.Observer = asker, r
	r.kernel = k
	return r, asker
}

// last is the last message of the bot in a chat.
func (r *rig) last(t *testing.T, chat int64) faketelegram.Message {
	t.Helper()
	all := r.fake.Messages(chat, r.fake.Me().ID)
	if len(all) == 0 {
		t.Fatal("the bot has said nothing")
	}
	return all[len(all)-1]
}

// press presses a button and returns what the person who pressed is shown.
func (r *rig) press(t *testing.T, m faketelegram.Message, by *faketelegram.User, text string) string {
	t.Helper()
	id := r.fake.Press(m.Chat.ID, m.ID, by, text)
	if id == "" {
		t.Fatalf("there is no button %s", text)
	}
	return r.shown(t, id)
}

// shown is what a press was answered with, once.
func (r *rig) shown(t *testing.T, id string) string {
	t.Helper()
	synctest.Wait()
	texts, answered := r.fake.Answers(id)
	if !answered || len(texts) != 1 {
		t.Errorf("a press was answered %d times, with %q", len(texts), texts)
	}
	return strings.Join(texts, "|")
}

// DC-15: one tap decides, the person is answered at once, and the message says who decided what.
func TestDC_15_AQuestionIsAnsweredByOneTap(t *testing.T) {
	for name, test := range map[string]struct {
		chat    faketelegram.Chat
		thread  int
		mode    string
		button  string
		toast   string
		settled string
		final   string
	}{
		"approved":               {private, 0, "", "Approve", "Approved.", "Approved by Ann Lee.", "It ran."},
		"denied":                 {private, 0, "", "Deny", "Denied.", "Denied by Ann Lee.", "It did not run."},
		"remembered":             {private, 0, "", "Approve for this session", "Approved for this session.", "Approved for this session by Ann Lee.", "It ran."},
		"in a topic, MarkdownV2": {forum, 3, ParseMarkdown, "Approve", "Approved.", "Approved by Ann Lee.", "It ran."},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, asker := approvals(t, "", func(s *Settings) { s.ParseMode = test.mode })
				r.serve(t)
				r.say(faketelegram.Message{Chat: test.chat, From: ann, Text: "@ling_bot go", ThreadID: test.thread, IsTopic: test.thread != 0})
				q := r.last(t, test.chat.ID)
				const asks = "The agent wants to call the tool shell with\n\n{\"cmd\":\"ls\"}"
				if q.Text != asks || q.ThreadID != test.thread {
					t.Errorf("asked %q", q.Text)
				}
				if d := cmp.Diff(buttonsOf(channeltest.QuestionID(1)), q.Keyboard); d != "" {
					t.Error(d)
				}
				began := time.Now()
				if toast := r.press(t, q, ann, test.button); toast != test.toast || time.Since(began) > 0 {
					t.Errorf("answered with %q after %v", toast, time.Since(began))
				}
				texts := r.ours(test.chat.ID)
				texts[0] = strings.ReplaceAll(texts[0], "\n\n\n", "\n\n") // MarkdownV2 has the line end of a code block in it
				if d := cmp.Diff([]string{asks + "\n\n" + test.settled, test.final}, texts); d != "" {
					t.Error(d)
				}
				if r.fake.Messages(test.chat.ID, r.fake.Me().ID)[0].Keyboard != nil {
					t.Error("the buttons are still there")
				}
				if len(asker.Answers) != 1 {
					t.Errorf("%q", asker.Answers)
				}
				// A client that still shows the buttons.
				if again := r.shown(t, r.fake.PressData(test.chat.ID, q.ID, ann, "approve:"+channeltest.QuestionID(1))); again != channel.PressOver.Text() {
					t.Errorf("a second press is answered with %q", again)
				}
				if got := r.ours(test.chat.ID); !slices.Equal(got[1:], texts[1:]) || len(asker.Answers) != 1 {
					t.Errorf("a second press changes the messages to %q", got)
				}
			})
		})
	}
}

// DN-05: arguments that are too long for a message are sent as a file, and the question with its buttons stands below it.
func TestDN_05_LongArgumentsAreAFileAboveTheQuestion(t *testing.T) {
	for name, chat := range map[string]faketelegram.Chat{"alone": private, "in a topic": forum} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, asker := approvals(t, "", nil)
				asker.Arguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
				r.serve(t)
				thread := map[bool]int{true: 3}[chat.IsForum]
				r.say(faketelegram.Message{Chat: chat, From: ann, Text: "@ling_bot go", ThreadID: thread, IsTopic: chat.IsForum})
				got := r.fake.Messages(chat.ID, r.fake.Me().ID)
				if len(got) != 2 || got[0].Document == nil || got[0].ThreadID != thread {
					t.Fatalf("got %+v", got)
				}
				name := "arguments-" + channeltest.QuestionID(1) + ".json"
				if f := got[0].Document; f.FileName != name || string(r.fake.File(f.FileID)) != asker.Arguments {
					t.Errorf("the file %s has %.100q", f.FileName, r.fake.File(f.FileID))
				}
				asks := "The agent wants to call the tool shell with the arguments in the file " + name + "."
				if got[1].Text != asks {
					t.Errorf("asked %q", got[1].Text)
				}
				if d := cmp.Diff(buttonsOf(channeltest.QuestionID(1)), got[1].Keyboard); d != "" {
					t.Error(d)
				}
				if toast := r.press(t, got[1], ann, "Approve"); toast != "Approved." {
					t.Errorf("answered with %q", toast)
				}
				if d := cmp.Diff([]string{"", asks + "\n\nApproved by Ann Lee.", "It ran."}, r.ours(chat.ID)); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// DN-05: where the file cannot be sent, nothing is asked, and whoever asks is told so.
func TestDN_05_AQuestionWithoutItsFileIsNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, asker := approvals(t, "", nil)
		asker.Arguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
		r.fake.Fail(faketelegram.Fault{Method: "sendDocument", Code: 400, Description: "Bad Request: no"})
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
		if got := r.ours(private.ID); !slices.Equal(got, []string{"It did not run: the question could not be delivered."}) {
			t.Errorf("got %q", got)
		}
	})
}

// DC-15: only those who may approve can, and whoever else presses is told so; nobody else sees it.
func TestDC_15_APressByAStrangerDecidesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		mode channel.CommandMode
		role tool.Role
		want string
	}{
		"may give no commands": {"", tool.User, channel.PressRefused.Text()},
		"commands are off":     {channel.CommandsOff, tool.User, channel.PressRefused.Text()},
		"too low a role":       {channel.CommandsSenders, tool.Operator, channel.PressTooLow.Text()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, asker := approvals(t, test.mode, nil)
				asker.Role = test.role
				r.serve(t)
				r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot go"})
				q := r.last(t, group.ID)
				if got := r.press(t, q, bob, "Approve"); got != test.want {
					t.Errorf("answered with %q", got)
				}
				if q := r.last(t, group.ID); len(r.ours(group.ID)) != 1 || q.Keyboard == nil || len(asker.Answers) != 0 {
					t.Errorf("the stranger's press has changed something: %q, %q", r.ours(group.ID), asker.Answers)
				}
				if test.mode == channel.CommandsOff {
					return
				}
				if got := r.press(t, q, ann, "Approve"); got != "Approved." {
					t.Errorf("the operator is answered with %q", got)
				}
			})
		})
	}
}

// DC-15: a question whose time is over says so, and so does a press that comes too late.
func TestDC_15_AnExpiredQuestionHasNoButtons(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := approvals(t, "", nil)
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
		q := r.last(t, private.ID)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		first := r.fake.Messages(private.ID, r.fake.Me().ID)[0]
		if !strings.HasSuffix(first.Text, "\n\nNot approved: no answer came in time.") || first.Keyboard != nil {
			t.Errorf("%q, %v", first.Text, first.Keyboard)
		}
		if got := r.shown(t, r.fake.PressData(private.ID, q.ID, ann, "approve:"+channeltest.QuestionID(1))); got != channel.PressOver.Text() {
			t.Errorf("answered with %q", got)
		}
	})
}

// DC-15: after a crash nobody waits for the answer; a press is answered, and the buttons go.
func TestDC_15_APressAfterACrashRemovesTheButtons(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := approvals(t, "", nil)
		r.serve(t)
		m := r.fake.Say(faketelegram.Message{Chat: private, From: r.asBot(), Text: "asked before the crash", Keyboard: buttonsOf(channeltest.QuestionID(9))})
		if got := r.press(t, m, ann, "Deny"); got != channel.PressUnknown.Text() {
			t.Errorf("answered with %q", got)
		}
		if m := r.fake.Messages(private.ID, 0)[0]; m.Keyboard != nil || m.Text != "asked before the crash" {
			t.Errorf("%q, %v", m.Text, m.Keyboard)
		}
	})
}

// asBot is the bot as a sender.
func (r *rig) asBot() *faketelegram.User { me := r.fake.Me(); return &me }

func buttonsOf(id string) *faketelegram.Keyboard {
	return &faketelegram.Keyboard{Rows: [][]faketelegram.Button{
		{{Text: "Approve", Data: "approve:" + id}, {Text: "Deny", Data: "deny:" + id}}, {{Text: "Approve for this session", Data: "remember:" + id}},
	}}
}

// DC-15: a button that is not the channel's is acknowledged, too, and does nothing.
func TestDC_15_EveryPressIsAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, asker := approvals(t, "", nil)
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "go"})
		q := r.last(t, private.ID)
		for _, data := range []string{"something else", "approve:", ",approve " + channeltest.QuestionID(1)} {
			if got := r.shown(t, r.fake.PressData(private.ID, q.ID, ann, data)); got != "" {
				t.Errorf("%q is answered with %q", data, got)
			}
		}
		if len(asker.Answers) != 0 {
			t.Errorf("%q", asker.Answers)
		}
	})
}

// DC-15: an id that does not fit into a button is answered by commands, and a question that does not fit into a message is not asked.
func TestDC_15_AQuestionFitsOrIsNotAsked(t *testing.T) {
	r := setup(t, nil, nil)
	long := strings.Repeat("x", 60)
	got, err := r.channel.question(&channel.Question{ID: long, Text: "short"}, "with commands")
	if err != nil || got.keyboard != nil || got.plain != "with commands" {
		t.Errorf("%+v, %v", got, err)
	}
	if k := buttons(&channel.Question{ID: strings.Repeat("x", maxData-len("remember:"))}); k == nil || len(k.Rows[1][0].Data) != maxData {
		t.Errorf("%+v", k)
	}
	if _, err := r.channel.question(&channel.Question{ID: "q", Text: strings.Repeat("word ", 1000)}, ""); err == nil {
		t.Error("no error")
	}
}

// DC-15: the menu shows each person the commands that they may give, and nobody others.
func TestDC_15_TheMenuHasTheCommandsThatAPersonMayGive(t *testing.T) {
	commands := []Command{{"help", "what there is", tool.User}, {"tape.info", "how long it is", tool.User}, {"mcp", "the servers", tool.Operator}}
	const (
		users     = `[{"command":"help","description":"what there is"},{"command":"tape_info","description":"how long it is"}]`
		operators = `[{"command":"help","description":"what there is"},{"command":"tape_info","description":"how long it is"},{"command":"mcp","description":"the servers"}]`
	)
	for name, test := range map[string]struct {
		mode        channel.CommandMode
		before      string // the menu for everybody
		all, ofAnn  string
		commandless bool
	}{
		"everybody":                    {mode: channel.CommandsSenders, all: users, ofAnn: operators},
		"those on the lists":           {mode: channel.CommandsAuthorizers, ofAnn: operators},
		"no more everybody":            {mode: channel.CommandsAuthorizers, before: users, ofAnn: operators},
		"somebody's own menu":          {mode: channel.CommandsAuthorizers, before: `[{"command":"weather","description":"the weather"}]`, all: `[{"command":"weather","description":"the weather"}]`, ofAnn: operators},
		"nobody":                       {mode: channel.CommandsOff},
		"the platform's is left alone": {mode: channel.CommandsSenders, commandless: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) {
					if !test.commandless {
						s.Commands = commands
					}
				}, nil)
				k := kernel(t, channel.Place{CommandMode: test.mode, Operators: []string{"7", "9999"}}) // nobody knows 9999 yet
				k.Agent = r.kernel.Agent
				r.kernel = k
				if test.before != "" {
					r.fake.SetMenu(test.before)
				}
				r.serve(t)
				if got := r.fake.Menu("default"); got != test.all {
					t.Errorf("everybody sees %s", got)
				}
				if got := r.fake.Menu("7"); got != test.ofAnn {
					t.Errorf("Ann sees %s", got)
				}
				if log := r.log.String(); strings.Contains(log, "level=WARN") {
					t.Error(log)
				}
			})
		})
	}
}
