//go:build nightly && unix

package faults

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// FT-33: a server that answers a chat is killed at some moment between an update and the end of its answer; the platform sends the
// update again, to the next process, twice, after it was down and has asked for patience. The person gets one answer, or is told
// that it was cut off, and what is written afterwards is answered.
func TestAnUpdateThatIsSentAgainAfterAKillIsAnsweredOnce(t *testing.T) {
	ann := &faketelegram.User{ID: 7, FirstName: "Ann"}
	chat := faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	for _, row := range []struct {
		name  string
		fault []faketelegram.Fault                     // of the platform while the first process lives
		until func(*faketelegram.Server, *server) bool // it is killed
	}{
		{
			name:  "while the model is asked",
			until: func(_ *faketelegram.Server, s *server) bool { return s.model.Open() == 1 },
		},
		{
			name:  "while the answer is on its way",
			fault: []faketelegram.Fault{{Method: "sendMessage", Delay: time.Hour}},
			until: func(_ *faketelegram.Server, s *server) bool { return s.model.Requests() == 1 && s.model.Open() == 0 },
		},
		{
			name:  "when the answer was shown",
			until: func(f *faketelegram.Server, _ *server) bool { return len(f.Messages(chat.ID, f.Me().ID)) == 1 },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			fake := faketelegram.New(nil)
			t.Cleanup(func() { fake.Close() })
			api := httptest.NewServer(fake)
			t.Cleanup(api.Close)
			fake.AddChat(chat)
			var hanging atomic.Bool
			hanging.Store(strings.Contains(row.name, "model"))
			o := serving{
				data:   t.TempDir(),
				config: fmt.Sprintf("channels: {bot: {type: telegram, token: %q, api: %q, mode: poll, preview: \"off\", dm: {policy: open}}}\n", fake.Token(), api.URL),
				script: func(r fakeproviders.Request) fakeproviders.Answer {
					if hanging.Load() {
						return raw(hang)
					}
					return fakeproviders.Answer{Text: "It is about " + lastWord(asked(r))}
				},
			}
			fake.Say(faketelegram.Message{Chat: chat, From: ann, Text: "Tell me of blue"})
			updates := fake.Pending()
			if len(updates) != 1 {
				t.Fatalf("%d updates", len(updates))
			}
			fake.Fail(row.fault...)
			s := serve(t, o)
			eventually(t, "it is the moment", func() bool { return row.until(fake, s) })
			s.kill()
			fake.Mend()
			hanging.Store(false)
			fake.Fail(faketelegram.Fault{Method: "getUpdates", Code: 502, Times: 1}, faketelegram.Fault{Method: "sendMessage", Code: 429, RetryAfter: 1, Times: 1})
			fake.Again(updates[0])
			fake.Again(updates[0])
			s = serve(t, o)
			shown := func() (texts []string) {
				for _, m := range fake.Messages(chat.ID, fake.Me().ID) {
					texts = append(texts, m.Text)
				}
				return texts
			}
			eventually(t, "something is shown", func() bool { return len(shown()) >= 1 })
			fake.Say(faketelegram.Message{Chat: chat, From: ann, Text: "Tell me of green"})
			eventually(t, "the next message is answered", func() bool { return strings.HasSuffix(strings.Join(shown(), "|"), "green") })
			got := shown()
			told := slices.IndexFunc(got, func(text string) bool { return strings.Contains(text, "restarted during the answer") })
			// Where the process did not live to note that the answer was taken, the person is told of the restart beside it.
			if strings.Count(strings.Join(got, "|"), "about blue") > 1 || len(got) != 2 && (len(got) != 3 || told < 0) {
				t.Errorf("the person sees %q", got)
			}
			s.stop()
			saw(t, "FT-33", "kill -9 "+row.name+"; after the restart the update comes twice more, behind a 502, and the first send gets a 429", "shown: %q", got)
		})
	}
}

func lastWord(text string) string {
	words := strings.Fields(text)
	return words[len(words)-1]
}
