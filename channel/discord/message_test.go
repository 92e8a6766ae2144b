package discord_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/discord/discordtest"
)

const mention = "<@" + discordtest.Bot + ">"

var (
	me      = map[string]any{"id": discordtest.Bot, "username": "ling"}
	ann     = map[string]any{"id": "7", "username": "ann", "global_name": "Ann"}
	toMe    = map[string]any{"mentions": []any{me}}
	unheard = map[string]any{} // a message for nobody
)

func TestConversationsAndThreadsHaveSessions(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		for i, row := range []struct{ at, session, parent, label string }{
			{direct, "discord:100", "", ""}, {general, "discord:200", "", "general"}, {thread, "discord:300", "discord:200", "a thread"},
		} {
			id := r.say(row.at, "7", mention+" hello", toMe)
			got := r.last(i + 1)
			if got.SessionKey != row.session || got.ParentSessionKey != row.parent || got.ConversationLabel != row.label || got.SenderID != "7" || got.BodyForAgent != "hello" || got.MessageID != id {
				t.Errorf("%s: got %+v", row.at, got)
			}
			sent := r.sent(row.at, 1)[0]
			if replies := sent.Reply == id; replies != (row.at != direct) || sent.Content != "ok" {
				t.Errorf("%s: the answer is %+v", row.at, sent)
			}
		}
	})
}

func TestMentionsAddressTheBot(t *testing.T) {
	withNames := channel.Place{Patterns: []string{"Ling"}}
	for _, row := range []struct {
		name, content string
		more          map[string]any
		want          string // the text for the agent; "": it is not addressed
	}{
		{"by name", "hey " + mention + " do this", toMe, "hey do this"},
		{"in the old form", "<@!900>, hello", toMe, ", hello"},
		{"by its own role", "<@&901> hello", map[string]any{"mention_roles": []string{"901"}}, "hello"},
		{"by a role of others", "<@&903> hello", map[string]any{"mention_roles": []string{"903"}}, ""},
		{"in code", "`" + mention + "` is code", nil, ""},
		{"of everyone", "@everyone hello", map[string]any{"mention_everyone": true}, ""},
		{"by a pattern", "Ling, hello", nil, "Ling, hello"},
		{"by a reply", "and this", map[string]any{"type": 19, "referenced_message": map[string]any{"id": "1", "author": me, "content": "that"}}, "and this"},
		{
			"with other marks", mention + " ask <@7> and <@&903> in <#300> <:wave:5> </help:6>",
			map[string]any{"mentions": []any{me, ann}, "mention_roles": []string{"903"}},
			"ask @Ann and @Crew in #a thread :wave: /help",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, options{place: withNames}, func(t *testing.T, r *rig) {
				r.say(general, "7", row.content, row.more)
				r.say(direct, "7", "the end", nil)
				r.sent(direct, 1)
				got := ""
				for _, c := range r.told() {
					if c.ChatID == general {
						got = c.BodyForAgent
					}
				}
				if got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			})
		})
	}
}

func TestOnlyMessagesOfPeopleStartTurns(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.say(direct, "8", "from a bot", map[string]any{"author": map[string]any{"id": "8", "bot": true}})
		r.say(direct, "8", "from a webhook", map[string]any{"webhook_id": "8"})
		r.say(general, "8", "", map[string]any{"type": 7, "mentions": []any{me}}) // has joined
		r.say(direct, discordtest.Bot, "by itself", nil)
		r.emit("MESSAGE_CREATE", map[string]any{"id": []int{1}})
		r.say(direct, "7", "hello", map[string]any{"components": []any{map[string]any{"type": 99}}}) // newer than the library
		if got := r.last(1); got.BodyForAgent != "hello" || len(r.told()) != 1 {
			t.Errorf("got %+v", r.told())
		}
	})
}

func TestQuotesForwardsAndOtherContents(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		r.say(direct, "7", "what is it?", map[string]any{"type": 19, "referenced_message": map[string]any{"id": "1", "content": "an answer to <@7>", "author": me, "mentions": []any{ann}}})
		if got := r.last(1); got.ReplyToBody != "an answer to @Ann" || got.ReplyToID != "1" {
			t.Errorf("the quote is %q of %q", got.ReplyToBody, got.ReplyToID)
		}
		r.say(direct, "7", "", map[string]any{
			"message_reference": map[string]any{"type": 1, "channel_id": "77", "message_id": "2"}, "message_snapshots": []any{map[string]any{"message": map[string]any{"content": "passed on"}}},
		})
		if got := r.last(2); got.BodyForAgent != "passed on" || got.ForwardedFromType != "channel" || got.ForwardedFromID != "77" {
			t.Errorf("the forward is %+v", got)
		}
		r.say(direct, "7", "", map[string]any{"sticker_items": []any{map[string]any{"id": "1", "name": "Wave"}}})
		if got := r.last(3); got.BodyForAgent != "[sticker Wave]" {
			t.Errorf("the sticker is %q", got.BodyForAgent)
		}
	})
}

func TestWaitingMessagesFollowEditsAndDeletions(t *testing.T) {
	bubble(t, options{}, func(t *testing.T, r *rig) {
		first := r.say(general, "7", "one", unheard)
		second := r.say(general, "7", "two", unheard)
		third := r.say(general, "7", "three", unheard)
		edit := func(id, text string, at any) {
			r.emit("MESSAGE_UPDATE", map[string]any{"id": id, "channel_id": general, "guild_id": "50", "content": text, "edited_timestamp": at, "author": ann})
		}
		edit(first, "ONE", time.Now())
		edit(third, "", nil) // the platform has looked at a link
		r.emit("MESSAGE_DELETE", map[string]any{"id": second, "channel_id": general, "guild_id": "50"})
		r.say(general, "7", mention+" well?", toMe)
		var got []string
		for _, e := range r.last(1).InboundHistory {
			got = append(got, e.Body)
		}
		if strings.Join(got, ",") != "ONE,three" {
			t.Errorf("the agent sees %q", got)
		}
	})
}

func TestFilesAreLoadedWithinTheLimit(t *testing.T) {
	folder := t.TempDir()
	bubble(t, options{settings: func(s *discord.Settings) { s.Media, s.MaxMedia = folder, 10 }}, func(t *testing.T, r *rig) {
		file := func(id, name, data string, size int) map[string]any {
			return map[string]any{"id": id, "filename": name, "content_type": "text/plain; charset=utf-8", "size": size, "url": r.fake.AddFile(name, data)}
		}
		r.say(direct, "7", "look", map[string]any{"attachments": []any{
			file("1", "a.txt", "small", 5), file("2", "b.txt", "much too large", 14), file("3", "c.txt", "larger than it says", 5), map[string]any{"id": "4", "filename": "d.txt", "size": 1, "url": "http://discord.test/files/none"},
		}})
		got := r.last(1)
		if len(got.Media) != 4 || got.Media[0].ContentType != "text/plain" || got.Media[1].Path != "" || strings.Count(got.BodyForAgent, "too large") != 2 || strings.Count(got.BodyForAgent, "could not be loaded") != 1 {
			t.Fatalf("got %q and %+v", got.BodyForAgent, got.Media)
		}
		if data, err := os.ReadFile(folder + "/discord-1.txt"); err != nil || string(data) != "small" {
			t.Errorf("got %q, %v", data, err)
		}
	})
}

func TestTextsOfOneSenderBecomeOneTurn(t *testing.T) {
	bubble(t, options{place: channel.Place{Debounce: new(2 * time.Second)}}, func(t *testing.T, r *rig) {
		r.say(direct, "7", "one", nil)
		r.say(direct, "7", "two", nil)
		if got := r.last(1); got.BodyForAgent != "one\ntwo" {
			t.Errorf("got %q", got.BodyForAgent)
		}
	})
}

func TestLongAnswersAndFilesAreSentInOrder(t *testing.T) {
	folder := t.TempDir()
	bubble(t, options{settings: func(s *discord.Settings) { s.Media = folder }}, func(t *testing.T, r *rig) {
		if err := os.WriteFile(folder+"/chart.txt", []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.answers(func(ctx context.Context, turn *channel.Turn) (channel.DispatchResult, error) {
			return channel.DispatchResult{}, turn.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{
				Text: strings.Repeat("word <@7> @everyone ", 200), Media: []channel.MediaFact{{Path: folder + "/chart.txt"}},
			})
		})
		id := r.say(general, "7", mention+" hello", toMe)
		sent := r.sent(general, 4)
		if len(sent) != 4 || sent[0].Reply != id || sent[1].Reply != "" || sent[3].Files["chart.txt"] != "data" || strings.Contains(sent[0].Content, " <@7>") {
			t.Errorf("got %+v", sent)
		}
	})
}
