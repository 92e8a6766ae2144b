package feishu_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

func fails(context.Context, *channel.Turn) (channel.DispatchResult, error) {
	return channel.DispatchResult{}, errors.New("the model has gone")
}

// grows returns an agent that writes texts, one each tenth of a second, and ends with the last.
func grows(texts ...string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for _, text := range texts {
			turn.Sink.Preview(channel.Payload{Text: text})
			time.Sleep(100 * time.Millisecond)
		}
		return says(texts[len(texts)-1])(ctx, turn)
	}
}

func withoutPreview(s *feishu.Settings) { s.Preview = platform.PreviewOff }

// CH-55
func TestACardGrowsOnceASecondAndEndsAsTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var texts []string
		for i := range 50 {
			texts = append(texts, strings.Repeat("word ", i+1)+"**bold")
		}
		r := setup(t, options{platform: fakefeishu.Options{Limited: true}, agent: grows(append(texts, texts[len(texts)-1]+"** end")...)})
		r.serve(t)
		r.mention(t, fakefeishu.Said{Text: "hi"})
		wait(time.Minute)
		if shown := r.fake.Texts(group); len(shown) != 1 || !strings.HasSuffix(shown[0], "word **bold** end") {
			t.Errorf("%q is shown", shown)
		}
		calls := r.fake.Calls("reply", "patch")
		for i := 1; i < len(calls)-1; i++ {
			if gap := calls[i].At.Sub(calls[i-1].At); gap < time.Second {
				t.Errorf("a change %v after another", gap)
			}
		}
		if n := len(calls); n < 5 || n > 8 || len(r.fake.Calls("send")) != 0 {
			t.Errorf("%d calls for 5 seconds", n)
		}
		if d := cmp.Diff([]string{"visible"}, r.Outcomes()); d != "" {
			t.Error(d)
		}
	})
}

func TestPreviewsSlowDownAtARateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var texts []string
		for i := range 100 {
			texts = append(texts, strings.Repeat("x", i+1))
		}
		r := setup(t, options{agent: grows(texts...)})
		r.serve(t)
		r.fake.Fail(fakefeishu.Fault{Name: "patch", Code: 99991400, Reset: 8})
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if n := len(r.fake.Calls("patch")); n > 4 {
			t.Errorf("%d changes in 10 seconds, 8 of which there were to be none", n)
		}
		if shown := r.fake.Texts(private); len(shown) != 1 || len(shown[0]) != 100 {
			t.Errorf("%q", shown)
		}
	})
}

// A preview of which it is not known whether it was sent is sent again with its uuid.
func TestAPreviewIsNeverShownTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{agent: grows(strings.Split(strings.Repeat("half ", 50), " ")...)})
		r.serve(t)
		r.fake.Fail(fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter})
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if shown := r.fake.Texts(private); len(shown) != 1 {
			t.Errorf("%q", shown)
		}
	})
}

func TestAPreviewWithoutItsBlockGetsAMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half"})
			time.Sleep(3 * time.Second)
			return fails(ctx, turn)
		})})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if d := cmp.Diff([]string{"half […]"}, r.fake.Texts(private)); d != "" {
			t.Error(d)
		}
	})
}

func TestADeletedCardIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		r = setup(t, options{agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half"})
			time.Sleep(3 * time.Second)
			r.fake.Recall(r.fake.Ours(private)[0].ID)
			return says("half and whole")(ctx, turn)
		})})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if d := cmp.Diff([]string{"half and whole"}, r.fake.Texts(private)); d != "" {
			t.Error(d)
		}
	})
}

// CH-177
func TestALongAnswerIsCutIntoMessagesThatThePlatformTakes(t *testing.T) {
	for name, text := range map[string]string{
		"words":           strings.Repeat("some words. ", 3000),
		"marks":           strings.Repeat(`"**\_[<&>`+"`", 2000),
		"Chinese":         strings.Repeat("很长的答案。", 2500),
		"a block of code": "```go\n" + strings.Repeat("x := \"y\"\n", 3000) + "```",
		"short lines":     strings.Repeat("a\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{agent: says(text)})
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(time.Minute)
				calls := r.fake.Calls("send")
				if r.Outcomes()[0] != "visible" || len(calls) < 2 || len(calls) > 40 {
					t.Errorf("%v: %d messages; %v", r.Outcomes(), len(calls), r.log)
				}
				uuids := map[any]bool{}
				for _, c := range calls {
					if uuids[c.Body["uuid"]] = true; c.Code != 0 {
						t.Errorf("refused with %d", c.Code)
					}
				}
				if len(uuids) != len(calls) {
					t.Errorf("%d uuids of %d messages", len(uuids), len(calls))
				}
			})
		})
	}
}

func TestTheTextOfAModelMentionsNobody(t *testing.T) {
	texts := []string{
		`<at id=all></at>`, `<at user_id="all">x</at>`, `&lt;at id=all&gt;&lt;/at&gt;`, "`<at id=all></at>`", "```\n<at id=all></at>\n```",
		`[<at id=all></at>](https://example.com)`, `[x](https://example.com/<at)`, `**<AT id=all>**`, "> <at\tid=all></at>", `\<at id=all>`,
		"<at\nid=all></at>", `| a |` + "\n" + `|---|` + "\n" + `| <at id=all></at> |`, `<at id="ou_ann">`, `&#60;at id=all&#62;`, `<person id = 'ou_1'></person>`,
	}
	for _, asText := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := setup(t, options{})
			r.serve(t)
			for _, text := range texts {
				if asText {
					r.fake.Fail(fakefeishu.Fault{Name: "send", Code: 230099}) // the card is refused
				}
				r.Answers(says("see " + text + " there"))
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(10 * time.Second)
			}
			for i, m := range r.fake.Ours(private) {
				if len(m.Mentions) != 0 || strings.Contains(strings.ToLower(m.Content), "<at ") || strings.Contains(m.Content, "<person") {
					t.Errorf("%q is %s", texts[i], m.Content)
				}
				if (m.Type == "text") != asText {
					t.Errorf("got a message of type %s", m.Type)
				}
			}
			if n := len(r.fake.Ours(private)); n != len(texts) {
				t.Errorf("%d messages", n)
			}
		})
	}
}

// CH-58, CH-179
func TestRefusalsOfThePlatform(t *testing.T) {
	const pause = platform.FirstPause / 2
	for name, tt := range map[string]struct {
		fault   fakefeishu.Fault
		outcome string
		shown   []string // in the end
		after   time.Duration
		calls   int // of a visible answer
	}{
		"a rate limit with its end": {fakefeishu.Fault{Code: 99991400, Reset: 7}, "visible", []string{"ok"}, 7 * time.Second, 2},
		"one of the chat":           {fakefeishu.Fault{Code: 230020, Times: 3}, "visible", []string{"ok"}, 3 * time.Second, 4},
		"one of the old kind":       {fakefeishu.Fault{Code: 11232, Status: 200}, "visible", []string{"ok"}, time.Second, 2},
		"a long one":                {fakefeishu.Fault{Code: 99991400, Reset: 600}, "queued", []string{"ok"}, 10 * time.Minute, 2},
		"a gateway's page":          {fakefeishu.Fault{Status: 502, Body: "<html>bad gateway</html>"}, "visible", []string{"ok"}, pause, 2},
		"cut before it was taken":   {fakefeishu.Fault{Cut: fakefeishu.CutBefore}, "visible", []string{"ok"}, pause, 2},
		"cut after it was taken":    {fakefeishu.Fault{Cut: fakefeishu.CutAfter}, "visible", []string{"ok"}, pause, 2},
		"cut again and again":       {fakefeishu.Fault{Cut: fakefeishu.CutAfter, Times: 20}, "queued", []string{"ok"}, 30 * time.Second, 21},
		"cut for ever":              {fakefeishu.Fault{Cut: fakefeishu.CutAfter, Times: -1}, "queued", []string{"ok", "NOTICE"}, time.Minute, 0},
		"a refused connection":      {fakefeishu.Fault{Cut: fakefeishu.Refused}, "visible", []string{"ok"}, pause, 1},
		"it is being sent":          {fakefeishu.Fault{Code: 230049}, "visible", []string{"ok"}, pause, 2},
		"the bot is not there":      {fakefeishu.Fault{Code: 230002, Times: -1}, "failed", nil, 0, 0},
		"blocked content":           {fakefeishu.Fault{Code: 230028}, "failed", []string{"NOTICE"}, 0, 0},
		"an unknown code":           {fakefeishu.Fault{Code: 424242}, "failed", []string{"NOTICE"}, 0, 0},
		"a refused card":            {fakefeishu.Fault{Code: 230099}, "visible", []string{"ok"}, 0, 2},
		"a token that has ended":    {fakefeishu.Fault{Code: 99991663}, "visible", []string{"ok"}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{})
				r.serve(t)
				tt.fault.Name = "send"
				r.fake.Fail(tt.fault)
				began := time.Now()
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				if wait(tt.after + 3*time.Minute); name == "cut for ever" {
					wait(time.Hour)
				}
				if outcomes := r.Outcomes(); !slices.Contains(outcomes, tt.outcome) {
					t.Errorf("%v, expected %s; %v", outcomes, tt.outcome, r.log)
				}
				shown := r.fake.Texts(private)
				for i, text := range shown {
					if strings.Contains(text, "eference") || strings.Contains(text, "may be missing") {
						shown[i] = "NOTICE"
					}
				}
				if d := cmp.Diff(tt.shown, shown); d != "" {
					t.Error(d)
				}
				if calls := r.fake.Calls("send"); tt.calls > 0 {
					uuids := map[any]bool{}
					for _, c := range calls {
						uuids[c.Body["uuid"]] = true
					}
					if got := calls[len(calls)-1].At.Sub(began); len(calls) != tt.calls || got < tt.after || len(uuids) != 1 {
						t.Errorf("%d calls, the last after %v, with the uuids %v", len(calls), got, uuids)
					}
				}
				for _, secret := range []string{"shh-app-secret", token, key, "t-fake", "bad gateway", "as the test says", "api.test"} {
					if strings.Contains(r.log.String(), secret) {
						t.Errorf("the log has %q: %v", secret, r.log)
					}
				}
			})
		})
	}
}

// In a topic, there is no way to send but a reply.
func TestAReplyToADeletedMessageGoesToItsChat(t *testing.T) {
	for thread, want := range map[string][]string{"": {"ok"}, "omt_1": nil} {
		bubble(t, func(t *testing.T) {
			id := ""
			var r *rig
			r = setup(t, options{change: withoutPreview, agent: agentFunc(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				r.fake.Recall(id)
				return says("ok")(ctx, turn)
			})})
			r.serve(t)
			var e map[string]any
			e, id = r.fake.Say(fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot(), Thread: thread})
			r.post(t, e)
			wait(time.Minute)
			if d := cmp.Diff(want, r.fake.Texts(group)); d != "" {
				t.Errorf("in the topic %q: %s", thread, d)
			}
		})
	}
}

func TestATokenIsRequestedOnceAndRenewedBeforeItEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		check := func(tokens int) {
			t.Helper()
			if err := r.channel.Check(t.Context()); err != nil || len(r.fake.Calls("token")) != tokens {
				t.Errorf("%d tokens, expected %d; %v", len(r.fake.Calls("token")), tokens, err)
			}
		}
		check(1)
		r.fake.Expire()
		r.fake.Fail(fakefeishu.Fault{Name: "token", Delay: time.Second})
		var wg sync.WaitGroup
		for range 20 { // all of them find that it has ended
			wg.Go(func() {
				if err := r.channel.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		check(2)
		wait(109 * time.Minute) // of 120
		check(2)
		wait(2 * time.Minute)
		check(3)
	})
}

// CH-179
func TestAWrongSecretEndsTheChannelAndIsInNoText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{change: func(s *feishu.Settings) { s.AppSecret = "canary-secret" }})
		r.serve(t)
		err := <-r.done
		r.done = nil
		for _, err := range []error{err, r.channel.Ready(), r.channel.Check(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), "app_id or app_secret is not valid") {
				t.Errorf("%v", err)
			}
		}
		for _, text := range []string{fmt.Sprint(err), r.log.String(), fmt.Sprintf("%v %+v", r.settings, r.settings)} {
			if strings.Contains(text, "canary") {
				t.Errorf("it says %q", text)
			}
		}
	})
}

func TestTheAgentSendsOnlyFilesOfTheMediaFolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{change: withoutPreview})
		for name, data := range map[string]string{"a.png": "\x89PNG an image", "b.pdf": "%PDF a paper"} {
			if err := os.WriteFile(filepath.Join(r.settings.Media, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.Agent = says("see these", channel.MediaFact{Kind: channel.MediaImage, Path: filepath.Join(r.settings.Media, "a.png")},
			channel.MediaFact{Kind: channel.MediaDocument, Path: filepath.Join(r.settings.Media, "b.pdf")}, channel.MediaFact{Kind: channel.MediaImage, URL: "https://example.com/c.png"})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if d := cmp.Diff([]string{"see these\n\nhttps://example.com/c.png", "[image]", "[file]"}, r.fake.Texts(private)); d != "" {
			t.Error(d)
		}
		for _, m := range r.fake.Ours(private)[1:] {
			var c map[string]string
			if err := json.Unmarshal([]byte(m.Content), &c); err != nil {
				t.Fatal(err)
			}
			if data := r.fake.Uploaded(c["image_key"] + c["file_key"]); !strings.Contains(string(data), " a") {
				t.Errorf("it has %q", data)
			}
		}
		outside := filepath.Join(t.TempDir(), "secret.txt")
		if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Answers(says("", channel.MediaFact{Kind: channel.MediaDocument, Path: outside}))
		before := len(r.fake.Calls("file", "image"))
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "and?"})
		wait(time.Minute)
		if n := len(r.fake.Calls("file", "image")) - before; n != 0 {
			t.Errorf("%d files of elsewhere are sent", n)
		}
	})
}

func TestSettingsAreChecked(t *testing.T) {
	good := feishu.Settings{AppID: "cli_a1", AppSecret: "s", EncryptKey: "0123456789abcdef"}
	if _, err := feishu.New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*feishu.Settings){
		"app_id is missing":                 func(s *feishu.Settings) { s.AppID = "" },
		"app_secret is missing":             func(s *feishu.Settings) { s.AppSecret = " " },
		"the encrypt_key has fewer than 16": func(s *feishu.Settings) { s.EncryptKey = "canary-456789ab" },
		"encrypt_key is missing":            func(s *feishu.Settings) { s.EncryptKey = "" },
		"expected at most":                  func(s *feishu.Settings) { s.MaxMedia = 1 << 40 },
	} {
		s := good
		change(&s)
		if _, err := feishu.New(s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
}
