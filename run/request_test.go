package run_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
)

// SE-14
func TestSizeOfWhatModelsReadIsBounded(t *testing.T) {
	const detail = "expected at most 10 characters of content for models in total"
	for name, tt := range map[string]struct {
		request run.Request
		want    *run.Field
	}{
		"at the limit":                      {run.Request{Input: json.RawMessage(`"12345678"`)}, nil},
		"one more":                          {run.Request{Input: json.RawMessage(`"123456789"`)}, &run.Field{Pointer: "/input", Detail: detail}},
		"characters are counted, not bytes": {run.Request{Input: json.RawMessage(`"éééééééé"`)}, nil},
		"a property":                        {run.Request{Properties: map[string]string{"a/b": "12345678901"}}, &run.Field{Pointer: "/input/a~1b", Detail: detail}},
		"all together": {
			run.Request{Instructions: "12345", History: []run.Said{{Role: "user", Text: "12345"}}, Input: json.RawMessage(`"x"`)}, &run.Field{Pointer: "/input", Detail: detail},
		},
		"instructions":     {run.Request{Instructions: "12345678901"}, &run.Field{Detail: detail}},
		"earlier messages": {run.Request{History: []run.Said{{Role: "user", Text: "12345"}, {Role: "assistant", Text: "1234567"}}}, &run.Field{Detail: detail}},
		"messages to a model": {
			run.Request{Completion: &run.Completion{Messages: []adapter.Message{{Content: "12345"}, {Parts: []adapter.Part{{Text: "123456"}}}}}},
			&run.Field{Pointer: "/messages/1/content", Detail: detail},
		},
		"two images":   {run.Request{Files: make([]adapter.Part, 2)}, nil},
		"three images": {run.Request{Files: make([]adapter.Part, 3)}, &run.Field{Detail: "expected at most 2 images and files, found 3"}},
	} {
		err := run.CheckSize(&tt.request, 10, 2)
		if tt.want == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e, ok := errors.AsType[*run.Error](err); !ok || !errors.Is(err, run.ErrTooLarge) || !cmp.Equal(e.Fields, []run.Field{*tt.want}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEarlierMessagesAndInstructionsAreBounded(t *testing.T) {
	talk := []run.Said{{Role: adapter.User, Text: "x"}, {Role: adapter.Assistant, Text: "y"}}
	for want, r := range map[string]run.Request{
		"":                            {Instructions: "x", History: talk},
		"instructions of at most":     {Instructions: strings.Repeat("x", run.MaxInstructions+1)},
		"at most 1000 earlier":        {History: slices.Repeat(talk, run.MaxHistory/2+1)},
		"earlier messages of at most": {History: []run.Said{{Role: adapter.User, Text: strings.Repeat("x", run.MaxHistoryBytes+1)}}},
		`found "tool"`:                {History: []run.Said{{Role: adapter.ToolRole, Text: "x"}}},
	} {
		if err := r.CheckSaid(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// FT-28: a key stands for a request with what was said before.
func TestHashDependsOnEarlierMessagesAndInstructions(t *testing.T) {
	hashes := map[[16]byte]bool{}
	for _, r := range []run.Request{{}, {History: []run.Said{{Role: adapter.User, Text: "x"}}}, {Instructions: "x"}} {
		r.Subject, r.Input = run.Subject{Agent: "assistant"}, json.RawMessage(`"x"`)
		hashes[r.Hash()] = true
	}
	if len(hashes) != 3 {
		t.Errorf("3 requests have %d hashes", len(hashes))
	}
}

// DW-04: a run fails because of the last failure that was not handled, where none ended it.
func TestHandledFailureIsNotTheCause(t *testing.T) {
	r := run.Result{Status: run.StatusFailed, Errors: []ling.ErrorData{{Code: "a"}, {Code: "b"}, {Code: "c", Handled: true}}}
	if cause, ok := r.Cause(); !ok || cause.Code != "b" {
		t.Errorf("%+v %v", cause, ok)
	}
}
