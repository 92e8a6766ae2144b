package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// article is a workflow of eight bots: some side by side at the root of the document, some inside of what another writes, one that takes the
// place of one that fails, and one that waits for places.
const article = `
name: article
input: {type: object, additionalProperties: true}
bots:
  outline: {prompt: p, message: outline, root: article}
  section:
    on: article/sections/*/title
    prompt: p
    message: "section {{ event.value }} of {{ result.article.title }}"
    root: "article/sections/{{ event.match.0 }}/body"
    format: text
    concurrency: 2
  fact: {on: article/sections/*/title, prompt: p, message: "fact {{ event.value }}", root: "facts/{{ event.match.0 }}", format: text, quiet: true}
  language: {prompt: p, message: language}
  mood: {prompt: p, message: mood}
  risky: {on: {value: lang}, prompt: p, message: "risky {{ event.value.name }}", root: extra}
  safe: {on: {error: risky}, prompt: p, message: "safe {{ error.bot }}", root: extra}
  quiz: {on: {done: [section, safe]}, prompt: p, message: "quiz {{ result.article | json }} {{ result.lang | json }}", root: quiz, format: text}
events:
  - {on: {done: outline}, send: {event: ready, data: {title: "{{ result.article.title }}"}}}
`

// articleModels answer the bots of article. What they say is another time: each text says how often the bot was asked.
func articleModels(asked map[string]int) *models {
	m := &models{}
	m.say = func(message string) []string {
		m.mu.Lock()
		kind, rest, _ := strings.Cut(message, " ")
		asked[message]++
		n := asked[message]
		m.mu.Unlock()
		switch kind {
		case "outline":
			return []string{fmt.Sprintf(`{"title":"t%d",`, n), fmt.Sprintf(`"sections":[{"title":"a%d"},{"ti`, n), fmt.Sprintf(`tle":"b%d"},`, n), fmt.Sprintf(`{"title":"c%d"}]}`, n)}
		case "language":
			return []string{`{"lang":{"na`, fmt.Sprintf(`me":"en%d"},"end":`, n), `true}`}
		case "mood":
			return []string{`{"mood":`, `"good"}`}
		case "risky":
			return []string{`{"half":`, failing}
		case "safe":
			return []string{`{"whole":`, `1}`}
		}
		return []string{"about ", rest}
	}
	return m
}

// checkArticle checks that all parts of an article are of the same version of their sources.
func checkArticle(t *testing.T, what string, m *ling.Manager) {
	t.Helper()
	var d struct {
		Article struct {
			Title    string
			Sections []struct{ Title, Body string }
		}
		Facts map[string]string
		Lang  struct{ Name string }
		Mood  string
		End   bool
		Extra map[string]int
		Quiz  string
	}
	r := m.Peek(true)
	in := json.NewDecoder(bytes.NewReader(r.Result))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		t.Fatalf("%s: %v: %s", what, err, r.Result)
	}
	if r.Status != "completed" || len(d.Article.Sections) != 3 || len(d.Facts) != 3 || d.Mood != "good" || !d.End || d.Extra["whole"] != 1 || len(d.Extra) != 1 {
		t.Fatalf("%s: %s %s %v", what, r.Status, r.Result, r.Errors)
	}
	for i, s := range d.Article.Sections {
		if s.Title[1:] != d.Article.Title[1:] || s.Body != "about "+s.Title+" of "+d.Article.Title || d.Facts[fmt.Sprint(i)] != "about "+s.Title {
			t.Errorf("%s: section %d is of two versions: %s", what, i, r.Result)
		}
		if !strings.Contains(d.Quiz, s.Body) {
			t.Errorf("%s: the quiz is not of section %d: %s", what, i, r.Result)
		}
	}
	if !strings.Contains(d.Quiz, d.Lang.Name) {
		t.Errorf("%s: the quiz is of another version: %s", what, r.Result)
	}
}

// stop is where a run is lost: its events before that are stored, with their notes.
type stop struct {
	events []tube.Event
	notes  [][]byte
}

// leap is how far apart the events of two attempts are.
const leap = 1000

// tube makes the tube of the stored events, for the next attempt.
func (s stop) tube(t *testing.T) *tube.Tube {
	t.Helper()
	made := tube.New("r", &tube.Options{})
	for _, e := range s.events {
		made.Leap(e.N)
		if _, err := made.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	made.Leap((made.Len()/leap + 1) * leap)
	return made
}

// stopsOf are all places at which a run that has ended could have been lost, since it began or was resumed at a stop.
func stopsOf(t *testing.T, m *ling.Manager, from stop) (list []stop) {
	t.Helper()
	events := from.events
	for e, err := range m.Tube().AllEvents(t.Context(), m.Tube().Len()/leap*leap) {
		if err != nil {
			t.Fatal(err)
		}
		from.notes = append(from.notes, m.Notes(e.N)...)
		list = append(list, stop{slices.Clone(events), slices.Clone(from.notes)})
		e.Part = false
		events = append(events, e)
	}
	return list
}

// runArticle runs the article, from a stop where there is one.
func runArticle(t *testing.T, w Workflow, models *models, from *stop) *ling.Manager {
	t.Helper()
	o := &ling.Options{Models: models}
	if from != nil {
		o.Resumed = &ling.Resumed{Tube: from.tube(t), Notes: from.notes, Attempt: 2}
	}
	m := ling.New(t.Context(), bot.Config{}, o)
	if err := w.Run(t.Context(), m, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	_ = m.Close()
	return m
}

// endedBots counts the bots that had ended at a stop and whose source had, too, by what they were asked.
func (s stop) endedBots(t *testing.T, w *spec) (list []string) {
	h := w.history(s.notes)
	if h == nil {
		return nil
	}
	h.cut()
	for _, s := range h.starts {
		if s.ended && !s.gone {
			list = append(list, w.bots[s.Bot].name)
		}
	}
	return list
}

// DU-01: wherever a run is lost, it goes on: bots that had ended are not asked again, what a bot had started that begins again begins again, and
// no part of the document is of another version of its source. The same holds where the run is lost once more.
func TestARunGoesOnWhereverItIsLost(t *testing.T) {
	w, err := ParseSpec("article.yaml", []byte(article), nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		whole := runArticle(t, w, articleModels(asked), nil)
		checkArticle(t, "undisturbed", whole)
		for i, at := range stopsOf(t, whole, stop{}) {
			what := fmt.Sprintf("lost before event %d", i)
			again := map[string]int{}
			for message, n := range asked { // what was asked before says its second version now
				again[message] = n
			}
			ended := at.endedBots(t, w.(*spec))
			m := runArticle(t, w, articleModels(again), &at)
			checkArticle(t, what, m)
			count := map[string]int{} // bots that were asked now
			for message := range again {
				kind, _, _ := strings.Cut(message, " ")
				count[kind] += again[message] - asked[message]
			}
			for _, name := range []string{"outline", "language", "mood", "quiz"} {
				if slices.Contains(ended, name) && count[name] > 0 {
					t.Errorf("%s: %s had ended and was asked again", what, name)
				}
			}
			sections := 0
			for _, name := range ended {
				if name == "section" {
					sections++
				}
			}
			if slices.Contains(ended, "outline") && count["section"] != 3-sections {
				t.Errorf("%s: %d sections had ended, and %d were written", what, sections, count["section"])
			}
			if i%longtest.Times(12, 3) > 0 {
				continue
			}
			for j, at := range stopsOf(t, m, at) { // and once more
				checkArticle(t, fmt.Sprintf("%s, and then before event %d", what, j), runArticle(t, w, articleModels(map[string]int{}), &at))
			}
		}
	})
}

// DU-01: a workflow that has changed begins once more.
func TestAChangedWorkflowBeginsOnceMore(t *testing.T) {
	before, err := ParseSpec("w.yaml", []byte("name: w\nbots:\n  one: {prompt: p, message: outline, root: a}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ParseSpec("w.yaml", []byte("name: w\nbots:\n  two: {prompt: p, message: mood}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		for _, at := range stopsOf(t, runArticle(t, before, articleModels(map[string]int{}), nil), stop{})[1:] {
			m := runArticle(t, after, articleModels(map[string]int{}), &at)
			if r := m.Peek(true); string(r.Result) != `{"mood":"good"}` || r.Status != "completed" {
				t.Errorf("%s %s", r.Status, r.Result)
			}
		}
	})
}

// DU-01: a Go workflow that says that it goes on begins once more.
func TestAGoWorkflowBeginsOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Func("w", "", nil, func(_ context.Context, m *ling.Manager, _ map[string]any) error {
			b, err := m.CreateBot("one", "", nil)
			if err != nil {
				return err
			}
			return b.Chat(bot.Message{Text: "mood"})
		})
		for i, at := range stopsOf(t, runArticle(t, w, articleModels(map[string]int{}), nil), stop{}) {
			if i == 0 {
				continue
			}
			m := runArticle(t, w, articleModels(map[string]int{}), &at)
			if r := m.Peek(true); string(r.Result) != `{"mood":"good"}` {
				t.Errorf("%s %s", r.Status, r.Result)
			}
		}
	})
}

// A start's note has no long value, and a bot that begins again gets it all the same.
func TestALongValueIsNotNoted(t *testing.T) {
	w, err := ParseSpec("w.yaml", []byte("bots:\n  one: {prompt: p, message: one}\n  two: {on: {value: text}, prompt: p, message: \"{{ event.value }}\", root: length}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 10*maxNoted)
	m := &models{say: func(message string) []string {
		if message == "one" {
			return []string{`{"text":"` + long, `","end":1}`}
		}
		return []string{fmt.Sprint(len(message)), " "}
	}}
	synctest.Test(t, func(t *testing.T) {
		for i, at := range stopsOf(t, runArticle(t, w, m, nil), stop{}) {
			if size := len(bytes.Join(at.notes, nil)); size > 2*maxNoted {
				t.Errorf("%d bytes are noted", size)
			}
			var d struct{ Length int }
			r := runArticle(t, w, m, &at).Peek(true)
			if err := json.Unmarshal(r.Result, &d); err != nil || d.Length != len(long) {
				t.Errorf("lost before event %d: %.100s", i, r.Result)
			}
		}
	})
}
