package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/fakecallback"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestAMessageIsAcceptedAndItsReplyGoesToTheCallback(t *testing.T) { // CH-182, CH-183
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		a := r.post("msg-1", `{"sender":{"id":"ann","name":"Ann"},"conversation":{"id":"c1","kind":"group","thread":"t1"},"text":"hi","mentioned":true}`)
		if a.status != http.StatusAccepted || a.Status != "accepted" || !strings.HasPrefix(a.Turn, "t-") || a.Duplicate {
			t.Fatalf("got %+v", a)
		}
		synctest.Wait()
		taken := r.back.Taken()
		if len(taken) != 1 || taken[0].ID != a.Turn+":1" && taken[0].ID != a.Turn+":0" {
			t.Fatalf("got %+v", taken)
		}
		var body map[string]any
		if err := json.Unmarshal(taken[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		delete(body, "seq")
		want := map[string]any{
			"turn": a.Turn, "message": "msg-1", "conversation": map[string]any{"id": "c1", "kind": "group", "thread": "t1"}, "kind": "final", "text": "echo hi", "final": true,
		}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Error(diff)
		}
		c := r.told()[0]
		if c.SessionKey != "webhook:c1#t1" || c.SenderID != "ann" || c.SenderName != "Ann" || !c.WasMentioned || c.MessageID != "msg-1" {
			t.Errorf("got %+v", c)
		}
	})
}

func TestAnyFaultOfASignatureIsOneAndTheSame401(t *testing.T) { // CH-180
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		var answers []got
		for _, change := range []func(http.Header){
			func(h http.Header) { h.Del("Webhook-Id") },
			func(h http.Header) { h.Set("Webhook-Timestamp", "1") },
			func(h http.Header) { h.Set("Webhook-Signature", "v1,AAAA") },
			func(h http.Header) { h.Set("Webhook-Id", "another") },
			func(h http.Header) { clear(h) },
		} {
			answers = append(answers, r.postWith(t.Context(), "msg-1", hello("x"), change))
		}
		for _, a := range answers {
			if a.status != http.StatusUnauthorized || a.problem != answers[0].problem {
				t.Errorf("got %+v", a)
			}
		}
		synctest.Wait()
		if len(r.told()) > 0 {
			t.Error("a message that is not signed was answered")
		}
	})
}

// DA-02
func TestRequestThatCannotBeValidIsRefusedUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		signed := func(at time.Time, signature string) http.Header {
			h := http.Header{}
			r.secret.Sign(h, "msg-1", at, nil)
			if signature != "" {
				h.Set("Webhook-Signature", signature)
			}
			return h
		}
		const large = 1 << 20
		channeltest.RefusesUnread(t, r.c.Webhook(), http.Header{}, large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.c.Webhook(), signed(time.Now().Add(-time.Hour), ""), large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.c.Webhook(), signed(time.Now(), "v1a,AAAA"), large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.c.Webhook(), signed(time.Now(), ""), large+1, http.StatusRequestEntityTooLarge)
	})
}

func TestABodyIsExactlyAsDescribed(t *testing.T) { // CH-181
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.MaxBody = 4096 })
		const sender, conversation = `"sender":{"id":"a"}`, `"conversation":{"id":"c","kind":"direct"}`
		for i, test := range []struct {
			name, body string
			status     int
			detail     string
		}{
			{"the least", "{" + sender + "," + conversation + `,"text":"x"}`, 202, ""},
			{"no JSON", "hello", 400, "the body: expected a JSON object"},
			{"a list", "[]", 400, "the body: expected a JSON object"},
			{"more behind it", "{" + sender + "," + conversation + `,"text":"x"} {}`, 400, "the body: expected a JSON object"},
			{"a member that there is not", "{" + sender + "," + conversation + `,"text":"x","url":"http://x"}`, 400, "/url: unknown field"},
			{"a member that differs in case", "{" + sender + "," + conversation + `,"Text":"x"}`, 400, "/Text: unknown field"},
			{"a member twice", "{" + sender + "," + sender + "," + conversation + `,"text":"x"}`, 400, "/sender: occurs twice; remove one"},
			{"a role", `{"sender":{"id":"a","role":"admin"},` + conversation + `,"text":"x"}`, 400, "/sender/role: unknown field"},
			{"no sender", "{" + conversation + `,"text":"x"}`, 400, "/sender: is missing"},
			{"no id", `{"sender":{"name":"A"},` + conversation + `,"text":"x"}`, 400, "/sender/id: is missing"},
			{"a blank id", `{"sender":{"id":" "},` + conversation + `,"text":"x"}`, 400, "/sender/id: expected 1 to 256 bytes, not only spaces"},
			{"an id that is a number", `{"sender":{"id":5},` + conversation + `,"text":"x"}`, 400, "/sender/id: expected text"},
			{"another kind", "{" + sender + `,"conversation":{"id":"c","kind":"room"},"text":"x"}`, 400, "/conversation/kind: expected direct, group or channel"},
			{"mentioned is text", "{" + sender + "," + conversation + `,"text":"x","mentioned":"yes"}`, 400, "/mentioned: expected true or false"},
			{"neither text nor media", "{" + sender + "," + conversation + `,"text":" "}`, 400, "expected text, media, or both"},
			{"media by address", "{" + sender + "," + conversation + `,"media":[{"type":"image/png","url":"http://x"}]}`, 400, "/media/0/url: unknown field"},
			{"media without data", "{" + sender + "," + conversation + `,"media":[{"type":"image/png"}]}`, 400, "/media/0/data: is missing"},
			{"media that are no base64", "{" + sender + "," + conversation + `,"media":[{"type":"image/png","data":"%"}]}`, 400, "/media/0/data: expected base64"},
			{"a type that is none", "{" + sender + "," + conversation + `,"media":[{"type":"png","data":"AA=="}]}`, 400, "/media/0/type: expected a media type, such as image/png"},
			{"bad UTF-8", "{" + sender + "," + conversation + `,"text":"` + "\xff" + `"}`, 400, "the body is not UTF-8; send UTF-8"},
			{"too large", "{" + sender + "," + conversation + `,"text":"` + strings.Repeat("x", 4096) + `"}`, 413, "the request's body is larger than 4096 bytes"},
		} {
			a := r.post(fmt.Sprint("msg-", i), test.body)
			if a.status != test.status || a.problem.Detail != test.detail {
				t.Errorf("%s: got %d %q, expected %d %q", test.name, a.status, a.problem.Detail, test.status, test.detail)
			}
		}
	})
}

func TestAMessageThatComesAgainIsAnsweredLikeTheFirstAndRunsNothing(t *testing.T) { // CH-182, FT-33
	for _, ack := range []string{AckImmediate, AckResult} {
		t.Run(ack, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.Ack = ack })
				first := r.post("msg-1", hello("x"))
				synctest.Wait()
				again := r.post("msg-1", hello("x"))
				time.Sleep(keepFor - time.Second)
				late := r.post("msg-1", hello("x"))
				for _, a := range []got{again, late} {
					if !a.Duplicate {
						t.Errorf("it is not said that it came before: %+v", a)
					}
					a.Duplicate = false
					if diff := cmp.Diff(first.answer, a.answer); diff != "" || a.status != first.status {
						t.Errorf("%d, expected %d: %s", a.status, first.status, diff)
					}
				}
				if n := len(r.told()); n != 1 {
					t.Errorf("the agent was asked %d times", n)
				}
			})
		})
	}
}

func TestAResultHasTheReplyAndNothingGoesToTheCallback(t *testing.T) { // CH-182
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.Ack = AckResult })
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(resultWait - time.Second)
			_ = turn.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "one"})
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "two"})
		}
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || a.Status != "done" || a.Admission != "dispatch" || a.Outcome != "visible" || len(a.Replies) != 2 ||
			a.Replies[0].Text != "one" || a.Replies[0].Kind != "block" || a.Replies[1].Text != "two" || a.Replies[1].Kind != "final" {
			t.Errorf("got %+v", a)
		}
		time.Sleep(10 * resultWait)
		if n := len(r.back.Requests()); n > 0 {
			t.Errorf("the callback got %d requests", n)
		}
	})
}

func TestAResultThatTakesTooLongGoesToTheCallbackAlone(t *testing.T) { // CH-182
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.Ack = AckResult })
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			_ = turn.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "one"})
			time.Sleep(resultWait + time.Second)
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "two"})
		}
		began := time.Now()
		a := r.post("msg-1", hello("x"))
		if took := time.Since(began); a.status != http.StatusAccepted || took != resultWait || len(a.Replies) > 0 || a.Turn == "" {
			t.Errorf("got %+v after %v", a, took)
		}
		time.Sleep(time.Minute)
		if got := texts(r.back); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("the callback got %q", got)
		}
		if again := r.post("msg-1", hello("x")); again.Turn != a.Turn { // DV-10: the late 202 had the turn's id
			t.Errorf("the turn is %s, and was %s", again.Turn, a.Turn)
		}
		if a := r.post("msg-1", hello("x")); len(a.Replies) > 0 || !a.Duplicate {
			t.Errorf("what went to the callback is in an answer: %+v", a)
		}
	})
}

func TestAResultThatIsLateWaitsForWhoAsksAgainWhereThereIsNoCallback(t *testing.T) { // CH-182
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.Ack, s.Callback = AckResult, "" })
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(2 * resultWait)
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "late"})
		}
		if a := r.post("msg-1", hello("x")); a.status != http.StatusAccepted {
			t.Errorf("got %+v", a)
		}
		a := r.post("msg-1", hello("x")) // waits, too
		if a.status != http.StatusAccepted && a.status != http.StatusOK {
			t.Errorf("got %+v", a)
		}
		a = r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || !a.Duplicate || len(a.Replies) != 1 || a.Replies[0].Text != "late" {
			t.Errorf("got %+v", a)
		}
	})
}

// DC-02: a sender who writes too fast gets a 429, and the same message is taken when its time has come.
func TestAMessageThatIsTooManyIsRefusedAndCanComeAgain(t *testing.T) {
	for _, ack := range []string{AckImmediate, AckResult} {
		t.Run(ack, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(s *Settings, k *channel.Kernel) {
					s.Ack = ack
					tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{"webhook": {AccountPlace: channel.AccountPlace{
						Place: channel.Place{DMPolicy: channel.PolicyOpen, Agent: "assistant", SenderRate: new(2), SenderBurst: new(1)},
					}}}})
					if err != nil {
						t.Fatal(err)
					}
					k.Settings, k.Routes = tree, tree
				})
				if a := r.post("m1", hello("one")); a.status/100 != 2 {
					t.Fatalf("got %+v", a)
				}
				a := r.post("m2", hello("two"))
				if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "30" || a.problem.Code != "rate_limited" {
					t.Fatalf("got %+v", a)
				}
				time.Sleep(30 * time.Second)
				if a = r.post("m2", hello("two")); a.status/100 != 2 || a.Duplicate {
					t.Fatalf("got %+v", a)
				}
				synctest.Wait()
				r.end()
				if n := len(r.told()); n != 2 {
					t.Errorf("the agent has heard %d messages", n)
				}
			})
		})
	}
}

func TestABlockedMessageSaysWhy(t *testing.T) { // CH-181, CH-182
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, k *channel.Kernel) {
			s.Ack = AckResult
			k.Settings = nobody{}
		})
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || a.Admission != "drop" || a.Reason != "no_policy" || a.Outcome != "blocked" || len(a.Replies) > 0 {
			t.Errorf("got %+v", a)
		}
	})
}

// nobody may talk.
type nobody struct{}

func (nobody) Policy(channel.PolicyQuery) channel.Policy {
	return channel.Policy{RouteAllowed: true}
}

func TestACallbackIsTriedAgainWhileThatMayHelp(t *testing.T) { // CH-183
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
		{"five times and not once more", []fakecallback.Step{{Status: 500}, {Status: 500}, {Status: 500}, {Status: 500}, {Status: 500}}, 5, false, 0},
		{"a connection that ends before it is taken", []fakecallback.Step{{Status: 500, Cut: true}}, 2, true, 0},
		{"a connection that ends after it was taken", []fakecallback.Step{{Cut: true}}, 2, true, 0},
		{"when the callback says so", []fakecallback.Step{{Status: 429, RetryAfter: "100"}}, 2, true, 100 * time.Second},
		{"but not later than in five minutes", []fakecallback.Step{{Status: 503, RetryAfter: "86400"}}, 2, true, 300 * time.Second},
		{"not after 400", []fakecallback.Step{{Status: 400}}, 1, false, 0},
		{"not after 404", []fakecallback.Step{{Status: 404}}, 1, false, 0},
		{"not where it is sent elsewhere", []fakecallback.Step{{Status: 307, Location: "https://elsewhere.test/"}}, 1, false, 0},
	} {
		for _, durable := range []bool{false, true} {
			if !durable && test.requests == attempts && !test.taken {
				continue // without an outbox, the turn itself is run again
			}
			t.Run(fmt.Sprintf("%s, outbox %v", test.name, durable), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t, func(_ *Settings, k *channel.Kernel) {
						if durable {
							var err error
							if k.Outbox, err = channel.OpenOutbox(nil); err != nil {
								t.Fatal(err)
							}
							k.Init()
							k.Outbox.Start()
							t.Cleanup(func() { _ = k.Outbox.Close(context.Background()) })
						}
					})
					r.back.Then(test.steps...)
					began := time.Now()
					r.post("msg-1", hello("x"))
					var took time.Duration
					for range 3600 {
						synctest.Wait()
						if len(r.back.Requests()) == test.requests && took == 0 {
							took = time.Since(began)
						}
						time.Sleep(time.Second)
					}
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

func TestAMessageIsNotTakenWhileTheChannelDoesNotServe(t *testing.T) { // CH-71
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.end()
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("got %+v", a)
		}
		r.serve()
		if a := r.post("msg-1", hello("x")); a.status != http.StatusAccepted || a.Duplicate {
			t.Errorf("got %+v", a)
		}
	})
}

func TestAMessageThatAnEarlierProcessHadIsKnown(t *testing.T) { // CH-182
	for _, ack := range []string{AckImmediate, AckResult} {
		t.Run(ack, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				results := openResults(t)
				journal := channel.NewJournal(nil)
				settings := func(s *Settings, k *channel.Kernel) { s.Ack, s.Results, k.Journal = ack, results, journal }
				r := newRig(t, settings)
				first := r.post("msg-1", hello("x"))
				synctest.Wait()
				r.end()
				r = newRig(t, settings)
				again := r.post("msg-1", hello("x"))
				if !again.Duplicate || again.status != first.status || len(r.told()) > 0 {
					t.Errorf("got %+v, expected %+v", again, first)
				}
				if ack == AckResult {
					again.Duplicate = false
					if diff := cmp.Diff(first.answer, again.answer); diff != "" {
						t.Error(diff)
					}
				}
			})
		})
	}
}

func TestMediaReachTheAgentAsFiles(t *testing.T) { // CH-181
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "media")
		root, err := channel.OpenMediaRoot(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		r := newRig(t, func(s *Settings, k *channel.Kernel) { s.Media, k.Media = dir, root })
		png := "\x89PNG\r\n\x1a\n1234"
		data := base64.StdEncoding.EncodeToString([]byte(png))
		r.post("msg-1", `{"sender":{"id":"a"},"conversation":{"id":"c","kind":"direct"},"media":[{"type":"image/png","data":"`+data+`"},{"type":"image/png","data":"aGk="}]}`)
		synctest.Wait()
		told := r.told()
		if len(told) != 1 || len(told[0].Media) != 2 {
			t.Fatalf("got %+v", told)
		}
		first, second := told[0].Media[0], told[0].Media[1]
		text, err := os.ReadFile(first.Path)
		if err != nil || string(text) != png || first.Kind != channel.MediaImage || !strings.HasSuffix(first.Path, ".png") {
			t.Errorf("got %+v, %v", first, err)
		}
		if second.Path != "" {
			t.Errorf("what is no picture was passed on as one: %+v", second)
		}
	})
}

func TestADeniedSendersMediaAreNotKept(t *testing.T) { // CH-109, CH-193
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "media")
		r := newRig(t, func(s *Settings, k *channel.Kernel) { s.Media, k.Settings = dir, nobody{} })
		r.post("msg-1", `{"sender":{"id":"a"},"conversation":{"id":"c","kind":"direct"},"media":[{"type":"image/png","data":"aGk="}]}`)
		synctest.Wait()
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("there is a folder of media: %v", err)
		}
	})
}

func TestWhoIsNotPairedIsToldACodeOnce(t *testing.T) { // CH-101
	bubble(t, func(t *testing.T) {
		pairs := channel.NewPairs(nil)
		r := newRig(t, func(_ *Settings, k *channel.Kernel) {
			tree, err := channel.NewTree(channel.Configuration{Channels: map[string]channel.ChannelPlace{
				"webhook": {AccountPlace: channel.AccountPlace{Place: channel.Place{DMPolicy: channel.PolicyPairing, Agent: "assistant"}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			k.Settings, k.Pairing = tree, pairs
		})
		r.post("msg-1", hello("x"))
		r.post("msg-2", hello("y"))
		synctest.Wait()
		list, err := pairs.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Sender != "ann" {
			t.Fatalf("got %+v, %v", list, err)
		}
		if got := texts(r.back); len(got) != 1 || !strings.Contains(got[0], list[0].Code) {
			t.Errorf("got %q", got)
		}
		if body := r.back.Taken()[0].Body; !strings.Contains(string(body), `"message":"msg-1"`) {
			t.Errorf("got %s", body)
		}
		if _, err := pairs.Approve(t.Context(), "webhook", list[0].Code); err != nil {
			t.Fatal(err)
		}
		// DC-13: who was paired is told so, and the first message is answered.
		time.Sleep(time.Minute)
		if got := texts(r.back); len(got) != 3 || !strings.HasPrefix(got[1], "You are paired") || got[2] != "echo x" {
			t.Errorf("got %q", got)
		}
		r.post("msg-3", hello("z"))
		synctest.Wait()
		if got := texts(r.back); len(got) != 4 || got[3] != "echo z" {
			t.Errorf("got %q", got)
		}
	})
}

func TestNothingOfAMessageIsInALogOrAnErrorOfItsAnswer(t *testing.T) { // CH-193
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		const canary = "canary-7391"
		a := r.post("msg-1", `{"sender":{"id":"`+canary+`"},"conversation":{"id":"c","kind":"`+canary+`"},"text":"`+canary+`"}`)
		if strings.Contains(a.problem.Detail, canary) {
			t.Errorf("the answer repeats what was sent: %q", a.problem.Detail)
		}
		r.back.Then(fakecallback.Step{Status: 400, Body: canary})
		r.post("msg-2", hello("x"))
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, trace := range r.traces {
			if trace.Err != nil && strings.Contains(trace.Err.Error(), canary) {
				t.Errorf("an error repeats what the callback said: %v", trace.Err)
			}
		}
	})
}

func TestAReplyThatARestartHasDelayedIsThereForWhoAsksAgain(t *testing.T) { // CH-74, CH-182, CH-192
	bubble(t, func(t *testing.T) {
		journal := channel.NewJournal(nil)
		settings := func(s *Settings, k *channel.Kernel) { s.Ack, s.Callback, k.Journal = AckResult, "", journal }
		// Accepted by a process that ended before it ran anything.
		body := hello("x")
		key := channel.EventKey{Channel: "webhook", Conversation: "c1", ID: "msg-1"}
		if _, err := journal.Accept(t.Context(), key, []byte(body)); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, settings)
		synctest.Wait()
		a := r.post("msg-1", body)
		if a.status != http.StatusOK || !a.Duplicate || a.Turn == "" || len(a.Replies) != 1 || a.Replies[0].Text != "echo x" || len(r.told()) != 1 {
			t.Errorf("got %+v", a)
		}
	})
}

// A turn that failed before anything was seen is run again, so its failure is nobody's answer.
func TestAResultIsThatOfTheTurnThatEndsTheMessage(t *testing.T) { // CH-73, CH-182
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *Settings, k *channel.Kernel) {
			s.Ack, s.Callback, k.Journal = AckResult, "", channel.NewJournal(nil)
		})
		var runs atomic.Int32
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			if runs.Add(1) < 3 {
				return channel.DispatchResult{}, errors.New("the model is away")
			}
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "here it is"})
		}
		began := time.Now()
		a := r.post("msg-1", hello("x"))
		if a.status != http.StatusOK || a.Outcome != "visible" || len(a.Replies) != 1 || a.Replies[0].Text != "here it is" || time.Since(began) < 6*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), a)
		}
		if again := r.post("msg-1", hello("x")); again.Outcome != "visible" || again.Turn != a.Turn || len(again.Replies) != 1 || runs.Load() != 3 {
			t.Errorf("%d runs, %+v", runs.Load(), again)
		}
		// One that fails to the end says so, with the sentence for people.
		runs.Store(-100)
		a = r.post("msg-2", hello("x"))
		if a.status != http.StatusOK || a.Outcome == "visible" || runs.Load() != -96 {
			t.Errorf("%d runs, %+v", runs.Load(), a)
		}
	})
}

func TestRepliesOfASessionThatIsErasedAreForgotten(t *testing.T) { // CH-76
	bubble(t, func(t *testing.T) {
		results := openResults(t)
		r := newRig(t, func(s *Settings, _ *channel.Kernel) { s.Ack, s.Results = AckResult, results })
		r.post("msg-1", hello("x"))
		r.post("msg-2", strings.Replace(hello("y"), "c1", "c2", 1))
		if err := r.c.EraseSession("webhook:c1"); err != nil {
			t.Fatal(err)
		}
		if a := r.post("msg-1", hello("x")); !a.Duplicate || len(a.Replies) > 0 || len(r.told()) != 2 {
			t.Errorf("got %+v", a)
		}
		if a := r.post("msg-2", strings.Replace(hello("y"), "c1", "c2", 1)); !a.Duplicate || len(a.Replies) != 1 {
			t.Errorf("got %+v", a)
		}
		for id, there := range map[string]bool{"msg-1": false, "msg-2": true} {
			if got, err := results.Load(t.Context(), "webhook/"+id); err != nil || (got != nil) != there {
				t.Errorf("%s is kept: %v, %v, expected %v", id, got != nil, err, there)
			}
		}
	})
}

func TestWhatIsKeptForThoseWhoAskAgainIsBounded(t *testing.T) { // CH-182
	k := newRecords(nil, true, true)
	for i := range 2 * maxRecords {
		k.begin(fmt.Sprint("a-", i))
	}
	if n := k.by.Len(); n != maxRecords {
		t.Errorf("there are %d records", n)
	}
	text := strings.Repeat("x", 1<<20)
	var last *record
	for i := range 100 {
		r, isNew := k.begin(fmt.Sprint("b-", i))
		if !isNew || !r.hold(reply{Text: text}) {
			t.Fatal("the reply is not kept")
		}
		last = r
	}
	k.begin("c")
	var kept int64
	for _, r := range k.by.Values() {
		kept += size(r.replies)
	}
	if kept > maxKept || kept != k.bytes.Load() || kept < maxKept/2 {
		t.Errorf("%d bytes are kept, %d are counted", kept, k.bytes.Load())
	}
	if r, isNew := k.begin(last.id); isNew || r != last {
		t.Error("the newest is forgotten")
	}
}
