package discord_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/discord/discordtest"
	"github.com/lingserve/lingserve/channel/platform"
)

// slowly answers with words, one each half second.
func slowly(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
	text := ""
	for _, word := range strings.Fields("one two three four five six seven eight") {
		text = strings.TrimSpace(text + " " + word)
		turn.Sink.Preview(channel.Payload{Text: text})
		time.Sleep(500 * time.Millisecond)
	}
	return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text})
}

func TestPreviewGrowsAtThePaceOfThePlatform(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.answers(slowly)
		r.say(direct, "7", "hello", nil)
		r.until("the answer", func() bool { return strings.HasSuffix(strings.Join(contents(r.fake.Sent(direct)), "|"), "eight") })
		if sent := r.fake.Sent(direct); len(sent) != 1 || sent[0].Edits < 2 || sent[0].Edits > 4 {
			t.Errorf("got %+v", sent)
		}
	})
}

func contents(list []discordtest.Message) (texts []string) {
	for _, m := range list {
		texts = append(texts, m.Content)
	}
	return texts
}

func TestWithoutPreviewsTypingIsShown(t *testing.T) {
	bubble(t, options{settings: func(s *discord.Settings) { s.Preview = platform.PreviewOff }}, func(t *testing.T, r *rig) {
		r.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(20 * time.Second)
			return slowly(ctx, turn)
		})
		r.say(direct, "7", "hello", nil)
		sent := r.sent(direct, 1)
		if typing := r.fake.Calls("POST", "/typing"); len(typing) != 3 && len(typing) != 4 || sent[0].Edits != 0 {
			t.Errorf("typing was shown %d times before %+v", len(typing), sent)
		}
	})
}

func TestFailedSends(t *testing.T) {
	const messages = "/channels/" + direct + "/messages"
	for _, row := range []struct {
		name   string
		faults []discordtest.Fault
		kind   channel.ReplyKind
		after  time.Duration // when the answer is there at the latest; 0: it is not sent
		log    string
	}{
		{"a short rate limit is waited for", []discordtest.Fault{{Status: 429, RetryAfter: 1.5}}, channel.ReplyBlock, 3 * time.Second, ""},
		{"a long rate limit waits in the outbox", []discordtest.Fault{{Status: 429, RetryAfter: 3600}}, channel.ReplyFinal, 61 * time.Minute, ""},
		{"a rate limit of a gateway", []discordtest.Fault{{Status: 429, RetryAfter: 2, Text: "error code: 1015"}}, channel.ReplyBlock, 3 * time.Second, ""},
		{"a cut connection behind a block", []discordtest.Fault{{Cut: true}}, channel.ReplyBlock, 3 * time.Second, ""},
		{"a cut connection behind the end of an answer", []discordtest.Fault{{Cut: true}}, channel.ReplyFinal, 10 * time.Second, ""},
		{"a gateway that fails", []discordtest.Fault{{Status: 502, Text: "bad gateway"}}, channel.ReplyBlock, 3 * time.Second, ""},
		{"no rights", []discordtest.Fault{{Status: 403, Code: 50013}}, channel.ReplyFinal, 0, "Send Messages in Threads"},
		{"a person who accepts nothing", []discordtest.Fault{{Status: 403, Code: 50007}}, channel.ReplyFinal, 0, "accepts no messages"},
		{"a channel that is gone", []discordtest.Fault{{Status: 404, Code: 10003}}, channel.ReplyFinal, 0, "does not exist"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, options{}, func(t *testing.T, r *rig) {
				for _, f := range row.faults {
					f.Method, f.Path = "POST", messages
					r.fake.Fail(f)
					if row.after == 0 { // for the notice, too
						r.fake.Fail(f)
					}
				}
				r.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					return channel.DispatchResult{}, turn.Sink.Emit(ctx, row.kind, channel.Payload{Text: "the canary"})
				})
				r.say(direct, "7", "hello", nil)
				time.Sleep(max(row.after, time.Minute))
				sent := r.fake.Sent(direct)
				if expected := min(int(row.after), 1); len(sent) != expected {
					t.Errorf("got %q", contents(sent))
				}
				if !strings.Contains(r.log.String(), row.log) {
					t.Errorf("the log is %s", r.log)
				}
			})
		})
	}
}

func TestAnswerWithoutTheRightToReply(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.fake.Fail(discordtest.Fault{Method: "POST", Path: general + "/messages", Status: 400, Code: 160002})
		r.say(general, "7", mention+" hello", toMe)
		if sent := r.sent(general, 1); sent[0].Reply != "" || sent[0].Content != "ok" {
			t.Errorf("got %+v", sent)
		}
	})
}

func TestDeletedPreviewBecomesANewMessage(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.fake.Fail(discordtest.Fault{Method: "PATCH", Path: direct, Skip: 2, Status: 404, Code: 10008})
		r.answers(slowly)
		r.say(direct, "7", "hello", nil)
		if sent := r.sent(direct, 2); !strings.HasSuffix(sent[1].Content, "eight") {
			t.Errorf("got %q", contents(sent))
		}
	})
}
