package bot

import (
	"context"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// MO-15: sources and media stand beside the answer, numbered over all rounds of the bot, and no data are in the stream.
func TestSourcesAndMediaStandBesideTheAnswer(t *testing.T) {
	cite := adapter.Chunk{Citation: &adapter.Citation{URL: "https://a?b&c", Title: "A", Start: 1, End: 2, Text: "t"}}
	made := adapter.Chunk{Media: &adapter.Media{Type: "image/png", URL: "data:image/png;base64,AAEC"}}
	var asked []adapter.Request
	w := newWorld(t, inTurn(&asked,
		calling("", cite, part(0, "c", "list", "")),
		chunks(adapter.Chunk{Text: "ok"}, cite, made, adapter.Chunk{Media: &adapter.Media{Type: "image/png", URL: "https://x/y.png"}}, adapter.Chunk{Finish: "stop"}),
	))
	var kept string
	w.Env.Keep = func(_ context.Context, kind string, data []byte) (string, error) {
		kept = kind + " " + string(data)
		return "/v1/files/f/content", nil
	}
	if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: toolbox(t)})); err != nil {
		t.Fatal(err)
	}
	const source = `{"url":"https://a?b&c","title":"A","start":1,"end":2,"text":"t"}`
	_, beside := w.Env.Tube.Snapshot(false)
	for _, want := range []string{
		`"r/$citations":{"0":` + source + `,"1":` + source + `}`,
		`"r/$media":{"0":{"type":"image/png","url":"/v1/files/f/content","bytes":3},"1":{"type":"image/png","url":"https://x/y.png"}}`,
	} {
		if !strings.Contains(string(beside), want) {
			t.Errorf("no %s in %s", want, beside)
		}
	}
	if kept != "image/png \x00\x01\x02" {
		t.Errorf("%q", kept)
	}
}

// MO-15: an answer is no failure for a medium that cannot be kept.
func TestAMediumThatCannotBeKeptIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		keep func(context.Context, string, []byte) (string, error)
		url  string
		code string
	}{
		"nobody keeps any":  {nil, "data:image/png;base64,AA==", CodeOutputInvalid},
		"too large":         {func(context.Context, string, []byte) (string, error) { return "", ErrMediaTooLarge }, "data:image/png;base64,AA==", CodeTooLarge},
		"the store is away": {func(context.Context, string, []byte) (string, error) { return "", context.DeadlineExceeded }, "data:image/png;base64,AA==", CodeInternal},
		"no image":          {func(context.Context, string, []byte) (string, error) { return "", ErrMediaBroken }, "data:image/png;base64,AA==", adapter.CodeProtocol}, // DH-12
		"no data":           {nil, "data:image/png;base64,A?A", adapter.CodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, chunks(adapter.Chunk{Text: "ok"}, adapter.Chunk{Media: &adapter.Media{Type: "image/png", URL: row.url}}, adapter.Chunk{Finish: "stop"}))
			w.Env.Keep = row.keep
			var reported error
			w.Env.Report = func(_ *ChatBot, err error) { reported = err }
			if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text})); err != nil {
				t.Error(err)
			}
			if f, ok := reported.(*Failure); !ok || f.Code != row.code {
				t.Errorf("%v", reported)
			}
			if _, beside := w.Env.Tube.Snapshot(false); strings.Contains(string(beside), "$media") {
				t.Errorf("%s", beside)
			}
		})
	}
}
