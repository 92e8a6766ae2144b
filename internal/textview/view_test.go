package textview

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/tube"
)

// feed takes events in short: "uri=text" appends, "uri:json" sets, and "uri." is done.
func feed(t *testing.T, g *View, events ...string) {
	t.Helper()
	for _, s := range events {
		i := strings.IndexAny(s, "=:.!")
		if i < 0 {
			t.Fatalf("%q is no event", s)
		}
		e := tube.Event{URI: []byte(s[:i])}
		switch s[i] {
		case '=':
			text, err := json.Marshal(s[i+1:])
			if err != nil {
				t.Fatal(err)
			}
			e.Kind, e.Value = tube.Append, text[1:len(text)-1]
		case ':':
			e.Kind, e.Value = tube.Set, []byte(s[i+1:])
		case '.':
			e.Kind = tube.Done
		}
		g.Event(e)
	}
}

var articleGraph = &flow.Graph{Bots: []flow.Node{
	{Name: "outline", Root: "article"},
	{Name: "section", Root: "article/sections/{{ event.match.0 }}/body", On: flow.OneOrMore[flow.Trigger]{{String: "article/sections/*/title"}}},
	{Name: "quiz", Root: "quiz", On: flow.OneOrMore[flow.Trigger]{{Done: flow.OneOrMore[string]{"section"}}}},
}}

func TestTheTextGrowsInTheOrderOfTheDocument(t *testing.T) {
	for _, tc := range []struct {
		name   string
		graph  *flow.Graph
		events []string
		before string // what is shown before the end
		want   string
	}{
		{
			name:   "plain text",
			events: []string{"=Hello", "= world"},
			before: "Hello world",
			want:   "Hello world\n",
		},
		{
			name:   "text is shown as it comes",
			events: []string{"article:{}", "article/title=Why the", "article/title= sky"},
			before: "# Why the sky",
			want:   "# Why the sky\n",
		},
		{
			name:  "sections wait for their turn, and for their bodies",
			graph: articleGraph,
			events: []string{
				"article:{}", "article/title=Sky", "article/title.", "article/sections:[]", "article/sections/0:{}",
				"article/sections/0/title=Light", "article/sections/0/title.", "article/sections/0.",
				"article/sections/1:{}", "article/sections/1/title=Air", "article/sections/1/title.", "article/sections/1.",
				"article/sections.", "article.",
				"article/sections/1/body=Air scatters.", "article/sections/1/body.",
				"article/sections/0/body=Light is", "article/sections/0/body= a wave.",
			},
			before: "# Sky\n\n## Light\n\nLight is a wave.",
			want:   "# Sky\n\n## Light\n\nLight is a wave.\n\n## Air\n\nAir scatters.\n",
		},
		{
			name: "a quiz is a list",
			events: []string{
				"quiz:[]", "quiz/0:{}", "quiz/0/question=Why?", "quiz/0/question.", "quiz/0/options:[]", "quiz/0/options/0=A", "quiz/0/options/0.",
				"quiz/0/options/1=B", "quiz/0/options/1.", "quiz/0/options.", "quiz/0/answer=B", "quiz/0/answer.", "quiz/0.",
				"quiz/1:{}", "quiz/1/question=How?", "quiz/1/question.", "quiz/1.", "quiz.",
			},
			before: "## Quiz\n\n1. Why?\n   - A\n   - B\n   Answer: B\n2. How?\n",
			want:   "## Quiz\n\n1. Why?\n   - A\n   - B\n   Answer: B\n2. How?\n",
		},
		{
			name: "a heading for all that begins at once",
			events: []string{
				"quiz:{}", "quiz/questions:[]", "quiz/questions/0:{}", "quiz/questions/0/question=Why?", "quiz/questions/0/question.", "quiz/questions/0.",
				"quiz/questions.", "quiz/rest:[]", "quiz/rest/0=x",
			},
			want: "## Quiz\n\n1. Why?\n\n## Rest\n\n- x\n",
		},
		{
			name:   "labels and scalars",
			events: []string{"how_it_works=Well.", "how_it_works.", "fast-mode:true", "fast-mode.", "n:1.10", "n.", "none:null", "none."},
			before: "How it works: Well.\nFast mode: true\nN: 1.10\n",
			want:   "How it works: Well.\nFast mode: true\nN: 1.10\n",
		},
		{
			name:   "a value that comes whole",
			events: []string{`:{"title":"T","list":["a","b"],"n":1e400}`},
			want:   "# T\n\n## List\n\n- a\n- b\n\nN: 1e400\n",
		},
		{
			name:   "a snapshot after part of the text was shown",
			events: []string{"title=Hel", "title:null", `:{"title":"Hello"}`, "title= you"},
			before: "# Hello you",
			want:   "# Hello you\n",
		},
		{
			name: "an answer that is replaced",
			events: []string{
				"article:{}", "article/title=Much too", "article/text=x", "article:null", "article:{}", "article/title=Sk", "article/title=y", "article/title.", "article.",
			},
			before: "# Much too\n\n# Sky\n",
			want:   "# Much too\n\n# Sky\n",
		},
		{
			name:   "a text that is replaced",
			events: []string{"text=Much too", "text:null", "text=Mu", "text=st be"},
			before: "Much too\n\nMust be",
			want:   "Much too\n\nMust be\n",
		},
		{
			name:   "a text that is replaced by a shorter one that begins alike",
			events: []string{"text=Much too", "text:null", "text=Much", "text."},
			before: "Much too\n\nMuch\n",
			want:   "Much too\n\nMuch\n",
		},
		{
			name:   "a text that is taken back",
			events: []string{"a=Much too", "a:null", "b=x", "b."},
			want:   "A: Much too\nB: x\n",
		},
		{
			name:   "reserved uris and thinking are left out",
			events: []string{"$reasoning_context=hmm", "a/$tools/0:{}", "a/text=x"},
			before: "## A\n\nx",
			want:   "## A\n\nx\n",
		},
		{
			name:   "a terminal is not steered",
			events: []string{"text=a\x1b[2Jb\x07c\u202ed\u009be\r\n"},
			want:   "a[2Jbcde\n",
		},
		{
			name:   "two bots side by side",
			events: []string{"a/text=one", "b/text=two", "a/text= more", "a/text.", "b/text= too"},
			before: "## A\n\none more\n\n## B\n\ntwo too",
			want:   "## A\n\none more\n\n## B\n\ntwo too\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			g := New(&b, Options{}, tc.graph)
			feed(t, g, tc.events...)
			if tc.before != "" {
				if diff := cmp.Diff(tc.before, b.String()); diff != "" {
					t.Errorf("before the end: %s", diff)
				}
			}
			g.End()
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("at the end: %s", diff)
			}
		})
	}
}

// DW-05: a pipe or file gets the accepted answer only.
func TestAnAnswerThatIsReplacedIsNotInTextThatIsShownWhole(t *testing.T) {
	var b strings.Builder
	g := New(&b, Options{Whole: true}, nil)
	feed(t, g, "article:{}", "article/title=Much too", "article/list:[]", "article/list/0=x", "note=wrong", "article:null", "note:null")
	if b.String() != "" {
		t.Errorf("shown before it is accepted: %q", b.String())
	}
	feed(t, g, "article:{}", "article/title=Sk", "article/title=y", "article/title.", "article/text=Bl")
	if want := "# Sky\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	feed(t, g, "article/text=ue", "article/text.", "article.", "more=cut o", "more=ff")
	g.End()
	if want := "# Sky\n\nBlue\n\nMore: cut off\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestOnATerminalHeadingsAreBold(t *testing.T) {
	var b strings.Builder
	g := New(&b, Options{Terminal: true}, nil)
	feed(t, g, "title=Sky", "title.", "text=Blue", "text.")
	g.End()
	if want := "\x1b[1mSky\x1b[0m\n\nBlue\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// However the bots' texts interleave, the same document is shown the same way in the end.
func TestInterleavingDoesNotChangeWhatIsShown(t *testing.T) {
	bodies := [][]string{
		{"article/sections/0/body=Light ", "article/sections/0/body=is a wave.", "article/sections/0/body."},
		{"article/sections/1/body=Air ", "article/sections/1/body=scatters.", "article/sections/1/body."},
		{"article/sections/2/body=Eyes ", "article/sections/2/body=see.", "article/sections/2/body."},
	}
	outline := []string{"article:{}", "article/sections:[]"}
	for _, s := range []string{"0", "1", "2"} {
		at := "article/sections/" + s
		outline = append(outline, at+":{}", at+"/title=T"+s, at+"/title.", at+".")
	}
	outline = append(outline, "article/sections.", "article.")
	want := "## Article\n\n## T0\n\nLight is a wave.\n\n## T1\n\nAir scatters.\n\n## T2\n\nEyes see.\n"
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		queues := [][]string{outline}
		var events []string
		for len(queues) > 0 {
			i := r.IntN(len(queues))
			e := queues[i][0]
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
			}
			events = append(events, e)
			// A section's bot begins some time after its title is complete.
			for n, body := range bodies {
				if e == "article/sections/"+string(rune('0'+n))+"/title." {
					queues = append(queues, body)
				}
			}
		}
		var b strings.Builder
		g := New(&b, Options{}, articleGraph)
		feed(t, g, events...)
		g.End()
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Fatalf("seed %d, events %q: %s", seed, events, diff)
		}
	}
}

func FuzzView(f *testing.F) {
	f.Add("a/b", `{"title":"x","l":[1,"y"]}`, "more", uint8(0))
	f.Add("", `[[["deep"]]]`, "", uint8(3))
	f.Add("a/0/b", `[]`, "x\n\x1b", uint8(9))
	f.Fuzz(func(t *testing.T, uri, value, appended string, order uint8) {
		var b strings.Builder
		g := New(&b, Options{}, articleGraph)
		text, err := json.Marshal(appended)
		if err != nil {
			t.Fatal(err)
		}
		events := []tube.Event{
			{Kind: tube.Append, URI: []byte(uri), Value: text[1 : len(text)-1]},
			{Kind: tube.Done, URI: []byte(uri)},
			{Kind: tube.Set, URI: []byte("article/sections"), Value: []byte("[]")},
		}
		if json.Valid([]byte(value)) {
			events = append(events, tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)})
		}
		for i := range events {
			g.Event(events[(i+int(order))%len(events)])
		}
		g.End()
		if strings.ContainsAny(b.String(), "\x1b\x07\x00\r") {
			t.Errorf("%q steers a terminal", b.String())
		}
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			t.Errorf("%q does not end its last line", s)
		}
	})
}

// DN-04: a line of something else has a line of its own.
func TestABrokenLineGoesOnBelow(t *testing.T) {
	var b strings.Builder
	g := New(&b, Options{}, nil)
	g.BreakLine()
	feed(t, g, "=Hello")
	g.BreakLine()
	g.BreakLine()
	b.WriteString("NOTE\n")
	feed(t, g, "= world")
	g.End()
	if want := "Hello\nNOTE\n world\n"; b.String() != want {
		t.Errorf("%q, expected %q", b.String(), want)
	}
}
