package telegram

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// CH-170
func TestPollingAsksForFiftySecondsAndForWhatItUnderstands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		time.Sleep(2 * time.Minute)
		calls := r.fake.Calls()
		var names []string
		for _, c := range calls {
			names = append(names, c.Method)
		}
		if d := cmp.Diff([]string{"getMe", "deleteWebhook", "getUpdates", "getUpdates"}, names); d != "" {
			t.Fatal(d)
		}
		if calls[1].Params["drop_pending_updates"] == "true" {
			t.Error("pending updates are dropped")
		}
		for _, c := range calls[2:] {
			if c.Params["timeout"] != "50" || c.Params["allowed_updates"] != `["message","edited_message","channel_post","edited_channel_post","callback_query","my_chat_member"]` {
				t.Errorf("%v", c.Params)
			}
		}
	})
}

// CH-170
func TestAWebhookThatIsSetIsRemovedAndItsUpdatesCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, &faketelegram.Options{Deliver: &http.Client{Transport: nowhere{}}})
		set := &api{http: &http.Client{Transport: r.fake.Transport()}, base: "http://api.test", token: r.fake.Token()}
		if err := set.call(t.Context(), callTimeout, "setWebhook", map[string]string{"url": "https://other.example/"}, nil); err != nil {
			t.Fatal(err)
		}
		r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "say pending"})
		r.serve(t)
		if got := r.ours(private.ID); len(got) != 1 || got[0] != "pending" {
			t.Errorf("%q", got)
		}
		if r.fake.Webhook().URL != "" {
			t.Error("the webhook is still set")
		}
	})
}

// nowhere is a network that reaches nobody.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("nowhere") }

// brokenJournal takes nothing until it is mended.
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

// CH-170, CH-71
func TestTheOffsetMovesOnlyAfterAccept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		j := &brokenJournal{Journal: channel.NewJournal(nil)}
		j.broken.Store(true)
		r.kernel.Journal = j
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if len(r.fake.Pending()) != 1 || len(r.told()) != 0 {
			t.Fatal("what was not accepted is confirmed, or was run")
		}
		j.broken.Store(false)
		time.Sleep(time.Minute)
		if len(r.fake.Pending()) != 0 || len(r.told()) != 1 {
			t.Errorf("%d pending, %d turns; expected none and one", len(r.fake.Pending()), len(r.told()))
		}
	})
}

// CH-170
func TestASecondReaderIsWaitedForAndNamedInTheLogOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.fake.Fail(faketelegram.Fault{Method: "getUpdates", Code: http.StatusConflict, Times: 5})
		r.serve(t)
		time.Sleep(2 * time.Minute)
		if n := strings.Count(r.log.String(), "another program reads this bot's updates"); n != 1 {
			t.Errorf("the log says so %d times, expected once", n)
		}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		if len(r.ours(private.ID)) != 1 {
			t.Error("it has not gone on")
		}
		calls := r.fake.Calls("getUpdates")
		if gap := calls[1].At.Sub(calls[0].At); gap < 2*time.Second {
			t.Errorf("it asks again after %v", gap)
		}
	})
}

func TestFailuresOfPollingAreOutlived(t *testing.T) {
	for name, f := range map[string]faketelegram.Fault{
		"a gateway's page":                  {Code: http.StatusBadGateway, Body: "<html>bad gateway</html>"},
		"a refused connection":              {Cut: faketelegram.Refused},
		"a connection that is cut":          {Cut: faketelegram.CutBefore},
		"updates that were lost on the way": {Cut: faketelegram.CutAfter},
		"too many requests":                 {Code: http.StatusTooManyRequests, RetryAfter: 7},
		"a body that is no JSON":            {Body: "{"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				f := f
				f.Method, f.Times = "getUpdates", 3
				r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
				r.fake.Fail(f)
				r.serve(t)
				time.Sleep(2 * time.Minute)
				if got := r.ours(private.ID); len(got) != 1 {
					t.Errorf("%q", got)
				}
				if strings.Contains(r.log.String(), r.fake.Token()) {
					t.Error("the token is in the log")
				}
			})
		})
	}
}

// The platform says that ids go on at random when there was nothing for a week.
func TestIdsMayBeginAnewAfterAQuietWeek(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(8 * 24 * time.Hour)
		r.fake.Again(faketelegram.Update{ID: 3, Kind: "message", Data: faketelegram.Message{ID: 99, Chat: private, From: ann, Date: 1, Text: "still there?"}})
		time.Sleep(time.Minute)
		if len(r.told()) != 2 || len(r.fake.Pending()) != 0 {
			t.Errorf("%d turns, %d pending", len(r.told()), len(r.fake.Pending()))
		}
	})
}

// CH-179
func TestAnInvalidTokenStopsTheChannelAndIsSaid(t *testing.T) {
	for name, method := range map[string]string{"at the start": "getMe", "later": "getUpdates", "when it answers": "sendMessage"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.fake.Fail(faketelegram.Fault{Method: method, Code: http.StatusUnauthorized, Times: -1})
				r.fake.Say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
				r.serve(t)
				time.Sleep(time.Minute)
				select {
				case err := <-r.done:
					r.done = nil
					if err == nil || !strings.Contains(err.Error(), "token is not valid") || strings.Contains(err.Error(), "42:fake") {
						t.Error(err)
					}
				default:
					t.Error("it serves still")
				}
				if r.channel.Ready() == nil {
					t.Error("it says that it is ready")
				}
			})
		})
	}
}
