package slack_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// wantMethods fails the test unless these are the calls so far that people could notice.
func (r *rig) wantMethods(want ...string) {
	r.t.Helper()
	if got := r.methods(); !slices.Equal(got, want) {
		r.t.Errorf("got the calls %q, expected %q", got, want)
	}
}

// wantAnswer fails the test unless one message of the bot is in a conversation, has this text, and has ended.
func (r *rig) wantAnswer(conversation, want string) {
	r.t.Helper()
	r.wantTexts(conversation, want)
	for _, m := range r.fake.Shown(conversation) {
		if r.fake.Streaming(m.Channel, m.TS) {
			r.t.Errorf("%q is still being streamed", m.Text)
		}
	}
}

func TestAnAnswerInAThreadIsStreamed(t *testing.T) {
	for name, m := range map[string]fakeslack.Message{
		"in a channel":                {Channel: room, Text: us + " hi"},
		"in a thread of a channel":    {Channel: room, Text: us + " hi", Thread: ping},
		"in a thread of a direct one": {Channel: dm, Text: "hi", Thread: ping},
		"in a group":                  {Channel: party, Text: us + " hi"},
		"to a person of elsewhere":    {Channel: room, Text: us + " hi", More: map[string]any{"team": "T0OTHER"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Answers(shows("**one** two three", "**one**", "**one** two "))
				m := r.say(m)
				wait(20 * time.Second)
				r.wantMethods("startStream", "appendStream", "stopStream")
				r.wantAnswer(m.Channel, "**one** two three")
				got := r.fake.Shown(m.Channel)[0]
				if thread := m.Thread; got.Thread != thread && got.Thread != m.TS {
					t.Errorf("got the thread %q", got.Thread)
				}
				var parts []string
				for _, c := range r.fake.Writes() {
					if text, ok := c.Params["markdown_text"]; ok {
						parts = append(parts, text)
					}
				}
				if !slices.Equal(parts, []string{"**one**", " two", " three"}) {
					t.Errorf("streamed %q, expected only what is new", parts)
				}
				start := r.fake.Calls("chat.startStream")[0].Params
				if team := m.More["team"]; team != nil && start["recipient_team_id"] != team {
					t.Errorf("got the call %v", start)
				}
				r.wantOutcomes("visible")
			})
		})
	}
}

func TestOutsideOfThreadsAMessageIsEdited(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(shows("one two", "one"))
		r.say(fakeslack.Message{Channel: dm, Text: "hi"})
		wait(20 * time.Second)
		r.wantMethods("postMessage", "update")
	})
}

func TestWhereThePlatformDoesNotStreamAMessageIsEdited(t *testing.T) {
	for _, code := range []string{"missing_scope", "unknown_method", "channel_type_not_supported", "invalid_arguments", "not_on_mondays"} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fake.Fail(fakeslack.Fault{Method: "chat.startStream", Error: code, Times: -1})
				r.Answers(shows("one two three", "one", "one two"))
				for range 2 {
					r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
					wait(time.Minute)
				}
				r.wantTexts(room, "one two three", "one two three")
				r.wantMethods("startStream", "postMessage", "update", "update", "postMessage", "update", "update") // it is not tried again
			})
		})
	}
}

func TestAStreamThatThePlatformDoesNotTakeNowIsAMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fake.Fail(fakeslack.Fault{Method: "chat.startStream", Status: 429, RetryAfter: 20})
		r.Answers(shows("one two", "one"))
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		wait(time.Minute)
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		wait(20 * time.Second)
		r.wantMethods("startStream", "postMessage", "startStream", "stopStream")
		r.wantTexts(room, "one two", "one two")
	})
}

// What is streamed cannot be taken back: a text that has not only grown replaces the message.
func TestATextThatHasChangedReplacesTheStream(t *testing.T) {
	for name, previews := range map[string][]string{"a preview": {"one", "eins", "eins zwei"}, "the answer": {"one"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.Answers(shows("eins zwei **drei**", previews...))
				r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
				wait(time.Minute)
				r.wantAnswer(room, "eins zwei *drei*")
				if got := r.methods(); !slices.Equal(got[:3], []string{"startStream", "stopStream", "update"}) || slices.Contains(got, "postMessage") {
					t.Errorf("got the calls %q", got)
				}
			})
		})
	}
}

// The answer is there once, whole, in one message, whatever becomes of a call.
func TestFailuresOfStreams(t *testing.T) {
	for name, faults := range map[string][]fakeslack.Fault{
		"an append is refused":              {{Method: "chat.appendStream", Error: "messaging_processing_failed"}},
		"the platform has ended it":         {{Method: "chat.appendStream", Error: "message_not_in_streaming_state"}},
		"an append is lost":                 {{Method: "chat.appendStream", Cut: fakeslack.CutBefore}},
		"the answer to an append is lost":   {{Method: "chat.appendStream", Cut: fakeslack.CutAfter}},
		"no connection for an append":       {{Method: "chat.appendStream", Cut: fakeslack.Refused}},
		"a pause for appends":               {{Method: "chat.appendStream", Status: 429, RetryAfter: 2}},
		"the end is lost":                   {{Method: "chat.stopStream", Cut: fakeslack.CutBefore}},
		"the answer to the end is lost":     {{Method: "chat.stopStream", Cut: fakeslack.CutAfter}},
		"a pause for the end":               {{Method: "chat.stopStream", Status: 429, RetryAfter: 7, Times: 2}},
		"the end is refused":                {{Method: "chat.stopStream", Error: "internal_error"}},
		"the edit after a lost end is lost": {{Method: "chat.stopStream", Cut: fakeslack.CutBefore}, {Method: "chat.update", Cut: fakeslack.CutAfter, Times: 2}},
		"somebody has deleted the message":  {{Method: "chat.stopStream", Error: "message_not_found"}, {Method: "chat.update", Error: "message_not_found"}},
		"a long pause for all that follows": {{Method: "chat.stopStream", Status: 429, RetryAfter: 90}, {Method: "chat.update", Status: 429, RetryAfter: 90}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fake.Fail(faults...)
				r.Answers(shows("one two three four", "one", "one two", "one two three"))
				r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
				wait(3 * time.Minute)
				if name == "somebody has deleted the message" {
					r.wantTexts(room, "one two three", "one two three four") // the first is what the stand-in still shows
				} else {
					r.wantAnswer(room, "one two three four")
				}
				if strings.Contains(r.log.String(), r.fake.Token()) {
					t.Error("the token is in the log")
				}
			})
		})
	}
}

func TestAStreamThatAPersonHasEndedIsEdited(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Answers(shows("one two three", "one", "one two"))
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		r.fake.EndStream(room, r.fake.Shown(room)[0].TS)
		wait(time.Minute)
		r.wantAnswer(room, "one two three")
	})
}

func TestAStreamThatEndsByItselfIsEdited(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		previews := make([]string, 200) // ten minutes
		for i := range previews {
			previews[i] = strings.Repeat("word ", i+1)
		}
		r.Answers(shows(strings.Repeat("word ", 201), previews...))
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		wait(11 * time.Minute)
		r.wantAnswer(room, strings.TrimSpace(strings.Repeat("word ", 201)))
	})
}

// CH-72: a process ends while it streams an answer. The next one finishes the same message.
func TestAStreamGoesOnAfterARestart(t *testing.T) {
	for name, failed := range map[string]bool{"the answer goes on": false, "the answer waits to be sent": true} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, func(s *slack.Settings) { s.Grace = time.Second }, nil, channel.Place{}, func(t *testing.T, r *rig) {
				if failed {
					r.fake.Fail(fakeslack.Fault{Method: "chat.stopStream", Cut: fakeslack.CutBefore, Times: -1}, fakeslack.Fault{Method: "chat.update", Cut: fakeslack.CutBefore, Times: -1})
					r.Answers(shows("one two three", "one"))
				} else {
					r.Answers(shows("never", "one", "one two", "one two three", "one two three four", "and", "so", "on"))
				}
				r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
				wait(5 * time.Second)
				if m := r.fake.Shown(room); len(m) != 1 || !r.fake.Streaming(room, m[0].TS) {
					t.Fatalf("people see %+v", m)
				}
				r.Answers(shows("one two three", "one tw"))
				r.restart()
				r.fake.Mend()
				wait(3 * time.Minute)
				r.wantAnswer(room, "one two three")
				if len(r.fake.Calls("chat.startStream")) != 1 || len(r.fake.Calls("chat.postMessage")) != 0 {
					t.Errorf("got the calls %q", r.methods())
				}
			})
		})
	}
}

func TestALongStreamBecomesSeveralMessages(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		text := strings.Repeat("lorem ipsum. ", 1500)
		r.Answers(shows(text, text[:5000], text[:11_000], text[:15_000]))
		r.say(fakeslack.Message{Channel: room, Text: us + " hi"})
		wait(time.Minute)
		var all []string
		for _, m := range r.fake.Shown(room) {
			all = append(all, m.Text)
			if len(m.Text) > maxText {
				t.Errorf("got a message of %d characters", len(m.Text))
			}
		}
		if got := strings.Join(all, " "); got != strings.TrimSpace(text) {
			t.Errorf("got %d characters of %d", len(got), len(text))
		}
	})
}

// mention is what the platform could read as one, in a text or in an address.
var mention = regexp.MustCompile(`(?i)(<|&lt;?|&#0*60;?|&#x0*3c;?|\\)[@#!]|\][:(]\s*[@#!]`)

func TestAStreamMentionsNobodyAndOnlyGrows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom(hostile), rapid.SampledFrom([]string{"<", ">", "!", "@", "#", "\\", "&lt;", "&#60", "](", "]: ", "\n", "&", "a", " ", "&LT;"}))
		text := strings.Join(rapid.SliceOf(part).Draw(rt, "parts"), "")
		got := slack.StreamText(text)
		if m := mention.FindString(strings.ReplaceAll(got, "\\", "")); m != "" && !strings.Contains(text, "\\") {
			rt.Errorf("%q is streamed as %q, which has the mention %q", text, got, m)
		}
		if plain := strings.ReplaceAll(got, "\u200b", ""); plain != strings.TrimSpace(text) {
			rt.Errorf("%q is streamed as %q", text, got)
		}
		if n := rapid.IntRange(0, len(text)).Draw(rt, "n"); !strings.HasPrefix(got, slack.StreamText(text[:n])) {
			rt.Errorf("the start %q of %q is streamed as %q", text[:n], text, slack.StreamText(text[:n]))
		}
	})
}
