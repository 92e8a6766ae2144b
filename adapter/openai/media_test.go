package openai

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

func sseEvent(data string) string { return "data: " + data + "\n\n" }

// MO-15
func TestSourcesAndMediaOfAllShapes(t *testing.T) {
	const sources = `"citations":["https://a","https://b"],"search_results":[{"title":"A","url":"https://a","snippet":"is a"}],`
	for name, row := range map[string]struct {
		stream string
		text   string
		cited  []adapter.Citation
		media  []adapter.Media
	}{
		"Perplexity, in each event": {
			sseEvent(`{`+sources+`"choices":[{"index":0,"delta":{"content":"x"}}]}`) + sseEvent(`{`+sources+`"choices":[{"index":0,"delta":{"content":"y"}}]}`) +
				sseEvent(`{`+sources+`"choices":[{"index":0,"delta":{"content":"z"}}]}`) + finish,
			"xyz",
			[]adapter.Citation{{URL: "https://a", Title: "A", Text: "is a"}, {URL: "https://b"}},
			nil,
		},
		"behind the choices, with one more later": {
			sseEvent(`{"choices":[{"index":0,"delta":{"content":"x"}}],"citations":["https://a"]}`) + sseEvent(`{"choices":[{"index":0,"delta":{"content":"y"}}],"citations":["https://a"]}`) +
				sseEvent(`{"choices":[{"index":0,"delta":{"content":"z"}}],"citations":["https://a","https://b"]}`) + finish,
			"xyz",
			[]adapter.Citation{{URL: "https://a"}, {URL: "https://b"}},
			nil,
		},
		"annotations": {
			sseEvent(`{"choices":[{"index":0,"delta":{"content":"x","annotations":[{"type":"url_citation","url_citation":{"url":"https://a","title":"A","start_index":0,"end_index":1}}]}}]}`) + finish,
			"x",
			[]adapter.Citation{{URL: "https://a", Title: "A", End: 1}},
			nil,
		},
		"Mistral's references": {
			sseEvent(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"x"},{"type":"reference","reference_ids":[1,2]},{"type":"tool_reference","title":"A","url":"https://a","tool":"web"}]}}]}`) + finish,
			"x",
			[]adapter.Citation{{Title: "reference 1,2"}, {URL: "https://a", Title: "A"}},
			nil,
		},
		"images": {
			sseEvent(`{"choices":[{"index":0,"delta":{"content":"x","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}}]}`) + finish,
			"x", nil,
			[]adapter.Media{{Type: "image/png", URL: "data:image/png;base64,AA=="}},
		},
		"a sound in pieces": {
			sseEvent(`{"choices":[{"index":0,"delta":{"audio":{"id":"a","transcript":"he"}}}]}`) + sseEvent(`{"choices":[{"index":0,"delta":{"audio":{"transcript":"llo","data":"AAEC"}}}]}`) +
				sseEvent(`{"choices":[{"index":0,"delta":{"audio":{"data":"AwQF"}}}]}`) + finish,
			"hello", nil,
			[]adapter.Media{{Type: "audio/wav", URL: "data:audio/wav;base64," + base64.StdEncoding.EncodeToString(append(wavHead(6), 0, 1, 2, 3, 4, 5))}},
		},
		"what is none": {
			sseEvent(`{"citations":"x","search_results":[7,null,{}],"choices":[{"index":0,"delta":{"content":"x","annotations":null,"images":[{}],"audio":null}}]}`) + finish, "x", nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := readOurs(t, "text/event-stream", strings.NewReader(row.stream))
			if diff := cmp.Diff(row.cited, got.Citations); diff != "" || got.Text != row.text {
				t.Errorf("%q %s", got.Text, diff)
			}
			if diff := cmp.Diff(row.media, got.Media); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// MO-15: sources that repeat in each event cost no more than their bytes, and a stream without any nothing.
func TestPerplexitysRecordedSourcesAreToldOnce(t *testing.T) {
	all := adaptertest.Recordings(t, "/chat/completions")
	at := slices.IndexFunc(all, func(r adaptertest.Recording) bool {
		return strings.Contains(r.URL, "perplexity") && strings.HasPrefix(r.Type, "text/event-stream")
	})
	if at < 0 {
		t.Skip("there are no recordings of Perplexity")
	}
	cited := readOurs(t, all[at].Type, bytes.NewReader(all[at].Body)).Citations
	seen := map[string]bool{}
	for _, c := range cited {
		if seen[c.URL] || c.URL == "" || c.Title == "" {
			t.Errorf("%+v", c)
		}
		seen[c.URL] = true
	}
	if len(cited) == 0 {
		t.Error("no sources")
	}
}
