package slack_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// after is an agent that works for ten seconds before it answers.
func after(answer agentFunc) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		select {
		case <-time.After(10 * time.Second):
			return answer(ctx, turn)
		case <-ctx.Done():
			return channel.DispatchResult{}, context.Cause(ctx)
		}
	}
}

var broken agentFunc = func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, errors.New("broken")
}

// DC-15: a reaction says at once that work goes on, and is removed when the answer is there or the turn ends.
func TestDC_15_TheReactionGoesWhenTheAnswerIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		answer agentFunc
		cancel bool
	}{
		"an answer":        {answer: says("ok")},
		"a failure":        {answer: broken},
		"the server stops": {cancel: true, answer: says("late")},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, func(s *slack.Settings) { s.Grace = time.Second }, nil, channel.Place{}, func(t *testing.T, r *rig) {
				r.Answers(after(test.answer))
				m := r.say(fakeslack.Message{Channel: dm, Text: "hi"})
				if got := r.fake.Reactions(dm, m.TS); !slices.Equal(got, []string{eyes}) {
					t.Errorf("the message has the reactions %q", got)
				}
				if test.cancel {
					_ = r.end()
				} else {
					wait(2 * time.Minute)
				}
				if got := r.fake.Reactions(dm, m.TS); len(got) != 0 {
					t.Errorf("the reactions %q are left", got)
				}
			})
		})
	}
}

// DC-15: an app without the scope answers all the same, and the log does not complain.
func TestDC_15_WithoutItsScopeThereIsNoReaction(t *testing.T) {
	bubbleWith(t, nil, &fakeslack.Options{Scopes: "chat:write,im:history"}, channel.Place{}, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: dm, Text: "say hi"})
		r.wantTexts(dm, "hi")
		if len(r.fake.Calls("reactions.remove")) != 0 || strings.Contains(r.log.String(), "WARN") {
			t.Error(r.log)
		}
	})
}

// DC-15
func TestDC_15_ACrashLeavesNoReaction(t *testing.T) {
	for name, early := range map[string]bool{"the answer follows": false, "the answer is there at once": true} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, func(s *slack.Settings) { s.Grace = time.Second }, nil, channel.Place{}, func(t *testing.T, r *rig) {
				r.Answers(after(says("late")))
				r.fake.Fail(fakeslack.Fault{Method: "reactions.remove", Cut: fakeslack.Refused, Times: -1}) // the process dies before
				m := r.say(fakeslack.Message{Channel: dm, Text: "hi"})
				_ = r.end()
				r.fake.Mend()
				if early {
					r.Answers(says("ok"))
				}
				r.restart()
				wait(time.Minute)
				if got := r.fake.Reactions(dm, m.TS); len(got) != 0 || len(r.texts(dm)) != 1 {
					t.Errorf("the reactions %q are left; people see %q", got, r.texts(dm))
				}
			})
		})
	}
}

func TestAThreadOfAnAssistantHasAStatus(t *testing.T) {
	for name, answer := range map[string]agentFunc{"an answer": says("ok"), "a failure": broken} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fake.AddConversation(fakeslack.Conversation{ID: dm, Kind: fakeslack.IM, Assistant: true})
				r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					time.Sleep(3 * time.Minute)
					return answer(ctx, turn)
				})
				m := r.say(fakeslack.Message{Channel: dm, Text: "hi", Thread: ping})
				if got := r.fake.Status(dm, ping); got == "" || len(r.fake.Reactions(dm, m.TS)) != 0 {
					t.Errorf("the status is %q, and there are the reactions %q", got, r.fake.Reactions(dm, m.TS))
				}
				wait(2*time.Minute + 30*time.Second)
				if n := len(r.fake.Calls("assistant.threads.setStatus")); n < 3 { // the platform removes it after two minutes
					t.Errorf("the status was set %d times", n)
				}
				wait(12 * time.Minute) // a turn that fails runs again
				if got := r.fake.Status(dm, ping); got != "" {
					t.Errorf("the status %q is left", got)
				}
			})
		})
	}
}

func TestAThreadOfNoAssistantHasAReactionAndThePlatformIsNotAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(after(says("ok")))
		for range 2 {
			m := r.say(fakeslack.Message{Channel: dm, Text: "hi", Thread: ping})
			synctest.Wait()
			if got := r.fake.Reactions(dm, m.TS); !slices.Equal(got, []string{eyes}) {
				t.Errorf("got the reactions %q", got)
			}
			wait(time.Minute)
		}
		if n := len(r.fake.Calls("assistant.threads.setStatus")); n != 1 {
			t.Errorf("the status was set %d times", n)
		}
	})
}
