package telegram

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// DC-08: an answer that the platform says it has not taken is sent again; of one that nobody knows about, the person is told once, with the
// next answer.
func TestOneFailureOfThePlatformLosesNoAnswer(t *testing.T) {
	const told = "You may have missed an earlier answer, because the platform did not confirm it. If it is missing, please ask again."
	for name, tt := range map[string]struct {
		fault faketelegram.Fault
		want  []string
	}{
		"not taken":       {faketelegram.Fault{Code: http.StatusServiceUnavailable}, []string{"one", "two", "three"}},
		"too many calls":  {faketelegram.Fault{Code: http.StatusTooManyRequests}, []string{"one", "two", "three"}},
		"nobody knows":    {faketelegram.Fault{Code: http.StatusInternalServerError}, []string{told, "two", "three"}},
		"it was accepted": {faketelegram.Fault{Cut: faketelegram.CutAfter}, []string{"one", told, "two", "three"}},
	} {
		for _, durable := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", by the outbox"}[durable], func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
					if durable {
						var err error
						if r.kernel.Outbox, err = channel.OpenOutbox(nil); err != nil {
							t.Fatal(err)
						}
						r.kernel.Init()
						r.kernel.Outbox.Start()
						defer func() { _ = r.kernel.Outbox.Close(context.Background()) }()
					}
					r.serve(t)
					tt.fault.Method = "sendMessage"
					r.fake.Fail(tt.fault)
					for _, text := range []string{"one", "two", "three"} {
						r.say(faketelegram.Message{Chat: private, From: ann, Text: "say " + text})
						time.Sleep(5 * time.Minute)
					}
					if d := cmp.Diff(tt.want, r.ours(private.ID)); d != "" {
						t.Errorf("%s\n%s", d, strings.Join(r.outcomes(), "\n"))
					}
				})
			})
		}
	}
}
