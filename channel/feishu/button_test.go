package feishu

import (
	"context"
	"encoding/json"
	"errors"
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

// approvals is a rig whose agent asks. Ann is an operator; everybody may talk.
func approvals(t *testing.T, mode channel.CommandMode, change func(*Settings)) (*rig, *channeltest.Asker) {
	t.Helper()
	r := setup(t, change, nil)
	asker := &channeltest.Asker{}
	k := kernel(t, channel.Place{CommandMode: mode, Operators: []string{ann}})
	k.Agent, k.Observer = asker, r
	r.kernel = k
	return r, asker
}

// press presses a button of a card as it was, and returns the kind and the text of what the person who pressed is shown.
func (r *rig) press(t *testing.T, m fakefeishu.Message, label, by string) string {
	t.Helper()
	event := r.fake.Press(m, label, by)
	if event == nil {
		t.Fatalf("there is no button %s", label)
	}
	return r.shown(t, event)
}

// shown posts an event and returns what is shown of its answer. It is an error if that takes as long as the platform waits.
func (r *rig) shown(t *testing.T, event map[string]any) string {
	t.Helper()
	began := time.Now()
	p := r.fake.Post(t.Context(), event)
	if took := time.Since(began); p.Status != http.StatusOK || took >= 3*time.Second {
		t.Errorf("a press is answered with %d after %v", p.Status, took)
	}
	var answer struct {
		Toast *struct{ Type, Content string } `json:"toast"`
	}
	if err := json.Unmarshal([]byte(p.Body), &answer); err != nil {
		t.Errorf("a press is answered with %q", p.Body)
	}
	synctest.Wait()
	if answer.Toast == nil {
		return ""
	}
	return answer.Toast.Type + ": " + answer.Toast.Content
}

const asks = "The agent wants to call the tool `shell` with\n\n```json\n{\"cmd\":\"ls\"}\n```"

// DC-15: one tap decides, the person is answered at once, and the card says who decided what.
func TestDC_15_AQuestionIsAnsweredByOneTap(t *testing.T) {
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
				r, asker := approvals(t, "", nil)
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: test.chat, Thread: test.thread, From: ann, Text: "@_user_1 go", Mentions: fakefeishu.MentionBot()})
				q := r.fake.Ours(test.chat)[0]
				if q.Text != asks+"\n[Approve][Deny][Approve for this session]" || q.Thread != test.thread {
					t.Errorf("asked %q", q.Text)
				}
				if got := r.press(t, q, test.button, ann); got != test.toast {
					t.Errorf("answered with %q", got)
				}
				texts := r.fake.Texts(test.chat)
				if d := cmp.Diff([]string{asks + "\n\n" + test.settled, test.finish}, texts); d != "" {
					t.Error(d)
				}
				// A client that still shows the buttons.
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

// DN-05: arguments that are too long for a message are sent as a file, and the question stands below it, with its buttons, or with its commands
// where there are no cards.
func TestDN_05_LongArgumentsAreAFileAboveTheQuestion(t *testing.T) {
	for name, test := range map[string]struct{ chat, thread, format, end string }{
		"alone":         {private, "", "", "\n[Approve][Deny][Approve for this session]"},
		"in a topic":    {group, "omt_1", "", "\n[Approve][Deny][Approve for this session]"},
		"without cards": {private, "", FormatText, "\n\nWrite ,approve " + channeltest.QuestionID(1) + " to approve, or ,deny " + channeltest.QuestionID(1) + " to deny."},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, asker := approvals(t, "", func(s *Settings) { s.Format = test.format })
				asker.Arguments = `{"content":"` + strings.Repeat("a line of text\\n", 1000) + `"}`
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: test.chat, Thread: test.thread, From: ann, Text: "@_user_1 go", Mentions: fakefeishu.MentionBot()})
				got := r.fake.Ours(test.chat)
				if len(got) != 2 || got[0].Thread != test.thread || got[1].Thread != test.thread {
					t.Fatalf("got %+v", got)
				}
				var file map[string]string
				if err := json.Unmarshal([]byte(got[0].Content), &file); err != nil || string(r.fake.Uploaded(file["file_key"])) != asker.Arguments {
					t.Errorf("the first message is %+v", got[0])
				}
				name := "arguments-" + channeltest.QuestionID(1) + ".json"
				asks := strings.ReplaceAll(got[1].Text, "`", "")
				if asks != "The agent wants to call the tool shell with the arguments in the file "+name+"."+test.end {
					t.Errorf("asked %q", got[1].Text)
				}
				if test.format == FormatText {
					return
				}
				if got := r.press(t, got[1], "Approve", ann); got != "success: Approved." {
					t.Errorf("answered with %q", got)
				}
				if texts := r.fake.Texts(test.chat); len(texts) != 3 || !strings.HasSuffix(texts[1], "\n\nApproved by <at id=ou_ann></at>.") || texts[2] != "It ran." {
					t.Errorf("got %q", texts)
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
		r.fake.Fail(fakefeishu.Fault{Name: "file", Code: 99991672})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		wait(time.Minute)
		if got := r.fake.Texts(private); !slices.Equal(got, []string{"It did not run: the question could not be delivered."}) {
			t.Errorf("got %q", got)
		}
	})
}

// DC-15: only those who may approve can; whoever else presses is told so.
func TestDC_15_APressByAStrangerDecidesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		mode channel.CommandMode
		role tool.Role
		want channel.Pressed
	}{
		"may give no commands": {"", tool.User, channel.PressRefused},
		"too low a role":       {channel.CommandsSenders, tool.Operator, channel.PressTooLow},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, asker := approvals(t, test.mode, nil)
				asker.Role = test.role
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 go", Mentions: fakefeishu.MentionBot()})
				q := r.fake.Ours(group)[0]
				if got := r.press(t, q, "Approve", bob); got != "warning: "+test.want.Text() {
					t.Errorf("answered with %q", got)
				}
				if now := r.fake.Ours(group); len(now) != 1 || now[0].Content != q.Content || len(asker.Answers) != 0 {
					t.Errorf("the stranger's press has changed something: %v, %q", now, asker.Answers)
				}
				if got := r.press(t, q, "Approve", ann); got != "success: Approved." {
					t.Errorf("the operator is answered with %q", got)
				}
			})
		})
	}
}

// DC-15: after a crash nobody waits for the answer; a press is answered, and the buttons go. A card that was sent on to another chat decides
// nothing there.
func TestDC_15_APressOfNoQuestionRemovesTheButtons(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, asker := approvals(t, "", nil)
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		q := r.fake.Ours(private)[0]
		old := q
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

// DC-15: a press that takes longer than the platform waits is answered in time, without a text; the card says what was decided.
func TestDC_15_ASlowPressIsAcknowledgedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, asker := approvals(t, "", nil)
		slow := &slowAgent{Asker: asker}
		r.kernel.Agent = slow
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		q := r.fake.Ours(private)[0]
		if got := r.press(t, q, "Approve", ann); got != "" {
			t.Errorf("answered with %q", got)
		}
		wait(time.Minute)
		if got := r.fake.Texts(private)[0]; !strings.HasSuffix(got, "\n\nApproved by <at id=ou_ann></at>.") {
			t.Errorf("%q", got)
		}
	})
}

// slowAgent takes presses slowly.
type slowAgent struct{ *channeltest.Asker }

func (s *slowAgent) Decide(ctx context.Context, t *channel.Turn, p channel.Press) channel.Pressed {
	time.Sleep(10 * time.Second)
	return s.Asker.Decide(ctx, t, p)
}

// DC-15: what is no press of the channel's buttons is acknowledged, and does nothing.
func TestDC_15_OtherPressesAreAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, asker := approvals(t, "", nil)
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
		for _, value := range []any{
			"text", map[string]any{"a": "b"}, nil, map[string]any{"lingserve_question": channeltest.QuestionID(1), "decision": "perhaps", "chat_type": "p2p"},
		} {
			event := r.fake.Event("card.action.trigger", map[string]any{
				"operator": map[string]any{"open_id": ann}, "action": map[string]any{"value": value, "tag": "button"},
				"context": map[string]any{"open_message_id": "om_1", "open_chat_id": private},
			})
			if got := r.shown(t, event); got != "" {
				t.Errorf("%v is answered with %q", value, got)
			}
		}
		if len(asker.Answers) != 0 {
			t.Errorf("%q", asker.Answers)
		}
	})
}

// DC-15: where there are no cards, or the platform takes none, commands answer the question.
func TestDC_15_WithoutCardsCommandsAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Settings)
		fault  *fakefeishu.Fault
	}{
		"plain texts":            {change: func(s *Settings) { s.Format = FormatText }},
		"a card that is refused": {fault: &fakefeishu.Fault{Name: "send", Code: 230099}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, _ := approvals(t, "", test.change)
				if test.fault != nil {
					r.fake.Fail(*test.fault)
				}
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "go"})
				if q := r.fake.Ours(private)[0]; q.Type != "text" || !strings.Contains(q.Text, ",approve "+channeltest.QuestionID(1)) {
					t.Errorf("%+v", q)
				}
			})
		})
	}
}

// DC-15: neither the verification token nor that of a card is in the journal.
func TestDC_15_ThePressInTheJournalHasNoTokens(t *testing.T) {
	r := setup(t, nil, nil)
	text, err := json.Marshal(r.fake.Event(eventPress, map[string]any{"token": "c-canary", "operator": map[string]any{"open_id": ann}}))
	if err != nil {
		t.Fatal(err)
	}
	var all envelope
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	kept, err := all.bare()
	if err != nil || strings.Contains(string(kept), "c-canary") || strings.Contains(string(kept), r.fake.Options().Token) || !strings.Contains(string(kept), ann) {
		t.Errorf("%s, %v", kept, err)
	}
}

// DC-15: a reaction says at once that work goes on, and is removed when the answer is there or the turn fails.
func TestDC_15_TheReactionGoesWhenTheAnswerIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		answer agentFunc
		fault  *fakefeishu.Fault
		cancel bool
	}{
		"an answer": {answer: says("ok")},
		"a failure": {answer: func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, errors.New("broken")
		}},
		"the server stops":                {cancel: true, answer: says("late")},
		"the platform did not say its id": {answer: says("ok"), fault: &fakefeishu.Fault{Name: "react", Cut: fakefeishu.CutAfter}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) { s.Grace = time.Second }, nil)
				if test.fault != nil {
					r.fake.Fail(*test.fault)
				}
				r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					select {
					case <-time.After(10 * time.Second):
						return test.answer(ctx, turn)
					case <-ctx.Done():
						return channel.DispatchResult{}, context.Cause(ctx)
					}
				}
				r.serve(t)
				_, id := r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				if got := r.fake.Reactions(id); len(got) != 1 || got[0].Emoji != typing {
					t.Errorf("the message has the reactions %v", got)
				}
				if test.cancel {
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

// DC-15: a reaction that a crash has left is removed, whether the event runs again or not; those of others stay.
func TestDC_15_ACrashLeavesNoReaction(t *testing.T) {
	for name, visible := range map[string]bool{"it runs again": false, "some of the answer was seen": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				first := setup(t, nil, nil)
				dir := t.TempDir()
				j := channeltest.Open(t, dir)
				crash := &snapshots{Journal: j, Ledger: j, dir: dir, to: t.TempDir()}
				first.kernel.Journal = crash
				first.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					if visible {
						if err := turn.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "half"}); err != nil {
							return channel.DispatchResult{}, err
						}
					}
					wait(time.Second)
					crash.take(t)
					return channel.DispatchResult{NoReply: true}, nil
				}
				first.serve(t)
				_, id := first.say(t, fakefeishu.Said{ID: "om_hi", Chat: private, From: ann, Text: "say hi"})
				wait(time.Minute)
				_ = first.end()
				_ = j.Close()

				second := setup(t, nil, nil)
				j = channeltest.Open(t, crash.to)
				defer j.Close()
				second.kernel.Journal = j
				others := fakefeishu.Reaction{ID: "re_bob", From: bob, Emoji: typing}
				second.fake.Put(fakefeishu.Message{ID: id, Chat: private, From: ann, Reactions: []fakefeishu.Reaction{
					{ID: "re_old", From: second.fake.Options().AppID, Emoji: typing}, others,
				}})
				second.serve(t)
				wait(time.Minute)
				if got := second.fake.Reactions(id); !slices.Equal(got, []fakefeishu.Reaction{others}) {
					t.Errorf("the reactions %v are left", got)
				}
				_ = second.end()
			})
		})
	}
}
