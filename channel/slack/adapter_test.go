package slack_test

import (
	"context"
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
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/tool"
)

func TestTextsAreReadAsTheyWereWritten(t *testing.T) {
	bubbleWith(t, nil, nil, channel.Place{Users: []string{ann}}, func(t *testing.T, r *rig) {
		r.Answers(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{NoReply: true}, nil
		})
		r.say(fakeslack.Message{Channel: dm, Text: "hi"}) // then the name of Ann is known
		for _, tt := range []struct {
			name, text, want string
			us               bool
		}{
			{"plain", "hello", "hello", false},
			{"what is escaped", "a &lt; b &amp;&amp; c &gt; d &amp;lt;", "a < b && c > d &lt;", false},
			{"the bot first", us + " hello", "hello", true},
			{"the bot with a colon", us + ": hello", "hello", true},
			{"the bot with a comma", us + ", hello", "hello", true},
			{"a command for the bot", us + " ,help", ",help", true},
			{"a command right behind it", us + ",help", ",help", true},
			{"the bot in the middle", "ask " + us + " about it", "ask about it", true},
			{"the bot at the end", "what is it, " + us, "what is it,", true},
			{"the bot with its name", "<@U0BOT|ling> hello", "hello", true},
			{"somebody else", "<@U0ANN> look", "@Ann Lee look", false},
			{"somebody with a name", "<@U9|joe> look", "@joe look", false},
			{"somebody unknown", "<@U9> look", "@U9 look", false},
			{"the bot in another's id", "<@U0BOTX> look", "@U0BOTX look", false},
			{"a channel", "in <#C1|general>", "in #general", false},
			{"a channel without a name", "in <#C1>", "in #C1", false},
			{"all who are here", "<!here> look", "@here look", false},
			{"a group", "<!subteam^S1|@team> look", "@team look", false},
			{"a group without a name", "<!subteam^S1> look", "@S1 look", false},
			{"a date", "on <!date^1392734382^{date}|Feb 18>", "on Feb 18", false},
			{"a link", "see <https://a.test/?x=1&amp;y=2>", "see https://a.test/?x=1&y=2", false},
			{"a link with a text", "see <https://a.test/|here>", "see here (https://a.test/)", false},
			{"a link with itself as text", "see <http://a.test|a.test>", "see http://a.test", false},
			{"an address", "<mailto:a@b.test|a@b.test>", "a@b.test", false},
			{"a bracket that is not closed", "a <b", "a <b", false},
			{"empty brackets", "a <> b", "a  b", false},
			{"what somebody has written as one", "&lt;@U0BOT&gt; hello", "<@U0BOT> hello", false},
		} {
			wait(time.Minute) // a sender has a rate
			r.say(fakeslack.Message{Channel: dm, Text: tt.text})
			told := r.Told()
			if got := told[len(told)-1]; got.BodyForCommands != tt.want || got.WasMentioned != tt.us {
				t.Errorf("%s: got %q, mentioned: %t, expected %q", tt.name, got.BodyForCommands, got.WasMentioned, tt.want)
			}
		}
	})
}

func TestADirectMessageIsAnsweredWhereItStands(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: dm, Text: "say &lt;hi&gt;"})
		r.say(fakeslack.Message{Channel: dm, Text: "say there", Thread: "1700000000.000009"})
		got := r.fake.Shown(dm)
		if len(got) != 2 || got[0].Text != "&lt;hi&gt;" || got[0].Thread != "" || got[1].Text != "there" || got[1].Thread != "1700000000.000009" {
			t.Fatalf("got %+v", got)
		}
		told := r.Told()
		if told[0].SessionKey != "slack:D0ANN" || told[1].SessionKey != "slack:D0ANN#1700000000.000009" || told[1].ParentSessionKey != "slack:D0ANN" {
			t.Errorf("got the sessions %q and %q below %q", told[0].SessionKey, told[1].SessionKey, told[1].ParentSessionKey)
		}
		if told[0].SenderName != "Ann Lee" || told[0].SenderUsername != "ann" || told[0].ChatType != channel.Direct || told[0].GroupSpace != fakeslack.Team {
			t.Errorf("got %+v", told[0])
		}
		if n := len(r.fake.Calls("users.info")); n != 1 {
			t.Errorf("the platform was asked %d times for one name", n)
		}
		if got := told[0].Timestamp; got.Unix() != 1_700_000_001 || got.Nanosecond() != 100_000 {
			t.Errorf("got the time %s", got)
		}
	})
}

func TestAMentionIsAnsweredOnceInAThreadThatGoesOnWithoutOne(t *testing.T) {
	state := channel.NewTexts()
	bubbleWith(t, func(s *slack.Settings) { s.State = state }, nil, channel.Place{}, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: room, Text: "by the way"})
		thread := r.say(fakeslack.Message{Channel: room, Text: us + " say hello", User: bob}).TS
		r.say(fakeslack.Message{Channel: room, Text: "say more", Thread: thread})
		r.say(fakeslack.Message{Channel: room, Text: "say nothing", Thread: "1600000000.000001"}) // of others
		got := r.fake.Shown(room)
		if len(got) != 2 || got[0].Text != "hello" || got[1].Text != "more" || got[0].Thread != thread || got[1].Thread != thread {
			t.Fatalf("got %+v, expected two answers in the thread of the mention", got)
		}
		r.wantOutcomes("blocked missing_mention", "visible", "visible", "blocked missing_mention") // the message and the mention are one turn
		told := r.Told()
		if told[0].SessionKey != "slack:C0ROOM#"+thread || told[1].SessionKey != told[0].SessionKey || told[0].ParentSessionKey != "slack:C0ROOM" {
			t.Errorf("got the sessions %q and %q", told[0].SessionKey, told[1].SessionKey)
		}
		if !told[0].WasMentioned || told[1].WasMentioned || !told[1].Addressed || told[0].BodyForAgent != "say hello" || told[0].SenderName != "Bob" {
			t.Errorf("got %+v and %+v", told[0], told[1])
		}
		if h := told[0].InboundHistory; len(h) != 1 || h[0].Body != "by the way" || !strings.Contains(h[0].Sender, "Ann Lee") {
			t.Errorf("got the history %+v, expected what was said before", h)
		}
		r.restart()
		r.say(fakeslack.Message{Channel: room, Text: "say still here", Thread: thread})
		r.wantTexts(room, "hello", "more", "still here")
	})
}

// CL-02
func TestAThreadIsKnownToOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := channel.NewTexts()
		share := func(s *slack.Settings) { s.State = state }
		one, two := setup(t, share, nil, channel.Place{}), setup(t, share, nil, channel.Place{})
		one.serve()
		two.serve()
		m := one.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		two.say(fakeslack.Message{Channel: room, Text: "by the way"})
		two.say(fakeslack.Message{Channel: room, Text: "and now", Thread: m.TS})
		two.wantTexts(room, "ok")
	})
}

func TestWhicheverOfMessageAndMentionComesFirstRuns(t *testing.T) {
	for _, kinds := range [][]string{{"message", "app_mention"}, {"app_mention", "message"}, {"app_mention"}} {
		bubble(t, func(t *testing.T, r *rig) {
			for _, kind := range kinds {
				inner := map[string]any{"type": kind, "channel": room, "user": ann, "text": us + " hi", "ts": "1700000000.000001", "event_ts": "1700000000.000001"}
				if kind == "message" {
					inner["channel_type"] = "channel"
				}
				if d := r.fake.Send(t.Context(), r.fake.Envelope(inner), 0, ""); d.Status != http.StatusOK {
					t.Errorf("got %+v", d)
				}
				synctest.Wait()
			}
			r.wantOutcomes("visible")
			if got := r.Told()[0].SessionKey; got != "slack:C0ROOM#1700000000.000001" {
				t.Errorf("%q: got the session %q", kinds, got)
			}
		})
	}
}

func TestAnswersMayStandInTheChannel(t *testing.T) {
	bubbleWith(t, func(s *slack.Settings) { s.Replies = slack.ReplyInChannel }, nil, channel.Place{}, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: room, Text: us + " say one"})
		r.say(fakeslack.Message{Channel: room, Text: us + " say two", Thread: "1700000000.000009"})
		got := r.fake.Shown(room)
		if len(got) != 2 || got[0].Thread != "" || got[1].Thread != "1700000000.000009" {
			t.Fatalf("got %+v", got)
		}
		if key := r.Told()[0].SessionKey; key != "slack:C0ROOM" {
			t.Errorf("got the session %q", key)
		}
	})
}

// CH-98
func TestEditsAndDeletionsChangeWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		one := r.say(fakeslack.Message{Channel: room, Text: "frist"})
		two := r.say(fakeslack.Message{Channel: room, Text: "secret"})
		answered := one
		answered.Thread = one.TS // as the platform has a message that there are answers to
		r.fake.Edit(answered, "first, for <@"+bob+">")
		r.fake.Delete(two)
		synctest.Wait()
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		told := r.Told()
		if len(told) != 1 || len(told[0].InboundHistory) != 1 || told[0].InboundHistory[0].Body != "first, for @U0BOB" {
			t.Fatalf("got %+v, expected the text as it was changed, and nothing of the one that was deleted", told)
		}
		for _, o := range r.Outcomes()[2:4] {
			if o != "blocked not_a_turn" {
				t.Errorf("got %q, expected that neither starts a turn", r.Outcomes())
			}
		}
	})
}

// CH-98: what somebody changes who may not talk here any more is not told to the agent.
func TestAnEditOfWhoMayNotTalkAnyMoreTakesTheMessageAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.say(fakeslack.Message{Channel: room, Text: "by the way"})
		if err := r.tree.Set(channeltest.Configuration("slack", channel.Place{GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{bob}})); err != nil {
			t.Fatal(err)
		}
		r.fake.Edit(m, "canary")
		synctest.Wait()
		r.say(fakeslack.Message{Channel: room, User: bob, Text: us + " hi"})
		if told := r.Told(); len(told) != 1 || len(told[0].InboundHistory) != 0 {
			t.Errorf("got %+v", told)
		}
	})
}

func TestTheBotIsNotItsOwnCompany(t *testing.T) {
	bubbleWith(t, nil, &fakeslack.Options{Echo: true}, channel.Place{}, func(t *testing.T, r *rig) {
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			turn.Sink.Preview(channel.Payload{Text: "ha"})
			time.Sleep(5 * time.Second)
			return says("hail <@"+fakeslack.Bot+">")(ctx, turn)
		})
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		wait(time.Minute)
		if got := len(r.Told()); got != 2 {
			t.Errorf("the agent was asked %d times, expected twice", got)
		}
		var echoes int
		for _, o := range r.Outcomes() {
			if o == "blocked self_echo" {
				echoes++
			} else if o != "visible" {
				t.Errorf("got %q", o)
			}
		}
		// Of each message once. Of their edits the kernel is not told.
		if echoes != 2 {
			t.Errorf("got %q, expected two echoes", r.Outcomes())
		}
	})
}

func TestOtherBotsAreNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: room, User: "U0OTHER", BotID: "B0OTHER", Text: us + " hi"})
		r.say(fakeslack.Message{Channel: room, User: "USLACKBOT", Text: us + " hi"})
		r.fake.Tell(r.fake.Envelope(map[string]any{
			"type": "message", "subtype": "bot_message", "channel": room, "channel_type": "channel", "bot_id": "B0HOOK", "username": "Build", "ts": "1700000000.000001",
			"text": "", "attachments": []any{map[string]any{"fallback": us + " broken"}},
		}))
		synctest.Wait()
		r.wantOutcomes("blocked bot_not_allowed", "blocked bot_not_allowed", "blocked bot_not_allowed")
		if n := len(r.fake.Calls("users.info")); n != 0 {
			t.Errorf("the platform was asked %d times for the name of a bot", n)
		}
	})
}

func TestASlashCommandIsACommand(t *testing.T) {
	bubbleWith(t, nil, nil, channel.Place{Users: []string{ann}}, func(t *testing.T, r *rig) {
		for _, tt := range []struct{ text, user string }{{"", ann}, {"model fast", ann}, {",help", ann}, {"help", bob}} {
			if d := r.fake.Send(t.Context(), r.fake.Command("/ling", tt.text, room, tt.user), 0, ""); d.Status != http.StatusOK || len(d.Body) != 0 {
				t.Errorf("%q: got %+v, expected an empty 200", tt.text, d)
			}
			wait(time.Minute) // the platform takes one message a second
		}
		var said []string
		for _, c := range r.Told() {
			said = append(said, c.BodyForCommands)
			if !c.CommandAuthorized || c.Role != tool.User || c.SessionKey != "slack:C0ROOM" {
				t.Errorf("got %+v, expected an authorized command", c)
			}
		}
		if !slices.Equal(said, []string{",help", ",model fast", ",help"}) {
			t.Errorf("got %q", said)
		}
		if got := r.Outcomes(); got[3] != "blocked command_not_allowed" {
			t.Errorf("got %q, expected that bob has no commands", got)
		}
		// DC-04: bob is told.
		if got := r.texts(room); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "You may not use commands here.") {
			t.Errorf("got %q", got)
		}
		if strings.Contains(r.log.String(), "hooks.slack") {
			t.Error("the address that a command is answered at is in the log")
		}
	})
}

func TestWhatSomebodyDoesWithButtonsAndReactionsStartsNoTurn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fake.Tell([]byte("payload=" + url.QueryEscape(`{"type":"block_actions","trigger_id":"1.2","team":{"id":"`+fakeslack.Team+
			`"},"user":{"id":"U0ANN"},"channel":{"id":"C0ROOM"},"message":{"ts":"1.1","thread_ts":"1.0"},"actions":[{"action_id":"x"}]}`)))
		r.fake.Tell(r.fake.Envelope(map[string]any{
			"type": "reaction_added", "user": ann, "reaction": "tada", "item": map[string]any{"type": "message", "channel": room, "ts": "1.1"},
		}))
		r.fake.Tell(r.fake.Envelope(map[string]any{
			"type": "message", "subtype": "channel_join", "channel": room, "channel_type": "channel", "user": ann, "text": "<@U0ANN> has joined", "ts": "1.2",
		}))
		synctest.Wait()
		r.wantOutcomes()
		for _, d := range r.fake.Deliveries() {
			if d.Status != http.StatusOK {
				t.Errorf("got %+v", d)
			}
		}
	})
}

func TestFilesBecomeMedia(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		png := []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("x", 100))
		var dir string
		r := setup(t, func(s *slack.Settings) { dir, s.MaxMedia = s.Media, 1000 }, nil, channel.Place{})
		root, err := channel.OpenMediaRoot(dir, 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		r.kernel = func(k *kernel.Kernel) { k.Media = root }
		r.serve()
		const base = "http://api.test"
		good := r.fake.AddFile(base, "F1", "cat.PNG", "image/png", png)
		large := r.fake.AddFile(base, "F2", "book.pdf", "application/pdf", make([]byte, 2000))
		lying := r.fake.AddFile(base, "F3", "lie.bin", "application/octet-stream", make([]byte, 2000))
		lying["size"] = 10
		elsewhere := r.fake.AddFile("https://files.slack.com.evil.test", "F4", "x.png", "image/png", png)
		denied := r.fake.AddFile(base, "F5", "y.png", "", nil)
		denied["mimetype"] = "image/png"
		drive := r.fake.AddFile(base, "F6", "z.doc", "application/msword", png)
		drive["mode"], drive["is_external"] = "external", true
		gone := map[string]any{"id": "F7", "mode": "tombstone"}
		bad := map[string]any{"id": "F8", "size": "many"} // of no form that the library knows
		nameless := r.fake.AddFile(base, "../../F9", "../../up.png", "image/png", png)
		r.say(fakeslack.Message{Channel: dm, Text: "look", More: map[string]any{
			"subtype": "file_share", "files": []any{good, large, lying, elsewhere, denied, drive, gone, bad, nameless},
		}})
		told := r.Told()
		if len(told) != 1 {
			t.Fatalf("got %d turns: %s", len(told), r.log)
		}
		var kept []string
		for _, m := range told[0].Media {
			if m.Path != "" {
				kept = append(kept, filepath.Base(m.Path))
				data, err := os.ReadFile(m.Path)
				if err != nil || string(data) != string(png) {
					t.Errorf("got %q, %v", data, err)
				}
			}
			if m.URL != "" {
				t.Errorf("got the address %q", m.URL)
			}
		}
		if !slices.Equal(kept, []string{"slack-F1.png", "slack-F9.png"}) || len(told[0].Media) != 7 {
			t.Errorf("got the files %q of %+v", kept, told[0].Media)
		}
		want := []string{
			"look", `[document "book.pdf" is too large: 2000 bytes; expected at most 1000]`, `[document "lie.bin" is too large; expected at most 1000 bytes]`,
			`[image "x.png" could not be loaded]`, `[image "y.png" could not be loaded]`, `[document "z.doc" could not be loaded]`,
		}
		if got := strings.Split(told[0].BodyForAgent, "\n"); !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		for _, c := range r.fake.Calls("file") {
			if c.Error != "" {
				t.Errorf("got %+v", c)
			}
		}
		if strings.Contains(r.log.String(), "files-pri") || strings.Contains(r.log.String(), r.fake.Token()) {
			t.Error("an address or the token is in the log")
		}
		entries, _ := os.ReadDir(dir)
		if len(entries) != 2 {
			t.Errorf("got %v, expected that no part of a file stays", entries)
		}
	})
}

func TestTheTokenGoesToSlackAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i, tt := range []struct {
			address string
			want    bool
		}{
			{"https://files.slack.com/files-pri/x", true},
			{"https://acme.enterprise.slack.com/files-pri/x", true},
			{"https://SLACK.com:443/files-pri/x", true},
			{"http://files.slack.com/files-pri/x", false},
			{"https://slack.com.evil.test/files-pri/x", false},
			{"https://evilslack.com/files-pri/x", false},
			{"https://files.slack.com@evil.test/files-pri/x", false},
			{"//files.slack.com/files-pri/x", false},
			{"https://evil.test/files-pri/.slack.com", false},
			{"file:///files-pri/hostname", false},
			{"", false},
		} {
			before := len(r.fake.Calls("file"))
			file := map[string]any{"id": "F" + string(rune('A'+i)), "name": "x", "mode": "hosted", "mimetype": "image/png", "url_private": tt.address}
			r.say(fakeslack.Message{Channel: dm, Text: "look", More: map[string]any{"files": []any{file}}})
			if got := len(r.fake.Calls("file")) > before; got != tt.want {
				t.Errorf("%s: asked for the file: %t", tt.address, got)
			}
		}
	})
}

func TestNobodyIsAskedAfterWhoMayNotTalk(t *testing.T) {
	place := channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{bob}}
	bubbleWith(t, nil, nil, place, func(t *testing.T, r *rig) {
		file := r.fake.AddFile("http://api.test", "F1", "canary.png", "image/png", []byte("x"))
		r.say(fakeslack.Message{Channel: dm, Text: "canary", More: map[string]any{"files": []any{file}}})
		r.wantOutcomes("blocked dm_not_allowed")
		if got := r.fake.Calls(); len(got) != 1 || got[0].Method != "auth.test" {
			t.Errorf("got the calls %+v", got)
		}
		if strings.Contains(r.log.String(), "canary") {
			t.Errorf("the words of who may not talk are in the log: %s", r.log)
		}
	})
}

// CH-109
func TestAMessageOfElsewhereIsAQuoteThatMayBeHidden(t *testing.T) {
	for _, tt := range []struct {
		name  string
		place channel.Place
		want  string
	}{
		{"everybody is visible", channel.Place{Visibility: channel.VisibleAll}, "said <elsewhere>"},
		{"those who may talk are visible", channel.Place{
			Visibility: channel.VisibleAllowlist, DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{ann},
		}, ""},
	} {
		bubbleWith(t, nil, nil, tt.place, func(t *testing.T, r *rig) {
			r.say(fakeslack.Message{Channel: dm, Text: "see", More: map[string]any{"attachments": []any{map[string]any{
				"is_msg_unfurl": true, "author_id": bob, "author_name": "Bob", "channel_id": "C0OTHER", "ts": "1.1", "text": "said &lt;elsewhere&gt;",
			}}}})
			if told := r.Told(); len(told) != 1 || told[0].ReplyToBody != tt.want {
				t.Errorf("%s: got %+v, expected %q", tt.name, told, tt.want)
			}
		})
	}
}

func TestANameThatIsNotToldChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fake.Fail(fakeslack.Fault{Method: "users.info", Delay: time.Hour})
		r.say(fakeslack.Message{Channel: dm, Text: "one"})
		wait(3 * time.Second)
		if n := len(r.Told()); n != 1 {
			t.Errorf("got %d turns, expected that a name is not waited for", n)
		}
		r.fake.Mend()
		r.fake.Fail(fakeslack.Fault{Method: "users.info", Times: -1, Error: "missing_scope", Needed: "users:read"})
		r.say(fakeslack.Message{Channel: dm, Text: "two"})
		r.say(fakeslack.Message{Channel: room, User: bob, Text: us + " three"})
		if told := r.Told(); len(told) != 3 || told[1].SenderID != ann || told[1].SenderName != "" {
			t.Errorf("got %+v", told)
		}
		if n := len(r.fake.Calls("users.info")); n != 2 {
			t.Errorf("the platform was asked %d times, expected once for what the app may not ask", n)
		}
	})
}

func TestAMentionThatIsWrittenIntoAMessageLaterStartsNoTurn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fake.Tell(r.fake.Envelope(map[string]any{
			"type": "app_mention", "channel": room, "user": ann, "text": us + " hi", "ts": "1700000000.000001", "event_ts": "1700000009.000001",
			"edited": map[string]any{"user": ann, "ts": "1700000009.000000"},
		}))
		synctest.Wait()
		r.wantOutcomes("blocked not_a_turn")
	})
}

func TestAnAnswerToAMessageOfTheBotIsForTheBot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for parent, want := range map[string]string{fakeslack.Bot: "visible", bob: "blocked missing_mention"} {
			before := len(r.Outcomes())
			r.say(fakeslack.Message{Channel: room, Text: "thanks", Thread: "16." + parent, More: map[string]any{"parent_user_id": parent}})
			if got := r.Outcomes()[before:]; !slices.Equal(got, []string{want}) {
				t.Errorf("a message of %s: got %q, expected %q", parent, got, want)
			}
		}
	})
}

// CH-101
func TestWhoIsNotPairedIsToldTheCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, nil, nil, channel.Place{DMPolicy: channel.PolicyPairing})
		pairs := channel.NewPairs(nil)
		r.kernel = func(k *kernel.Kernel) { k.Pairing = pairs }
		r.serve()
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		r.say(fakeslack.Message{Channel: dm, Text: "hello?"})
		list, err := pairs.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("got %+v, %v", list, err)
		}
		if got := r.texts(dm); len(got) != 1 || !strings.Contains(got[0], list[0].Code) {
			t.Errorf("got %q, expected the code once", got)
		}
		if _, err := pairs.Approve(t.Context(), "", list[0].Code); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		if got := r.texts(dm); len(got) < 3 || !strings.HasPrefix(got[1], "You are paired") || got[2] != "ok" || r.Told()[0].BodyForAgent != "hi" {
			t.Errorf("got %q, expected that the first message is answered", got)
		}
	})
}

func TestTextsOfOneSenderAreOneTurnWithDebounce(t *testing.T) {
	bubbleWith(t, nil, nil, channel.Place{Debounce: new(2 * time.Second)}, func(t *testing.T, r *rig) {
		r.say(fakeslack.Message{Channel: dm, Text: "one"})
		wait(time.Second)
		r.say(fakeslack.Message{Channel: dm, Text: "two"})
		wait(time.Minute)
		if told := r.Told(); len(told) != 1 || told[0].BodyForAgent != "one\ntwo" {
			t.Errorf("got %+v", told)
		}
	})
}
