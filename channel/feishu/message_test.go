package feishu_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

func TestTheAgentReadsWhatAMessageSays(t *testing.T) {
	type object = map[string]any
	line := func(nodes ...any) []any { return nodes }
	for name, tt := range map[string]struct {
		said fakefeishu.Said
		want string
		kind channel.MediaKind // of the one file
	}{
		"text":                       {said: fakefeishu.Said{Text: "hello"}, want: "hello"},
		"the bot's name is removed":  {said: fakefeishu.Said{Text: "@_user_1 hello", Mentions: fakefeishu.MentionBot()}, want: "hello"},
		"within a text":              {said: fakefeishu.Said{Text: "hey @_user_1 hello", Mentions: fakefeishu.MentionBot()}, want: "hey hello"},
		"at the end of a word":       {said: fakefeishu.Said{Text: "hey@_user_1 hello", Mentions: fakefeishu.MentionBot()}, want: "hey hello"},
		"everybody":                  {said: fakefeishu.Said{Text: "@_all hello"}, want: "@all hello"},
		"an unknown key":             {said: fakefeishu.Said{Text: "@_user_9 hello"}, want: "@_user_9 hello"},
		"an end that looks like one": {said: fakefeishu.Said{Text: "what is @_"}, want: "what is @_"},
		"others have their names": {
			said: fakefeishu.Said{Text: "ask @_user_1 and @_user_12", Mentions: []fakefeishu.Mention{{Key: "@_user_12", ID: "ou_12", Name: "Twelve"}, {Key: "@_user_1", ID: "ou_1", Name: "One"}}},
			want: "ask @One and @Twelve",
		},
		"a name that looks like a key": {
			said: fakefeishu.Said{Text: "@_user_1 x", Mentions: []fakefeishu.Mention{{Key: "@_user_1", ID: "ou_1", Name: "@_user_2"}, {Key: "@_user_2", ID: fakefeishu.BotID, Name: "Ling"}}},
			want: "@@_user_2 x",
		},
		"rich text": {
			said: fakefeishu.Said{Type: "post", Mentions: fakefeishu.MentionBot(), Content: object{"title": "Plan", "content": []any{
				line(object{"tag": "at", "user_id": "@_user_1", "user_name": "Ling"}, object{"tag": "text", "text": "see "}, object{"tag": "a", "text": "this", "href": "https://example.com/a"}),
				line(object{"tag": "code_block", "language": "GO", "text": "x := 1\n"}),
				line(object{"tag": "img", "image_key": "img_1"}),
			}}},
			want: "Plan\nsee this (https://example.com/a)\n```go\nx := 1\n```", kind: channel.MediaImage,
		},
		"an image":  {said: fakefeishu.Said{Type: "image", Content: object{"image_key": "img_1"}}, kind: channel.MediaImage},
		"a file":    {said: fakefeishu.Said{Type: "file", Content: object{"file_key": "f", "file_name": "a.pdf"}}, kind: channel.MediaDocument},
		"audio":     {said: fakefeishu.Said{Type: "audio", Content: object{"file_key": "f", "duration": 2000}}, kind: channel.MediaAudio},
		"a video":   {said: fakefeishu.Said{Type: "media", Content: object{"file_key": "f", "image_key": "i", "duration": 2000}}, kind: channel.MediaVideo},
		"a sticker": {said: fakefeishu.Said{Type: "sticker", Content: object{"file_key": "f"}}, want: "[sticker]"},
		"a place": {
			said: fakefeishu.Said{Type: "location", Content: object{"name": "Here", "longitude": "1.5", "latitude": 2.5}}, want: "[location: Here, 2.5, 1.5]",
		},
		"a task":            {said: fakefeishu.Said{Type: "todo", Content: object{"summary": "write"}}, want: "[todo: write]"},
		"a task of no name": {said: fakefeishu.Said{Type: "todo", Content: object{}}, want: "[todo]"},
		"a card": {
			said: fakefeishu.Said{Type: "interactive", Content: object{"title": "Report", "elements": []any{line(object{"tag": "text", "text": "all is well"})}}},
			want: "Report\nall is well",
		},
		"a card of another form": {said: fakefeishu.Said{Type: "interactive", Content: object{"elements": "x"}}, want: "[card]"},
		"forwarded messages":     {said: fakefeishu.Said{Type: "merge_forward", Content: "Merged and Forwarded Message"}, want: "[forwarded messages]"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{})
				r.serve(t)
				tt.said.Chat, tt.said.From = private, ann
				e, id := r.fake.Say(tt.said)
				r.fake.AddFile(id, "img_1", []byte("\xff\xd8\xff an image"))
				r.fake.AddFile(id, "f", []byte("a file"))
				r.post(t, e)
				got := r.Told()[0]
				if got.BodyForAgent != tt.want {
					t.Errorf("the agent reads %q, expected %q", got.BodyForAgent, tt.want)
				}
				if tt.kind == "" && len(got.Media) != 0 || tt.kind != "" && (len(got.Media) != 1 || got.Media[0].Kind != tt.kind) {
					t.Errorf("its files are %+v", got.Media)
				}
				if tt.said.Type == "audio" && got.Media[0].Duration != 2*time.Second {
					t.Errorf("it lasts %v", got.Media[0].Duration)
				}
			})
		})
	}
}

// CH-106
func TestInAGroupOnlyAMessageToTheBotIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		said fakefeishu.Said
		want string
	}{
		"a mention":                  {fakefeishu.Said{Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot()}, "visible"},
		"nothing":                    {fakefeishu.Said{Text: "hi"}, "blocked missing_mention"},
		"a mention of somebody else": {fakefeishu.Said{Text: "@_user_1 hi", Mentions: []fakefeishu.Mention{{Key: "@_user_1", ID: bob, Name: "Bob"}}}, "blocked missing_mention"},
		"a mention of all":           {fakefeishu.Said{Text: "@_all hi"}, "blocked missing_mention"},
		"a configured name":          {fakefeishu.Said{Text: "ling, hi"}, "visible"},
		"a reply to the bot":         {fakefeishu.Said{Text: "and why?", Parent: "ours", Root: "ours"}, "visible"},
		"a reply to somebody else":   {fakefeishu.Said{Text: "and why?", Parent: "om_bobs", Root: "om_bobs"}, "blocked missing_mention"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{place: channel.Place{Patterns: []string{"Ling"}}})
				r.serve(t)
				r.fake.Say(fakefeishu.Said{ID: "om_bobs", Chat: group, From: bob, Text: "before"})
				r.mention(t, fakefeishu.Said{Text: "first"})
				ours := r.fake.Ours(group)[0]
				if tt.said.Parent == "ours" {
					tt.said.Parent, tt.said.Root = ours.ID, ours.ID
				}
				tt.said.Chat, tt.said.From = group, ann
				r.say(t, tt.said)
				if got := r.Outcomes(); got[len(got)-1] != tt.want {
					t.Errorf("%v, expected %s at last", got, tt.want)
				}
				if tt.said.Parent != ours.ID {
					return
				}
				if first, q := r.Told()[0], r.Told()[1]; first.ReplyToID != "" || q.ReplyToID != ours.ID || q.ReplyToBody != ours.Text || q.ReplyToSender != "Ling" {
					t.Errorf("the quotes are %q, and %q: %q of %q", first.ReplyToID, q.ReplyToID, q.ReplyToBody, q.ReplyToSender)
				}
			})
		})
	}
}

// After a restart, the bot's own message is read from the platform.
func TestAReplyToTheBotIsKnownAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := setup(t, options{})
		first.serve(t)
		first.mention(t, fakefeishu.Said{Text: "first"})
		if err := first.end(); err != nil {
			t.Error(err)
		}
		second := first.process(t, options{})
		second.serve(t)
		ours := second.fake.Ours(group)[0].ID
		second.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "why?", Parent: ours, Root: ours})
		if got := second.Told(); len(got) != 1 || got[0].ReplyToBody != "[card]" || got[0].ReplyToSender != "Ling" {
			t.Errorf("got %+v", got)
		}
	})
}

// In groups the answer is a reply. A topic has its own session.
func TestTheAnswerGoesWhereTheMessageCameFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{change: func(s *feishu.Settings) { s.Preview = platform.PreviewOff }})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		inGroup := r.mention(t, fakefeishu.Said{Text: "hi"})
		inTopic := r.mention(t, fakefeishu.Said{Text: "hi", Thread: "omt_7", Root: "om_r", Parent: "om_r"})
		var calls, sessions []string
		for _, c := range r.fake.Calls("send", "reply") {
			topic := ""
			if c.Body["reply_in_thread"] == true {
				topic = " in its topic"
			}
			calls = append(calls, c.Name+" "+c.Path+topic)
		}
		for _, c := range r.Told() {
			sessions = append(sessions, c.SessionKey)
		}
		if d := cmp.Diff([]string{
			"send im/v1/messages?receive_id_type=chat_id", "reply im/v1/messages/" + inGroup + "/reply", "reply im/v1/messages/" + inTopic + "/reply in its topic",
		}, calls); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"feishu:oc_private", "feishu:oc_group", "feishu:oc_group#omt_7"}, sessions); d != "" {
			t.Error(d)
		}
		if n := len(r.fake.Calls("get")); n != 0 {
			t.Errorf("%d calls for the first message of a topic", n)
		}
		if ours := r.fake.Ours(group); ours[1].Thread != "omt_7" {
			t.Errorf("the answer is in %q", ours[1].Thread)
		}
	})
}

func TestDeletionsChangeTheHistory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		for _, thread := range []string{"", "omt_1"} {
			said := func(text string) fakefeishu.Said {
				m := fakefeishu.Said{Chat: group, From: ann, Text: text, Thread: thread}
				if thread != "" {
					m.Root, m.Parent = "om_root", "om_root"
				}
				return m
			}
			r.say(t, said("first"))
			_, second := r.say(t, said("second"))
			r.post(t, r.fake.Event("im.message.recalled_v1", map[string]any{"message_id": second, "chat_id": group, "recall_time": "1", "recall_type": "message_owner"}))
			r.mention(t, said("what was it?"))
			contexts := r.Told()
			var bodies []string
			for _, h := range contexts[len(contexts)-1].InboundHistory {
				bodies = append(bodies, h.Body)
			}
			if d := cmp.Diff([]string{"first"}, bodies); d != "" {
				t.Errorf("in %q: %s", thread, d)
			}
		}
		if n := len(r.Told()); n != 2 {
			t.Errorf("%d turns, expected that a deletion starts none", n)
		}
	})
}

func TestOtherEventsStartNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		for _, e := range []map[string]any{
			r.fake.Event("im.chat.member.bot.added_v1", map[string]any{"chat_id": group, "operator_id": map[string]string{"open_id": ann}, "name": "G"}),
			r.fake.Event("im.chat.disbanded_v1", map[string]any{"chat_id": group}),
			r.fake.Event("im.message.reaction.created_v1", map[string]any{"message_id": "om_1", "reaction_type": map[string]string{"emoji_type": "OK"}}),
			r.fake.Event("im.message.message_read_v1", map[string]any{"message_id_list": []string{"om_1"}}),
			r.fake.Event("something.new_v9", map[string]any{"chat_id": 7}),
		} {
			r.post(t, e)
		}
		wait(time.Minute)
		if d := cmp.Diff([]string{"blocked not_a_turn", "blocked not_a_turn"}, r.Outcomes()); d != "" || len(r.fake.Writes()) != 0 {
			t.Errorf("%s, %d writes", d, len(r.fake.Writes()))
		}
	})
}

// CH-80
func TestTheBotAnswersNeitherItselfNorOtherBots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		r.mention(t, fakefeishu.Said{From: fakefeishu.BotID, Sender: "app", Text: "hi"})
		r.mention(t, fakefeishu.Said{From: "ou_other_bot", Sender: "app", Text: "hi"})
		if d := cmp.Diff([]string{"blocked self_echo", "blocked bot_not_allowed"}, r.Outcomes()); d != "" {
			t.Error(d)
		}
	})
}

// CH-84
func TestWithDebounceTextsOfASenderAreOneTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{place: channel.Place{Debounce: new(2 * time.Second)}})
		r.serve(t)
		for _, text := range []string{"one", "two", "three"} {
			r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: text})
			wait(time.Second)
		}
		wait(10 * time.Second)
		if got := r.Told(); len(got) != 1 || got[0].BodyForAgent != "one\ntwo\nthree" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestFilesAreLoadedForThoseWhoMayTalk(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*feishu.Settings)
		missing bool
		place   channel.Place
		note    string // "": the file is loaded
	}{
		"an image":      {},
		"a large one":   {change: func(s *feishu.Settings) { s.MaxMedia = 10 }, note: "[image is too large; expected at most 10 bytes]"},
		"a missing one": {missing: true, note: "[image could not be loaded]"},
		"of a stranger": {place: channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{bob}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{change: tt.change, place: tt.place})
				r.serve(t)
				e, id := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Type: "image", Content: map[string]string{"image_key": "img_1"}})
				if !tt.missing {
					r.fake.AddFile(id, "img_1", []byte("\xff\xd8\xff an image of something"))
				}
				r.post(t, e)
				if name == "of a stranger" {
					if n := len(r.fake.Calls("resource")); n != 0 || len(r.Told()) != 0 {
						t.Errorf("%d files were loaded", n)
					}
					return
				}
				c := r.Told()[0]
				if len(c.Media) != 1 || c.Media[0].Kind != channel.MediaImage {
					t.Fatalf("the media are %+v", c.Media)
				}
				if tt.note != "" {
					if c.Media[0].Path != "" || !strings.Contains(c.BodyForAgent, tt.note) {
						t.Errorf("got %+v and %q", c.Media[0], c.BodyForAgent)
					}
					return
				}
				data, err := os.ReadFile(c.Media[0].Path)
				if err != nil || !strings.Contains(string(data), "an image") || c.Media[0].Size != int64(len(data)) {
					t.Errorf("%q, %v", data, err)
				}
			})
		})
	}
}

func TestAFileOfJSONIsNoRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		data  string
		fault *fakefeishu.Fault
	}{
		"a file":                  {data: `{"a":1}`},
		"a file with a code":      {data: `{"code":0,"msg":"hello"}`},
		"a long file":             {data: `{"code":7,"x":"` + strings.Repeat("x", 8<<10) + `"}`},
		"a refusal":               {data: `{}`, fault: &fakefeishu.Fault{Name: "resource", Code: 234003}},
		"a refusal of status 200": {data: `{}`, fault: &fakefeishu.Fault{Name: "resource", Code: 234003, Status: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, options{})
				r.serve(t)
				if tt.fault != nil {
					r.fake.Fail(*tt.fault)
				}
				e, id := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Type: "file", Content: map[string]string{"file_key": "f", "file_name": "../../a.JSON"}})
				r.fake.AddFile(id, "f", []byte(tt.data))
				r.post(t, e)
				path := r.Told()[0].Media[0].Path
				if (path == "") != (tt.fault != nil) {
					t.Fatalf("%+v", r.Told()[0].Media[0])
				}
				if data, err := os.ReadFile(path); path != "" && (err != nil || string(data) != tt.data || !strings.HasSuffix(path, ".json") || strings.Contains(path, "..")) {
					t.Errorf("%s: %q, %v", path, data, err)
				}
			})
		})
	}
}

// Section 17: an image first, the mention later; and a reply that quotes an image.
func TestImagesOfTheHistoryAndOfQuotesReachTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{})
		r.serve(t)
		e, id := r.fake.Say(fakefeishu.Said{Chat: group, From: bob, Type: "image", Content: map[string]string{"image_key": "img_1"}})
		r.fake.AddFile(id, "img_1", []byte("\xff\xd8\xff an image"))
		r.post(t, e)
		r.mention(t, fakefeishu.Said{Text: "what is that?"})
		r.mention(t, fakefeishu.Said{Text: "and this?", Parent: id, Root: id})
		got := r.Told()
		if h := got[0].InboundHistory; len(h) != 1 || len(h[0].Media) != 1 || h[0].Media[0].Path == "" {
			t.Errorf("the history is %+v", h)
		}
		if got[1].ReplyToID != id || !slices.ContainsFunc(got[1].Media, func(m channel.MediaFact) bool { return m.MessageID == id && m.Path != "" }) {
			t.Errorf("the media are %+v", got[1].Media)
		}
	})
}

// CH-109: of somebody who may not talk, nothing is read, the agent learns nothing, and the log has nothing.
func TestAStrangersWordsGoNowhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{place: channel.Place{GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{bob}}})
		r.serve(t)
		_, first := r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "canary one"})
		r.mention(t, fakefeishu.Said{Text: "canary two", Parent: first, Root: first})
		if n := len(r.fake.Calls("get")); n != 0 {
			t.Errorf("%d calls", n)
		}
		r.mention(t, fakefeishu.Said{From: bob, Text: "hi"})
		all, err := json.Marshal(r.Told())
		if err != nil || len(r.Told()) != 1 || strings.Contains(string(all)+r.log.String(), "canary") {
			t.Errorf("%s, %v\n%s", all, err, r.log)
		}
	})
}

// CH-101
func TestASenderWhoIsNotPairedIsToldTheCodeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, options{place: channel.Place{DMPolicy: channel.PolicyPairing}})
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hello?"})
		if shown := r.fake.Texts(private); len(shown) != 1 || !strings.Contains(shown[0], "lingserve channels pair approve ") || len(r.Told()) != 0 {
			t.Errorf("%q", shown)
		}
	})
}
