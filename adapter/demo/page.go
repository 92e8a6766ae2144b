package demo

import (
	"html"
	"strings"
)

// pageAsked says whether a prompt asks for HTML, by the words that one would use.
func pageAsked(system string) bool {
	words := strings.Join(strings.Fields(strings.ToLower(system)), " ")
	for _, asked := range []string{"html document", "html page", "html fragment"} {
		if strings.Contains(words, asked) {
			return true
		}
	}
	return false
}

// page writes a page about a question: in a code fence, as models do it, whatever they are told.
func page(asked string) string {
	a := article{
		title:   "A Scripted Page",
		summary: "You asked: " + quoted(asked) + " The demo model has no knowledge of this, so it cannot answer. What you see is how a page grows.",
		sections: []part{
			{titleQuestion, "The script repeats the question & looks at nothing else. It writes the same page each time."},
			{titlePage, "Each tag is told as soon as it is complete, with the path to it, as html[1]/body[1]/main[1]/h1[1]. Text is told as it comes."},
			{titleReal, "It would follow the prompt of this workflow and answer the question with what it has learned."},
		},
	}
	if aboutTheSky(asked) {
		a = sky
		a.summary = "You asked: " + quoted(asked) + " " + a.summary
	}
	text := html.EscapeString
	var b strings.Builder
	b.WriteString("```html\n<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  <title>" + text(a.title) + "</title>\n")
	b.WriteString("  <style>body > main { max-width: 40em; margin: auto; font-family: sans-serif }</style>\n</head>\n<body>\n<main class=\"page\">\n")
	b.WriteString("  <h1>" + text(a.title) + "</h1>\n  <p>" + text(a.summary) + "</p>\n  <ul>\n")
	for i, s := range a.sections {
		b.WriteString("    <li><a href=\"#" + anchor(i) + "\">" + text(s.title) + "</a></li>\n")
	}
	b.WriteString("  </ul>\n")
	for i, s := range a.sections {
		b.WriteString("  <section id=\"" + anchor(i) + "\">\n    <h2>" + text(s.title) + "</h2>\n")
		for paragraph := range strings.SplitSeq(s.body, "\n\n") {
			b.WriteString("    <p>" + text(paragraph) + "</p>\n")
		}
		b.WriteString("  </section>\n")
	}
	b.WriteString("  <hr>\n  <footer><small>" + text(notice) + "</small></footer>\n</main>\n</body>\n</html>\n```\n")
	return b.String()
}

func anchor(section int) string { return "part-" + string(rune('1'+section)) }
