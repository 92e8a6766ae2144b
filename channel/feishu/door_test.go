package feishu

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// do has the door answer a request.
func do(c *Channel, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Webhook().ServeHTTP(w, r)
	return w
}

func TestTheQuestionForTheAddressIsAnswered(t *testing.T) {
	for name, plain := range map[string]bool{"encrypted": false, "with a token": true} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, nil, &fakefeishu.Options{Plain: plain})
			// It comes when somebody types the address: before anything runs.
			w := do(r.channel, r.fake.Request(t.Context(), r.fake.Challenge("who-are-you")))
			var got map[string]string
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || len(got) != 1 || got["challenge"] != "who-are-you" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// DA-02
func TestRequestThatCannotBeValidIsRefusedUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		signed := func(at time.Time) http.Header {
			q := httptest.NewRequest(http.MethodPost, "/", nil)
			fakefeishu.Sign(q, "kudryavka-fake-key", nil, at)
			return q.Header
		}
		const large = 1 << 20
		channeltest.RefusesUnread(t, r.channel.Webhook(), http.Header{}, large, http.StatusRequestEntityTooLarge) // only a challenge, which is small, is not signed
		channeltest.RefusesUnread(t, r.channel.Webhook(), signed(time.Now().Add(-time.Hour)), large, http.StatusUnauthorized)
		channeltest.RefusesUnread(t, r.channel.Webhook(), signed(time.Now()), large+1, http.StatusRequestEntityTooLarge)
	})
}

// SE-19: whatever is wrong, the answer is one and the same, and says nothing.
func TestTheDoorTakesNothingThatIsNotThePlatforms(t *testing.T) {
	event := func(r *rig) map[string]any {
		e, _ := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		return e
	}
	post := func(body string) *http.Request {
		return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	}
	plain := func(e map[string]any) string {
		data, _ := json.Marshal(e)
		return string(data)
	}
	sealed := func(key, text string) string {
		data, _ := json.Marshal(map[string]string{"encrypt": fakefeishu.Encrypt(key, []byte(text))})
		return string(data)
	}
	signed := func(key, body string, at time.Time) *http.Request {
		q := post(body)
		fakefeishu.Sign(q, key, []byte(body), at)
		return q
	}
	for name, tt := range map[string]struct {
		plain   bool
		request func(r *rig) *http.Request
		status  int
	}{
		"encrypted and signed": {false, func(r *rig) *http.Request { return r.fake.Request(t.Context(), event(r)) }, 200},
		"not signed": {false, func(r *rig) *http.Request {
			return post(sealed("kudryavka-fake-key", plain(event(r))))
		}, 401},
		"signed, and not encrypted": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", plain(event(r)), time.Now())
		}, 401},
		"signed with another key": {false, func(r *rig) *http.Request {
			return signed("other", sealed("kudryavka-fake-key", plain(event(r))), time.Now())
		}, 401},
		"signed long ago": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", sealed("kudryavka-fake-key", plain(event(r))), time.Now().Add(-6*time.Minute))
		}, 401},
		"encrypted with another key": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", sealed("other", plain(event(r))), time.Now())
		}, 401},
		"a ciphertext of nothing": {false, func(*rig) *http.Request {
			return signed("kudryavka-fake-key", `{"encrypt":""}`, time.Now())
		}, 401},
		"a ciphertext that was cut": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", strings.Replace(sealed("kudryavka-fake-key", plain(event(r))), `="`, `"`, 1), time.Now())
		}, 401},
		"a ciphertext of another text": {false, func(*rig) *http.Request {
			return signed("kudryavka-fake-key", sealed("kudryavka-fake-key", "hello"), time.Now())
		}, 401},
		"the right key, and another token": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", sealed("kudryavka-fake-key", strings.Replace(plain(event(r)), "verify-me-fake-token", "verify-you", 1)), time.Now())
		}, 401},
		"a question that is not encrypted": {false, func(r *rig) *http.Request { return post(plain(r.fake.Challenge("c"))) }, 401},
		"an event that calls itself a question": {false, func(r *rig) *http.Request {
			e := event(r)
			e["type"], e["challenge"] = "url_verification", "c"
			return post(sealed("kudryavka-fake-key", plain(e)))
		}, 401},
		"of another app": {false, func(r *rig) *http.Request {
			return signed("kudryavka-fake-key", sealed("kudryavka-fake-key", strings.Replace(plain(event(r)), "cli_fake", "cli_other", 1)), time.Now())
		}, 401},

		"with the token": {true, func(r *rig) *http.Request { return post(plain(event(r))) }, 200},
		"with another token": {true, func(r *rig) *http.Request {
			return post(strings.Replace(plain(event(r)), "verify-me-fake-token", "x", 1))
		}, 401},
		"without a token":       {true, func(r *rig) *http.Request { return post(strings.Replace(plain(event(r)), `"token"`, `"tokem"`, 1)) }, 401},
		"encrypted, for no key": {true, func(r *rig) *http.Request { return post(sealed("kudryavka-fake-key", plain(event(r)))) }, 401},
		"a question with another token": {true, func(r *rig) *http.Request {
			return post(strings.Replace(plain(r.fake.Challenge("c")), "verify-me-fake-token", "x", 1))
		}, 401},
		"with the token, of an old time": {true, func(r *rig) *http.Request {
			q := post(plain(event(r)))
			q.Header.Set(headerTimestamp, "1000000000")
			return q
		}, 401},
		"no JSON":              {true, func(*rig) *http.Request { return post("{") }, 401},
		"a list":               {true, func(*rig) *http.Request { return post("[]") }, 401},
		"more than a megabyte": {true, func(*rig) *http.Request { return post(strings.Repeat("x", 1<<20+1)) }, 413},
		"no event": {true, func(*rig) *http.Request {
			return post(`{"schema":"2.0","header":{"token":"verify-me-fake-token"},"event":{}}`)
		}, 400},
		"of the first version": {true, func(*rig) *http.Request {
			return post(`{"uuid":"u","token":"verify-me-fake-token","type":"event_callback","event":{"type":"message","text":"hi"}}`)
		}, 200},
		"another method": {true, func(*rig) *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }, 405},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, &fakefeishu.Options{Plain: tt.plain})
				r.serve(t)
				w := do(r.channel, tt.request(r))
				if w.Code != tt.status {
					t.Errorf("status %d, expected %d", w.Code, tt.status)
				}
				if w.Code != http.StatusOK && w.Body.Len() != 0 {
					t.Errorf("it says %q", w.Body)
				}
				wait(time.Second)
				want := 0
				if tt.status == http.StatusOK && name != "of the first version" {
					want = 1
				}
				if n := len(r.told()); n != want {
					t.Errorf("%d turns, expected %d", n, want)
				}
			})
		})
	}
}

func FuzzDoor(f *testing.F) {
	fake := fakefeishu.New(nil)
	defer fake.Close()
	c, err := New(settings(fake))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"encrypt":"`+shortSealed+`"}`), "", "", "")
	f.Add([]byte(`{"challenge":"c","token":"verify-me-fake-token","type":"url_verification"}`), "", "", "")
	f.Add([]byte(`{"schema":"2.0","header":{"event_id":"e","event_type":"im.message.receive_v1"},"event":{}}`), "abc", "1700000000", "n")
	f.Fuzz(func(t *testing.T, body []byte, signature, timestamp, nonce string) {
		h := http.Header{}
		h.Set(headerSignature, signature)
		h.Set(headerTimestamp, timestamp)
		h.Set(headerNonce, nonce)
		if all, ok := c.open(h, body, time.Unix(1_700_000_000, 0)); ok {
			t.Fatalf("a body that nobody has encrypted passes: %+v", all)
		}
	})
}

// brokenJournal fails while it is told to.
type brokenJournal struct {
	channel.Journal
	broken atomic.Bool
}

func (j *brokenJournal) Accept(ctx context.Context, k channel.EventKey, raw []byte) (bool, error) {
	if j.broken.Load() {
		return false, errors.New("the disk is full")
	}
	return j.Journal.Accept(ctx, k, raw)
}

// CH-71: the platform is answered when the event is stored, and before it runs; and it delivers until it is.
func TestAnEventIsAnsweredWhenItIsStoredAndDeliveredUntilThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		j := &brokenJournal{Journal: channel.NewJournal(nil)}
		j.broken.Store(true)
		r.kernel.Journal = j
		release := make(chan struct{})
		r.answer = func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			<-release
			return channel.DispatchResult{NoReply: true}, nil
		}
		e, _ := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.fake.Deliver(e) // nobody serves
		synctest.Wait()
		r.serve(t)
		wait(15 * time.Second) // the journal is broken
		j.broken.Store(false)
		wait(5 * time.Minute)
		var statuses []int
		for _, p := range r.fake.Posts() {
			statuses = append(statuses, p.Status)
		}
		if len(statuses) != 3 || statuses[0] != 503 || statuses[1] != 503 || statuses[2] != 200 {
			t.Errorf("answered with %v", statuses)
		}
		for range 3 { // the turn has not ended, and there is only one
			r.post(t, e)
		}
		if n := len(r.told()); n != 1 {
			t.Errorf("%d turns", n)
		}
		close(release)
	})
}

// CH-72: an event has an id, and a message has one; either is run once.
func TestAMessageRunsOnceHoweverItComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		e, id := r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.post(t, e)
		again, _ := r.fake.Say(fakefeishu.Said{ID: id, Chat: private, From: ann, Text: "hi"}) // of another event
		r.post(t, again)
		wait(time.Minute)
		if n := len(r.told()); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestTheJournalDoesNotKeepTheVerificationToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		j := &recording{Journal: channel.NewJournal(nil)}
		r.kernel.Journal = j
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		if !strings.Contains(j.raw, "im.message.receive_v1") || strings.Contains(j.raw, "verify-me-fake-token") {
			t.Errorf("it keeps %s", j.raw)
		}
	})
}

type recording struct {
	channel.Journal
	raw string
}

func (j *recording) Accept(ctx context.Context, k channel.EventKey, raw []byte) (bool, error) {
	j.raw += string(raw)
	return j.Journal.Accept(ctx, k, raw)
}

// CH-192, CH-74: the process is gone at some point, and another one begins with what is on disk.
func TestACrashLosesNoMessageAndRepeatsNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(r *rig)
		shown  []string // at the end
	}{
		"after accept": {
			before: func(r *rig) {
				r.answer = func(ctx context.Context, _ *channel.Turn) (channel.DispatchResult, error) {
					<-ctx.Done()
					return channel.DispatchResult{}, context.Cause(ctx)
				}
			},
			shown: []string{"ok"},
		},
		"while a card grows": {
			before: func(r *rig) {
				r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					turn.Sink.Preview(channel.Payload{Text: "half"})
					<-ctx.Done()
					return channel.DispatchResult{}, context.Cause(ctx)
				}
			},
			shown: []string{"half", "The server restarted during the answer. The answer may be incomplete."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				dir, after := t.TempDir(), t.TempDir()
				j := channeltest.Open(t, dir)
				defer j.Close()
				r.kernel.Journal = &snapshots{Journal: j, Ledger: j, dir: dir, to: after}
				tt.before(r)
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(5 * time.Second)
				r.kernel.Journal.(*snapshots).take(t)
				// What the first process does from here on, it does after its end.
				fake := r.fake.Texts(private)
				next := setup(t, nil, nil)
				left := channeltest.Open(t, after)
				defer left.Close()
				next.kernel.Journal = left
				next.serve(t)
				wait(time.Minute)
				if got := append(fake, next.fake.Texts(private)...); strings.Join(got, "|") != strings.Join(tt.shown, "|") {
					t.Errorf("%q is shown, expected %q", got, tt.shown)
				}
				_ = next.end()
			})
		})
	}
}
