package demo

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
)

// notice is part of every answer.
const notice = "This is scripted: it comes from the built-in demo model, which understands nothing and only shows how an answer arrives."

const (
	maxRead     = 32 << 10 // bytes of a message that the script reads
	maxRepeated = 200      // characters of a question that an answer repeats
	maxExamples = 20       // lines of a prompt that are tried as the start of an example
)

// prompt is what the script reads of a request.
type prompt struct {
	system string
	user   string // the user's last message
	tokens int
	format adapter.Format

	// Of the tool calls since the last answer with text.
	called  []string // names
	results string   // in sentences

	calls int // in the whole conversation
}

func readPrompt(req *adapter.Request) prompt {
	p := prompt{format: req.Format}
	var system, results []string
	names := map[string]string{} // by call
	for _, m := range req.Messages {
		content := m.Content
		for _, part := range m.Parts {
			content += part.Text
		}
		p.tokens += countTokens(content)
		content = strings.ToValidUTF8(content[:min(len(content), maxRead)], "")
		switch m.Role {
		case adapter.System, "developer":
			system = append(system, content)
		case adapter.User:
			p.user = content
		case adapter.Assistant:
			if len(m.ToolCalls) == 0 {
				p.called, results = nil, nil
			}
			for _, call := range m.ToolCalls {
				p.calls++
				p.called = append(p.called, call.Name)
				names[call.ID] = call.Name
			}
		case adapter.ToolRole:
			results = append(results, reportResult(names[m.ToolCallID], content))
		}
	}
	p.system, p.results = strings.Join(system, "\n\n"), strings.Join(results, " ")
	return p
}

var (
	asksForPage = regexp.MustCompile(`(?i)\bhtml\s+(document|page|fragment)`)
	// asksForSection matches the message of the encyclopedia's section bots.
	asksForSection = regexp.MustCompile(`(?ms)^The question: (.*?)$.*^The section to write: (.*?)$`)
)

// text answers with text.
func (p *prompt) text() string {
	if p.format.JSON {
		return p.document()
	}
	question := questionOf(p.user)
	switch section := asksForSection.FindStringSubmatch(p.user); {
	case section != nil:
		return writeSection(strings.TrimSpace(section[2]), strings.TrimSpace(section[1]))
	case asksForPage.MatchString(p.system):
		return writePage(p.user)
	case p.results != "":
		return notice + " You asked: " + quoted(question) + " " + p.results
	case strings.TrimSpace(question) == "":
		return notice
	case aboutTheSky(question):
		return notice + " You asked: " + quoted(question) + " As it happens, this is the one thing that the script knows.\n\n" + readArticle("sky").Summary
	}
	return notice + " You wrote: " + quoted(question) + " To have a real answer here, set OPENAI_API_KEY and start the server again."
}

// document answers with JSON.
func (p *prompt) document() string {
	question := p.user
	if p.results != "" {
		question = p.results
	}
	if len(p.format.Schema) > 0 {
		if doc, ok := fit(p.format.Schema, question); ok {
			return doc
		}
	}
	example, members := findExample(p.system)
	switch {
	case members["title"] != nil && members["summary"] != nil && members["sections"] != nil:
		// Models often write an extra comma.
		return strings.TrimSuffix(writeOutline(oneLine(question)), "}") + ",}"
	case members["questions"] != nil:
		return writeQuiz(question)
	case example != nil:
		return fill(example, question)
	}
	return writeJSON(map[string]string{"answer": notice + " You asked: " + quoted(question)})
}

// quoted returns a question as one short line in quotes that ends a sentence.
func quoted(s string) string {
	s = oneLine(s)
	if last, _ := utf8.DecodeLastRuneInString(s); strings.ContainsRune(".?!…", last) {
		return "“" + s + "”"
	}
	return "“" + s + "”."
}

func oneLine(s string) string {
	return wording.ClipChars(strings.Join(strings.Fields(s), " "), maxRepeated)
}

// writeJSON returns v as JSON text, indented as models write it.
func writeJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // strings and valid JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// findExample finds the first JSON object in a prompt that starts a line. It may return nil.
func findExample(prompt string) (example json.RawMessage, members map[string]json.RawMessage) {
	tried := 0
	for rest := prompt; rest != "" && tried < maxExamples; _, rest, _ = strings.Cut(rest, "\n") {
		if !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "{") {
			continue
		}
		tried++
		if json.NewDecoder(strings.NewReader(rest)).Decode(&example) == nil && json.Unmarshal(example, &members) == nil && len(members) > 0 {
			return example, members
		}
	}
	return nil, nil
}

// stringInJSON matches a string, with the colon after it if it is a member's name.
var stringInJSON = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(?:\s*:)?`)

// fill writes a document with the shape of an example. Numbers and literals stay. Strings stay too, with a mark that they are
// scripted; the first mark repeats the question.
func fill(example json.RawMessage, question string) string {
	name, mark := "text", "(scripted, for “"+wording.ClipChars(oneLine(question), 60)+"”)"
	return stringInJSON.ReplaceAllStringFunc(writeJSON(example), func(found string) string {
		var text string
		_ = json.Unmarshal([]byte(strings.TrimSuffix(found, ":")), &text)
		if strings.HasSuffix(found, ":") {
			name = text
			return found
		}
		if choice, _, ok := strings.Cut(text, "|"); ok {
			return writeJSON(strings.TrimSpace(choice)) // "yes|no" means one of them
		}
		text = wording.ClipChars(oneLine(text), 80)
		if strings.Trim(text, ". …") == "" {
			text = "some " + name
		}
		text += " " + mark
		mark = "(scripted)"
		return writeJSON(text)
	})
}

// articlesJSON has an article that the script knows ("sky"), one for every other question, and one for a page.
//
//go:embed articles.json
var articlesJSON string

type article struct {
	Title     string         `json:"title"`
	Summary   string         `json:"summary"`
	Sections  []section      `json:"sections"`
	Note      string         `json:"note"`
	Questions []quizQuestion `json:"questions,omitempty"`
}

type section struct {
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
}

type quizQuestion struct {
	Question    string   `json:"question"`
	Choices     []string `json:"choices"`
	Answer      string   `json:"answer"`
	Explanation string   `json:"explanation"`
}

// readArticle returns an article. texts are placeholders, as "{title}", and what replaces them.
func readArticle(name string, texts ...string) article {
	for i := 1; i < len(texts); i += 2 {
		quoted := writeJSON(texts[i])
		texts[i] = quoted[1 : len(quoted)-1]
	}
	var articles map[string]article
	if err := json.Unmarshal([]byte(strings.NewReplacer(texts...).Replace(articlesJSON)), &articles); err != nil {
		panic("demo: articles.json: " + err.Error())
	}
	return articles[name]
}

// findArticle returns the article that answers a question, or else the article other with the question in it.
func findArticle(question, other string) article {
	if aboutTheSky(question) {
		other = "sky"
	}
	a := readArticle(other, "{short}", wording.ClipChars(question, 60))
	a.Summary, a.Note = "You asked: "+quoted(question)+" "+a.Summary, notice
	return a
}

// aboutTheSky reports whether the script knows the answer.
func aboutTheSky(question string) bool {
	words := strings.FieldsFunc(strings.ToLower(question), func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.Contains(words, "sky") && slices.Contains(words, "blue")
}

// writeOutline plans an article that answers a question.
func writeOutline(question string) string {
	a := findArticle(question, "other")
	a.Questions = nil
	for i := range a.Sections {
		a.Sections[i].Body = ""
	}
	return writeJSON(a)
}

// writeSection writes the text below a title.
func writeSection(title, question string) string {
	for _, name := range []string{"sky", "other"} {
		for _, s := range readArticle(name, "{question}", quoted(question)).Sections {
			if s.Title == title {
				return s.Body
			}
		}
	}
	return notice + " Here would stand what a real model has to say about “" + oneLine(title) + "”."
}

// writeQuiz asks about the article in the message, which is JSON.
func writeQuiz(message string) string {
	var read article
	if i := strings.IndexByte(message, '{'); i >= 0 {
		_ = json.NewDecoder(strings.NewReader(message[i:])).Decode(&read) // else the article has no title
	}
	name, last := "other", "How this page is written"
	if read.Title == readArticle("sky").Title {
		name = "sky"
	}
	if n := len(read.Sections); n > 0 {
		last = oneLine(read.Sections[n-1].Title)
	}
	a := readArticle(name, "{title}", cmp.Or(oneLine(read.Title), "Without a title"), "{section}", last)
	return writeJSON(map[string][]quizQuestion{"questions": a.Questions})
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page.html").
	Funcs(template.FuncMap{"number": func(i int) int { return i + 1 }, "split": strings.Split}).Parse(pageHTML))

// writePage writes a page about a question, in a code fence, as models do it.
func writePage(question string) string {
	var b strings.Builder
	if err := pageTemplate.Execute(&b, findArticle(question, "page")); err != nil {
		panic("demo: page.html: " + err.Error())
	}
	return b.String()
}
