package openai

import (
	"path/filepath"
	"testing"

	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/rogpeppe/go-internal/txtar"
)

func FuzzStream(f *testing.F) {
	var seeds [][]byte
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "stream" && len(section.Data) < 4096 {
				seeds = append(seeds, section.Data)
			}
		}
	}
	adaptertest.Fuzz(f, subject, seeds...)
}

// An answer in one piece, whatever it is, comes to an end or to an error, as one in events does.
func FuzzWhole(f *testing.F) {
	s := subject
	s.Wire.ContentType = "application/json"
	adaptertest.Fuzz(f, s,
		[]byte(`{"choices":[{"message":{"role":"assistant","content":"Hé\n","reasoning_content":"so"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`),
		[]byte(`{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"look","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`),
		[]byte(" \n"+`{"error":{"message":"x","code":"rate_limit_exceeded"}}`), []byte(`{"choices":[{"message":{"refusal":"no"},"finish_reason":"content_filter"}]}`),
		[]byte(`{"choices":[{"message":{"content":"a"},"finish_reason":null}]}`), []byte(`{"choices":[]}`),
	)
}
