package feishu

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
	"github.com/lingserve/lingserve/internal/fakefeishu"
)

func TestWhatAMessageSays(t *testing.T) {
	type any = interface{}
	line := func(nodes ...map[string]any) []any {
		var list []any
		for _, n := range nodes {
			list = append(list, n)
		}
		return list
	}
	for name, tt := range map[string]struct {
		said fakefeishu.Said
		want string
		kind channel.MediaKind // of the one file
	}{
		"a text":                      {said: fakefeishu.Said{Text: "hello"}, want: "hello"},
		"the bot's name is taken out": {said: fakefeishu.Said{Text: "@_user_1 hello", Mentions: fakefeishu.MentionBot()}, want: "hello"},
		"within a text": {
			said: fakefeishu.Said{Text: "hey @_user_1 hello", Mentions: fakefeishu.MentionBot()}, want: "hey hello",
		},
		"others have their names": {
			said: fakefeishu.Said{Text: "ask @_user_1 and @_user_12", Mentions: []fakefeishu.Mention{{Key: "@_user_12", ID: "ou_12", Name: "Twelve"}, {Key: "@_user_1", ID: "ou_1", Name: "One"}}},
			want: "ask @One and @Twelve",
		},
		"a name that looks like a key": {
			said: fakefeishu.Said{Text: "@_user_1 x", Mentions: []fakefeishu.Mention{{Key: "@_user_1", ID: "ou_1", Name: "@_user_2"}, {Key: "@_user_2", ID: fakefeishu.BotID, Name: "Ling"}}},
			want: "@@_user_2 x",
		},
		"everybody":                  {said: fakefeishu.Said{Text: "@_all hello"}, want: "@all hello"},
		"a key that nobody has":      {said: fakefeishu.Said{Text: "@_user_9 hello"}, want: "@_user_9 hello"},
		"an end that looks like one": {said: fakefeishu.Said{Text: "what is @_"}, want: "what is @_"},
		"a rich text": {
			said: fakefeishu.Said{Type: "post", Mentions: fakefeishu.MentionBot(), Content: map[string]any{"title": "Plan", "content": []any{
				line(map[string]any{"tag": "at", "user_id": "@_user_1", "user_name": "Ling"}, map[string]any{"tag": "text", "text": " see "},
					map[string]any{"tag": "a", "text": "this", "href": "https://example.com/a"}),
				line(map[string]any{"tag": "code_block", "language": "GO", "text": "x := 1\n"}),
				line(map[string]any{"tag": "img", "image_key": "img_1"}),
			}}},
			want: "Plan\n see this (https://example.com/a)\n```go\nx := 1\n```", kind: channel.MediaImage,
		},
		"a rich text by language": {
			said: fakefeishu.Said{Type: "post", Content: map[string]any{"zh_cn": map[string]any{"content": []any{line(map[string]any{"tag": "text", "text": "你好"})}}}},
			want: "你好",
		},
		"a picture":   {said: fakefeishu.Said{Type: "image", Content: map[string]any{"image_key": "img_1"}}, kind: channel.MediaImage},
		"a file":      {said: fakefeishu.Said{Type: "file", Content: map[string]any{"file_key": "f", "file_name": "a.pdf"}}, kind: channel.MediaDocument},
		"a recording": {said: fakefeishu.Said{Type: "audio", Content: map[string]any{"file_key": "f", "duration": 2000}}, kind: channel.MediaAudio},
		"a film":      {said: fakefeishu.Said{Type: "media", Content: map[string]any{"file_key": "f", "image_key": "i", "duration": 2000}}, kind: channel.MediaVideo},
		"a sticker":   {said: fakefeishu.Said{Type: "sticker", Content: map[string]any{"file_key": "f"}}, want: "[sticker]"},
		"a place": {
			said: fakefeishu.Said{Type: "location", Content: map[string]any{"name": "Here", "longitude": "1.5", "latitude": 2.5}}, want: "[location: Here, 2.5, 1.5]",
		},
		"a card": {
			said: fakefeishu.Said{Type: "interactive", Content: map[string]any{"title": "Report", "elements": []any{line(map[string]any{"tag": "text", "text": "all is well"})}}},
			want: "Report\nall is well",
		},
		"forwarded messages": {said: fakefeishu.Said{Type: "merge_forward", Content: "Merged and Forwarded Message"}, want: "[forwarded messages]"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := fakefeishu.New(nil)
			defer fake.Close()
			fake.AddChat(private, "p2p")
			tt.said.Chat, tt.said.From = private, ann
			e, _ := fake.Say(tt.said)
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Raw(raw)
			if err != nil {
				t.Fatal(err)
			}
			w := got.message.read()
			text := named(w.text, got.message.Mentions, fakefeishu.BotID)
			// Where the name goes, the white space of its line may stay within a text.
			if strings.ReplaceAll(text, "\n ", "\n") != strings.ReplaceAll(tt.want, "\n ", "\n") {
				t.Errorf("it says %q, expected %q", text, tt.want)
			}
			if tt.kind == "" && len(w.files) != 0 || tt.kind != "" && (len(w.files) != 1 || w.files[0].Fact.Kind != tt.kind) {
				t.Errorf("its files are %+v", w.files)
			}
		})
	}
}

func FuzzContent(f *testing.F) {
	f.Add("text", `{"text":"@_user_1 hi @_all"}`)
	f.Add("post", `{"title":"t","content":[[{"tag":"at","user_id":"@_user_1"},{"tag":"img","image_key":"k"}]]}`)
	f.Add("post", `{"en_us":{"content":[[{"tag":"md","text":"x"}]]}}`)
	f.Add("location", `{"latitude":1,"longitude":"2"}`)
	f.Fuzz(func(t *testing.T, kind, content string) {
		m := message{ID: "m", Type: kind, Content: content, Mentions: []mention{{Key: "@_user_1", ID: ids{Open: "me"}, Name: "Me"}}}
		w := m.read()
		named(w.text, m.Mentions, "me")
		for _, file := range w.files {
			if file.key == "" {
				t.Fatal("a file without a key")
			}
			if name := (&Channel{store: media.Store{Prefix: "feishu-"}}).fileName(file); strings.ContainsAny(name, `/\`) || len(name) > 64 {
				t.Fatalf("a name that a sender chose: %q", name)
			}
		}
	})
}

// CH-106
func TestInAGroupOnlyWhatAddressesTheBotIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		said fakefeishu.Said
		want string
	}{
		"a mention":                  {fakefeishu.Said{Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot()}, "visible"},
		"nothing":                    {fakefeishu.Said{Text: "hi"}, "blocked missing_mention"},
		"a mention of somebody else": {fakefeishu.Said{Text: "@_user_1 hi", Mentions: []fakefeishu.Mention{{Key: "@_user_1", ID: bob, Name: "Bob"}}}, "blocked missing_mention"},
		"a mention of all":           {fakefeishu.Said{Text: "@_all hi"}, "blocked missing_mention"},
		"a reply to the bot":         {fakefeishu.Said{Text: "and why?", Parent: "ours", Root: "ours"}, "visible"},
		"a reply to somebody else":   {fakefeishu.Said{Text: "and why?", Parent: "om_bobs", Root: "om_bobs"}, "blocked missing_mention"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.serve(t)
				r.fake.Say(fakefeishu.Said{ID: "om_bobs", Chat: group, From: bob, Text: "before"})
				r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 first", Mentions: fakefeishu.MentionBot()})
				ours := r.fake.Ours(group)[0]
				if tt.said.Parent == "ours" {
					tt.said.Parent, tt.said.Root = ours.ID, ours.ID
				}
				tt.said.Chat, tt.said.From = group, ann
				r.say(t, tt.said)
				got := r.outcomes()
				if got[len(got)-1] != tt.want {
					t.Errorf("%v, expected %s at last", got, tt.want)
				}
				if tt.said.Parent == ours.ID {
					// DC-05: the first message quotes nothing, though the answer to it is a reply.
					if first, q := r.told()[0], r.told()[1]; first.ReplyToID != "" || q.ReplyToID != ours.ID || q.ReplyToBody != ours.Text || q.ReplyToSender != "Ling" {
						t.Errorf("the quotes are %q, and %q: %q of %q", first.ReplyToID, q.ReplyToID, q.ReplyToBody, q.ReplyToSender)
					}
				}
			})
		})
	}
}

// CH-177, as elsewhere: in groups the answer is a reply, and a topic is a session of its own.
func TestAnAnswerGoesToWhereTheMessageCameFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, func(s *Settings) { s.Preview = PreviewOff }, nil)
		r.serve(t)
		mention := fakefeishu.MentionBot()
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		_, inGroup := r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 hi", Mentions: mention})
		_, inTopic := r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 hi", Mentions: mention, Thread: "omt_7", Root: "om_r", Parent: "om_r"})
		var got []string
		for _, c := range r.fake.Calls("send", "reply") {
			topic := ""
			if c.Body["reply_in_thread"] == true {
				topic = " in its topic"
			}
			got = append(got, c.Name+" "+c.Path+topic)
		}
		want := []string{
			"send im/v1/messages?receive_id_type=chat_id", "reply im/v1/messages/" + inGroup + "/reply",
			"reply im/v1/messages/" + inTopic + "/reply in its topic",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		var sessions []string
		for _, c := range r.told() {
			sessions = append(sessions, c.SessionKey)
		}
		if d := cmp.Diff([]string{"feishu:oc_private", "feishu:oc_group", "feishu:oc_group#omt_7"}, sessions); d != "" {
			t.Error(d)
		}
		if n := len(r.fake.Calls("get")); n != 0 {
			t.Errorf("%d questions for the first message of a topic", n)
		}
		if ours := r.fake.Ours(group); ours[1].Thread != "omt_7" {
			t.Errorf("the answer is in %q", ours[1].Thread)
		}
	})
}

// CH-98
func TestWhatWaitsIsChangedAndForgottenWithItsMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		for _, thread := range []string{"", "omt_1"} {
			said := func(text string) fakefeishu.Said {
				return fakefeishu.Said{Chat: group, From: ann, Text: text, Thread: thread, Root: "om_root", Parent: "om_root"}
			}
			if thread == "" {
				said = func(text string) fakefeishu.Said { return fakefeishu.Said{Chat: group, From: ann, Text: text} }
			}
			_, first := r.say(t, said("first"))
			_, second := r.say(t, said("second"))
			edited := said("first, changed")
			edited.ID, edited.Edited = first, true
			r.say(t, edited)
			r.post(t, r.fake.Event("im.message.recalled_v1", map[string]any{
				"message_id": second, "chat_id": group, "recall_time": "1", "recall_type": "message_owner",
			}))
			ask := said("@_user_1 what was it?")
			ask.Mentions = fakefeishu.MentionBot()
			r.say(t, ask)
			told := r.told()
			var bodies []string
			for _, h := range told[len(told)-1].InboundHistory {
				bodies = append(bodies, h.Body)
			}
			if d := cmp.Diff([]string{"first, changed"}, bodies); d != "" {
				t.Errorf("in %q: %s", thread, d)
			}
		}
		if n := len(r.told()); n != 2 {
			t.Errorf("%d turns, expected that an edit and a recall start none", n)
		}
	})
}

func TestOtherEventsStartNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
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
		if d := cmp.Diff([]string{"blocked not_a_turn", "blocked not_a_turn"}, r.outcomes()); d != "" {
			t.Error(d)
		}
		if n := len(r.fake.Writes()); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// CH-80
func TestTheBotDoesNotAnswerItselfNorOthersOfItsKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		r.serve(t)
		mention := fakefeishu.MentionBot()
		r.say(t, fakefeishu.Said{Chat: group, From: fakefeishu.BotID, Sender: "app", Text: "@_user_1 hi", Mentions: mention})
		r.say(t, fakefeishu.Said{Chat: group, From: "ou_other_bot", Sender: "app", Text: "@_user_1 hi", Mentions: mention})
		if d := cmp.Diff([]string{"blocked self_echo", "blocked bot_not_allowed"}, r.outcomes()); d != "" {
			t.Error(d)
		}
	})
}

func TestFilesAreLoadedForThoseWhoMayTalk(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Settings)
		fail   bool
		from   channel.PolicyKind
		loaded bool
		note   string
	}{
		"a picture":       {loaded: true},
		"one too large":   {change: func(s *Settings) { s.MaxMedia = 10 }, note: "[image is too large; expected at most 10 bytes]"},
		"one that is not": {fail: true, note: "[image could not be loaded]"},
		"of a stranger":   {from: channel.PolicyAllowlist},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, tt.change, nil)
				if tt.from != "" {
					k := kernel(t, channel.Place{DMPolicy: tt.from, DMAllowFrom: []string{bob}})
					k.Agent, k.Observer, k.Media = r.kernel.Agent, r, r.kernel.Media
					r.kernel = k
				}
				r.serve(t)
				e, id := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Type: "image", Content: map[string]string{"image_key": "img_1"}})
				if !tt.fail {
					r.fake.AddFile(id, "img_1", []byte("\xff\xd8\xff a picture of something"))
				}
				r.post(t, e)
				if tt.from != "" {
					if n := len(r.fake.Calls("resource")); n != 0 || len(r.told()) != 0 {
						t.Errorf("%d files were asked for", n)
					}
					return
				}
				c := r.told()[0]
				if len(c.Media) != 1 || c.Media[0].Kind != channel.MediaImage {
					t.Fatalf("the media are %+v", c.Media)
				}
				if tt.loaded {
					data, err := os.ReadFile(c.Media[0].Path)
					if err != nil || !strings.Contains(string(data), "a picture") || c.Media[0].Size != int64(len(data)) {
						t.Errorf("%q, %v", data, err)
					}
				} else if c.Media[0].Path != "" || !strings.Contains(c.BodyForAgent, tt.note) {
					t.Errorf("got %+v and %q", c.Media[0], c.BodyForAgent)
				}
			})
		})
	}
}

func TestAFileOfJSONIsAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		data  string
		fault *fakefeishu.Fault
		ok    bool
	}{
		"a file":                         {data: `{"a":1}`, ok: true},
		"one with a code":                {data: `{"code":0,"msg":"hello"}`, ok: true},
		"a long one":                     {data: `{"code":7,"x":"` + strings.Repeat("x", 8<<10) + `"}`, ok: true},
		"a refusal":                      {data: `{}`, fault: &fakefeishu.Fault{Name: "resource", Code: 234003}},
		"a refusal that looks all right": {data: `{}`, fault: &fakefeishu.Fault{Name: "resource", Code: 234003, Status: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := setup(t, nil, nil)
				r.serve(t)
				if tt.fault != nil {
					r.fake.Fail(*tt.fault)
				}
				e, id := r.fake.Say(fakefeishu.Said{Chat: private, From: ann, Type: "file", Content: map[string]string{"file_key": "f", "file_name": "../../a.JSON"}})
				r.fake.AddFile(id, "f", []byte(tt.data))
				r.post(t, e)
				path := r.told()[0].Media[0].Path
				if (path != "") != tt.ok {
					t.Fatalf("%+v", r.told()[0].Media[0])
				}
				if data, err := os.ReadFile(path); tt.ok && (err != nil || string(data) != tt.data || !strings.HasSuffix(path, ".json")) {
					t.Errorf("%s: %q, %v", path, data, err)
				}
			})
		})
	}
}

// CH-109, CH-193: of somebody who may not talk, nothing is asked for, nothing is told, and nothing is in the log.
func TestAStrangersWordsGoNowhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		k := kernel(t, channel.Place{GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{bob}})
		k.Agent, k.Observer, k.Media = r.kernel.Agent, r, r.kernel.Media
		r.kernel = k
		r.serve(t)
		_, first := r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "canary one"})
		r.say(t, fakefeishu.Said{Chat: group, From: ann, Text: "@_user_1 canary two", Mentions: fakefeishu.MentionBot(), Parent: first, Root: first})
		if n := len(r.fake.Calls("get")); n != 0 {
			t.Errorf("%d questions", n)
		}
		r.say(t, fakefeishu.Said{Chat: group, From: bob, Text: "@_user_1 hi", Mentions: fakefeishu.MentionBot()})
		told := r.told()
		if len(told) != 1 {
			t.Fatalf("%d turns", len(told))
		}
		all, err := json.Marshal(told)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(all) + r.log.String(); strings.Contains(text, "canary") {
			t.Errorf("got %s", text)
		}
	})
}

// CH-101
func TestWhoIsNotPairedIsToldTheCodeOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := setup(t, nil, nil)
		k := kernel(t, channel.Place{DMPolicy: channel.PolicyPairing})
		pairs := channel.NewPairs(nil)
		k.Agent, k.Observer, k.Pairing = r.kernel.Agent, r, pairs
		r.kernel = k
		r.serve(t)
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hi"})
		r.say(t, fakefeishu.Said{Chat: private, From: ann, Text: "hello?"})
		shown := r.fake.Texts(private)
		if len(shown) != 1 || !strings.Contains(shown[0], "lingserve channels pair approve ") {
			t.Errorf("%q", shown)
		}
		if len(r.told()) != 0 {
			t.Error("it was answered")
		}
	})
}
