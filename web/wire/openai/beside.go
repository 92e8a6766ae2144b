package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
)

// isCitation says whether a uri is that of a source: $citations/N below a bot's root.
func isCitation[T string | []byte](uri T) bool {
	_, reserved, ok := jsonuri.CutReserved(uri)
	return ok && strings.HasPrefix(string(reserved), "$citations/")
}

// appendAnnotation appends a source as clients know it.
func appendAnnotation(dst []byte, citation []byte) []byte {
	var c adapter.Citation
	if json.Unmarshal(citation, &c) != nil || c.URL == "" {
		return dst
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	type of struct {
		URL   string `json:"url"`
		Title string `json:"title"`
		Start int    `json:"start_index"`
		End   int    `json:"end_index"`
	}
	if e.Encode(struct {
		Type string `json:"type"`
		Of   of     `json:"url_citation"`
	}{"url_citation", of{c.URL, c.Title, c.Start, c.End}}) != nil {
		return dst // strings and numbers: cannot be
	}
	return append(dst, bytes.TrimSpace(text.Bytes())...)
}

// annotations are the sources of a run, as a list; nil for none. beside is what stands beside its document.
func annotations(beside []byte) []byte {
	var list []byte
	for uri, cited := range rawjson.Members(beside) {
		if !isCitation(uri + "/") {
			continue
		}
		for _, one := range rawjson.Members(cited) {
			before := len(list)
			list = appendAnnotation(append(list, ','), one)
			if len(list) == before+1 {
				list = list[:before]
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	list[0] = '['
	return append(list, ']')
}
