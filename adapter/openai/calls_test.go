package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// MO-12: calls as compatible servers send them: each row's elements of tool_calls come in events of their own.
func TestCallsInAllTheirForms(t *testing.T) {
	one := []adapter.ToolCall{{ID: "a", Name: "look", Arguments: `{"x":1}`}}
	two := []adapter.ToolCall{{ID: "a", Name: "look", Arguments: `{"x":1}`}, {Index: 1, ID: "b", Name: "see", Arguments: `{"y":2}`}}
	for name, row := range map[string]struct {
		pieces []string
		want   []adapter.ToolCall
	}{
		"the usual one": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`}, one},
		"no index":      {[]string{`{"id":"a","function":{"name":"look","arguments":"{\"x\":1}"}}`, `{"id":"b","function":{"name":"see","arguments":"{\"y\":2}"}}`}, two},
		"no index, in pieces": {[]string{
			`{"id":"a","function":{"name":"look"}}`, `{"function":{"arguments":"{\"x\":"}}`, `{"function":{"arguments":"1}"}}`, `{"id":"b","function":{"name":"see","arguments":"{\"y\":2}"}}`,
		}, two},
		"the index 0 for all": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"b","function":{"name":"see","arguments":"{\"y\":2}"}}`}, two},
		"the index 0 for all and no id": {
			[]string{`{"index":0,"function":{"name":"look","arguments":"{\"x\":1}"}}`, `{"index":0,"function":{"name":"see","arguments":"{\"y\":2}"}}`},
			[]adapter.ToolCall{{Name: "look", Arguments: `{"x":1}`}, {Index: 1, Name: "see", Arguments: `{"y":2}`}},
		},
		"neither index nor id": {
			[]string{`{"function":{"name":"look","arguments":"{\"x\":1}"}}`, `{"function":{"name":"look","arguments":"{\"x\":2}"}}`},
			[]adapter.ToolCall{{Name: "look", Arguments: `{"x":1}`}, {Index: 1, Name: "look", Arguments: `{"x":2}`}},
		},
		"one id for all": {
			[]string{`{"id":"a","function":{"name":"look","arguments":"{\"x\":1}"}}`, `{"id":"a","function":{"name":"see","arguments":"{\"y\":2}"}}`},
			[]adapter.ToolCall{{ID: "a", Name: "look", Arguments: `{"x":1}`}, {Index: 1, ID: "a", Name: "see", Arguments: `{"y":2}`}},
		},
		"an object":             {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":{"x":1}}}`}, one},
		"a name in pieces":      {[]string{`{"index":0,"id":"a","function":{"name":"lo"}}`, `{"index":0,"function":{"name":"ok"}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`}, one},
		"a name that grows":     {[]string{`{"index":0,"id":"a","function":{"name":"lo"}}`, `{"index":0,"function":{"name":"look"}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`}, one},
		"a name in each piece":  {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"x\""}}`, `{"index":0,"id":"a","function":{"name":"look","arguments":":1}"}}`}, one},
		"a name without an id":  {[]string{`{"function":{"name":"look","arguments":"{\"x\""}}`, `{"function":{"name":"look","arguments":":1}"}}`}, []adapter.ToolCall{{Name: "look", Arguments: `{"x":1}`}}},
		"an id that comes late": {[]string{`{"index":0,"function":{"name":"look","arguments":"{\"x\""}}`, `{"index":0,"id":"a","function":{"arguments":":1}"}}`}, one},
		"both in one event":     {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"x\":1}"}},{"index":1,"id":"b","function":{"name":"see","arguments":"{\"y\":2}"}}`}, two},
		"mixed":                 {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"x\""}},{"index":1,"id":"b","function":{"name":"see","arguments":"{\"y\""}}`, `{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}`}, two},
		"no arguments": {
			[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":""}}`, `{"index":1,"id":"b","function":{"name":"see"}}`},
			[]adapter.ToolCall{{ID: "a", Name: "look"}, {Index: 1, ID: "b", Name: "see"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, last := range []bool{false, true} { // in the last event, too
				var b strings.Builder
				b.WriteString(`data: {"choices":[{"delta":{"content":"well"}}]}` + "\n\n")
				for i, p := range row.pieces {
					finish := "null"
					if last && i == len(row.pieces)-1 {
						finish = `"stop"`
					}
					b.WriteString(`data: {"choices":[{"delta":{"tool_calls":[` + p + `]},"finish_reason":` + finish + `}]}` + "\n\n")
				}
				if !last {
					b.WriteString(`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n")
				}
				b.WriteString("data: [DONE]\n\n")
				got := readOurs(t, "text/event-stream", strings.NewReader(b.String()))
				if diff := cmp.Diff(row.want, got.Calls); diff != "" || got.Finish != adapter.FinishToolCalls {
					t.Errorf("%s %s", got.Finish, diff)
				}
			}
		})
	}
}
