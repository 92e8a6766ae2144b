package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakecallback"
)

// A message that is sent again gets the first answer, also at another replica, and after a restart.
func TestAMessageThatIsSentAgainGetsTheFirstAnswer(t *testing.T) {
	for _, ack := range []string{webhook.AckImmediate, webhook.AckResult} {
		t.Run(ack, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, back := openDatabase(t), fakecallback.New(vectorSecret)
				settings := func(s *webhook.Settings, _ *kernel.Kernel) { s.Ack = ack }
				a, b := newReplica(t, d, "a", back, settings), newReplica(t, d, "b", back, settings)
				first := a.post("msg-1", hello("x"))
				time.Sleep(time.Second)
				again := []got{a.post("msg-1", hello("x")), b.post("msg-1", hello("x"))}
				for _, g := range again {
					if !g.answer.Duplicate {
						t.Errorf("the answer does not say that the message came before: %+v", g)
					}
					g.answer.Duplicate = false
					if diff := cmp.Diff(first.answer, g.answer); diff != "" || g.status != first.status {
						t.Errorf("%d, expected %d: %s", g.status, first.status, diff)
					}
				}
				if n := len(a.Told()) + len(b.Told()); n != 1 {
					t.Errorf("the agent was asked %d times", n)
				}
			})
		})
	}
}

// unreadable is a store of answers that cannot be read.
type unreadable struct{ webhook.Results }

func (unreadable) Load(context.Context, string) ([]byte, error) { return nil, errors.New("down") }

func TestAnAnswerThatCannotBeReadIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := new(channeltest.Log)
		r := newRig(t, func(s *webhook.Settings, _ *kernel.Kernel) {
			s.Ack, s.Results, s.Log = webhook.AckResult, unreadable{s.Results}, slog.New(slog.NewTextHandler(log, nil))
		})
		if a := r.post("msg-1", hello("x")); a.status != http.StatusAccepted || a.answer.Status != "accepted" {
			t.Errorf("got %+v", a)
		}
		if n := strings.Count(log.String(), "cannot read a stored answer"); n != 1 {
			t.Errorf("the log has %d warnings: %s", n, log)
		}
	})
}

func TestAnAnswerHasTheReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, withResult)
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(webhook.ResultWait - 2*time.Second)
			part(ctx, turn, "one")
			return say(ctx, turn, "two")
		})
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || a.answer.Status != "done" || a.answer.Admission != "dispatch" || a.answer.Outcome != "visible" || a.texts() != "block one, final two" {
			t.Errorf("got %+v", a)
		}
	})
}

func TestALateReplyWaitsForARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, withResult)
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			part(ctx, turn, "may I?")
			time.Sleep(2*webhook.ResultWait + time.Second)
			return say(ctx, turn, "late")
		})
		for range 2 {
			began := time.Now()
			if a := r.post("msg-1", hello("x")); a.status != http.StatusAccepted || a.answer.Turn == "" || a.texts() != "block may I?" || time.Since(began) != webhook.ResultWait {
				t.Errorf("got %+v", a)
			}
		}
		if a := r.post("msg-1", hello("x")); a.status != http.StatusOK || !a.answer.Duplicate || a.texts() != "block may I?, final late" {
			t.Errorf("got %+v", a)
		}
	})
}

// CH-14
func TestABlockedMessageSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) { s.Ack, k.Settings = webhook.AckResult, nobody{} })
		for range 2 {
			a := r.post("msg-1", hello("x"))
			if a.status != http.StatusForbidden || a.answer.Admission != "drop" || a.answer.Reason != "no_policy" || a.answer.Outcome != "blocked" || len(a.answer.Replies) > 0 {
				t.Errorf("got %+v", a)
			}
		}
	})
}

// The turn runs at another replica than the one that the message came to, because that replica answers the conversation already.
func TestARequestGetsTheAnswerOfAnotherReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, back := openDatabase(t), fakecallback.New(vectorSecret)
		settings := func(s *webhook.Settings, k *kernel.Kernel) { s.Ack = webhook.AckResult }
		a, b := newReplica(t, d, "a", back, settings), newReplica(t, d, "b", back, settings)
		goOn := make(chan struct{})
		a.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			if turn.Context.BodyForAgent == "x" {
				<-goOn
			}
			return say(ctx, turn, "echo "+turn.Context.BodyForAgent)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go a.postWith(ctx, "msg-1", hello("x"), nil)
		synctest.Wait()
		began := time.Now()
		if g := b.post("msg-2", hello("y")); g.status != http.StatusOK || g.answer.Duplicate || g.texts() != "final echo y" || time.Since(began) > 2*time.Second {
			t.Errorf("after %v %+v", time.Since(began), g)
		}
		cancel() // the first sender has lost the connection
		time.AfterFunc(10*time.Second, func() { close(goOn) })
		began = time.Now()
		if g := b.post("msg-1", hello("x")); !g.answer.Duplicate || g.texts() != "final echo x" || time.Since(began) > 11*time.Second {
			t.Errorf("after %v %+v", time.Since(began), g)
		}
		if len(a.Told()) != 2 || len(b.Told()) != 0 {
			t.Errorf("the replicas have run %d and %d messages, expected 2 and 0", len(a.Told()), len(b.Told()))
		}
	})
}

func TestAReplyIsCompleteAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, back := openDatabase(t), fakecallback.New(vectorSecret)
		a := newReplica(t, d, "a", back, withResult)
		a.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			part(ctx, turn, "one")
			<-ctx.Done()
			return channel.DispatchResult{}, context.Cause(ctx)
		})
		done := make(chan got)
		go func() { done <- a.post("msg-1", hello("x")) }()
		time.Sleep(time.Second)
		a.end()
		if g := <-done; g.status != http.StatusAccepted {
			t.Errorf("got %+v of a server that ends", g)
		}
		b := newReplica(t, d, "b", back, func(s *webhook.Settings, k *kernel.Kernel) {
			s.Ack = webhook.AckResult
			k.Agent = agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				if turn.Shown != len("one") {
					t.Errorf("%d bytes were shown", turn.Shown)
				}
				return say(ctx, turn, "two")
			})
		})
		if g := b.post("msg-1", hello("x")); g.status != http.StatusOK || g.texts() != "block one, final two" || !g.answer.Duplicate {
			t.Errorf("got %+v", g)
		}
	})
}

// A failed turn that runs again is not the answer (CH-73).
func TestTheAnswerIsThatOfTheLastTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, withResult)
		fail := 2
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			if fail--; fail >= 0 {
				return channel.DispatchResult{}, errors.New("the model is away")
			}
			return say(ctx, turn, "here it is")
		})
		began := time.Now()
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || a.answer.Outcome != "visible" || a.texts() != "final here it is" || time.Since(began) < 6*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
		if again := r.post("msg-1", hello("x")); again.answer.Turn != a.answer.Turn || again.texts() != a.texts() || len(r.Told()) != 3 {
			t.Errorf("%d runs, %+v", len(r.Told()), again)
		}
		fail = 100 // one that fails in the end says so
		if a = r.post("msg-2", hello("x")); a.status != http.StatusOK || a.answer.Outcome != "failed" || !strings.Contains(a.texts(), "reference "+a.answer.Turn) {
			t.Errorf("got %+v", a)
		}
	})
}

func TestMessagesThatAreCombinedGetOneReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) {
			s.Ack = webhook.AckResult
			tree := channeltest.Tree(t, "webhook", channel.Place{DMPolicy: channel.PolicyOpen, Debounce: new(time.Second)})
			k.Settings = tree
		})
		first := make(chan got)
		go func() { first <- r.post("msg-1", hello("one")) }()
		synctest.Wait()
		second := r.post("msg-2", hello("two"))
		if g := <-first; g.texts() != "final echo one\ntwo" {
			t.Errorf("got %+v", g)
		}
		if second.status != http.StatusOK || second.answer.Reason != "merged" || second.texts() != "" {
			t.Errorf("got %+v", second)
		}
	})
}

func TestASenderIsPairedByACode(t *testing.T) {
	for _, ack := range []string{webhook.AckImmediate, webhook.AckResult} {
		t.Run(ack, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pairs := channel.NewPairs(nil)
				r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) {
					tree := channeltest.Tree(t, "webhook", channel.Place{DMPolicy: channel.PolicyPairing})
					s.Ack, k.Settings, k.Pairing = ack, tree, pairs
				})
				first := r.post("msg-1", hello("x"))
				r.post("msg-2", hello("y"))
				synctest.Wait()
				list, err := pairs.List(t.Context())
				if err != nil || len(list) != 1 || list[0].Sender != "ann" {
					t.Fatalf("got %+v, %v", list, err)
				}
				told := fmt.Sprint(texts(r.back))
				if ack == webhook.AckResult {
					told = first.texts()
					if first.status != http.StatusForbidden || first.answer.Reason != "pairing_required" {
						t.Errorf("got %+v", first)
					}
				}
				if strings.Count(told, "pair approve "+list[0].Code) != 1 {
					t.Errorf("got %q", told)
				}
				if _, err := pairs.Approve(t.Context(), "webhook", list[0].Code); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute) // who was paired is told so, and the messages are answered
				got := texts(r.back)
				if ack == webhook.AckImmediate {
					got = got[1:]
				} else if again := r.post("msg-1", hello("x")); !strings.HasSuffix(again.texts(), "final echo x") {
					t.Errorf("got %+v", again)
				}
				if ack == webhook.AckImmediate && (len(got) < 2 || !strings.HasPrefix(got[0], "You are paired") || !slices.Contains(got, "echo x")) {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

func TestTheAnswersOfASessionAreErased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := openDatabase(t)
		r := newReplica(t, d, "a", fakecallback.New(vectorSecret), withResult)
		r.post("msg-1", hello("x"))
		other := strings.Replace(hello("y"), "c1", "c2", 1)
		r.post("msg-2", other)
		if err := d.Results(webhook.ResultLife).Erase(t.Context(), "webhook:c1"); err != nil {
			t.Fatal(err)
		}
		if a := r.post("msg-1", hello("x")); !a.answer.Duplicate || len(a.answer.Replies) > 0 || len(r.Told()) != 2 {
			t.Errorf("got %+v", a)
		}
		if a := r.post("msg-2", other); !a.answer.Duplicate || a.texts() != "final echo y" {
			t.Errorf("got %+v", a)
		}
	})
}

func TestAReplyIsSentAgainWhileThatCanHelp(t *testing.T) { // CH-58, CH-183
	for _, test := range []struct {
		name     string
		steps    []fakecallback.Step
		requests int
		taken    bool
		least    time.Duration
	}{
		{"at once", nil, 1, true, 0},
		{"after 500, 503, 429 and 408", []fakecallback.Step{{Status: 500}, {Status: 503}, {Status: 429}, {Status: 408}}, 5, true, 0},
		{"425", []fakecallback.Step{{Status: 425}}, 2, true, 0},
		{"after a connection that ends before the reply is accepted", []fakecallback.Step{{Status: 500, Cut: true}}, 2, true, 0},
		{"after a connection that ends afterwards", []fakecallback.Step{{Cut: true}}, 2, true, 0},
		{"when the callback says so", []fakecallback.Step{{Status: 429, RetryAfter: "100"}}, 2, true, 100 * time.Second},
		{"but not later than in five minutes", []fakecallback.Step{{Status: 503, RetryAfter: "86400"}}, 2, true, 300 * time.Second},
		{"not after 400", []fakecallback.Step{{Status: 400}}, 1, false, 0},
		{"not after 404", []fakecallback.Step{{Status: 404}}, 1, false, 0},
		{"not to another address", []fakecallback.Step{{Status: 307, Location: "https://elsewhere.test/"}}, 1, false, 0},
	} {
		for _, late := range []bool{false, true} { // in the turn, and by the outbox
			t.Run(fmt.Sprintf("%s, part %v", test.name, late), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t, nil)
					r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
						if late {
							part(ctx, turn, "x")
							return channel.DispatchResult{}, nil
						}
						return say(ctx, turn, "x")
					})
					r.back.Then(test.steps...)
					began := time.Now()
					r.post("msg-1", hello("x"))
					synctest.Wait()
					for len(r.back.Requests()) < test.requests && time.Since(began) < 10*time.Minute {
						time.Sleep(time.Second)
					}
					took := time.Since(began)
					time.Sleep(time.Minute) // there is no further one
					requests := r.back.Requests()
					if len(requests) != test.requests || (len(r.back.Taken()) == 1) != test.taken {
						t.Errorf("%d requests, %d taken", len(requests), len(r.back.Taken()))
					}
					if took < test.least || took > test.least+2*time.Minute {
						t.Errorf("the last came after %v", took)
					}
					for _, q := range requests {
						if q.ID != requests[0].ID || !q.Signed {
							t.Errorf("got the id %q, signed: %v", q.ID, q.Signed)
						}
					}
				})
			})
		}
	}
}
