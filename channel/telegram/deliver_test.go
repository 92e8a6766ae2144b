package telegram

import (
	"context"
	"errors"
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
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/secret"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// emits says what a turn is to show: previews with pauses, and at the end the whole.
func emits(final string, every time.Duration, previews ...string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for _, p := range previews {
			turn.Sink.Preview(channel.Payload{Text: p})
			time.Sleep(every)
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: final})
	}
}

// CH-175
func TestTheSignOfTypingComesEveryFourSecondsUntilTheText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			time.Sleep(9 * time.Second)
			if err := turn.Sink.Emit(ctx, channel.ReplyBlock, channel.Payload{Text: "one"}); err != nil {
				return channel.DispatchResult{}, err
			}
			time.Sleep(9 * time.Second)
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "two"})
		}
		r.serve(t)
		r.say(faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot hi", ThreadID: 3, IsTopic: true})
		time.Sleep(time.Minute)
		calls := r.fake.Calls("sendChatAction")
		if len(calls) != 3 {
			t.Fatalf("%d signs in 9 s, expected 3", len(calls))
		}
		for i, c := range calls {
			if c.Params["action"] != "typing" || c.Int("message_thread_id") != 3 {
				t.Errorf("%v", c.Params)
			}
			if at := c.At.Sub(calls[0].At); at != time.Duration(i)*4*time.Second {
				t.Errorf("sign %d after %v", i, at)
			}
		}
	})
}

// CH-176
func TestAnAnswerGrowsInOneMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		chat  faketelegram.Chat
		every time.Duration
	}{
		"private": {private, time.Second},
		"a group": {group, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				var previews []string
				for i := range 60 {
					previews = append(previews, strings.Repeat("**word** ", i/2+1))
				}
				r.answer = emits("it is **done**", 200*time.Millisecond, previews...)
				r.serve(t)
				m := r.say(faketelegram.Message{Chat: tt.chat, From: ann, Text: "@ling_bot hi"})
				time.Sleep(time.Minute)
				sent, edits := r.fake.Calls("sendMessage"), r.fake.Calls("editMessageText")
				if len(sent) != 1 || len(edits) < 3 {
					t.Fatalf("%d messages, %d edits", len(sent), len(edits))
				}
				last := sent[0]
				if last.Params["parse_mode"] != "" {
					t.Error("a preview has markup")
				}
				for i, e := range edits {
					if e.Status != http.StatusOK {
						t.Errorf("edit %d: %s", i, e.Description)
					}
					if e.Params["text"] == last.Params["text"] {
						t.Error("an edit changes nothing")
					}
					final := i == len(edits)-1
					if (e.Params["parse_mode"] == "HTML") != final {
						t.Errorf("edit %d of %d has the parse mode %q", i+1, len(edits), e.Params["parse_mode"])
					}
					if gap := e.At.Sub(last.At); !final && gap < tt.every {
						t.Errorf("edit %d comes after %v, expected at least %v", i, gap, tt.every)
					}
					last = e
				}
				got := r.fake.Messages(tt.chat.ID, r.fake.Me().ID)
				if len(got) != 1 || got[0].Text != "it is done" || len(got[0].Entities) != 1 {
					t.Errorf("%+v", got)
				}
				if replied := got[0].ReplyTo != nil && got[0].ReplyTo.ID == m.ID; replied != (tt.chat.ID < 0) {
					t.Errorf("it replies: %v", replied)
				}
			})
		})
	}
}

// CH-176
func TestNotModifiedIsSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = emits("all of it", 2*time.Second, "all of it", "all of it ")
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"visible"}, r.outcomes()); d != "" {
			t.Error(d)
		}
		if got := r.ours(private.ID); len(got) != 1 || got[0] != "all of it" {
			t.Errorf("%q", got)
		}
	})
}

// CH-176
func TestDraftsAreForPrivateChatsAndTheMessageComesAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Preview = PreviewDraft }, nil)
		r.answer = emits("whole", 2*time.Second, "h", "half")
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if d := cmp.Diff([]string{"h", "half"}, r.fake.Drafts(private.ID)); d != "" {
			t.Error(d)
		}
		ids := map[string]bool{}
		for _, c := range r.fake.Calls("sendMessageDraft") {
			ids[c.Params["draft_id"]] = true
		}
		if len(ids) != 1 {
			t.Errorf("the drafts of one block have %d ids", len(ids))
		}
		if got := r.fake.Calls("editMessageText", "sendMessage"); len(got) != 1 || got[0].Method != "sendMessage" {
			t.Errorf("%v", got)
		}
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"})
		time.Sleep(10 * time.Second)
		if n := len(r.fake.Drafts(group.ID)); n != 0 || len(r.ours(group.ID)) != 1 {
			t.Errorf("a group has %d drafts and %q", n, r.ours(group.ID))
		}
	})
}

// CH-176
func TestWithoutPreviewsTheMessageComesWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
		r.answer = emits("whole", 2*time.Second, "h", "half")
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if n := len(r.fake.Calls("sendMessage")); n != 1 || len(r.fake.Calls("editMessageText")) != 0 {
			t.Error("something was shown before")
		}
	})
}

// CH-55, CH-176
func TestAPreviewWhoseBlockNeverComesSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = func(_ context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half an"})
			time.Sleep(2 * time.Second)
			if turn.Context.BodyForAgent == "quietly" {
				return channel.DispatchResult{NoReply: true}, nil
			}
			return channel.DispatchResult{}, errors.New("the model is gone")
		}
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if d := cmp.Diff([]string{"half an […]"}, r.ours(private.ID)); d != "" {
			t.Error(d)
		}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "quietly"})
		time.Sleep(10 * time.Second)
		if n := len(r.ours(private.ID)); n != 1 {
			t.Errorf("what is not to be shown is still there: %q", r.ours(private.ID))
		}
	})
}

// CH-177
func TestALongAnswerIsCutAndNothingOfItIsLost(t *testing.T) {
	var text strings.Builder
	for i := range 900 {
		fmt.Fprintf(&text, "Word number %d, *with* `code` & <tags>_. ", i)
		if i%40 == 39 {
			text.WriteString("\n\n```go\nfmt.Println(\"fence\")\n```\n\n😀😀😀 ")
		}
	}
	for _, mode := range []string{ParseHTML, ParseMarkdown} {
		t.Run(mode, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) { s.ParseMode = mode }, nil)
				r.answer = emits(text.String(), time.Second, text.String()[:6000])
				r.serve(t)
				m := r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"})
				time.Sleep(time.Minute)
				got := r.fake.Messages(group.ID, r.fake.Me().ID)
				if len(got) < 8 {
					t.Fatalf("%d messages", len(got))
				}
				all := strings.Join(r.ours(group.ID), " ")
				for i := range 900 {
					if n := strings.Count(all, fmt.Sprintf("Word number %d,", i)); n != 1 {
						t.Fatalf("word %d is there %d times", i, n)
					}
				}
				for i, c := range got {
					if (c.ReplyTo != nil && c.ReplyTo.ID == m.ID) != (i == 0) {
						t.Errorf("message %d replies: %v", i, c.ReplyTo != nil)
					}
				}
				for _, c := range r.fake.Calls("sendMessage", "editMessageText") {
					if c.Status != http.StatusOK {
						t.Error(c.Description)
					}
				}
				if d := cmp.Diff([]string{"visible"}, r.outcomes()); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// CH-177
func TestMarkupThatIsRefusedGoesOutOnceAsPlainText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		refuse := faketelegram.Fault{Method: "sendMessage", Code: 400, Description: "Bad Request: can't parse entities: whatever"}
		r.fake.Fail(refuse)
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "say a **b** < [c](https://c.example/)"})
		if d := cmp.Diff([]string{"a b < c (https://c.example/)"}, r.ours(private.ID)); d != "" {
			t.Error(d)
		}
		refuse.Times = -1
		r.fake.Fail(refuse)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "say again"}) // which runs again in a second
		n := 0
		for _, c := range r.fake.Calls("sendMessage") {
			if strings.Contains(c.Params["text"], "again") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d attempts, expected one with markup and one without", n)
		}
		// An edit that is refused is made again without markup, too.
		r.fake.Mend()
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Code: 400, Description: "Bad Request: can't parse entities: x"})
		r.answers(emits("it **is**", 2*time.Second, "it"))
		r.say(faketelegram.Message{Chat: faketelegram.Chat{ID: 8, Type: "private"}, From: bob, Text: "hi"})
		time.Sleep(10 * time.Second)
		if d := cmp.Diff([]string{"it is"}, r.ours(8)); d != "" {
			t.Error(d)
		}
	})
}

// CH-177
func TestAnAnswerToAMessageThatIsGoneIsSentAnyway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		r.fake.Push("message", faketelegram.Message{ID: 77777, Chat: group, From: ann, Date: 1, Text: "@ling_bot hi", Entities: []faketelegram.Entity{{Type: "mention", Length: 9}}})
		synctest.Wait()
		if got := r.ours(group.ID); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

func TestAPreviewThatSomebodyDeletesIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = emits("whole", 2*time.Second, "half")
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Code: 400, Description: "Bad Request: message to edit not found"})
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if got := r.ours(private.ID); got[len(got)-1] != "whole" {
			t.Errorf("%q", got)
		}
	})
}

// CH-179, CH-52
func TestWhatBecomesOfASendThatFails(t *testing.T) {
	type fault = faketelegram.Fault
	again := func(f fault, n int) []fault {
		f.Times = n
		return []fault{f}
	}
	for name, tt := range map[string]struct {
		faults  []fault
		outcome string
		sends   int // calls that reached the platform
		shown   int
		after   time.Duration // at least
	}{
		"a 429 is waited for":                {again(fault{Code: 429, RetryAfter: 20}, 1), "visible", 2, 1, 20 * time.Second},
		"several, up to a minute":            {again(fault{Code: 429, RetryAfter: 20}, 3), "visible", 4, 1, time.Minute},
		"beyond that, it was not sent":       {again(fault{Code: 429, RetryAfter: 61}, 1), "failed", 1, 0, 0},
		"and what adds up to more":           {again(fault{Code: 429, RetryAfter: 25}, 3), "failed", 3, 0, 50 * time.Second},
		"refused connections, three times":   {again(fault{Cut: faketelegram.Refused}, 3), "visible", 1, 1, 1750 * time.Millisecond},
		"refused connections, more often":    {again(fault{Cut: faketelegram.Refused}, 4), "failed", 0, 0, 1750 * time.Millisecond},
		"no answer to what was accepted":     {again(fault{Cut: faketelegram.CutAfter}, 1), "unknown", 1, 1, 0},
		"no answer to what was not accepted": {again(fault{Cut: faketelegram.CutBefore}, 1), "unknown", 1, 0, 0},
		"an error of the server":             {again(fault{Code: 500, Description: "Internal Server Error: restart"}, 1), "unknown", 1, 0, 0},
		"a gateway's page":                   {again(fault{Code: 502, Body: "<html>42:fake</html>"}, 1), "unknown", 1, 0, 0},
		"a bot that was blocked":             {again(fault{Code: 403}, 1), "failed", 1, 0, 0},
		"a chat that is gone":                {again(fault{Code: 400, Description: "Bad Request: chat not found"}, 1), "failed", 1, 0, 0},
		"a refusal that nobody knows":        {again(fault{Code: 400, Description: "Bad Request: NEW_THING 42:fake"}, 1), "failed", 1, 0, 0},
		"no answer within half a minute":     {again(fault{Delay: time.Minute}, 1), "unknown", 1, 1, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				for _, f := range tt.faults {
					f.Method = "sendMessage"
					r.fake.Fail(f)
				}
				off := kernel(t, channel.Place{ErrorNotice: new(false)})
				r.kernel.Settings, r.kernel.Routes = off.Settings, off.Routes
				r.serve(t)
				begin := time.Now()
				r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
				var took time.Duration
				for range 200 {
					if len(r.outcomes()) > 0 {
						took = time.Since(begin)
						break
					}
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
				}
				if d := cmp.Diff([]string{tt.outcome}, r.outcomes()); d != "" {
					t.Fatal(d)
				}
				sends, shown := len(r.fake.Calls("sendMessage")), len(r.ours(private.ID))
				if name == "no answer within half a minute" {
					time.Sleep(time.Minute)
					sends, shown = len(r.fake.Calls("sendMessage")), len(r.ours(private.ID))
				}
				if sends != tt.sends || shown != tt.shown {
					t.Errorf("%d calls and %d messages, expected %d and %d", sends, shown, tt.sends, tt.shown)
				}
				if took < tt.after {
					t.Errorf("after %v, expected %v", took, tt.after)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, tr := range r.traces {
					if tr.Err != nil && strings.Contains(tr.Err.Error(), "42:fake") {
						t.Errorf("the token, or what the platform says, is in %v", tr.Err)
					}
				}
			})
		})
	}
}

// CH-52, CH-53
func TestALongAnswerThatBreaksOffIsPartial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = emits(strings.Repeat("word ", 3000), 0)
		r.fake.Fail(faketelegram.Fault{Method: "sendMessage", Skip: 1, Cut: faketelegram.CutBefore})
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"partial"}, r.outcomes()); d != "" {
			t.Error(d)
		}
		if n := len(r.fake.Calls("sendMessage")); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// CH-179, FT-33
func TestA429SlowsPreviews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = emits("whole", time.Second, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p")
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Code: 429, RetryAfter: 10})
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		edits := r.fake.Calls("editMessageText")
		if len(edits) < 2 || edits[1].At.Sub(edits[0].At) < 10*time.Second {
			t.Errorf("%d edits, the second after %v", len(edits), edits[1].At.Sub(edits[0].At))
		}
		if got := r.ours(private.ID); len(got) != 1 || got[0] != "whole" {
			t.Errorf("%q", got)
		}
	})
}

// An edit says the same as often as it is made.
func TestAnEditThatIsInDoubtIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = emits("whole", 1500*time.Millisecond, "half")
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Cut: faketelegram.CutAfter}, faketelegram.Fault{Method: "editMessageText", Code: 502})
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"visible"}, r.outcomes()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"whole"}, r.ours(private.ID)); d != "" {
			t.Error(d)
		}
	})
}

// CH-58, CH-56, FT-33
func TestTheOutboxSendsLaterWhatThePlatformDoesNotTakeNow(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		box, err := channel.OpenOutbox(&channel.OutboxOptions{Store: channeltest.Open(t, dir).Outbox(t)})
		if err != nil {
			t.Fatal(err)
		}
		box.Start()
		defer box.Close(context.Background())
		r.kernel.Outbox = box
		r.serve(t)
		r.answers(emits("it **is**", 2*time.Second, "it"))
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(5 * time.Second)
		if d := cmp.Diff([]string{"it is"}, r.ours(private.ID)); d != "" {
			t.Error("what a preview showed is not what the outbox changes", d)
		}
		r.answers(nil)
		r.fake.Fail(faketelegram.Fault{Method: "sendMessage", Code: 429, RetryAfter: 90})
		r.say(faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot say hi", ThreadID: 4, IsTopic: true})
		if d := cmp.Diff([]string{"visible", "queued"}, r.outcomes()); d != "" {
			t.Fatal(d)
		}
		if len(r.ours(forum.ID)) != 0 {
			t.Error("it was sent")
		}
		time.Sleep(3 * time.Minute)
		got := r.fake.Messages(forum.ID, r.fake.Me().ID)
		if len(got) != 1 || got[0].Text != "hi" || got[0].ThreadID != 4 || got[0].ReplyTo == nil {
			t.Errorf("%+v", got)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// CH-50
func TestPicturesAndFilesOfAnAnswerAreSentFromTheMediaFolderOnly(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		inside := filepath.Join(r.channel.store.Dir, "chart.png")
		if err := os.WriteFile(inside, []byte("png"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			path := inside
			if turn.Context.BodyForAgent == "the secret" {
				path = outside
			}
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "here", Media: []channel.MediaFact{
				{Path: path, Kind: channel.MediaImage}, {URL: "https://a.example/b.png"},
			}})
		}
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "a chart"})
		got := r.fake.Messages(private.ID, r.fake.Me().ID)
		if len(got) != 2 || got[0].Text != "here\n\nhttps://a.example/b.png" || len(got[1].Photo) != 1 {
			t.Fatalf("%+v", got)
		}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "the secret"})
		time.Sleep(time.Minute)
		for _, c := range r.fake.Calls("sendPhoto", "sendDocument") {
			if strings.Contains(c.Params["photo"]+c.Params["document"], "secret") {
				t.Error("a file of elsewhere was sent")
			}
		}
	})
}

// CH-195
func FuzzMarkupIsTaken(f *testing.F) {
	for _, s := range []string{"a **b** _c_", "```go\nx\n```", "> q\n> r\n\n- a\n- b", "[l](https://a.example/?a=1&b=(2))", "| a | b |\n|---|---|\n| 1 | 2 |", "<b>&amp;</b> 1. # x!", "~~s~~ `c` ||x||", strings.Repeat("😀word ", 1200)} {
		f.Add(s)
	}
	fake := faketelegram.New(nil)
	f.Cleanup(func() { _ = fake.Close() })
	fake.AddChat(private)
	for _, mode := range []string{ParseHTML, ParseMarkdown} {
		if _, err := New(Settings{Token: secret.Text(fake.Token()), ParseMode: mode}); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, mode := range []string{ParseHTML, ParseMarkdown} {
			c, err := New(Settings{Token: secret.Text(fake.Token()), API: "http://api.test", ParseMode: mode, Client: &http.Client{Transport: fake.Transport()}})
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range c.split(text) {
				if markup.UTF16(piece.plain) > maxText {
					t.Fatalf("a plain piece has %d units", markup.UTF16(piece.plain))
				}
				if err := c.api.call(t.Context(), callTimeout, "sendMessage", map[string]any{"chat_id": 7, "text": piece.marked, "parse_mode": piece.mode}, nil); err != nil {
					calls := fake.Calls("sendMessage")
					t.Fatalf("%s: %q of %q: %v %s", mode, piece.marked, text, err, calls[len(calls)-1].Description)
				}
			}
		}
	})
}
