package telegram_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// emits is an agent that shows previews, with pauses behind them, and then the whole.
func emits(final string, every time.Duration, previews ...string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for _, p := range previews {
			turn.Sink.Preview(channel.Payload{Text: p})
			time.Sleep(every)
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: final})
	}
}

// CH-55
func TestAnAnswerGrowsInOneMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		chat  faketelegram.Chat
		every time.Duration
	}{"private": {private, time.Second}, "a group": {group, 3 * time.Second}} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{}).serve()
			var previews []string
			for i := range 60 {
				previews = append(previews, strings.Repeat("**word** ", i/2+1))
			}
			r.Answers(emits("it is **done**", 200*time.Millisecond, previews...))
			m := r.say(faketelegram.Message{Chat: tt.chat, From: ann, Text: "@ling_bot hi"})
			time.Sleep(time.Minute)
			sent, edits := r.fake.Calls("sendMessage"), r.fake.Calls("editMessageText")
			if len(sent) != 1 || len(edits) < 3 || sent[0].Params["parse_mode"] != "" {
				t.Fatalf("%d messages, %d edits", len(sent), len(edits))
			}
			last := sent[0]
			for i, e := range edits {
				final := i == len(edits)-1
				if e.Status != http.StatusOK || e.Params["text"] == last.Params["text"] || (e.Params["parse_mode"] == "HTML") != final {
					t.Errorf("edit %d of %d: %s %v", i+1, len(edits), e.Description, e.Params)
				}
				if gap := e.At.Sub(last.At); !final && gap < tt.every {
					t.Errorf("edit %d comes after %v, expected at least %v", i, gap, tt.every)
				}
				last = e
			}
			got := r.fake.Messages(tt.chat.ID, r.fake.Me().ID)
			if len(got) != 1 || got[0].Text != "it is done" || len(got[0].Entities) != 1 {
				t.Fatalf("%+v", got)
			}
			if replied := got[0].ReplyTo != nil && got[0].ReplyTo.ID == m.ID; replied != (tt.chat.ID < 0) {
				t.Errorf("it replies: %t", replied)
			}
		})
	}
	bubble(t, "what does not fit is no edit", func(t *testing.T) {
		r := setup(t, options{}).serve()
		long := strings.Repeat("word ", 1000)
		r.Answers(emits(long, 2*time.Second, long, long+"more ", long+"more and more "))
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if n := len(r.fake.Calls("editMessageText")); n != 1 {
			t.Errorf("%d edits, expected the last", n)
		}
	})
	bubble(t, "what is unchanged is sent", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.Answers(emits("all of it", 2*time.Second, "all of it", "all of it "))
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"visible", "all of it"}, append(r.Outcomes(), r.ours(private.ID)...)); d != "" {
			t.Error(d)
		}
	})
	bubble(t, "off", func(t *testing.T) {
		r := setup(t, options{settings: func(s *telegram.Settings) { s.Preview = platform.PreviewOff }}).serve()
		r.Answers(emits("whole", 2*time.Second, "h", "half"))
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if len(r.fake.Calls("sendMessage")) != 1 || len(r.fake.Calls("editMessageText")) != 0 {
			t.Error("a preview was shown")
		}
	})
}

func TestDraftsAreForPrivateChats(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: func(s *telegram.Settings) { s.Preview = telegram.PreviewDraft }}).serve()
		r.Answers(emits("whole", 2*time.Second, "h", "half"))
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if d := cmp.Diff([]string{"h", "half"}, r.fake.Drafts(private.ID)); d != "" {
			t.Error(d)
		}
		if c := r.fake.Calls("sendMessageDraft"); len(c) != 2 || c[0].Params["draft_id"] != c[1].Params["draft_id"] {
			t.Error("the drafts of a block have several ids")
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

// CH-177
func TestALongAnswerIsCutAndNoTextIsLost(t *testing.T) {
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, "Word number %d, *with* `code` & <tags>_. ", i)
		if i%40 == 39 {
			b.WriteString("\n\n```go\nfmt.Println(\"fence\")\n```\n\n😀😀😀 ")
		}
	}
	text := b.String()
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.Answers(emits(text, time.Second, text[:6000]))
		m := r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"})
		time.Sleep(time.Minute)
		got := r.fake.Messages(group.ID, r.fake.Me().ID)
		if len(got) < 8 {
			t.Fatalf("%d messages", len(got))
		}
		all := strings.Join(r.ours(group.ID), " ")
		for i := range 900 {
			if n := strings.Count(all, fmt.Sprintf("Word number %d,", i)); n != 1 {
				t.Fatalf("word %d is shown %d times", i, n)
			}
		}
		for i, c := range got {
			if (c.ReplyTo != nil && c.ReplyTo.ID == m.ID) != (i == 0) {
				t.Errorf("message %d replies: %t", i, c.ReplyTo != nil)
			}
		}
		for _, c := range r.fake.Calls("sendMessage", "editMessageText") {
			if c.Status != http.StatusOK {
				t.Error(c.Description)
			}
		}
		if d := cmp.Diff([]string{"visible"}, r.Outcomes()); d != "" {
			t.Error(d)
		}
	})
}

// CH-177
func TestRefusedMarkupIsSentOnceAsPlainText(t *testing.T) {
	refuse := func(method string, times int) faketelegram.Fault {
		return faketelegram.Fault{Method: method, Code: 400, Description: "Bad Request: can't parse entities: whatever", Times: times}
	}
	for name, tt := range map[string]struct {
		fault   faketelegram.Fault
		preview string
		calls   int
		shown   []string
	}{
		"a message":          {refuse("sendMessage", 1), "", 2, []string{"a b < c (https://c.example/)"}},
		"an edit":            {refuse("editMessageText", 1), "a", 3, []string{"a b < c (https://c.example/)"}},
		"the plain text too": {refuse("sendMessage", -1), "", 2, nil},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{place: channel.Place{ErrorNotice: new(false)}}).serve()
			r.Answers(emits("a **b** < [c](https://c.example/)", 2*time.Second, tt.preview))
			r.fake.Fail(tt.fault)
			r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
			time.Sleep(10 * time.Second)
			if n := len(r.fake.Calls("sendMessage", "editMessageText")); n != tt.calls || !slices.Equal(r.ours(private.ID), tt.shown) {
				t.Errorf("%d calls, shown: %q", n, r.ours(private.ID))
			}
		})
	}
}

func TestMessagesThatAreDeletedDoNotStopTheAnswer(t *testing.T) {
	bubble(t, "the message that is answered", func(t *testing.T) {
		r := setup(t, options{}).serve()
		mention := []faketelegram.Entity{{Type: "mention", Length: 9}}
		r.fake.Push("message", faketelegram.Message{ID: 77777, Chat: group, From: ann, Date: 1, Text: "@ling_bot hi", Entities: mention})
		synctest.Wait()
		if got := r.ours(group.ID); !slices.Equal(got, []string{"ok"}) {
			t.Errorf("shown: %q", got)
		}
	})
	bubble(t, "the preview", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.Answers(emits("whole", 2*time.Second, "half"))
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Code: 400, Description: "Bad Request: message to edit not found"})
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(10 * time.Second)
		if got := r.ours(private.ID); got[len(got)-1] != "whole" {
			t.Errorf("shown: %q", got)
		}
	})
}

// CH-179, CH-52, CH-53, CH-58
func TestFailuresOfASend(t *testing.T) {
	const unsure = "A part of this answer may be missing, because the platform did not confirm it. If it is, please ask again."
	for name, tt := range map[string]struct {
		fault   faketelegram.Fault
		outcome string
		shown   []string // six minutes later
		after   time.Duration
	}{
		"a 429":                           {faketelegram.Fault{Code: 429, RetryAfter: 20}, "visible", []string{"one"}, 20 * time.Second},
		"several, up to a minute":         {faketelegram.Fault{Code: 429, RetryAfter: 20, Times: 3}, "visible", []string{"one"}, time.Minute},
		"a longer one":                    {faketelegram.Fault{Code: 429, RetryAfter: 300}, "queued", []string{"one"}, 0},
		"refused connections":             {faketelegram.Fault{Cut: faketelegram.Refused, Times: 3}, "visible", []string{"one"}, time.Second},
		"more of them":                    {faketelegram.Fault{Cut: faketelegram.Refused, Times: 9}, "queued", []string{"one"}, time.Second},
		"unavailable":                     {faketelegram.Fault{Code: 503, Times: 5}, "queued", []string{"one"}, time.Second},
		"no answer to what was accepted":  {faketelegram.Fault{Cut: faketelegram.CutAfter}, "unknown", []string{"one", unsure}, 0},
		"no answer to what was not":       {faketelegram.Fault{Cut: faketelegram.CutBefore}, "unknown", []string{unsure}, 0},
		"an error of the server":          {faketelegram.Fault{Code: 500, Description: "Internal Server Error: restart"}, "unknown", []string{unsure}, 0},
		"a gateway's page":                {faketelegram.Fault{Code: 502, Body: "<html>42:fake</html>"}, "unknown", []string{unsure}, 0},
		"no answer for half a minute":     {faketelegram.Fault{Delay: time.Minute}, "unknown", []string{"one", unsure}, 30 * time.Second},
		"a bot that was blocked":          {faketelegram.Fault{Code: 403}, "failed", nil, 0},
		"a chat that is gone":             {faketelegram.Fault{Code: 400, Description: "Bad Request: chat not found"}, "failed", nil, 0},
		"a refusal that is not known yet": {faketelegram.Fault{Code: 400, Description: "Bad Request: NEW_THING 42:fake"}, "failed", nil, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{place: channel.Place{ErrorNotice: new(false)}}).serve()
			tt.fault.Method = "sendMessage"
			r.fake.Fail(tt.fault)
			begin := time.Now()
			r.say(faketelegram.Message{Chat: private, From: ann, Text: "say one"})
			for len(r.Outcomes()) == 0 {
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
			}
			if took := time.Since(begin); r.Outcomes()[0] != tt.outcome || took < tt.after {
				t.Errorf("%v after %v, expected %s after %v", r.Outcomes(), took, tt.outcome, tt.after)
			}
			time.Sleep(6 * time.Minute)
			if shown := slices.Sorted(slices.Values(r.ours(private.ID))); !slices.Equal(shown, slices.Sorted(slices.Values(tt.shown))) { // some come at one moment
				t.Errorf("shown: %q, expected %q", shown, tt.shown)
			}
			if strings.Contains(r.log.String(), "42:fake") {
				t.Error("the token, or the platform's text, is in the log")
			}
		})
	}
}

func TestAnEditInDoubtIsMadeAgain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.Answers(emits("whole", 1500*time.Millisecond, "half"))
		r.fake.Fail(faketelegram.Fault{Method: "editMessageText", Cut: faketelegram.CutAfter}, faketelegram.Fault{Method: "editMessageText", Code: 502})
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		time.Sleep(time.Minute)
		if d := cmp.Diff([]string{"visible", "whole"}, append(r.Outcomes(), r.ours(private.ID)...)); d != "" {
			t.Error(d)
		}
	})
}

// CH-50, CH-95
func TestFilesOfAnAnswerComeFromTheMediaFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{place: channel.Place{ErrorNotice: new(false)}}).serve()
		path := filepath.Join(r.media, "chart.png")
		if err := os.WriteFile(path, []byte("png"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "here", Silent: true, Media: []channel.MediaFact{
				{Path: path, Kind: channel.MediaImage},
				{Path: path, Kind: channel.MediaAudio},
				{Path: path, Kind: channel.MediaVideo},
				{Path: path},
				{URL: "https://a.example/b.png"},
			}})
		})
		r.say(faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot a chart", ThreadID: 3, IsTopic: true})
		got := r.fake.Messages(forum.ID, r.fake.Me().ID)
		if len(got) != 5 || got[0].Text != "here\n\nhttps://a.example/b.png" || len(got[1].Photo) != 1 || got[2].Audio == nil || got[3].Video == nil || got[4].Document == nil {
			t.Fatalf("%+v", got)
		}
		for i, m := range got {
			if m.ThreadID != 3 || !m.Silent || (m.ReplyTo != nil) != (i == 0) {
				t.Errorf("message %d: %+v", i, m)
			}
		}
		path = outside
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "the secret"})
		time.Sleep(time.Minute)
		if got := r.fake.Messages(private.ID, r.fake.Me().ID); len(got) != 1 || got[0].Photo != nil {
			t.Errorf("a file from elsewhere was sent: %+v", got)
		}
	})
}

// CH-177: the platform takes the markup of any text.
func FuzzMarkupIsTaken(f *testing.F) {
	for _, s := range []string{
		"a **b** _c_", "```go\nx\n```", "> q\n> r\n\n- a\n- b", "[l](https://a.example/?a=1&b=(2))", "| a | b |\n|---|---|\n| 1 | 2 |",
		"<b>&amp;</b> 1. # x!", "~~s~~ `c` ||x||", strings.Repeat("😀word ", 1200),
	} {
		f.Add(s)
	}
	fake := faketelegram.New(nil)
	f.Cleanup(func() { _ = fake.Close() })
	fake.AddChat(private)
	client := &http.Client{Transport: fake.Transport()}
	f.Fuzz(func(t *testing.T, text string) {
		for _, piece := range markup.Pieces(text, markup.TelegramHTML, markup.Limit{N: 4096}) {
			if strings.TrimSpace(piece.Plain) == "" {
				continue
			}
			res, err := client.PostForm("http://api.test/bot"+fake.Token()+"/sendMessage", url.Values{"chat_id": {"7"}, "text": {piece.Text}, "parse_mode": {"HTML"}})
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if calls := fake.Calls("sendMessage"); markup.UTF16(piece.Plain) > 4096 || res.StatusCode != http.StatusOK {
				t.Fatalf("%q of %q: %s", piece.Text, text, calls[len(calls)-1].Description)
			}
		}
	})
}
