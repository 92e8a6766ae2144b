package telegram

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/markup"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// CH-173, CH-177
func TestEachKindOfChatIsAnsweredInItsPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		m       faketelegram.Message
		kind    channel.ChatType
		session string
		thread  int // of the answer
		replies bool
	}{
		"a private chat":            {faketelegram.Message{Chat: private, From: ann, Text: "hi"}, channel.Direct, "telegram:7", 0, false},
		"a group":                   {faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"}, channel.Group, "telegram:-5", 0, true},
		"a topic":                   {faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot hi", ThreadID: 3, IsTopic: true}, channel.Group, "telegram:-1007#3", 3, true},
		"the general topic":         {faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot hi", ThreadID: 1, IsTopic: true}, channel.Group, "telegram:-1007", 0, true},
		"a thread that is no topic": {faketelegram.Message{Chat: forum, From: ann, Text: "@ling_bot hi", ThreadID: 99}, channel.Group, "telegram:-1007", 0, true},
		"a channel":                 {faketelegram.Message{Chat: posts, SenderChat: &posts, Text: "@ling_bot hi"}, channel.Broadcast, "telegram:-1008", 0, false},
		"somebody who writes in the group's name": {
			faketelegram.Message{Chat: forum, From: &faketelegram.User{ID: 1087968824, IsBot: true, FirstName: "Group", Username: "GroupAnonymousBot"}, SenderChat: &forum, Text: "@ling_bot hi"},
			channel.Group, "telegram:-1007", 0, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.serve(t)
				m := r.say(tt.m)
				if len(r.told()) != 1 {
					t.Fatalf("%d turns; %v", len(r.told()), r.outcomes())
				}
				c := r.told()[0]
				if c.ChatType != tt.kind || c.SessionKey != tt.session || c.BodyForAgent != "hi" {
					t.Errorf("kind %s, session %s, body %q", c.ChatType, c.SessionKey, c.BodyForAgent)
				}
				if tt.m.SenderChat != nil && c.SenderID != "-1007" && c.SenderID != "-1008" {
					t.Errorf("the sender is %s, not the chat", c.SenderID)
				}
				got := r.fake.Messages(tt.m.Chat.ID, 0)
				answer := got[len(got)-1]
				if answer.Text != "ok" || answer.ThreadID != tt.thread {
					t.Fatalf("%+v", answer)
				}
				if replies := answer.ReplyTo != nil && answer.ReplyTo.ID == m.ID; replies != tt.replies {
					t.Errorf("it replies: %v, expected %v", replies, tt.replies)
				}
				for _, c := range r.fake.Calls("sendChatAction") {
					if c.Int("message_thread_id") != int64(tt.thread) {
						t.Errorf("the sign of typing is in topic %s", c.Params["message_thread_id"])
					}
				}
			})
		})
	}
}

// CH-174, CH-106, CH-108
func TestWhoIsMeantIsKnownByEntitiesNamesAndReplies(t *testing.T) {
	me := faketelegram.User{ID: 42, IsBot: true, FirstName: "Ling", Username: "ling_bot"}
	ours := &faketelegram.Message{ID: 900, Chat: group, From: &me, Date: 1, Text: "I said"}
	theirs := &faketelegram.Message{ID: 901, Chat: group, From: bob, Date: 1, Text: "he said"}
	for name, tt := range map[string]struct {
		m    faketelegram.Message
		runs bool
		body string
	}{
		"nobody is meant":              {faketelegram.Message{Text: "hi all"}, false, ""},
		"a mention":                    {faketelegram.Message{Text: "hi @Ling_Bot there"}, true, "hi there"},
		"behind what takes two units":  {faketelegram.Message{Text: "😀😀 @ling_bot 你好"}, true, "😀😀 你好"},
		"a mention of somebody else":   {faketelegram.Message{Text: "hi @linger_bot"}, false, ""},
		"a mention without a handle":   {faketelegram.Message{Text: "hi Ling!", Entities: []faketelegram.Entity{{Type: "text_mention", Offset: 3, Length: 4, User: &me}}}, true, "hi !"},
		"the same of somebody else":    {faketelegram.Message{Text: "hi Bob", Entities: []faketelegram.Entity{{Type: "text_mention", Offset: 3, Length: 3, User: bob}}}, false, ""},
		"an entity that lies outside":  {faketelegram.Message{Text: "hi", Entities: []faketelegram.Entity{{Type: "mention", Offset: 1, Length: 500}}}, false, ""},
		"an entity within a character": {faketelegram.Message{Text: "😀abc", Entities: []faketelegram.Entity{{Type: "mention", Offset: 1, Length: 3}}}, false, ""},
		"a name of the configuration":  {faketelegram.Message{Text: "请小灵帮忙"}, true, "请小灵帮忙"},
		"a word that has the name":     {faketelegram.Message{Text: "Lingering"}, false, ""},
		"a reply to the bot":           {faketelegram.Message{Text: "and?", ReplyTo: ours}, true, "and?"},
		"a reply to somebody else":     {faketelegram.Message{Text: "and?", ReplyTo: theirs}, false, ""},
		"a quote of the bot from elsewhere": {
			faketelegram.Message{Text: "see", Quote: &faketelegram.Quote{Text: "I said"}, External: &faketelegram.External{Origin: faketelegram.Origin{Type: "user", Date: 1, SenderUser: &me}}},
			true, "see",
		},
		"a caption": {faketelegram.Message{Caption: "@ling_bot what is this?", Photo: []faketelegram.File{{FileID: "x", FileUniqueID: "x"}}}, true, "what is this?\n[image could not be loaded]"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				more := kernel(t, channel.Place{Patterns: []string{"Ling", "小灵"}})
				r.kernel.Settings, r.kernel.Routes = more.Settings, more.Routes
				r.serve(t)
				tt.m.Chat, tt.m.From = group, ann
				r.say(tt.m)
				time.Sleep(time.Second)
				if runs := len(r.told()) == 1; runs != tt.runs {
					t.Fatalf("%d turns, %v", len(r.told()), r.outcomes())
				}
				if tt.runs && r.told()[0].BodyForAgent != tt.body {
					t.Errorf("%q, expected %q", r.told()[0].BodyForAgent, tt.body)
				}
			})
		})
	}
}

// CH-173: what begins a topic is what every message in it refers to.
func TestAMessageInATopicOfTheBotIsNoReplyToIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		me := r.fake.Me()
		r.say(faketelegram.Message{Chat: forum, From: ann, Text: "hi", ThreadID: 3, IsTopic: true, ReplyTo: &faketelegram.Message{
			ID: 3, ThreadID: 3, IsTopic: true, Chat: forum, From: &me, Date: 1, TopicCreated: &faketelegram.Topic{Name: "x"},
		}})
		if len(r.told()) != 0 {
			t.Error("it counts as a reply")
		}
	})
}

// CH-174
func TestSlashCommandsAreCommaCommands(t *testing.T) {
	for text, want := range map[string]string{
		"/help":                     ",help",
		"/help@ling_bot":            ",help",
		"/HELP@LING_BOT me":         ",HELP me",
		"/session_list 3 /x":        ",session.list 3 /x",
		",help":                     ",help",
		"@ling_bot ,help":           ",help",
		"/help@other_bot":           "drop",
		"please @ling_bot do /help": "please do /help",
	} {
		t.Run(text, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				more := kernel(t, channel.Place{CommandMode: channel.CommandsSenders})
				r.kernel.Settings, r.kernel.Routes = more.Settings, more.Routes
				r.serve(t)
				r.say(faketelegram.Message{Chat: group, From: ann, Text: text})
				if want == "drop" {
					if d := cmp.Diff([]string{"blocked channel_local"}, r.outcomes()); d != "" {
						t.Error(d)
					}
					return
				}
				if len(r.told()) != 1 {
					t.Fatal(r.outcomes())
				}
				if c := r.told()[0]; c.BodyForCommands != want || c.CommandAuthorized != strings.HasPrefix(want, ",") {
					t.Errorf("%q, authorized: %v", c.BodyForCommands, c.CommandAuthorized)
				}
			})
		})
	}
}

// DC-04: what is no command of this server reaches the agent as it was written, and /start is greeted.
func TestASlashCommandThatIsNoneOfOursReachesTheAgent(t *testing.T) {
	for text, want := range map[string]string{
		"/weather Paris":           "/weather Paris",
		"/weather@ling_bot Paris":  "/weather Paris",
		"/weather_now Paris":       "/weather_now Paris",
		"@ling_bot /weather Paris": "/weather Paris",
		",weather Paris":           ",weather Paris",
		"/start":                   "greeted",
		"/start@ling_bot":          "greeted",
	} {
		t.Run(text, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.kernel.Settings.(*channel.Tree).Commands = func(text string, _ bool) bool { return strings.HasPrefix(text, ",help") }
				r.serve(t)
				r.say(faketelegram.Message{Chat: private, From: ann, Text: text})
				if want == "greeted" {
					if got := r.ours(private.ID); len(r.told()) != 0 || len(got) != 1 || got[0] != "Hello! Write me a message, and I will answer." {
						t.Errorf("got %q", got)
					}
					return
				}
				if len(r.told()) != 1 || r.told()[0].BodyForAgent != want || r.told()[0].CommandAuthorized {
					t.Errorf("the agent reads %+v", r.told())
				}
			})
		})
	}
}

// CH-101
func TestWhoeverIsNotPairedIsToldTheCodeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		more := kernel(t, channel.Place{DMPolicy: channel.PolicyPairing})
		pairs := channel.NewPairs(nil)
		r.kernel.Settings, r.kernel.Routes, r.kernel.Pairing = more.Settings, more.Routes, pairs
		r.serve(t)
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "hello?"})
		asked, err := pairs.List(t.Context())
		if err != nil || len(asked) != 1 || asked[0].Name != "Ann Lee" {
			t.Fatal(asked, err)
		}
		if got := r.ours(private.ID); len(got) != 1 || !strings.Contains(got[0], asked[0].Code) {
			t.Fatalf("%q", got)
		}
		if _, err := pairs.Approve(t.Context(), "telegram", asked[0].Code); err != nil {
			t.Fatal(err)
		}
		// DC-13: who was paired is told so, and the first message is answered.
		time.Sleep(time.Minute)
		if got := r.ours(private.ID); len(got) != 3 || !strings.HasPrefix(got[1], "You are paired") || got[2] != "ok" || r.told()[0].BodyForAgent != "hi" {
			t.Error(got, r.outcomes())
		}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "and now?"})
		if len(r.told()) != 2 || len(r.ours(private.ID)) != 4 {
			t.Error(r.outcomes())
		}
	})
}

// CH-98
func TestAnEditChangesWhatWaitsAndStartsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		m := r.say(faketelegram.Message{Chat: group, From: bob, Text: "the key is 1"})
		r.fake.Edit(group.ID, m.ID, "the key is 2")
		synctest.Wait()
		if len(r.told()) != 0 {
			t.Fatal("it was run")
		}
		asked := r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot which key?"})
		c := r.told()[0]
		if len(c.InboundHistory) != 1 || c.InboundHistory[0].Body != "the key is 2" || !strings.Contains(c.InboundHistory[0].Sender, "Bob") {
			t.Errorf("%+v", c.InboundHistory)
		}
		r.fake.Edit(group.ID, asked.ID, "@ling_bot which one?")
		synctest.Wait()
		if len(r.told()) != 1 {
			t.Error("the edit of an answered message was run")
		}
	})
}

// CH-173
func TestCallbacksAndReactionsAreHandled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		m := r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		r.fake.Push("callback_query", map[string]any{"id": "1", "from": ann, "message": m, "chat_instance": "x", "data": "y"})
		r.fake.Push("my_chat_member", map[string]any{"chat": group, "from": ann, "date": 5, "old_chat_member": map[string]any{"status": "left", "user": r.fake.Me()}, "new_chat_member": map[string]any{"status": "member", "user": r.fake.Me()}})
		r.fake.Again(faketelegram.Update{ID: 5000, Kind: "message_reaction", Data: map[string]any{"chat": private, "message_id": m.ID, "user": ann, "date": 5, "old_reaction": []any{}, "new_reaction": []any{map[string]any{"type": "emoji", "emoji": "👍"}}}})
		r.fake.Again(faketelegram.Update{ID: 5001, Kind: "something_new", Data: map[string]any{"a": 1}})
		r.fake.Again(faketelegram.Update{ID: 5002, Kind: "message", Data: map[string]any{"message_id": 990, "date": 5, "chat": group, "from": ann, "new_chat_title": "x"}})
		time.Sleep(time.Second)
		if d := cmp.Diff([]string{"visible", "blocked not_a_turn", "blocked not_a_turn", "blocked not_a_turn", "blocked not_a_turn"}, r.outcomes()); d != "" {
			t.Error(d)
		}
		if len(r.fake.Pending()) != 0 {
			t.Error("updates are left")
		}
	})
}

// CH-173
func TestAGroupThatBecomesASupergroupKeepsItsSession(t *testing.T) {
	const super = -1_000_000_001_005
	state := channel.NewTexts(0)
	bubble(t, func(t *testing.T) {
		replica, err := New(Settings{Token: "42:x", State: state})
		if err != nil {
			t.Fatal(err)
		}
		r := setup(t, func(s *Settings) { s.State = state }, nil)
		r.serve(t)
		r.say(faketelegram.Message{Chat: group, From: bob, Text: "before"})
		r.fake.Migrate(group.ID, super)
		synctest.Wait()
		r.say(faketelegram.Message{Chat: faketelegram.Chat{ID: super}, From: ann, Text: "@ling_bot say hi"})
		if len(r.told()) != 1 {
			t.Fatal(r.outcomes())
		}
		c := r.told()[0]
		if c.SessionKey != "telegram:-5" || len(c.InboundHistory) != 1 || c.To != strconv.Itoa(super) {
			t.Errorf("session %s, %d waiting, to %s", c.SessionKey, len(c.InboundHistory), c.To)
		}
		if got := r.ours(super); len(got) != 1 || got[0] != "hi" {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Second)
		if replica.chats.conversation(super) != "-5" || replica.chats.now(-5) != super { // CL-02
			t.Error("another replica does not know it")
		}
	})
	again, err := New(Settings{Token: "42:x", State: state})
	if err != nil || again.chats.conversation(super) != "-5" || again.chats.now(-5) != super {
		t.Error("it is forgotten at the next start", err)
	}
}

// CH-173
func TestASendThatIsToldOfASupergroupGoesThereOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.answer = func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			r.fake.Migrate(group.ID, -1005) // while the agent thinks
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "hi"})
		}
		r.fake.Fail(faketelegram.Fault{Method: "sendChatAction", Code: 400, Times: -1})
		r.serve(t)
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"})
		if got := r.ours(-1005); len(got) != 1 || got[0] != "hi" {
			t.Errorf("%q, %v", got, r.outcomes())
		}
	})
}

// CH-109
func TestQuotesAndForwardsComeWithWhoWroteThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		first := r.say(faketelegram.Message{Chat: group, From: bob, Text: "the whole story"})
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot true?", ReplyTo: &first, Quote: &faketelegram.Quote{Text: "story", Position: 10, IsManual: true}})
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "/help", ForwardOrigin: &faketelegram.Origin{Type: "hidden_user", Date: 1700000000, SenderUserName: "Zed"}})
		if len(r.told()) != 2 {
			t.Fatal(r.outcomes())
		}
		q := r.told()[0]
		if q.ReplyToBody != "story" || q.ReplyToSender != "Bob" || !q.ReplyToIsQuote || q.ReplyToID != strconv.Itoa(first.ID) {
			t.Errorf("%+v", q)
		}
		// DV-03: what the sender forwards is shown, as shipped, and is no command.
		if f := r.told()[1]; f.CommandAuthorized || f.ReplyToID != "" || f.ForwardedFrom != "Zed" || !strings.Contains(f.BodyForAgent, "help") {
			t.Errorf("%q from %q", f.BodyForAgent, f.ForwardedFrom)
		}
	})
}

// CH-178, CH-84
func TestPhotosAndFilesAreLoadedAndAlbumsMerge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.MaxMedia = 1000 }, nil)
		media, err := channel.OpenMediaRoot(r.channel.store.Dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer media.Close()
		r.kernel.Media = media
		r.serve(t)
		png := "\x89PNG\r\n\x1a\n"
		size := func(n, width int) faketelegram.File {
			f := r.fake.AddFile("p.png", []byte(png+strings.Repeat("x", n-len(png))))
			f.FileName, f.Width, f.Height = "", width, width
			return f
		}
		small, large, huge := size(100, 90), size(900, 800), size(2000, 1600)
		doc := r.fake.AddFile("../../etc/notes.txt", []byte("notes"))
		doc.MimeType = "text/plain"
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "one", MediaGroupID: "g", Photo: []faketelegram.File{small, large, huge}})
		r.say(faketelegram.Message{Chat: private, From: ann, MediaGroupID: "g", Document: &doc})
		time.Sleep(5 * time.Second)
		if len(r.told()) != 1 {
			t.Fatalf("%d turns, %v", len(r.told()), r.outcomes())
		}
		c := r.told()[0]
		if len(c.Media) != 2 || c.BodyForAgent != "one" {
			t.Fatalf("%q %+v", c.BodyForAgent, c.Media)
		}
		if m := c.Media[0]; m.Kind != channel.MediaImage || m.Size != 900 || m.Width != 800 || m.Path == "" {
			t.Errorf("%+v", m)
		}
		if m := c.Media[1]; m.Kind != channel.MediaDocument || m.Size != 5 || m.Path == "" || strings.Contains(m.Path, "etc") {
			t.Errorf("%+v", m)
		}
	})
}

// CH-178
func TestAFileThatIsTooLargeIsAFactWithoutPathAndANote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.MaxMedia = 10 }, nil)
		r.serve(t)
		doc := r.fake.AddFile("big.bin", make([]byte, 11))
		lies := r.fake.AddFile("lies.bin", make([]byte, 11))
		lies.FileSize = 1
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "look", Document: &doc})
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "look", Document: &lies})
		a, b := r.told()[0], r.told()[1]
		if len(a.Media) != 1 || a.Media[0].Path != "" || a.BodyForAgent != "look\n[document \"big.bin\" is too large: 11 bytes; expected at most 10]" {
			t.Errorf("%q %+v", a.BodyForAgent, a.Media)
		}
		if len(b.Media) != 1 || b.Media[0].Path != "" || b.BodyForAgent != "look\n[document \"lies.bin\" is too large; expected at most 10 bytes]" {
			t.Errorf("%q %+v", b.BodyForAgent, b.Media)
		}
		if n := len(r.fake.Calls("download")); n != 0 {
			t.Errorf("%d downloads", n)
		}
	})
}

// CH-178, CH-193: whoever may not talk makes the server load nothing.
func TestFilesOfThoseWhoMayNotTalkAreNotLoaded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		more := kernel(t, channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"8"}})
		r.kernel.Settings, r.kernel.Routes = more.Settings, more.Routes
		r.serve(t)
		doc := r.fake.AddFile("a.txt", []byte("x"))
		r.say(faketelegram.Message{Chat: private, From: ann, Document: &doc})
		if n := len(r.fake.Calls("getFile")); n != 0 || len(r.fake.Writes()) != 0 {
			t.Error("it was loaded, or somebody was told")
		}
		if d := cmp.Diff([]string{"blocked dm_not_allowed"}, r.outcomes()); d != "" {
			t.Error(d)
		}
	})
}

// CH-172
func TestALocalServersFilesAreReadBelowItsFolderOnly(t *testing.T) {
	files := t.TempDir()
	outside := t.TempDir() + "/secret"
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Files = files }, &faketelegram.Options{Files: files})
		r.serve(t)
		doc := r.fake.AddFile("a.txt", []byte("inside"))
		r.say(faketelegram.Message{Chat: private, From: ann, Document: &doc})
		bad := r.fake.AddFile("b.txt", []byte("x"))
		for _, path := range []string{outside, files + "/../x", "../x", "documents/../../x", "/etc/passwd", ""} {
			r.fake.PointFile(bad.FileID, path)
			if p, _, err := r.channel.fetch(t.Context(), attachment{id: bad.FileID, unique: "bad"}); err == nil {
				t.Errorf("%q was read as %s", path, p)
			}
		}
		if got := r.fake.Calls("download"); len(got) != 0 {
			t.Error("it was downloaded")
		}
		p, n, err := r.channel.fetch(t.Context(), attachment{id: doc.FileID, unique: doc.FileUniqueID})
		if err != nil || n != 6 || !strings.HasPrefix(p, r.channel.store.Dir) {
			t.Error(p, n, err)
		}
	})
}

func TestWhatTheLibraryDoesNotKnowIsReadAsFarAsItGoes(t *testing.T) {
	for name, tt := range map[string]struct {
		raw, text string
		forwarded bool
		fails     bool
	}{
		"a new kind of origin":      {raw: `{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"from":{"id":7,"first_name":"A"},"text":"hi","forward_origin":{"type":"moon"}}}`, text: "hi", forwarded: true},
		"one in the message quoted": {raw: `{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"text":"hi","reply_to_message":{"message_id":4,"date":1,"chat":{"id":7,"type":"private"},"text":"x","external_reply":{"origin":{"type":"moon"}}}}}`, text: "hi"},
		"a member of another type":  {raw: `{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"text":"hi","dice":"six"}}`, text: "hi"},
		"nothing that can be told":  {raw: `{"update_id":1,"message":{"message_id":"five"}}`},
		"no object":                 {raw: `[]`, fails: true},
		"no id":                     {raw: `{"message":{}}`, fails: true},
		"nothing":                   {raw: ``, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := Raw([]byte(tt.raw))
			if (err != nil) != tt.fails {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if tt.text == "" {
				if u.Message != nil || u.ID != 1 {
					t.Errorf("%+v", u)
				}
				return
			}
			if u.Message == nil || u.Message.Text != tt.text || (u.Message.ForwardOrigin != nil) != tt.forwarded {
				t.Errorf("%+v", u.Message)
			}
		})
	}
}

func TestThingsWithoutTextAreSaidInWords(t *testing.T) {
	for _, tt := range []struct{ member, want string }{
		{`"sticker":{"file_id":"x","file_unique_id":"y","type":"regular","width":1,"height":1,"emoji":"👍"}`, "[sticker 👍]"},
		{`"location":{"latitude":52.5,"longitude":13.4}`, "[location: 52.5, 13.4]"},
		{`"venue":{"location":{"latitude":1,"longitude":2},"title":"T","address":"A"}`, "[place: T, A, 1, 2]"},
		{`"contact":{"phone_number":"+1","first_name":"A","last_name":"B"}`, "[contact: A B, +1]"},
		{`"poll":{"id":"1","question":"Q?","options":[{"text":"a","voter_count":0},{"text":"b","voter_count":0}]}`, "[poll: Q? (a; b)]"},
		{`"dice":{"emoji":"🎲","value":6}`, "[🎲 6]"},
		{`"text":"see here","entities":[{"type":"text_link","offset":4,"length":4,"url":"https://a.example/x"}]`, "see here (https://a.example/x)"},
	} {
		u, err := Raw([]byte(`{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},` + tt.member + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(u.Message); got != tt.want {
			t.Errorf("%q, expected %q", got, tt.want)
		}
		if _, kind, _ := message(u); kind != channel.EventMessage {
			t.Errorf("%s is of kind %s", tt.want, kind)
		}
	}
}

func FuzzRaw(f *testing.F) {
	for _, s := range []string{
		`{"update_id":1,"message":{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"text":"/a_b@ling_bot x","entities":[{"type":"bot_command","offset":0,"length":13}]}}`,
		`{"update_id":1,"edited_message":{"message_id":5,"chat":{"id":-7,"type":"supergroup"},"is_topic_message":true,"message_thread_id":2,"caption":"😀@ling_bot","caption_entities":[{"type":"mention","offset":2,"length":9},{"type":"text_link","offset":0,"length":2,"url":"x"}]}}`,
		`{"update_id":1,"message":{"forward_origin":{"type":"x"},"reply_to_message":{"message_id":1},"photo":[{"file_id":"a","width":9}]}}`,
		`{"update_id":1,"callback_query":{"id":"1","from":{"id":1}}}`,
		`{"update_id":18446744073709551616}`,
	} {
		f.Add([]byte(s))
	}
	c, err := New(Settings{Token: "42:x"})
	if err != nil {
		f.Fatal(err)
	}
	k := &channel.Kernel{Agent: agentFunc(func(context.Context, *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, nil
	})}
	c.me.Store(&models.User{ID: 42, IsBot: true, Username: "ling_bot"})
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := Raw(data)
		if err != nil {
			return
		}
		key, ok := c.key(u)
		in, err := (&adapter{c: c, k: k, u: u}).Ingest(t.Context(), u)
		if err != nil || ok != (in != nil) {
			t.Fatal(in, err)
		}
		if !ok {
			return
		}
		if key.Conversation != in.ConversationID || key.Thread != in.ThreadID || key.ID != in.ID {
			t.Fatalf("the door's key %v is not the kernel's %+v", key, in)
		}
	})
}

func FuzzSpan(f *testing.F) {
	f.Add("😀 @ling_bot", 3, 9)
	f.Add("é", -1, 1<<62)
	f.Add("a\xffb", 1, 1)
	f.Fuzz(func(t *testing.T, text string, offset, length int) {
		from, to, ok := span(text, offset, length)
		if !ok {
			return
		}
		units := func(s string) int { return markup.UTF16(s) }
		if units(text[:from]) != offset || units(text[from:to]) != length {
			t.Fatalf("%q: %d..%d for %d+%d", text, from, to, offset, length)
		}
	})
}

// CH-194
func TestAnImageThatCameFirstIsThereWhenTheMentionComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		media, err := channel.OpenMediaRoot(r.channel.store.Dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer media.Close()
		r.kernel.Media = media
		r.kernel.Window = channel.NewWindow(nil, channel.WindowOptions{Media: media})
		r.serve(t)
		f := r.fake.AddFile("p.png", []byte("\x89PNG\r\n\x1a\n0000"))
		f.FileName = ""
		r.say(faketelegram.Message{Chat: group, From: bob, Photo: []faketelegram.File{f}})
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot what is it?"})
		if len(r.told()) != 1 {
			t.Fatal(r.outcomes())
		}
		h := r.told()[0].InboundHistory
		if len(h) != 1 || h[0].Body != "[image]" || len(h[0].Media) != 1 || h[0].Media[0].Path == "" {
			t.Errorf("%+v", h)
		}
	})
}
