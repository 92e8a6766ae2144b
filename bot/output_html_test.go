package bot

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/htmlpath"
	"github.com/lingserve/lingserve/tube"
)

// BO-05, PROTOCOL 1.1: the document is a string at the root, and a piece of it comes before what there is to say of it.
func TestAnHTMLBotSendsItsDocumentAndWhatIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", "Here:\n```html\n<p cl", "ass=\"a\" title='\"'>x &l", "t; y<br>\xc3", "\xa9<s/></p>\n```", "\nBye."))
		b := New(w.Env, "writer", "a/b", Config{Format: HTML, Done: true, HTMLEvents: true})
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		if err != nil {
			t.Fatal(err)
		}
		const page = `<p class="a" title='"'>x &lt; y<br>é<s/></p>`
		value, _ := json.Marshal(page)
		var text string
		if err := json.Unmarshal(r.Value, &text); err != nil || text != page {
			t.Errorf("got %s, expected %s", r.Value, value)
		}
		if diff := cmp.Diff(map[string]int{"prose": 1, "fence": 1, "trailing_text": 1, "unclosed_element": 1}, r.Repairs); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"string a/b=" + page, "inference-done " + string(r.Value), "response " + string(r.Value)}, log); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`{"uri":"a/b/$reasoning_context","delta":"Here:"}`,
			`{"uri":"a/b","delta":"<p class=\"a\" title='\"'>x "}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]","type":"open_tag","name":"p","attributes":{"class":"a","title":"\""}}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]","type":"text_delta","text":"x "}}`,
			`{"uri":"a/b","delta":"&lt; y<br>"}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]","type":"text_delta","text":"< y"}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]/br[1]","type":"open_tag","name":"br"}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]/br[1]","type":"close_tag","name":"br"}}`,
			`{"uri":"a/b","delta":"é<s/></p>"}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]","type":"text_delta","text":"é"}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]/s[1]","type":"open_tag","name":"s"}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]/s[1]","type":"close_tag","name":"s"}}`,
			`{"event":"html","data":{"uri":"a/b","path":"p[1]","type":"close_tag","name":"p"}}`,
			`{"uri":"a/b","done":true}`,
			`{"event":"usage","data":{"bot":"writer","model":"fake:m","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHTMLEventsAreSentWhereTheyAreAskedFor(t *testing.T) {
	const page = "<p>Hi</p>"
	sky := regexp.MustCompile("^sky$")
	for _, c := range []struct {
		name   string
		config Config
		filter tube.Matcher
		want   []string
	}{
		{"not asked for", Config{}, nil, []string{`{"uri":"sky","delta":"<p>Hi</p>"}`}},
		{"asked for", Config{HTMLEvents: true}, nil, []string{
			`{"uri":"sky","delta":"<p>Hi</p>"}`,
			`{"event":"html","data":{"uri":"sky","path":"p[1]","type":"open_tag","name":"p"}}`,
			`{"event":"html","data":{"uri":"sky","path":"p[1]","type":"text_delta","text":"Hi"}}`,
			`{"event":"html","data":{"uri":"sky","path":"p[1]","type":"close_tag","name":"p"}}`,
		}},
		{"of a quiet bot", Config{HTMLEvents: true, Quiet: true}, nil, []string{
			`hidden {"uri":"sky","delta":"<p>Hi</p>"}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"open_tag","name":"p"}}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"text_delta","text":"Hi"}}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"close_tag","name":"p"}}`,
		}},
		{"where the text is filtered", Config{HTMLEvents: true}, sky, []string{
			`hidden {"uri":"sky","delta":"<p>Hi</p>"}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"open_tag","name":"p"}}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"text_delta","text":"Hi"}}`,
			`hidden {"event":"html","data":{"uri":"sky","path":"p[1]","type":"close_tag","name":"p"}}`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, says("stop", page))
			c.config.Format = HTML
			b := New(w.Env, "writer", "sky", c.config)
			if c.filter != nil {
				b.AddFilter(c.filter)
			}
			if _, err := chat(t, b); err != nil {
				t.Fatal(err)
			}
			lines := w.lines()
			if diff := cmp.Diff(c.want, lines[:len(lines)-1]); diff != "" { // the last is the usage
				t.Error(diff)
			}
		})
	}
}

// RP-07, RP-09 and JS-08 for HTML.
func TestAnHTMLBotSaysWhatIsWrongWithItsAnswer(t *testing.T) {
	for _, c := range []struct {
		name, finish, answer string
		value, failed        string
		reported             string
		cause                error
	}{
		{name: "no tag", finish: "stop", answer: "I cannot do that.", failed: "the model's output contains no HTML", cause: htmlpath.ErrNoDocument},
		{name: "nothing", finish: "stop", failed: "the model's output contains no HTML", cause: htmlpath.ErrNoDocument},
		{
			name: "cut off before it began", finish: "length", answer: "<think>Hm, a <p>?",
			failed: "the model's output contains no HTML: it reached its token limit first", cause: htmlpath.ErrNoDocument,
		},
		{
			name: "cut off in a tag", finish: "length", answer: "<ul><li>a<li cla", value: "<ul><li>a",
			reported: "the answer is incomplete, because the model reached its token limit",
		},
		{name: "too deep", finish: "stop", answer: strings.Repeat("<b>", 600), value: strings.Repeat("<b>", 512), failed: "the model's output exceeds a limit: byte 1536: the depth exceeds its limit of 512 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, says(c.finish, c.answer))
			b := New(w.Env, "writer", "page", Config{Format: HTML})
			r, err := chat(t, b)
			w.wg.Wait()
			document, _ := w.Tube.Snapshot(true)
			var folded struct{ Page string }
			if err := json.Unmarshal(document, &folded); err != nil || folded.Page != c.value {
				t.Errorf("got %s, %v", document, err)
			}
			if c.failed != "" {
				f, known := Describe(err)
				if !known || f.Code != CodeOutputInvalid || f.Message != c.failed || c.cause != nil && (!errors.Is(err, c.cause) || !f.Retryable) {
					t.Errorf("got %+v", f)
				}
				return
			}
			var text string
			if err != nil || json.Unmarshal(r.Value, &text) != nil || text != c.value || !r.Truncated {
				t.Errorf("got %s, %v", r.Value, err)
			}
			if len(w.reported) != 1 || w.reported[0].Error() != c.reported || w.reported[0].(*Failure).Pointer != "/page" {
				t.Errorf("reported %v", w.reported)
			}
		})
	}
}

// A bot that is ended by hand closes what is open, and what it wrote stays.
func TestAnHTMLBotThatIsFinishedByHandClosesItsElements(t *testing.T) {
	var b *ChatBot
	w := newWorld(t, nil)
	w.Models = script(func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		if yield(adapter.Chunk{Text: "<main><p>Hi <b"}, nil) {
			b.Finish()
			yield(adapter.Chunk{Text: ">"}, nil)
		}
	})
	b = New(w.Env, "writer", "page", Config{Format: HTML, HTMLEvents: true})
	r, err := chat(t, b)
	if err != nil || string(r.Value) != `"<main><p>Hi <b>"` && string(r.Value) != `"<main><p>Hi "` {
		t.Fatalf("%s, %v", r.Value, err)
	}
	lines := w.lines()
	last := lines[len(lines)-2]
	if last != `{"event":"html","data":{"uri":"page","path":"main[1]","type":"close_tag","name":"main"}}` {
		t.Errorf("got %s", last)
	}
}

// A model that goes on behind its document is not listened to for long, and blank pages have an end.
func TestAnHTMLBotStopsReading(t *testing.T) {
	for name, rest := range map[string]string{"behind the document": "</html> and so on", "blank": "</html>"} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			w := newWorld(t, nil)
			w.Models = script(func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
				if !yield(adapter.Chunk{Text: "<html><p>Hi"}, nil) {
					return
				}
				for sent = 1; sent < 10_000 && yield(adapter.Chunk{Text: rest}, nil); sent++ {
				}
			})
			b := New(w.Env, "writer", "page", Config{Format: HTML})
			if r, err := chat(t, b); err != nil || string(r.Value) != `"<html><p>Hi</html>"` {
				t.Fatalf("%s, %v", r.Value, err)
			}
			if sent > 300 {
				t.Errorf("it listened to %d pieces more", sent)
			}
		})
	}
}

// BO-02: with no prompt a default one asks for HTML; JSON mode is not asked for.
func TestAnHTMLBotIsAskedForHTML(t *testing.T) {
	var asked adapter.Request
	answer := says("stop", "<p>")
	w := newWorld(t, func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
		asked = r
		answer(ctx, r, yield)
	})
	b := New(w.Env, "writer", "page", Config{Format: HTML})
	if _, err := chat(t, b); err != nil {
		t.Fatal(err)
	}
	if len(asked.Messages) != 2 || asked.Messages[0].Role != adapter.System || !strings.Contains(asked.Messages[0].Content, "HTML") || asked.Format.JSON {
		t.Errorf("asked %+v", asked)
	}
	if got := (Config{Format: HTML}).variables("b", "r")["chatOptions"].(map[string]any)["response_format"].(map[string]any)["type"]; got != "html" {
		t.Errorf("prompts see the format %v", got)
	}
}

// Whatever a model says, however it is cut, readers of the deltas have the value, and the events are a tree.
func FuzzHTMLAnswer(f *testing.F) {
	for _, text := range []string{
		"<!DOCTYPE html><html><body><p class='a'>Hi &amp; bye<br></p></body></html>", "```html\n<p>\xff\x00\n```\n", "Sorry.", "<script>\u2028</script>", "<svg><path d=\"\"/></svg>", "a <b>c",
	} {
		f.Add(text, uint8(3))
		f.Add(text, uint8(200))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var pieces []string
		for rest := text; rest != ""; {
			n := min(len(rest), int(size)+1)
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		w := newWorld(t, says("stop", pieces...))
		b := New(w.Env, "b", "root", Config{Format: HTML, HTMLEvents: true, Done: true})
		r, err := chat(t, b)
		if f, known := Describe(err); err != nil && (!known || f.Code != CodeOutputInvalid) {
			t.Fatal(err)
		}
		document, _ := w.Tube.Snapshot(true)
		var open []string
		for _, line := range w.lines() {
			var e struct {
				Event string
				Data  struct{ URI, Path, Type, Name string }
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			last := len(open) - 1
			switch at := e.Data.Path; {
			case e.Event != "html":
			case e.Data.Type == "open_tag":
				if last >= 0 && !strings.HasPrefix(at, open[last]+"/") {
					t.Fatalf("%s is opened in %q", at, open)
				}
				open = append(open, at)
			case e.Data.Type == "close_tag":
				if last < 0 || open[last] != at {
					t.Fatalf("%s is closed in %q", at, open)
				}
				open = open[:last]
			case last < 0 && at != "", last >= 0 && open[last] != at:
				t.Fatalf("text at %s, in %q", at, open)
			}
		}
		if err != nil {
			return
		}
		var folded struct{ Root string }
		var value string
		if err := json.Unmarshal(document, &folded); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if err := json.Unmarshal(r.Value, &value); err != nil || value != folded.Root || len(open) > 0 {
			t.Fatalf("%s, %s, %q is open: %v", document, r.Value, open, err)
		}
	})
}
