package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

func TestAMessageIsAcceptedAndItsReplyGoesToTheCallback(t *testing.T) { // CH-182, CH-183
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		a := r.post("msg-1", `{"sender":{"id":"ann","name":"Ann"},"conversation":{"id":"c1","kind":"group","thread":"t1"},"text":"hi","mentioned":true}`)
		if a.status != http.StatusAccepted || a.answer.Status != "accepted" || !strings.HasPrefix(a.answer.Turn, "t-") || a.answer.Duplicate {
			t.Fatalf("got %+v", a)
		}
		synctest.Wait()
		taken := r.back.Taken()
		if len(taken) != 1 || taken[0].ID != a.answer.Turn+":1" {
			t.Fatalf("got %+v", taken)
		}
		var body map[string]any
		if err := json.Unmarshal(taken[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		delete(body, "seq")
		want := map[string]any{
			"turn": a.answer.Turn, "message": "msg-1", "conversation": map[string]any{"id": "c1", "kind": "group", "thread": "t1"}, "kind": "final", "text": "echo hi", "final": true,
		}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Error(diff)
		}
		c := r.Told()[0]
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
		if len(r.Told()) > 0 {
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
			r.secrets.Sign(h, "msg-1", at, nil)
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

// CH-82: a sender who writes too fast gets a 429, and the same message is accepted when its time has come.
func TestAMessageAboveTheRateCanBeSentAgain(t *testing.T) {
	for _, ack := range []string{webhook.AckImmediate, webhook.AckResult} {
		t.Run(ack, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) {
					s.Ack = ack
					tree := channeltest.Tree(t, "webhook", channel.Place{DMPolicy: channel.PolicyOpen, SenderRate: new(2), SenderBurst: new(1)})
					k.Settings = tree
				})
				if a := r.post("m1", hello("one")); a.status/100 != 2 {
					t.Fatalf("got %+v", a)
				}
				a := r.post("m2", hello("two"))
				if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "30" || a.problem.Code != "rate_limited" {
					t.Fatalf("got %+v", a)
				}
				if a := r.post("m1", hello("one")); a.status/100 != 2 || !a.answer.Duplicate { // a known message is not counted
					t.Errorf("got %+v", a)
				}
				time.Sleep(30 * time.Second)
				if a = r.post("m2", hello("two")); a.status/100 != 2 || a.answer.Duplicate {
					t.Fatalf("got %+v", a)
				}
				synctest.Wait()
				r.end()
				if n := len(r.Told()); n != 2 {
					t.Errorf("the agent has heard %d messages", n)
				}
			})
		})
	}
}

func TestABodyIsExactlyAsDescribed(t *testing.T) { // CH-181
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(s *webhook.Settings, _ *kernel.Kernel) { s.MaxBody = 4096 })
		const sender, conversation = `"sender":{"id":"a"}`, `"conversation":{"id":"c","kind":"direct"}`
		for i, test := range []struct {
			name, body string
			status     int
			detail     string
		}{
			{"the least", "{" + sender + "," + conversation + `,"text":"x"}`, 202, ""},
			{"no JSON", "hello", 400, "the body: invalid JSON"},
			{"a list", "[]", 400, "the body: expected an object, got an array"},
			{"more behind it", "{" + sender + "," + conversation + `,"text":"x"} {}`, 400, "the body: expected a JSON object"},
			{"an unknown member", "{" + sender + "," + conversation + `,"text":"x","url":"http://x"}`, 400, "/url: unknown property"},
			{"a member that differs in case", "{" + sender + "," + conversation + `,"Text":"x"}`, 400, "/Text: unknown property"},
			{"a role", `{"sender":{"id":"a","role":"admin"},` + conversation + `,"text":"x"}`, 400, "/sender/role: unknown property"},
			{"no sender", "{" + conversation + `,"text":"x"}`, 400, "/sender: this property is required"},
			{"no id", `{"sender":{"name":"A"},` + conversation + `,"text":"x"}`, 400, "/sender/id: this property is required"},
			{"an empty name", `{"sender":{"id":"a","name":""},` + conversation + `,"text":"x"}`, 400, "/sender/name: expected text, got an empty string"},
			{"a blank id", `{"sender":{"id":" "},` + conversation + `,"text":"x"}`, 400, "/sender/id: expected 1 to 256 bytes, not only spaces"},
			{"an id of too many bytes", `{"sender":{"id":"` + strings.Repeat("ä", 129) + `"},` + conversation + `,"text":"x"}`, 400, "/sender/id: expected 1 to 256 bytes, not only spaces"},
			{"an id that is a number", `{"sender":{"id":5},` + conversation + `,"text":"x"}`, 400, "/sender/id: expected a string, got a number"},
			{"another kind", "{" + sender + `,"conversation":{"id":"c","kind":"room"},"text":"x"}`, 400, "/conversation/kind: expected one of \"direct\", \"group\", \"channel\""},
			{"mentioned is text", "{" + sender + "," + conversation + `,"text":"x","mentioned":"yes"}`, 400, "/mentioned: expected a boolean, got a string"},
			{"neither text nor media", "{" + sender + "," + conversation + `,"text":" "}`, 400, "expected text, media, or both"},
			{"media by address", "{" + sender + "," + conversation + `,"media":[{"type":"image/png","data":"AA==","url":"http://x"}]}`, 400, "/media/0/url: unknown property"},
			{"media without data", "{" + sender + "," + conversation + `,"media":[{"type":"image/png"}]}`, 400, "/media/0/data: this property is required"},
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

// nobody may talk.
type nobody struct{}

func (nobody) Policy(channel.PolicyQuery) channel.Policy {
	return channel.Policy{RouteAllowed: true, Agent: "assistant"}
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
		if a := r.post("msg-1", hello("x")); a.status != http.StatusAccepted || a.answer.Duplicate {
			t.Errorf("got %+v", a)
		}
	})
}

func TestMediaReachTheAgentAsFiles(t *testing.T) { // CH-181
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "media")
		root, err := channel.OpenMediaRoot(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) { s.Media, k.Media = dir, root })
		png := "\x89PNG\r\n\x1a\n1234"
		data := base64.StdEncoding.EncodeToString([]byte(png))
		r.post("msg-1", `{"sender":{"id":"a"},"conversation":{"id":"c","kind":"direct"},"media":[{"type":"image/png","data":"`+data+`"},{"type":"image/png","data":"aGk="}]}`)
		synctest.Wait()
		told := r.Told()
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
		r := newRig(t, func(s *webhook.Settings, k *kernel.Kernel) { s.Media, k.Settings = dir, nobody{} })
		r.post("msg-1", `{"sender":{"id":"a"},"conversation":{"id":"c","kind":"direct"},"media":[{"type":"image/png","data":"aGk="}]}`)
		synctest.Wait()
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("there is a folder of media: %v", err)
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
		for _, trace := range r.Traces() {
			if trace.Err != nil && strings.Contains(trace.Err.Error(), canary) {
				t.Errorf("an error repeats what the callback said: %v", trace.Err)
			}
		}
	})
}
