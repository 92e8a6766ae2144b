package openai

import (
	"encoding/json"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
)

// isReasoning reports whether a uri is that of a bot's reasoning.
func isReasoning(uri []byte) bool {
	_, reserved, _ := jsonuri.CutReserved(uri)
	return string(reserved) == "$reasoning_context"
}

// isCitation reports whether a uri is that of a citation, or with a "/" behind it, that of all citations of a bot.
func isCitation(uri string) bool {
	_, reserved, _ := jsonuri.CutReserved(uri)
	return strings.HasPrefix(reserved, "$citations/")
}

// annotation is a citation as clients know it.
type annotation struct {
	Type     string      `json:"type"`
	Citation urlCitation `json:"url_citation"`
}

type urlCitation struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Start int    `json:"start_index"`
	End   int    `json:"end_index"`
}

// annotationOf returns the annotation for a citation; ok is false if the citation has no address.
func annotationOf(citation []byte) (a annotation, ok bool) {
	var c adapter.Citation
	if json.Unmarshal(citation, &c) != nil || c.URL == "" {
		return a, false
	}
	return annotation{"url_citation", urlCitation{c.URL, c.Title, c.Start, c.End}}, true
}

// annotations returns the citations of a run. reserved are the run's reserved values, by uri.
func annotations(reserved []byte) (list []annotation) {
	for uri, cited := range rawjson.Members(reserved) {
		if !isCitation(uri + "/") {
			continue
		}
		for _, citation := range rawjson.Members(cited) {
			if a, ok := annotationOf(citation); ok {
				list = append(list, a)
			}
		}
	}
	return list
}

// Reasoning joins the reasoning of the bots of a run. reserved are the run's reserved values, by uri.
func Reasoning(reserved []byte) string {
	var texts []string
	for uri, value := range rawjson.Members(reserved) {
		var text string
		if isReasoning([]byte(uri)) && json.Unmarshal(value, &text) == nil && text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n\n")
}
