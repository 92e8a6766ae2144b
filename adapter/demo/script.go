package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/upstream"
)

// notice says what this is. It stands in every answer.
const notice = "This is scripted: it comes from the built-in demo model, which understands nothing and only shows how an answer arrives."

// answer decides what to say to a request.
func answer(r upstream.Request) upstream.Answer {
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		r.Messages[i].Content = beginning(r.Messages[i].Content)
	}
	e := exchanged(r)
	_, user := prompts(r.Messages)
	if calls := e.wanted(user); len(calls) > 0 {
		return upstream.Answer{ToolCalls: calls}
	}
	a := upstream.Answer{Text: text(r, e.results)}
	if most := maxTokens(r.Body); most > 0 {
		if cut := firstTokens(a.Text, most); cut != a.Text {
			a.Text, a.Finish = cut, "length"
		}
	}
	return a
}

// beginning is what the script reads of a long message.
func beginning(text string) string {
	const most = 32 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// text answers a request; results says what tools have returned for it.
func text(r upstream.Request, results string) string {
	system, user := prompts(r.Messages)
	if !r.JSON {
		if title, question, ok := sectionAsked(user); ok {
			return section(title, question)
		}
		if pageAsked(system) {
			return page(user)
		}
		if results != "" {
			return notice + " You asked: " + quoted(asked(user)) + " " + results
		}
		return chat(asked(user))
	}
	if results != "" {
		user = results
	}
	if len(r.Schema) > 0 {
		if doc, ok := fit(r.Schema, user); ok {
			return doc
		}
	}
	example, ok := findExample(system)
	switch {
	case ok && example.has("title", "summary", "sections"):
		// Models like to write a comma too many, whatever they are told.
		return strings.TrimSuffix(outline(oneLine(user)), "}") + ",}"
	case ok && example.has("questions"):
		return quiz(user)
	case ok:
		return fill(example, user)
	}
	return write(object("answer", str(notice+" You asked: "+quoted(user))))
}

// prompts returns what the system says and the last thing that the user has.
func prompts(messages []upstream.Message) (system, user string) {
	var all []string
	for _, m := range messages {
		switch m.Role {
		case "system", "developer":
			all = append(all, m.Content)
		case "user":
			user = m.Content
		}
	}
	return strings.Join(all, "\n\n"), user
}

// maxRepeated is how much of a question is repeated, in characters.
const maxRepeated = 200

// quoted makes one line of a question, in quotes and not too long, as the end of a sentence.
func quoted(s string) string {
	s = oneLine(s)
	if last, _ := utf8.DecodeLastRuneInString(s); strings.ContainsRune(".?!…", last) {
		return "“" + s + "”"
	}
	return "“" + s + "”."
}

func oneLine(s string) string {
	return short(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), maxRepeated)
}

// short keeps a text to so many characters.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		s = strings.TrimSpace(string([]rune(s)[:most])) + "…"
	}
	return s
}

// sectionAsked reads the message of the encyclopedia's section bots.
func sectionAsked(user string) (title, question string, ok bool) {
	for line := range strings.Lines(user) {
		line = strings.TrimSpace(line)
		if rest, found := strings.CutPrefix(line, "The question: "); found {
			question = rest
		}
		if rest, found := strings.CutPrefix(line, "The section to write: "); found {
			title, ok = rest, true
		}
	}
	return title, question, ok
}

// maxTokens reads the limit that a request sets to its answer; 0 where it sets none.
func maxTokens(body []byte) int {
	var limits struct {
		Old int `json:"max_tokens"`
		New int `json:"max_completion_tokens"`
	}
	if json.Unmarshal(body, &limits) != nil {
		return 0
	}
	return max(limits.Old, limits.New)
}

// firstTokens returns the first tokens of a text; the server cuts one for each four characters.
func firstTokens(s string, n int) string {
	runes := 0
	for i := range s {
		if runes == 4*n {
			return s[:i]
		}
		runes++
	}
	return s
}

// chat answers a message with plain text.
func chat(user string) string {
	if strings.TrimSpace(user) == "" {
		return notice
	}
	if aboutTheSky(user) {
		return notice + " You asked: " + quoted(user) + " As it happens, this is the one thing that the script knows.\n\n" + sky.summary
	}
	return notice + " You wrote: " + quoted(user) + " To have a real answer here, set OPENAI_API_KEY and start the server again."
}
