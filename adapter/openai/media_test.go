package openai

import (
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// sourcesOf reads a stream: its text, its sources and its media.
func sourcesOf(t *testing.T, stream string) (text string, cited []adapter.Citation, media []adapter.Media) {
	t.Helper()
	m, _ := newProvider(t, Options{Transport: bodyOf(func() io.Reader { return strings.NewReader(stream) })}).Model("m")
	for c, err := range m.Stream(t.Context(), adapter.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		text += c.Text
		if c.Citation != nil {
			cited = append(cited, *c.Citation)
		}
		if c.Media != nil {
			media = append(media, *c.Media)
		}
	}
	return text, cited, media
}

func event(data string) string { return "data: " + data + "\n\n" }

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
			event(`{`+sources+`"choices":[{"index":0,"delta":{"content":"x"}}]}`) + event(`{`+sources+`"choices":[{"index":0,"delta":{"content":"y"}}]}`) +
				event(`{`+sources+`"choices":[{"index":0,"delta":{"content":"z"}}]}`) + finish,
			"xyz",
			[]adapter.Citation{{URL: "https://a", Title: "A", Text: "is a"}, {URL: "https://b"}},
			nil,
		},
		"behind the choices, with one more later": {
			event(`{"choices":[{"index":0,"delta":{"content":"x"}}],"citations":["https://a"]}`) + event(`{"choices":[{"index":0,"delta":{"content":"y"}}],"citations":["https://a"]}`) +
				event(`{"choices":[{"index":0,"delta":{"content":"z"}}],"citations":["https://a","https://b"]}`) + finish,
			"xyz",
			[]adapter.Citation{{URL: "https://a"}, {URL: "https://b"}},
			nil,
		},
		"annotations": {
			event(`{"choices":[{"index":0,"delta":{"content":"x","annotations":[{"type":"url_citation","url_citation":{"url":"https://a","title":"A","start_index":0,"end_index":1}}]}}]}`) + finish,
			"x",
			[]adapter.Citation{{URL: "https://a", Title: "A", End: 1}},
			nil,
		},
		"Mistral's references": {
			event(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"x"},{"type":"reference","reference_ids":[1,2]},{"type":"tool_reference","title":"A","url":"https://a","tool":"web"}]}}]}`) + finish,
			"x",
			[]adapter.Citation{{Title: "reference 1,2"}, {URL: "https://a", Title: "A"}},
			nil,
		},
		"images": {
			event(`{"choices":[{"index":0,"delta":{"content":"x","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}}]}`) + finish,
			"x", nil,
			[]adapter.Media{{Type: "image/png", URL: "data:image/png;base64,AA=="}},
		},
		"a sound in pieces": {
			event(`{"choices":[{"index":0,"delta":{"audio":{"id":"a","transcript":"he"}}}]}`) + event(`{"choices":[{"index":0,"delta":{"audio":{"transcript":"llo","data":"AAEC"}}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"audio":{"data":"AwQF"}}}]}`) + finish,
			"hello", nil,
			[]adapter.Media{{Type: "audio/wav", URL: "data:audio/wav;base64," + base64.StdEncoding.EncodeToString(append(wavHead(6), 0, 1, 2, 3, 4, 5))}},
		},
		"what is none": {
			event(`{"citations":"x","search_results":[7,null,{}],"choices":[{"index":0,"delta":{"content":"x","annotations":null,"images":[{}],"audio":null}}]}`) + finish, "x", nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, cited, media := sourcesOf(t, row.stream)
			if diff := cmp.Diff(row.cited, cited); diff != "" || text != row.text {
				t.Errorf("%q %s", text, diff)
			}
			if diff := cmp.Diff(row.media, media); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// MO-15: sources that repeat in each event cost no more than their bytes, and a stream without any nothing.
func TestPerplexitysRecordedSourcesAreToldOnce(t *testing.T) {
	var cited []adapter.Citation
	for _, r := range adaptertest.Recordings(t, "api.perplexity.ai") {
		if cited == nil && strings.Contains(r.Name, "stream") {
			_, cited, _ = sourcesOf(t, string(r.Body))
		}
	}
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
