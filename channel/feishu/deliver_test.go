package feishu

import (
	"context"
	"encoding/json"
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
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

// grows is an agent that writes texts, a tenth of a second after another, and ends with the last.
func grows(texts ...string) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		for _, text := range texts {
			turn.Sink.Preview(channel.Payload{Text: text})
			time.Sleep(100 * time.Millisecond)
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: texts[len(texts)-1]})
	}
}

// CH-55, CH-176
func TestACardGrowsOnceASecondAndEndsWithTheWholeText(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, &fakefeishu.Options{Limited: true})
		var texts []string
		for i := range 50 {
			texts = append(texts, strings.Repeat("word ", i+1)+"**bold")
		}
		texts = append(texts, texts[len(texts)-1]+"** end")
		r.answer = grows(texts...)
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot()})
		wait(time.Minute)
		shown := r.fake.Texts(group)
		if len(shown) != 1 || !strings.HasSuffix(shown[0], "word **bold** end") {
			t.Errorf("%q is shown", shown)
		}
		var last time.Time
		calls := r.fake.Calls("reply", "patch")
		for _, c := range calls {
			if gap := c.At.Sub(last); gap < time.Second && c.At != calls[len(calls)-1].At {
				t.Errorf("a change %v after another", gap)
			}
			last = c.At
		}
		if n := len(calls); n < 5 || n > 8 {
			t.Errorf("%d calls for 5 seconds", n)
		}
		if len(r.fake.Calls("send")) != 0 {
			t.Error("there is a second message")
		}
		if d := cmp.Diff([]string{"visible"}, r.outcomes()); d != "" {
			t.Error(d)
		}
	})
}

func TestALongAnswerIsCutIntoCardsThatThePlatformTakes(t *testing.T) {
	for name, text := range map[string]string{
		"words":            strings.Repeat("some words. ", 8000),
		"marks":            strings.Repeat(`"**\_[<&>`+"`", 9000),
		"Chinese":          strings.Repeat("很长的答案。", 6000),
		"a block of code":  "```go\n" + strings.Repeat("x := \"y\"\n", 9000) + "```",
		"lines of nothing": strings.Repeat("a\n", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{FormatCard, FormatText} {
				bubble(t, func(t *testing.T) {
					r := setup(t, func(s *Settings) { s.Format = format }, nil)
					r.answer = says(text)
					r.serve(t)
					r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
					wait(time.Minute)
					if got := r.outcomes(); got[0] != "visible" {
						t.Errorf("%v, %v", got, r.log)
					}
					calls := r.fake.Calls("send")
					if len(calls) < 2 || len(calls) > 40 {
						t.Errorf("%d messages", len(calls))
					}
					seen := map[any]bool{}
					for _, c := range calls {
						if c.Code != 0 {
							t.Errorf("refused with %d", c.Code)
						}
						seen[c.Body["uuid"]] = true
					}
					if len(seen) != len(calls) {
						t.Errorf("%d uuids of %d messages", len(seen), len(calls))
					}
				})
			}
		})
	}
}

func TestNobodyIsMentionedByWhatAModelWrites(t *testing.T) {
	for _, text := range []string{
		`<at id=all></at>`, `<at user_id="all">x</at>`, `&lt;at id=all&gt;&lt;/at&gt;`, "`<at id=all></at>`", "```\n<at id=all></at>\n```",
		`[<at id=all></at>](https://example.com)`, `[x](https://example.com/<at)`, `**<AT id=all>**`, "> <at\tid=all></at>", `\<at id=all>`,
		"<at\nid=all></at>", `| a |` + "\n" + `|---|` + "\n" + `| <at id=all></at> |`, `<at id="ou_ann">`, `&#60;at id=all&#62;`, `<person id = 'ou_1'></person>`,
	} {
		for _, format := range []string{FormatCard, FormatText} {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) { s.Format = format }, nil)
				r.answer = says("see " + text + " there")
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				for _, m := range r.fake.Ours(private) {
					if len(m.Mentions) != 0 || strings.Contains(strings.ToLower(m.Content), "<at ") || strings.Contains(m.Content, "<person") {
						t.Errorf("%q as %s is %s", text, format, m.Content)
					}
				}
				if n := len(r.fake.Ours(private)); n != 1 {
					t.Errorf("%d messages", n)
				}
			})
		}
	}
}

// CH-179
func TestRefusalsOfThePlatform(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   fakefeishu.Fault
		outcome string
		shown   []string
		after   time.Duration // at least
		calls   int
	}{
		"a rate limit with its end": {
			fault: fakefeishu.Fault{Name: "send", Code: 99991400, Reset: 7}, outcome: "visible", shown: []string{"ok"}, after: 7 * time.Second, calls: 2,
		},
		"one of the chat": {
			fault: fakefeishu.Fault{Name: "send", Code: 230020, Times: 3}, outcome: "visible", shown: []string{"ok"}, after: 3 * time.Second, calls: 4,
		},
		"one of the old kind": {
			fault: fakefeishu.Fault{Name: "send", Code: 11232, Status: 200}, outcome: "visible", shown: []string{"ok"}, after: time.Second, calls: 2,
		},
		"one that is too long": {
			fault: fakefeishu.Fault{Name: "send", Code: 99991400, Reset: 600, Times: -1}, outcome: "failed", calls: 1,
		},
		"a gateway's page": {
			fault: fakefeishu.Fault{Name: "send", Status: 502, Body: "<html>bad gateway</html>"}, outcome: "visible", shown: []string{"ok"}, after: attempt.FirstPause / 2, calls: 2,
		},
		"cut before it was taken": {
			fault: fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutBefore}, outcome: "visible", shown: []string{"ok"}, after: attempt.FirstPause / 2, calls: 2,
		},
		"cut after it was taken": { // the uuid is the same
			fault: fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter}, outcome: "visible", shown: []string{"ok"}, after: attempt.FirstPause / 2, calls: 2,
		},
		"cut each time after it was taken": {
			fault: fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter, Times: -1}, outcome: "unknown", shown: []string{"ok"}, calls: 4,
		},
		"a connection that is refused": {
			fault: fakefeishu.Fault{Name: "send", Cut: fakefeishu.Refused}, outcome: "visible", shown: []string{"ok"}, after: attempt.FirstPause / 2, calls: 1,
		},
		"the message is being sent": {
			fault: fakefeishu.Fault{Name: "send", Code: 230049}, outcome: "visible", shown: []string{"ok"}, after: attempt.FirstPause / 2, calls: 2,
		},
		"the bot is not in the chat": {fault: fakefeishu.Fault{Name: "send", Code: 230002}, outcome: "failed", calls: 1},
		"it does not let it pass":    {fault: fakefeishu.Fault{Name: "send", Code: 230028}, outcome: "failed", shown: []string{"NOTICE"}, calls: 2},
		"a card that it does not like": {
			fault: fakefeishu.Fault{Name: "send", Code: 230099}, outcome: "visible", shown: []string{"ok"}, calls: 2,
		},
		"a token that has ended": {
			fault: fakefeishu.Fault{Name: "send", Code: 99991663}, outcome: "visible", shown: []string{"ok"}, calls: 2,
		},
		"a code that nobody knows": {fault: fakefeishu.Fault{Name: "send", Code: 424242}, outcome: "failed", shown: []string{"NOTICE"}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.serve(t)
				r.fake.Fail(tt.fault)
				began := time.Now()
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(5 * time.Minute)
				outcomes := r.outcomes()
				if !slices.Contains(outcomes, tt.outcome) {
					t.Errorf("%v, expected %s; %v", outcomes, tt.outcome, r.log)
				}
				shown := r.fake.Texts(private)
				for i, text := range shown {
					if strings.Contains(text, "eference") || strings.Contains(text, "wrong") {
						shown[i] = "NOTICE"
					}
				}
				if d := cmp.Diff(tt.shown, shown); d != "" && tt.outcome != "failed" {
					t.Error(d)
				}
				calls := r.fake.Calls("send")
				if tt.outcome == "visible" {
					if len(calls) != tt.calls {
						t.Errorf("%d calls, expected %d", len(calls), tt.calls)
					}
					if got := calls[len(calls)-1].At.Sub(began); got < tt.after {
						t.Errorf("it came after %v, expected %v at least", got, tt.after)
					}
					uuids := map[any]bool{}
					for _, c := range calls {
						uuids[c.Body["uuid"]] = true
					}
					if len(uuids) != 1 {
						t.Errorf("the attempts have the uuids %v", uuids)
					}
				}
				for _, secret := range []string{"shh-app-secret", "verify-me-fake-token", "kudryavka-fake-key", "t-fake", "bad gateway", "as the test says", "api.test"} {
					if strings.Contains(r.log.String(), secret) {
						t.Errorf("the log has %q: %v", secret, r.log)
					}
				}
			})
		})
	}
}

// A reply to a message that was recalled goes to its chat; into a topic there is no other way.
func TestAnAnswerToAMessageThatWasRecalled(t *testing.T) {
	for thread, want := range map[string][]string{"": {"ok"}, "omt_1": nil} {
		bubble(t, func(t *testing.T) {
			r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
			id := ""
			r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				r.fake.Recall(id)
				return says("ok")(ctx, turn)
			}
			r.serve(t)
			e, said := r.fake.Say(fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot(), Thread: thread})
			id = said
			r.post(t, e)
			wait(time.Minute)
			if d := cmp.Diff(want, r.fake.Texts(group)); d != "" {
				t.Errorf("in the topic %q: %s", thread, d)
			}
		})
	}
}

// CH-55
func TestWhatStandsThereWhenAnAnswerIsNotFinished(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error)
		shown []string
	}{
		"it was cut off": {
			func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{}, fmt.Errorf("the model has gone")
			},
			[]string{"half […]"},
		},
		"there is nothing to say": {
			func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
				return channel.DispatchResult{NoReply: true}, nil
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
					turn.Sink.Preview(channel.Payload{Text: "half"})
					time.Sleep(3 * time.Second)
					return tt.end(ctx, turn)
				}
				r.serve(t)
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(time.Minute)
				if d := cmp.Diff(tt.shown, r.fake.Texts(private)); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestACardThatIsGoneIsWrittenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half"})
			time.Sleep(3 * time.Second)
			r.fake.Recall(r.fake.Ours(private)[0].ID)
			return says("half and whole")(ctx, turn)
		}
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		wait(time.Minute)
		if d := cmp.Diff([]string{"half and whole"}, r.fake.Texts(private)); d != "" {
			t.Error(d)
		}
	})
}

func TestATokenIsAskedForOnceAndAgainBeforeItEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		var wg sync.WaitGroup
		r.fake.Expire()
		r.fake.Fail(fakefeishu.Fault{Name: "token", Delay: time.Second})
		for range 20 { // all of them learn that it has ended
			wg.Go(func() {
				if err := r.channel.whoAmI(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(r.fake.Calls("token")); n != 2 {
			t.Errorf("%d tokens were asked for, expected the first and one more", n)
		}
		wait(109 * time.Minute)
		if err := r.channel.whoAmI(t.Context()); err != nil || len(r.fake.Calls("token")) != 2 {
			t.Errorf("after 109 minutes of 120: %d tokens, %v", len(r.fake.Calls("token")), err)
		}
		wait(2 * time.Minute)
		r.fake.Fail(fakefeishu.Fault{Name: "token", Status: 503})
		if err := r.channel.whoAmI(t.Context()); err != nil { // the old one is still good
			t.Error(err)
		}
		if err := r.channel.whoAmI(t.Context()); err != nil || len(r.fake.Calls("token")) != 4 {
			t.Errorf("after 111 minutes: %d tokens, %v", len(r.fake.Calls("token")), err)
		}
		for _, c := range r.fake.Calls("info") {
			if c.Code == 99991663 && c.At.Sub(r.fake.Calls("info")[0].At) > time.Minute {
				t.Error("a token was used after its end")
			}
		}
	})
}

func TestAWrongSecretEndsTheChannelAndIsNotSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.AppSecret = "canary-secret" }, nil)
		r.serve(t)
		err := <-r.done
		r.done = nil
		if !is(err, badApp) || r.channel.Ready() == nil {
			t.Errorf("%v", err)
		}
		if err := r.channel.Check(t.Context()); !is(err, badApp) {
			t.Error(err)
		}
		for _, text := range []string{err.Error(), r.log.String(), fmt.Sprintf("%v %+v", Settings{AppSecret: "canary-secret"}, Settings{AppSecret: "canary-secret"})} {
			if strings.Contains(text, "canary") {
				t.Errorf("it says %q", text)
			}
		}
	})
}

// CH-56, CH-58: while the platform knows the uuid, an attempt of which nothing is known is made again; after that it is not.
func TestTheOutboxTriesAgainWhileTheUUIDHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		away  time.Duration // how long the connection breaks after each send was taken
		sends bool
	}{"for a minute": {time.Minute, true}, "for two hours": {2 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
				var err error
				if r.kernel.Outbox, err = channel.OpenOutbox(nil); err != nil {
					t.Fatal(err)
				}
				r.kernel.Init()
				r.kernel.Outbox.Start()
				defer r.kernel.Outbox.Close(context.Background())
				r.serve(t)
				r.fake.Fail(fakefeishu.Fault{Name: "send", Cut: fakefeishu.CutAfter, Times: -1})
				r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
				wait(tt.away)
				r.fake.Mend()
				wait(24 * time.Hour)
				if d := cmp.Diff([]string{"ok"}, r.fake.Texts(private)); d != "" {
					t.Error(d)
				}
				calls := r.fake.Calls("send")
				first, last := calls[0].At, calls[len(calls)-1]
				if last.At.Sub(first) > time.Hour {
					t.Errorf("an attempt %v after the first, when the platform has forgotten it", last.At.Sub(first))
				}
				if got := !last.Cut; got != tt.sends {
					t.Errorf("settled: %v", got)
				}
			})
		})
	}
}

func TestAnAgentSendsFilesOfTheMediaFolderAndNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
		dir := r.channel.store.Dir
		for name, data := range map[string]string{"a.png": "\x89PNG a picture", "b.pdf": "%PDF a paper"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.answer = says("see these", channel.MediaFact{Kind: channel.MediaImage, Path: filepath.Join(dir, "a.png")},
			channel.MediaFact{Kind: channel.MediaDocument, Path: filepath.Join(dir, "b.pdf")}, channel.MediaFact{Kind: channel.MediaImage, URL: "https://example.com/c.png"})
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
			if data := r.fake.Uploaded(c["image_key"] + c["file_key"]); !strings.Contains(string(data), " a p") {
				t.Errorf("it has %q", data)
			}
		}
		outside := filepath.Join(t.TempDir(), "secret.txt")
		if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.answer = says("", channel.MediaFact{Kind: channel.MediaDocument, Path: outside})
		r.mu.Unlock()
		before := len(r.fake.Calls("file", "image"))
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "and?"})
		wait(time.Minute)
		if n := len(r.fake.Calls("file", "image")) - before; n != 0 {
			t.Errorf("%d files of elsewhere are sent", n)
		}
	})
}

// CH-54: whatever a turn does, the platform and the channel are done with it at the end; and a mistake in the settings is said.
func TestSettingsAreChecked(t *testing.T) {
	good := Settings{AppID: "cli_a1", AppSecret: "s", EncryptKey: "0123456789abcdef"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Settings){
		"app_id is missing":     func(s *Settings) { s.AppID = "" },
		"app_id is invalid":     func(s *Settings) { s.AppID = "a1" },
		"app_secret is missing": func(s *Settings) { s.AppSecret = " " },
		"white space":           func(s *Settings) { s.AppSecret = "a canary" },
		// DA-12
		"the encrypt_key has fewer than 16":             func(s *Settings) { s.EncryptKey = "canary-456789ab" },
		"the verification_token has fewer than 16":      func(s *Settings) { s.VerificationToken = "canary-456789ab" },
		"encrypt_key or verification_token is required": func(s *Settings) { s.EncryptKey = "" },
		"api is not an address":                         func(s *Settings) { s.API = "open.feishu.cn" },
		`preview is "draft"`:                            func(s *Settings) { s.Preview = "draft" },
		`format is "html"`:                              func(s *Settings) { s.Format = "html" },
		"max_media is -1":                               func(s *Settings) { s.MaxMedia = -1 },
		"expected at most":                              func(s *Settings) { s.MaxMedia = 1 << 40 },
		"expected https://open.fe":                      func(s *Settings) { s.API = "https://user:canary@open.feishu.cn" },
	} {
		s := good
		change(&s)
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
}

func TestPreviewsSlowDownWhenThePlatformAsksForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		var texts []string
		for i := range 100 {
			texts = append(texts, strings.Repeat("x", i+1))
		}
		r.answer = grows(texts...)
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
