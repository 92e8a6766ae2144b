package slack_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

const (
	maxText = 4000
)

var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// writes writes an answer a word at a time, and pauses after each.
func writes(words int, pause time.Duration) agentFunc {
	return func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
		var b strings.Builder
		for range words {
			b.WriteString("**w<>** ")
			turn.Sink.Preview(channel.Payload{Text: b.String()})
			time.Sleep(pause)
		}
		return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: b.String()})
	}
}

func TestAnAnswerIsOneMessageThatGrowsOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(writes(100, 100*time.Millisecond))
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(time.Minute)
		got := r.fake.Shown(dm)
		if len(got) != 1 || got[0].Text != strings.TrimSpace(strings.Repeat("*w&lt;&gt;* ", 100)) {
			t.Fatalf("got %+v, expected one message with the whole answer, marked", got)
		}
		calls := r.fake.Calls("chat.postMessage", "chat.update")
		if len(calls) < 10 || len(calls) > 12 {
			t.Errorf("got %d writes in 10 s, expected about one a second", len(calls))
		}
		for i := 1; i < len(calls)-1; i++ { // the last is the answer
			if gap := calls[i].At.Sub(calls[i-1].At); gap < time.Second {
				t.Errorf("between two writes there are %s", gap)
			}
			if calls[i].Method != "chat.update" || calls[i].Params["ts"] != got[0].TS {
				t.Errorf("got the write %+v", calls[i])
			}
		}
		if first := calls[0]; first.Method != "chat.postMessage" || first.Params["text"] == "" {
			t.Errorf("got the first write %+v", first)
		}
	})
}

func TestNothingIsShownBeforeItIsFinishedWherePreviewsAreOff(t *testing.T) {
	bubbleWith(t, func(s *slack.Settings) { s.Preview = platform.PreviewOff }, nil, channel.Place{}, func(t *testing.T, r *rig) {
		r.Answers(writes(10, time.Second))
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(time.Minute)
		if calls := r.fake.Calls("chat.postMessage", "chat.update"); len(calls) != 1 {
			t.Errorf("got %+v, expected one message", calls)
		}
	})
}

// CH-177: no text is lost, and the platform takes each message.
func TestALongAnswerIsCutIntoMessages(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"words", strings.Repeat("lorem ipsum dolor. ", 2000)},
		{"what is escaped", strings.Repeat("a&<>b", 3000)},
		{"one word", strings.Repeat("x", 20_000)},
		{"code", "```go\n" + strings.Repeat("if a < b && c > d {}\n", 800) + "```"},
		{"emoji", strings.Repeat("\U0001F600", 6000)},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.Answers(says(tt.text))
			m := r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
			wait(time.Minute)
			got := r.fake.Shown(room)
			var all strings.Builder
			for _, one := range got {
				if n := markup.UTF16(one.Text); n > maxText || one.Thread != m.TS {
					t.Errorf("%s: got a message of %d characters in %q", tt.name, n, one.Thread)
				}
				all.WriteString(unescape.Replace(one.Text))
			}
			bare := regexp.MustCompile("[\\s`\u200b]|go")
			if have, want := bare.ReplaceAllString(all.String(), ""), bare.ReplaceAllString(tt.text, ""); have != want {
				t.Errorf("%s: %d characters have become %d", tt.name, len(want), len(have))
			}
		})
	}
}

// tokens are what the platform reads in a text.
var tokens = regexp.MustCompile(`<([^<>]*)>`)

// hostile are texts that would mention somebody if they were sent as they are.
var hostile = []string{
	"<@U0ANN>", "<!here>", "<!channel>", "<!everyone>", "<!subteam^S1>", "<#C1>", "<@U0ANN|x>", "&lt;@U0ANN&gt;", "&#60;!here&#62;",
	"[x](!here)", "[x](<!here>)", "[x](@U0ANN)", "![x](!channel)", "[<!here>](https://a.test)", "<https://a.test|<!here>>", "\\<!here>", "<\\!here>",
	"`<!here>`", "```\n<!channel>\n```", "<!date^1^{date}|x>", "[x](https://a.test|<!here>)", "[x](javascript:alert)", "<mailto:a@b.test|x>", "> <!here>",
	"| a |\n|---|\n| <!here> |", "<a href=\"!here\">x</a>", "**<!here>**", "[a]: !here\n[a]", "http://a.test/<!here>", "<!here", "!here>", "<<!here>>",
}

func TestWhatAModelWritesMentionsNobody(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, markdown, sent string) {
		for _, m := range tokens.FindAllStringSubmatch(sent, -1) {
			if !strings.HasPrefix(m[1], "https://") && !strings.HasPrefix(m[1], "http://") && !strings.HasPrefix(m[1], "mailto:") {
				t.Errorf("%q was sent as %q, in which %q is invalid; expected one of a link", markdown, sent, m[0])
			}
		}
	}
	bubble(t, func(t *testing.T, r *rig) {
		var text string
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: text})
			time.Sleep(2 * time.Second)
			return says(text)(ctx, turn)
		})
		for _, text = range hostile {
			r.say(fakeslack.Message{Channel: dm, Text: "hi"})
			wait(time.Minute)
		}
		calls := r.fake.Writes()
		if len(calls) < 2*len(hostile)-3 {
			t.Errorf("got %d writes for %d answers", len(calls), len(hostile))
		}
		for _, c := range calls {
			check(t, "", c.Params["text"])
			if c.Error != "" && c.Error != "no_text" {
				t.Errorf("the platform does not take %q: %s", c.Params["text"], c.Error)
			}
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom(hostile), rapid.SampledFrom([]string{"<", ">", "|", "!", "@", "[", "](", ")", "`", "\n", "&", "a", " "}))
		markdown := strings.Join(rapid.SliceOf(part).Draw(rt, "parts"), "")
		for _, p := range markup.Pieces(markdown, markup.SlackMrkdwn, markup.Limit{N: maxText, Marked: true}) {
			check(rt, markdown, p.Text)
		}
	})
}

// CH-53, CH-58: what became of a message by what the platform says, and how often it was sent.
func TestFailuresOfSends(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fakeslack.Fault
		want  string // sent, again, never, unknown
		calls int
		after time.Duration // how long it takes at least
	}{
		{"a pause that is short", fakeslack.Fault{Status: 429, RetryAfter: 7}, "sent", 2, 7 * time.Second},
		{"two pauses", fakeslack.Fault{Status: 429, RetryAfter: 20, Times: 2}, "sent", 3, 40 * time.Second},
		{"a pause that is long", fakeslack.Fault{Status: 429, RetryAfter: 61}, "again", 1, 0},
		{"pauses without end", fakeslack.Fault{Status: 429, RetryAfter: 25, Times: -1}, "again", 3, 50 * time.Second},
		{"a pause as a code", fakeslack.Fault{Error: "ratelimited"}, "sent", 2, 30 * time.Second},
		{"too many messages", fakeslack.Fault{Error: "message_limit_exceeded", Times: -1}, "again", 3, 60 * time.Second},
		{"no conversation", fakeslack.Fault{Error: "channel_not_found"}, "never", 1, 0},
		{"an archived one", fakeslack.Fault{Error: "is_archived"}, "never", 1, 0},
		{"not a member", fakeslack.Fault{Error: "not_in_channel"}, "never", 1, 0},
		{"no right", fakeslack.Fault{Error: "restricted_action"}, "never", 1, 0},
		{"no thread", fakeslack.Fault{Error: "thread_not_found"}, "never", 1, 0},
		{"a scope", fakeslack.Fault{Error: "missing_scope", Needed: "chat:write"}, "never", 1, 0},
		{"too long", fakeslack.Fault{Error: "msg_too_long"}, "never", 1, 0},
		{"a code of tomorrow", fakeslack.Fault{Error: "not_on_mondays"}, "never", 1, 0},
		{"a fault of the platform", fakeslack.Fault{Error: "internal_error"}, "unknown", 1, 0},
		{"another", fakeslack.Fault{Error: "fatal_error"}, "unknown", 1, 0},
		{"a gateway", fakeslack.Fault{Status: 502, Body: "<html>Bad gateway</html>"}, "unknown", 1, 0},
		{"a page", fakeslack.Fault{Status: 200, Body: "<html>hello</html>"}, "unknown", 1, 0},
		{"an object of nothing", fakeslack.Fault{Status: 200, Body: "{}"}, "unknown", 1, 0},
		{"another place", fakeslack.Fault{Status: 404, Body: "<html>Not found</html>"}, "never", 1, 0},
		{"a redirection", fakeslack.Fault{Status: 302, Body: ""}, "never", 1, 0},
		{"a connection that is refused", fakeslack.Fault{Cut: fakeslack.Refused, Times: 3}, "sent", 1, 1750 * time.Millisecond},
		{"no connection", fakeslack.Fault{Cut: fakeslack.Refused, Times: -1}, "again", 0, 0},
		{"a connection that ends before", fakeslack.Fault{Cut: fakeslack.CutBefore}, "unknown", 1, 0},
		{"a connection that ends after", fakeslack.Fault{Cut: fakeslack.CutAfter}, "unknown", 1, 0},
		{"no answer", fakeslack.Fault{Delay: time.Hour}, "unknown", 1, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				tt.fault.Method = "chat.postMessage"
				r.fake.Fail(tt.fault)
				r.Answers(says("answer"))
				began := time.Now()
				r.say(fakeslack.Message{Channel: dm, Text: "hi"})
				for len(r.Outcomes()) == 0 && time.Since(began) < time.Hour {
					wait(100 * time.Millisecond)
				}
				took, calls := time.Since(began), r.fake.Calls("chat.postMessage")
				calls = slices.DeleteFunc(calls, func(c fakeslack.Call) bool { return c.Params["text"] != "answer" }) // a notice
				want := map[string]string{"sent": "visible", "again": "queued", "never": "failed", "unknown": "unknown"}[tt.want]
				if got := r.Outcomes(); len(calls) != tt.calls || !slices.Equal(got, []string{want}) {
					t.Errorf("got %q with %d calls, expected %s with %d", got, len(calls), want, tt.calls)
				}
				if took < tt.after || took > tt.after+5*time.Second {
					t.Errorf("it took %s, expected %s", took, tt.after)
				}
				if log := r.log.String(); strings.Contains(log, r.fake.Token()) || strings.Contains(log, "html") || strings.Contains(log, "://") {
					t.Errorf("the log has what it must not have: %s", log)
				}
				r.fake.Mend()
				wait(3 * time.Minute)
				texts := slices.DeleteFunc(r.texts(dm), func(text string) bool { return text != "answer" })
				if n := len(texts); n > 1 {
					t.Errorf("people see the answer %d times", n)
				} else if n == 0 && tt.want == "again" {
					t.Error("the answer is lost")
				}
			})
		})
	}
}

func TestATokenThatIsNotValidAnyMoreEndsTheChannel(t *testing.T) {
	for _, code := range []string{"invalid_auth", "token_revoked", "account_inactive"} {
		synctest.Test(t, func(t *testing.T) {
			r := setup(t, nil, nil, channel.Place{})
			r.serve()
			if err := r.channel.Ready(); err != nil {
				t.Errorf("got %v of a channel that works", err)
			}
			r.fake.Fail(fakeslack.Fault{Method: "chat.postMessage", Error: code, Times: -1})
			r.say(fakeslack.Message{Channel: dm, Text: "hi"})
			wait(2 * time.Minute)
			d := r.fake.Send(t.Context(), r.fake.Envelope(map[string]any{"type": "message", "channel": dm, "user": ann, "text": "hi", "ts": "1.9"}), 0, "")
			if d.Status != http.StatusServiceUnavailable {
				t.Errorf("got %+v, expected that nothing is taken any more", d)
			}
			ready := r.channel.Ready()
			err := r.end()
			if err == nil || !strings.Contains(err.Error(), "install the app again") || !strings.Contains(err.Error(), code) || !errors.Is(err, ready) {
				t.Errorf("got %v, ready is %v", err, ready)
			}
			if strings.Contains(err.Error()+r.log.String(), r.fake.Token()) {
				t.Error("the token is told")
			}
		})
	}
}

func TestAPlatformThatIsDownAtTheStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, nil, channel.Place{})
		r.fake.Fail(fakeslack.Fault{Method: "auth.test", Cut: fakeslack.Refused, Times: 3}, fakeslack.Fault{Method: "auth.test", Status: 503},
			fakeslack.Fault{Method: "auth.test", Status: 429, RetryAfter: 40})
		r.serve()
		time.Sleep(2 * time.Minute)
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		r.wantTexts(dm, "ok")
		if err := r.end(); err != nil {
			t.Errorf("got %v of an end that somebody wanted", err)
		}
	})
}

func TestAPreviewThatSomebodyHasDeletedIsSentAnew(t *testing.T) {
	for _, code := range []string{"message_not_found", "edit_window_closed", "cant_update_message"} {
		bubble(t, func(t *testing.T, r *rig) {
			r.Answers(writes(2, 3*time.Second))
			r.fake.Fail(fakeslack.Fault{Method: "chat.update", Error: code, Times: -1})
			r.say(fakeslack.Message{Channel: dm, Text: "hi"})
			wait(time.Minute)
			if got := r.texts(dm); len(got) != 2 || got[1] != "*w&lt;&gt;* *w&lt;&gt;*" {
				t.Errorf("got %q, expected the whole answer", got)
			}
		})
	}
}

func TestAnEditThatWasCutOffIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(writes(1, 3*time.Second))
		r.fake.Fail(fakeslack.Fault{Method: "chat.update", Cut: fakeslack.CutAfter, Times: 2}, fakeslack.Fault{Method: "chat.update", Error: "internal_error"})
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(time.Minute)
		if got := r.texts(dm); !slices.Equal(got, []string{"*w&lt;&gt;*"}) || !slices.Equal(r.Outcomes(), []string{"visible"}) {
			t.Errorf("got %q, %q", got, r.Outcomes())
		}
	})
}

func TestAPreviewWhoseAnswerDoesNotComeSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "half <an answer"})
			time.Sleep(2 * time.Second)
			return channel.DispatchResult{}, errors.New("broken")
		})
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(10 * time.Second)
		r.wantTexts(dm, "half &lt;an answer […]")
	})
}

// CH-58
func TestAnAnswerThatThePlatformDoesNotTakeNowIsSentLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fake.Fail(fakeslack.Fault{Method: "chat.postMessage", Status: 429, RetryAfter: 90})
		m := r.say(fakeslack.Message{Channel: room, Text: us + " say hi"})
		r.wantOutcomes("queued")
		r.restart()
		wait(3 * time.Minute)
		if got := r.fake.Shown(room); len(got) != 1 || got[0].Text != "hi" || got[0].Thread != m.TS {
			t.Errorf("got %+v, expected the answer in its thread", got)
		}
	})
}

func TestSettingsAreChecked(t *testing.T) {
	good := slack.Settings{Token: "xoxb-1-a", SigningSecret: "0123456789abcdef"}
	for _, tt := range []struct {
		name, want string
		change     func(*slack.Settings)
	}{
		{"good", "", func(*slack.Settings) {}},
		{"a token that is renewed", "", func(s *slack.Settings) { s.Token = "xoxe.xoxb-1-a" }},
		{"no token", "token is missing", func(s *slack.Settings) { s.Token = " " }},
		{"a user's", "not a bot token", func(s *slack.Settings) { s.Token = "xoxp-1" }},
		{"an app's", "not a bot token", func(s *slack.Settings) { s.Token = "xapp-1" }},
		{"no secret", "signing_secret is missing", func(s *slack.Settings) { s.SigningSecret = "" }},
		{"a short secret", "fewer than 16 characters", func(s *slack.Settings) { s.SigningSecret = " 0123456789abcde " }}, // DA-12
	} {
		s := good
		tt.change(&s)
		_, err := slack.New(s)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if err != nil && strings.TrimSpace(string(s.Token)) != "" && strings.Contains(err.Error(), string(s.Token)) {
			t.Errorf("%s: the token is in %q", tt.name, err)
		}
	}
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "settings", good, "token", good.Token)
	if strings.Contains(b.String(), "xoxb") {
		t.Errorf("got %s", b.String())
	}
}

func TestACheckSaysWhetherTheChannelCouldStart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		scopes string
		fault  *fakeslack.Fault
		want   string // of the error
		about  string
	}{
		{"all", "", nil, "", "@ling in the workspace Fake"},
		{"fewer", "chat:write,im:history,app_mentions:read", nil, "", "@ling in the workspace Fake, without the scopes channels:history, files:read, files:write, reactions:write, users:read"},
		{"no writing", "im:history", nil, "chat:write", ""},
		{"no token", "", &fakeslack.Fault{Error: "invalid_auth"}, "no longer valid", ""},
		{"no platform", "", &fakeslack.Fault{Cut: fakeslack.Refused}, "cannot connect to the platform", ""},
		{"something else", "", &fakeslack.Fault{Status: 404, Body: "no"}, "check the setting api", ""},
	} {
		r := setup(t, nil, &fakeslack.Options{Scopes: tt.scopes}, channel.Place{})
		if tt.fault != nil {
			r.fake.Fail(*tt.fault)
		}
		err := r.channel.Check(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if tt.about != "" && r.channel.About() != tt.about {
			t.Error(cmp.Diff(tt.about, r.channel.About()))
		}
		if len(r.fake.Writes()) != 0 {
			t.Error("a check writes")
		}
	}
}

func TestFilesOfTheMediaFolderAreSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		outside := t.TempDir() + "/secret.txt"
		for name, data := range map[string]string{r.settings.Media + "/cat.png": "meow", outside: "secret"} {
			if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		send := func(text, path string) (outcome string) {
			before := len(r.Outcomes())
			r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
				media := []channel.MediaFact{{Path: path, Kind: channel.MediaImage}, {URL: "https://a.test/b"}}
				if text == "" {
					media = media[:1]
				}
				return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Media: media})
			})
			r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
			wait(5 * time.Second)
			return strings.Join(r.Outcomes()[before:], " ")
		}
		if got := send("look", r.settings.Media+"/cat.png"); got != "visible" {
			t.Fatalf("got %s", got)
		}
		got := r.fake.Shown(room)
		if len(got) != 2 || !strings.Contains(got[0].Text, "https://a.test/b") || got[1].Thread != got[0].Thread || got[1].More["files"].([]any)[0].(map[string]any)["name"] != "cat.png" {
			t.Fatalf("got %+v", got)
		}
		if up := r.fake.Calls("upload"); len(up) != 1 || up[0].Params["body"] != "meow" {
			t.Errorf("got %+v", up)
		}
		// The text is seen, what is outside of the folder is not sent.
		if got := send("look", outside); got != "partial" || len(r.fake.Calls("upload")) != 1 {
			t.Errorf("got %s", got)
		}
		for _, tt := range []struct {
			fault fakeslack.Fault
			want  string
		}{
			{fakeslack.Fault{Method: "files.getUploadURLExternal", Error: "missing_scope", Needed: "files:write"}, "failed"},
			{fakeslack.Fault{Method: "upload", Status: 500}, "unknown"}, // the library does not say which call has failed
			{fakeslack.Fault{Method: "upload", Cut: fakeslack.Refused}, "visible"},
			{fakeslack.Fault{Method: "files.completeUploadExternal", Cut: fakeslack.CutAfter}, "unknown"},
		} {
			r.fake.Fail(tt.fault)
			if got := send("", r.settings.Media+"/cat.png"); got != tt.want {
				t.Errorf("%+v: got %s, expected %s", tt.fault, got, tt.want)
			}
			wait(time.Minute)
		}
		if strings.Contains(r.log.String(), "/upload/") {
			t.Error("the address of an upload is in the log")
		}
	})
}

func TestPreviewsWaitAsLongAsThePlatformAsks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(writes(60, time.Second))
		r.fake.Fail(fakeslack.Fault{Method: "chat.update", Status: 429, RetryAfter: 30, Skip: 3})
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(5 * time.Minute)
		var at []time.Time
		for _, c := range r.fake.Calls("chat.postMessage", "chat.update") {
			at = append(at, c.At)
		}
		if gap := at[5].Sub(at[4]); gap < 30*time.Second {
			t.Errorf("the next preview came after %s, expected that 30 s are waited", gap)
		}
		if got := r.texts(dm); len(got) != 1 || !slices.Equal(r.Outcomes(), []string{"visible"}) {
			t.Errorf("got %q, %q", got, r.Outcomes())
		}
		if n := strings.Count(r.log.String(), "level=WARN"); n > 1 {
			t.Errorf("one pause is %d warnings", n)
		}
	})
}
