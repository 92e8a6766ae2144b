package discord_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/tool"
)

func withCommands(s *discord.Settings) {
	s.Commands = []platform.Command{{Name: "tape.info", Help: strings.Repeat("long help ", 20)}, {Name: "help", Help: "list the commands"}}
}

func command(name string, arguments ...string) map[string]any {
	options := []map[string]any{}
	for _, a := range arguments {
		options = append(options, map[string]any{"type": 3, "name": "arguments", "value": a})
	}
	return map[string]any{"id": "1", "type": 1, "name": name, "options": options}
}

func TestTheCommandsOfTheApplicationStayWithMenuOff(t *testing.T) {
	off := func(s *discord.Settings) {
		withCommands(s)
		s.Menu = "off"
	}
	bubble(t, options{settings: off, place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
		if got := r.fake.Commands(); len(got) > 0 {
			t.Errorf("registered %q", got)
		}
	})
}

func TestApplicationCommands(t *testing.T) {
	bubble(t, options{settings: withCommands, place: channel.Place{CommandMode: channel.CommandsAuthorizers, Users: []string{"7"}}}, func(t *testing.T, r *rig) {
		if got := r.fake.Commands(); !slices.Equal(got, []string{"tape_info", "help"}) {
			t.Errorf("the commands are %q", got)
		}
		token := r.fake.Interact(general, "7", command("tape_info", "all of it"))
		got := r.last(1)
		if got.BodyForCommands != ",tape.info all of it" || !got.CommandAuthorized || got.SessionKey != "discord:200" {
			t.Errorf("got %+v", got)
		}
		if sent := r.sent(general, 1); sent[0].Content != "ok" || !sent[0].Ephemeral || r.fake.Acknowledged(token) != 5 {
			t.Errorf("got %+v", sent)
		}
		if typing := r.fake.Calls("POST", "/typing"); len(typing) > 0 {
			t.Error("typing was shown")
		}
		r.fake.Interact(thread, "8", command("help"))
		if sent := r.sent(thread, 1); !strings.HasPrefix(sent[0].Content, "You may not use commands here.") || len(r.told()) != 1 {
			t.Errorf("got %+v", sent)
		}
	})
}

// CH-76
func TestErasedSessionDropsInteractionsThatWait(t *testing.T) {
	bubble(t, options{place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
		r.answers(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, errors.New("the model is away") // the turn is retried after a second
		})
		r.fake.Interact(general, "7", command("help"))
		session := r.last(1).SessionKey
		if err := r.queue.Kernel().Erase(t.Context(), session); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if turns := len(r.told()); turns != 1 {
			t.Errorf("the command of the erased session %s ran %d times", session, turns)
		}
	})
}

func TestCommandWithoutAnAnswerIsWithdrawn(t *testing.T) {
	bubble(t, options{place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
		r.answers(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{NoReply: true}, nil
		})
		token := r.fake.Interact(direct, "7", command("help"))
		r.until("the end", func() bool { return r.fake.Withdrawn(token) })
	})
}

func TestLateAnswerToACommandGoesToTheChannel(t *testing.T) {
	bubble(t, options{place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
		r.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(16 * time.Minute)
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "late"})
		})
		r.fake.Interact(direct, "7", command("help"))
		time.Sleep(16 * time.Minute)
		if sent := r.sent(direct, 1); sent[0].Content != "late" || sent[0].Ephemeral {
			t.Errorf("got %+v", sent)
		}
	})
}

func TestButtonsAnswerAQuestion(t *testing.T) {
	for _, row := range []struct{ word, answer, shown, end string }{
		{"approve", "approved by User 7", "Approved.", "It ran."},
		{"remember", "remembered by User 7", "Approved for this session.", "It ran."},
		{"deny", "denied by User 7", "Denied.", "It did not run."},
	} {
		t.Run(row.word, func(t *testing.T) {
			asker := &channeltest.Asker{Role: tool.Operator}
			bubble(t, options{agent: asker, place: channel.Place{Operators: []string{"7"}}}, func(t *testing.T, r *rig) {
				r.say(general, "7", mention+" go", toMe)
				asked := r.sent(general, 1)[0]
				id := channeltest.QuestionID(1)
				if !slices.Equal(asked.Buttons, []string{"approve:" + id, "deny:" + id, "remember:" + id}) || strings.Contains(asked.Content, ",approve") {
					t.Fatalf("the question is %+v", asked)
				}
				r.fake.Interact(general, "8", map[string]any{"component_type": 2, "custom_id": row.word + ":" + id})
				if got := r.sent(general, 2)[1]; got.Content != "You may not answer this question." || !got.Ephemeral {
					t.Errorf("a stranger is told %+v", got)
				}
				token := r.fake.Interact(general, "7", map[string]any{"component_type": 2, "custom_id": row.word + ":" + id})
				sent := r.sent(general, 4)
				if sent[2].Content != row.shown && sent[3].Content != row.shown || r.fake.Acknowledged(token) != 6 || !slices.Equal(asker.Answers, []string{row.answer}) {
					t.Errorf("got %q and %q", contents(sent), asker.Answers)
				}
				if sent[0].Buttons != nil || !strings.HasSuffix(sent[0].Content, " by User 7.") || !slices.Contains(contents(sent), row.end) {
					t.Errorf("got %+v", sent)
				}
			})
		})
	}
}

func TestQuestionThatIsOverSaysSo(t *testing.T) {
	bubble(t, options{agent: &channeltest.Asker{}, place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
		r.say(direct, "7", "go", nil)
		r.sent(direct, 1)
		r.fake.Interact(direct, "7", map[string]any{"component_type": 2, "custom_id": "else:1"}) // of nobody
		r.fake.Rename("approve:"+channeltest.QuestionID(1), "approve:"+channeltest.QuestionID(9))
		r.fake.Interact(direct, "7", map[string]any{"component_type": 2, "custom_id": "approve:" + channeltest.QuestionID(9)})
		if sent := r.sent(direct, 2); sent[1].Content != "This question is no longer open." {
			t.Errorf("got %+v", sent)
		}
	})
}

func TestLongArgumentsAreAFile(t *testing.T) {
	for _, n := range []int{2500, 5000} { // the second is too long for other platforms, too
		arguments := `{"cmd":"` + strings.Repeat("x", n) + `"}`
		bubble(t, options{agent: &channeltest.Asker{Arguments: arguments}, place: channel.Place{CommandMode: channel.CommandsSenders}}, func(t *testing.T, r *rig) {
			r.say(direct, "7", "go", nil)
			asked := r.sent(direct, 1)[0]
			if asked.Files["arguments-"+channeltest.QuestionID(1)+".json"] != arguments || len(asked.Buttons) != 3 || !strings.Contains(asked.Content, "in the file `arguments-") {
				t.Errorf("the question is %+v", asked)
			}
		})
	}
}
