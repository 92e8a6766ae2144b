package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// read is what an answer says, whatever its pieces are.
type read struct {
	adaptertest.Answer
	Signatures []string // of reasoning
	Own        int      // blocks of tools of Bedrock's own
	Sources    []string // of citations
}

// readPlainly reads a stream with the SDK's decoder, and each event as a whole with encoding/json.
func readPlainly(t *testing.T, body []byte) (r read) {
	t.Helper()
	calls := map[float64]int{}
	signed := map[float64]int{}
	for from, decoder := bytes.NewReader(body), eventstream.NewDecoder(); ; {
		message, err := decoder.Decode(from, nil)
		if err == io.EOF {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		event := map[string]any{}
		if err := json.Unmarshal(message.Payload, &event); err != nil {
			t.Fatal(err)
		}
		// get follows names into objects.
		get := func(names ...string) any {
			var v any = event
			for _, name := range names {
				m, _ := v.(map[string]any)
				v = m[name]
			}
			return v
		}
		str := func(names ...string) string { s, _ := get(names...).(string); return s }
		num := func(names ...string) int { n, _ := get(names...).(float64); return int(n) }
		block, _ := get("contentBlockIndex").(float64)
		switch message.Headers.Get(":event-type").String() {
		case "contentBlockStart":
			if get("start", "toolResult") != nil || str("start", "toolUse", "type") != "" {
				r.Own++
			} else if get("start", "toolUse") != nil {
				calls[block] = len(r.Calls)
				r.Calls = append(r.Calls, adapter.ToolCall{
					Index: len(r.Calls), ID: str("start", "toolUse", "toolUseId"), Name: str("start", "toolUse", "name"),
				})
			}
		case "contentBlockDelta":
			r.Text += str("delta", "text")
			r.Reasoning += str("delta", "reasoningContent", "text")
			if s := str("delta", "reasoningContent", "signature"); s != "" {
				if _, known := signed[block]; !known {
					signed[block] = len(r.Signatures)
					r.Signatures = append(r.Signatures, "")
				}
				r.Signatures[signed[block]] += s
			}
			if i, ok := calls[block]; ok {
				r.Calls[i].Arguments += str("delta", "toolUse", "input")
			}
			if get("delta", "citation") != nil {
				r.Sources = append(r.Sources, str("delta", "citation", "location", "web", "url")+" "+str("delta", "citation", "title"))
			}
		case "messageStop":
			r.Finish = map[string]string{
				"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length", "content_filtered": "content_filter",
			}[str("stopReason")]
		case "metadata":
			in, out := num("usage", "inputTokens"), num("usage", "outputTokens")
			cached, written := num("usage", "cacheReadInputTokens"), num("usage", "cacheWriteInputTokens")
			r.Usage = adapter.Usage{
				PromptTokens: in + cached + written, CompletionTokens: out, TotalTokens: in + cached + written + out,
				CachedTokens: cached, CacheWriteTokens: written,
			}
		}
	}
}

// streaming gives an answer that is a stream.
func streaming(body io.Reader) *adaptertest.Answering {
	return &adaptertest.Answering{Type: wire.AWSStreamType, Body: body}
}

// refusing gives a message in JSON with a status.
func refusing(status int, message string) *adaptertest.Answering {
	return &adaptertest.Answering{Status: status, Type: "application/json", Body: bytes.NewReader(rawjson.MustMarshal(map[string]string{"message": message}))}
}

// modelAt is a model whose answers come by a transport.
func modelAt(t testing.TB, name string, from http.RoundTripper) adapter.Model {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// readOurs reads an answer with the adapter, and returns what of it goes into the history.
func readOurs(t *testing.T, name string, from http.RoundTripper) (r read, msg adapter.Message) {
	t.Helper()
	var err error
	if r.Answer, msg, err = adaptertest.ReadAnswer(modelAt(t, name, from).Stream(t.Context(), adapter.Request{Messages: question})); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Citations {
		if c.URL != "" {
			c.Title = ""
		}
		r.Sources = append(r.Sources, c.URL+" "+c.Title)
	}
	r.Citations = nil
	if msg.Made == nil {
		return r, msg
	}
	for _, p := range msg.Made.Parts {
		var data struct{ Signature string }
		if p.Type == adapter.PartOther {
			r.Own++
		} else if json.Unmarshal(p.Data, &data) == nil && data.Signature != "" {
			r.Signatures = append(r.Signatures, data.Signature)
		}
	}
	return r, msg
}

// collect reads an answer for the history.
func collect(t *testing.T, m adapter.Model, req adapter.Request) (adapter.Message, error) {
	t.Helper()
	_, msg, err := adaptertest.ReadAnswer(m.Stream(t.Context(), req))
	return msg, err
}

// recording is a recording of the Converse API with the model that was asked.
type recording struct {
	adaptertest.Recording
	model string
}

func recorded(t *testing.T) (all []recording) {
	t.Helper()
	for _, r := range adaptertest.Recordings(t, "/converse") {
		_, model, _ := strings.Cut(r.URL, "/model/")
		model, _, _ = strings.Cut(model, "/converse")
		all = append(all, recording{r, model})
	}
	return all
}

// MO-13, MO-15, MO-32: streams of Bedrock say what a plain reader reads of them, wherever they are cut.
func TestRecordedAnswersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range recorded(t) {
		if r.Status != http.StatusOK {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			want := readPlainly(t, r.Body)
			for name, from := range r.Cuts(1) {
				got, _ := readOurs(t, r.model, streaming(from))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s:\n%s", name, diff)
				}
			}
		})
	}
}

// FT-06, MO-32: a recorded stream that ends after any of its bytes is whole, with all of its text, or an error.
func TestARecordedAnswerThatEndsEarlyIsAnError(t *testing.T) {
	for _, r := range recorded(t) {
		if r.Status != http.StatusOK || len(r.Body) > 4<<10 {
			continue
		}
		want := readPlainly(t, r.Body)
		for at := range r.Body {
			got, _, err := adaptertest.ReadAnswer(modelAt(t, r.model, streaming(bytes.NewReader(r.Body[:at]))).Stream(t.Context(), adapter.Request{}))
			if err == nil && (got.Text != want.Text || got.Finish != want.Finish) || err != nil && !strings.HasPrefix(want.Text, got.Text) {
				t.Fatalf("%s, cut after %d bytes: %q, %q, %v", r.Name, at, got.Text, got.Finish, err)
			}
		}
	}
}

// MO-16: recorded refusals.
func TestRecordedRefusalsHaveTheirCodes(t *testing.T) {
	for _, r := range recorded(t) {
		if r.Status == http.StatusOK {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			e := failureOf(t, r.Transport())
			if want := map[int]string{400: adapter.CodeInvalid, 403: adapter.CodeAuth}[r.Status]; e.Code != want || e.Status != r.Status || e.ContextLength != (r.Status == 400) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// failureOf asks where a refusal is the answer.
func failureOf(t *testing.T, from http.RoundTripper) *adapter.Error {
	t.Helper()
	_, _, err := adaptertest.ReadAnswer(modelAt(t, haiku, from).Stream(t.Context(), adapter.Request{}))
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok {
		t.Fatalf("expected an error of package adapter: %v", err)
	}
	return e
}

// MO-01, MO-02, MO-32: what a recorded conversation gave back, our next request gives back.
func TestTheNextRequestGivesBackWhatTheRecordedOneDid(t *testing.T) {
	all := recorded(t)
	for i := 1; i < len(all); i++ {
		before, r := all[i-1], all[i]
		if before.Status != http.StatusOK || !before.IsContinuedBy(&r.Recording) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			var want struct {
				Messages []struct {
					Role    string
					Content []any
				}
			}
			if err := json.Unmarshal(r.Request, &want); err != nil {
				t.Fatal(err)
			}
			_, msg := readOurs(t, r.model, before.Transport())
			got := want
			got.Messages = nil
			body := bodyOf(t, gptoss, adapter.Request{Messages: []adapter.Message{question[0], msg}})
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Messages[len(want.Messages)-2].Content, got.Messages[1].Content); diff != "" {
				t.Error(diff)
			}
		})
	}
}
