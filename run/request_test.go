package run_test

import (
	"encoding/json"
	"errors"
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
		"all together": {
			run.Request{Instructions: "12345", History: []adapter.Message{{Role: "user", Content: "12345"}}, Input: json.RawMessage(`"x"`)}, &run.Field{Pointer: "/input", Detail: detail},
		},
		"instructions":     {run.Request{Instructions: "12345678901"}, &run.Field{Detail: detail}},
		"earlier messages": {run.Request{History: []adapter.Message{{Role: "user", Content: "12345"}, {Role: "assistant", Content: "1234567"}}}, &run.Field{Detail: detail}},
		"messages to a model": {
			run.Request{Completion: new(run.Completion), History: []adapter.Message{{Content: "12345"}, {Parts: []adapter.Part{{Text: "123456"}}}}},
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

// FT-28: a key stands for a request with what was said before.
func TestHashDependsOnEarlierMessagesAndInstructions(t *testing.T) {
	hashes := map[[16]byte]bool{}
	for _, r := range []run.Request{{}, {History: []adapter.Message{{Role: adapter.User, Content: "x"}}}, {Instructions: "x"}} {
		r.Subject, r.Input = run.Subject{Agent: "assistant"}, json.RawMessage(`"x"`)
		hashes[r.Hash()] = true
	}
	if len(hashes) != 3 {
		t.Errorf("3 requests have %d hashes", len(hashes))
	}
}

// DW-04: a run fails because of the first failure that was not handled, where none ended it.
func TestHandledFailureIsNotTheCause(t *testing.T) {
	r := run.Result{Status: run.StatusFailed, Errors: []ling.ErrorData{{Code: "a"}, {Code: "b", Failed: true, Handled: true}, {Code: "c", Failed: true}, {Code: "d", Failed: true}}}
	if cause, ok := r.Cause(); !ok || cause.Code != "c" {
		t.Errorf("%+v %v", cause, ok)
	}
}
