package telegram_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// CH-173, CH-177
func TestEachKindOfChatIsAnsweredInItsPlace(t *testing.T) {
	anonymous := &faketelegram.User{ID: 1087968824, IsBot: true, FirstName: "Group", Username: "GroupAnonymousBot"}
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
		"an anonymous admin":        {faketelegram.Message{Chat: forum, From: anonymous, SenderChat: &forum, Text: "@ling_bot hi"}, channel.Group, "telegram:-1007", 0, true},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{}).serve()
			m := r.say(tt.m)
			c := r.one()
			if c.ChatType != tt.kind || c.SessionKey != tt.session || c.BodyForAgent != "hi" {
				t.Errorf("kind %s, session %s, body %q", c.ChatType, c.SessionKey, c.BodyForAgent)
			}
			if tt.m.SenderChat != nil && c.SenderID != strconv.FormatInt(tt.m.SenderChat.ID, 10) {
				t.Errorf("the sender is %s, expected the chat", c.SenderID)
			}
			got := r.fake.Messages(tt.m.Chat.ID, 0)
			answer := got[len(got)-1]
			if answer.Text != "ok" || answer.ThreadID != tt.thread || (answer.ReplyTo != nil && answer.ReplyTo.ID == m.ID) != tt.replies {
				t.Errorf("got %+v", answer)
			}
			for _, c := range r.fake.Calls("sendChatAction") {
				if c.Int("message_thread_id") != int64(tt.thread) {
					t.Errorf("typing is shown in topic %s", c.Params["message_thread_id"])
				}
			}
		})
	}
}

// CH-174, CH-106, CH-108
func TestMentionsAreEntitiesNamesAndReplies(t *testing.T) {
	me := faketelegram.User{ID: 42, IsBot: true, FirstName: "Ling", Username: "ling_bot"}
	ours := &faketelegram.Message{ID: 900, Chat: group, From: &me, Date: 1, Text: "I said"}
	theirs := &faketelegram.Message{ID: 901, Chat: group, From: bob, Date: 1, Text: "he said"}
	external := &faketelegram.External{Origin: faketelegram.Origin{Type: "user", Date: 1, SenderUser: &me}}
	header := &faketelegram.Message{ID: 3, ThreadID: 3, IsTopic: true, Chat: forum, From: &me, Date: 1, TopicCreated: &faketelegram.Topic{Name: "x"}}
	mention := func(at, length int, u *faketelegram.User) []faketelegram.Entity {
		kind := "mention"
		if u != nil {
			kind = "text_mention"
		}
		return []faketelegram.Entity{{Type: kind, Offset: at, Length: length, User: u}}
	}
	for name, tt := range map[string]struct {
		m    faketelegram.Message
		body string // that the agent reads; "": it is not mentioned
	}{
		"no mention":                   {faketelegram.Message{Text: "hi all"}, ""},
		"a mention":                    {faketelegram.Message{Text: "hi @Ling_Bot there"}, "hi there"},
		"a mention that begins a line": {faketelegram.Message{Text: "see\n@ling_bot this"}, "see\nthis"},
		"behind two UTF-16 units":      {faketelegram.Message{Text: "😀😀 @ling_bot 你好"}, "😀😀 你好"},
		"a mention of another":         {faketelegram.Message{Text: "hi @linger_bot"}, ""},
		"by name":                      {faketelegram.Message{Text: "hi Ling!", Entities: mention(3, 4, &me)}, "hi !"},
		"by name of another":           {faketelegram.Message{Text: "hi Bob", Entities: mention(3, 3, bob)}, ""},
		"an entity beyond the text":    {faketelegram.Message{Text: "hi", Entities: mention(1, 500, &me)}, ""},
		"an entity before the text":    {faketelegram.Message{Text: "hi", Entities: mention(-1, 2, &me)}, ""},
		"an entity in a character":     {faketelegram.Message{Text: "😀abc", Entities: mention(1, 3, &me)}, ""},
		"an entity to a character":     {faketelegram.Message{Text: "abc😀", Entities: mention(0, 4, &me)}, ""},
		"a configured name":            {faketelegram.Message{Text: "请小灵帮忙"}, "请小灵帮忙"},
		"a word that has the name":     {faketelegram.Message{Text: "Lingering"}, ""},
		"a reply to the bot":           {faketelegram.Message{Text: "and?", ReplyTo: ours}, "and?"},
		"a reply to another":           {faketelegram.Message{Text: "and?", ReplyTo: theirs}, ""},
		"a topic of the bot":           {faketelegram.Message{Chat: forum, Text: "hi", ThreadID: 3, IsTopic: true, ReplyTo: header}, ""},
		"a quote from elsewhere":       {faketelegram.Message{Text: "see", Quote: &faketelegram.Quote{Text: "I said"}, External: external}, "see"},
		"a caption": {
			faketelegram.Message{Caption: "@ling_bot what is this?", Photo: []faketelegram.File{{FileID: "x", FileUniqueID: "x"}}},
			"what is this?\n[image could not be loaded]",
		},
	} {
		bubble(t, name, func(t *testing.T) {
			r := setup(t, options{place: channel.Place{Patterns: []string{"Ling", "小灵"}}}).serve()
			if tt.m.From = ann; tt.m.Chat.ID == 0 {
				tt.m.Chat = group
			}
			r.say(tt.m)
			time.Sleep(time.Second)
			if tt.body == "" && len(r.Told()) == 0 {
				return
			}
			if got := r.one().BodyForAgent; got != tt.body {
				t.Errorf("got %q, expected %q", got, tt.body)
			}
		})
	}
}

// CH-173, CH-174, DC-04
func TestSlashCommands(t *testing.T) {
	const greeting = "Hello! Write me a message, and I will answer."
	for _, tt := range []struct {
		text, command, body string // "": not told
	}{
		{"/help", ",help", "help"},
		{"/help@ling_bot", ",help", "help"},
		{"/HELP@LING_BOT me", ",HELP me", ""},
		{"/session_list 3 /x", ",session.list 3 /x", ""},
		{",help", ",help", ""},
		{"@ling_bot ,help", ",help", ""},
		{"/help@other_bot", "", "blocked channel_local"},
		{"please @ling_bot do /help", "", "please do /help"},
		{"@ling_bot /weather Paris", "", "/weather Paris"}, // no command of this server
		{"/weather@ling_bot Paris", "", "/weather Paris"},
		{"/weather_now@ling_bot Paris", "", "/weather_now Paris"},
		{"@ling_bot ,weather Paris", "", ",weather Paris"},
		{"/start@ling_bot", "", greeting},
	} {
		bubble(t, tt.text, func(t *testing.T) {
			r := setup(t, options{place: channel.Place{CommandMode: channel.CommandsSenders}})
			r.tree.Commands = func(text string, _ bool) bool {
				name, _, _ := strings.Cut(strings.ToLower(text), " ")
				return name == ",help" || name == ",session.list"
			}
			r.serve()
			r.say(faketelegram.Message{Chat: group, From: ann, Text: tt.text})
			switch {
			case tt.body == greeting || strings.HasPrefix(tt.body, "blocked"):
				if got := append(r.ours(group.ID), r.Outcomes()...); len(r.Told()) != 0 || !slices.Contains(got, tt.body) {
					t.Errorf("got %q, expected %q", got, tt.body)
				}
			case tt.command != "":
				if c := r.one(); c.BodyForCommands != tt.command || !c.CommandAuthorized {
					t.Errorf("got %q, authorized: %t", c.BodyForCommands, c.CommandAuthorized)
				}
			default:
				if c := r.one(); c.BodyForAgent != tt.body || c.CommandAuthorized {
					t.Errorf("got %q, authorized: %t", c.BodyForAgent, c.CommandAuthorized)
				}
			}
		})
	}
}

// CH-98
func TestAnEditChangesWhatWaitsAndStartsNoTurn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		m := r.say(faketelegram.Message{Chat: group, From: bob, Text: "the key is 1"})
		r.fake.Edit(group.ID, m.ID, "the key is 2")
		synctest.Wait()
		asked := r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot which key?"})
		c := r.one()
		if len(c.InboundHistory) != 1 || c.InboundHistory[0].Body != "the key is 2" || !strings.Contains(c.InboundHistory[0].Sender, "Bob") {
			t.Errorf("%+v", c.InboundHistory)
		}
		r.fake.Edit(group.ID, asked.ID, "@ling_bot which one?")
		synctest.Wait()
		r.one()
	})
}

func TestUpdatesThatAreNoMessagesStartNoTurn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		m := r.say(faketelegram.Message{Chat: private, From: ann, Text: "hi"})
		r.fake.Push("callback_query", map[string]any{"id": "1", "from": ann, "message": m, "chat_instance": "x", "data": "y"})
		r.fake.Again(faketelegram.Update{ID: 5001, Kind: "something_new", Data: map[string]any{"a": 1}})
		r.fake.Again(faketelegram.Update{ID: 5002, Kind: "message", Data: map[string]any{"message_id": 990, "date": 5, "chat": group, "from": ann, "new_chat_title": "x"}})
		time.Sleep(time.Second)
		if d := cmp.Diff([]string{"visible", "blocked not_a_turn", "blocked not_a_turn"}, r.Outcomes()); d != "" || len(r.fake.Pending()) != 0 {
			t.Errorf("%s, pending: %v", d, r.fake.Pending())
		}
	})
}

// CH-173
func TestASupergroupKeepsTheSessionOfItsGroup(t *testing.T) {
	const super = -1_000_000_001_005
	in := faketelegram.Chat{ID: super, Type: "supergroup"}
	bubble(t, "", func(t *testing.T) {
		state := channel.NewTexts()
		share := func(s *telegram.Settings) { s.State = state }
		r := setup(t, options{settings: share}).serve()
		r.say(faketelegram.Message{Chat: group, From: bob, Text: "before"})
		r.fake.Migrate(group.ID, super)
		synctest.Wait()
		r.say(faketelegram.Message{Chat: in, From: ann, Text: "@ling_bot say hi"})
		if c := r.one(); c.SessionKey != "telegram:-5" || len(c.InboundHistory) != 1 || c.To != strconv.Itoa(super) {
			t.Errorf("session %s, %d waiting, to %s", c.SessionKey, len(c.InboundHistory), c.To)
		}
		if got := r.ours(super); !slices.Equal(got, []string{"hi"}) {
			t.Errorf("got %q", got)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		next := setup(t, options{settings: share, after: r}).serve() // another replica, or the next start
		next.say(faketelegram.Message{Chat: in, From: ann, Text: "@ling_bot say more"})
		if c := next.one(); c.SessionKey != "telegram:-5" {
			t.Errorf("session %s", c.SessionKey)
		}
	})
	bubble(t, "a send that is told of it", func(t *testing.T) {
		r := setup(t, options{}).serve()
		r.Answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			r.fake.Migrate(group.ID, -1005) // while the agent thinks
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: "hi"})
		})
		r.fake.Fail(faketelegram.Fault{Method: "sendChatAction", Code: 400, Times: -1})
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot hi"})
		if got := r.ours(-1005); !slices.Equal(got, []string{"hi"}) {
			t.Errorf("got %q, %v", got, r.Outcomes())
		}
	})
}

// CH-109
func TestQuotesAndForwardsHaveTheirSenders(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{place: channel.Place{CommandMode: channel.CommandsSenders}}).serve()
		first := r.say(faketelegram.Message{Chat: group, From: bob, Text: "the whole story"})
		quote := &faketelegram.Quote{Text: "story", Position: 10, IsManual: true}
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot true?", ReplyTo: &first, Quote: quote})
		hidden := &faketelegram.Origin{Type: "hidden_user", Date: 1700000000, SenderUserName: "Zed"}
		r.say(faketelegram.Message{Chat: private, From: ann, Text: "/help", ForwardOrigin: hidden})
		if len(r.Told()) != 2 {
			t.Fatal(r.Outcomes())
		}
		if q := r.Told()[0]; q.ReplyToBody != "story" || q.ReplyToSender != "Bob" || !q.ReplyToIsQuote || q.ReplyToID != strconv.Itoa(first.ID) {
			t.Errorf("%+v", q)
		}
		if f := r.Told()[1]; f.CommandAuthorized || f.ForwardedFrom != "Zed" || !strings.Contains(f.BodyForAgent, "help") || f.ForwardedDate.Unix() != 1700000000 {
			t.Errorf("%q from %q", f.BodyForAgent, f.ForwardedFrom)
		}
	})
}

// CH-178, CH-84
func TestAnAlbumIsOneTurnWithItsFiles(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: func(s *telegram.Settings) { s.MaxMedia = 1000 }}).serve()
		size := func(n, width int) faketelegram.File {
			f := r.fake.AddFile("p.png", []byte("\x89PNG\r\n\x1a\n"+strings.Repeat("x", n-8)))
			f.FileName, f.Width, f.Height = "", width, width
			return f
		}
		photo := []faketelegram.File{size(100, 90), size(900, 800), size(2000, 1600)}
		doc := r.fake.AddFile("../../etc/notes.txt", []byte("notes"))
		doc.MimeType = "text/plain"
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "one", MediaGroupID: "g", Photo: photo})
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "two", MediaGroupID: "g", Document: &doc})
		time.Sleep(5 * time.Second)
		c := r.one()
		if len(c.Media) != 2 || c.BodyForAgent != "one\ntwo" {
			t.Fatalf("%q %+v", c.BodyForAgent, c.Media)
		}
		if m := c.Media[0]; m.Kind != channel.MediaImage || m.Size != 900 || m.Width != 800 || !strings.HasPrefix(m.Path, r.media) {
			t.Errorf("%+v, expected the largest size within the limit", m)
		}
		if m := c.Media[1]; m.Kind != channel.MediaDocument || m.Size != 5 || !strings.HasPrefix(m.Path, r.media) || strings.Contains(m.Path, "etc") {
			t.Errorf("%+v", m)
		}
	})
}

// CH-178
func TestEachKindOfFileIsAFact(t *testing.T) {
	for kind, want := range map[string]channel.MediaKind{
		"audio": channel.MediaAudio, "voice": channel.MediaAudio, "video": channel.MediaVideo, "video_note": channel.MediaVideo,
		"animation": channel.MediaVideo, "document": channel.MediaDocument,
	} {
		bubble(t, kind, func(t *testing.T) {
			r := setup(t, options{}).serve()
			f := r.fake.AddFile("file.bin", []byte("OggS\x00and more"))
			f.Duration = 3
			m := faketelegram.Message{Chat: private, From: ann, Caption: "look"}
			switch kind {
			case "audio":
				m.Audio = &f
			case "voice":
				m.Voice = &f
			case "video":
				m.Video = &f
			case "video_note":
				m.VideoNote = &f
			case "animation": // comes with a document that is the same
				m.Animation, m.Document = &f, &f
			case "document":
				m.Document = &f
			}
			r.say(m)
			if got := r.one().Media; len(got) != 1 || got[0].Kind != want || got[0].Path == "" || kind != "document" && got[0].Duration != 3*time.Second {
				t.Errorf("got %+v, %q", got, r.one().BodyForAgent)
			}
		})
	}
}

// CH-178
func TestAFileThatIsTooLargeIsAFactAndANote(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{settings: func(s *telegram.Settings) { s.MaxMedia = 10 }}).serve()
		doc, lies := r.fake.AddFile("big.bin", make([]byte, 11)), r.fake.AddFile("lies.bin", make([]byte, 11))
		lies.FileSize = 1
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "look", Document: &doc})
		r.say(faketelegram.Message{Chat: private, From: ann, Caption: "look", Document: &lies})
		for i, want := range []string{
			"look\n[document \"big.bin\" is too large: 11 bytes; expected at most 10]", "look\n[document \"lies.bin\" is too large; expected at most 10 bytes]",
		} {
			if c := r.Told()[i]; len(c.Media) != 1 || c.Media[0].Path != "" || c.BodyForAgent != want {
				t.Errorf("%q %+v", c.BodyForAgent, c.Media)
			}
		}
		if n := len(r.fake.Calls("download")); n != 0 {
			t.Errorf("%d downloads", n)
		}
	})
}

// CH-93
func TestAnImageWaitsForTheMention(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := setup(t, options{}).serve()
		f := r.fake.AddFile("p.png", []byte("\x89PNG\r\n\x1a\n0000"))
		f.FileName = ""
		r.say(faketelegram.Message{Chat: group, From: bob, Photo: []faketelegram.File{f}})
		r.say(faketelegram.Message{Chat: group, From: ann, Text: "@ling_bot what is it?"})
		if h := r.one().InboundHistory; len(h) != 1 || h[0].Body != "[image]" || len(h[0].Media) != 1 || h[0].Media[0].Path == "" {
			t.Errorf("%+v", h)
		}
	})
}

// pushed is what the agent reads of a message with these members.
func pushed(t *testing.T, members string) *channel.TurnContext {
	t.Helper()
	r := setup(t, options{}).serve()
	r.fake.Push("message", raw(`{"message_id":5,"date":1,"chat":{"id":7,"type":"private"},"from":{"id":7,"first_name":"A"},`+members+`}`))
	synctest.Wait()
	return r.one()
}

// raw is JSON as it is.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func TestMembersThatTheLibraryDoesNotKnowAreLeftOut(t *testing.T) {
	const reply = `"reply_to_message":{"message_id":4,"date":1,"chat":{"id":7,"type":"private"},"text":"before","external_reply":{"origin":{"type":"moon"}}}`
	for name, tt := range map[string]struct{ members, body, forwarded, quoted string }{
		"a member of another type": {`"text":"hi","dice":"six"`, "hi", "", ""},
		"an origin":                {`"text":"hi","forward_origin":{"type":"moon"}`, "hi", "hidden_user", ""},
		"in a message quoted":      {`"text":"hi",` + reply, "hi", "", "before"},
	} {
		bubble(t, name, func(t *testing.T) {
			c := pushed(t, tt.members)
			if !strings.Contains(c.BodyForAgent, tt.body) || c.ForwardedFromType != tt.forwarded || c.ReplyToBody != tt.quoted {
				t.Errorf("got %q, forwarded %q, quoted %q", c.BodyForAgent, c.ForwardedFromType, c.ReplyToBody)
			}
		})
	}
}

func TestMessagesWithoutTextAreDescribed(t *testing.T) {
	for _, tt := range []struct{ member, want string }{
		{`"sticker":{"file_id":"x","file_unique_id":"y","type":"regular","width":1,"height":1,"emoji":"👍"}`, "[sticker 👍]"},
		{`"location":{"latitude":52.5,"longitude":13.4}`, "[location: 52.5, 13.4]"},
		{`"venue":{"location":{"latitude":1,"longitude":2},"title":"T","address":"A"}`, "[place: T, A, 1, 2]"},
		{`"contact":{"phone_number":"+1","first_name":"A","last_name":"B"}`, "[contact: A B, +1]"},
		{`"poll":{"id":"1","question":"Q?","options":[{"text":"a","voter_count":0},{"text":"b","voter_count":0}]}`, "[poll: Q? (a; b)]"},
		{`"dice":{"emoji":"🎲","value":6}`, "[🎲 6]"},
		{`"text":"see here","entities":[{"type":"text_link","offset":4,"length":4,"url":"https://a.example/x"}]`, "see here (https://a.example/x)"},
	} {
		bubble(t, tt.want, func(t *testing.T) {
			if got := pushed(t, tt.member).BodyForAgent; got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
