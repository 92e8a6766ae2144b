package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
)

// recordings is where answers of real providers are kept, beside the project.
const recordings = "../../../shared/data/recordings"

// read is what an answer says, whatever its pieces are.
type read struct {
	Text, Reasoning string
	Signatures      []string // of reasoning
	Calls           []adapter.ToolCall
	Own             int      // blocks of tools of Bedrock's own
	Sources         []string // of citations
	Finish          string
	Usage           adapter.Usage
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

// answering is a transport that gives one answer, and keeps what it was asked.
type answering struct {
	status int
	kind   string
	header http.Header
	body   io.Reader
	asked  *[]byte
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.asked != nil {
		*a.asked, _ = io.ReadAll(r.Body)
	}
	h := a.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", a.kind)
	return &http.Response{StatusCode: max(a.status, 200), Header: h, Body: io.NopCloser(a.body)}, nil
}

// cut gives pieces of random length.
type cut struct {
	from io.Reader
	r    *rand.Rand
}

func (c cut) Read(p []byte) (int, error) { return c.from.Read(p[:min(len(p), 1+c.r.IntN(300))]) }

// readOurs reads an answer with the adapter, and returns what of it goes into the history.
func readOurs(t *testing.T, name string, from answering) (r read, msg adapter.Message) {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	var maker adapter.Maker
	for c, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "?"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		maker.Take(&c)
		r.Text += c.Text
		r.Reasoning += c.Reasoning
		if c.Finish != "" {
			r.Finish = c.Finish
		}
		if c.Usage != nil {
			r.Usage = *c.Usage
		}
		if c.Citation != nil {
			title := c.Citation.Title
			if c.Citation.URL != "" {
				title = ""
			}
			r.Sources = append(r.Sources, c.Citation.URL+" "+title)
		}
		if b := c.Beside; b != nil {
			var data signed
			if b.Type == adapter.PartOther {
				r.Own++
			} else if json.Unmarshal(b.Data, &data); data.Signature != "" {
				r.Signatures = append(r.Signatures, data.Signature)
			}
		}
		if p := c.ToolCall; p != nil {
			for len(r.Calls) <= p.Index {
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls)})
			}
			r.Calls[p.Index].ID += p.ID
			r.Calls[p.Index].Name += p.Name
			r.Calls[p.Index].Arguments += p.Arguments
		}
	}
	msg = adapter.Message{
		Role: adapter.Assistant, Content: r.Text, ToolCalls: r.Calls,
		Made: maker.Made("bedrock:"+name, func(i int) string { return r.Calls[i].ID }),
	}
	return r, msg
}

// recording is an answer with the request that led to it.
type recording struct {
	name, model, url, kind string
	status                 int
	request                json.RawMessage
	body                   []byte
}

func recorded(t *testing.T) (all []recording) {
	t.Helper()
	files, err := filepath.Glob(recordings + "/bedrock-runtime-*/*.json")
	if err != nil || len(files) == 0 {
		t.Skip("the recordings are not here: ", recordings)
	}
	for _, file := range files {
		var about struct {
			URL     string          `json:"url"`
			Status  int             `json:"status"`
			Type    string          `json:"content_type"`
			Request json.RawMessage `json:"request"`
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(file, ".json")
		body, err := os.ReadFile(base + ".bin")
		if err != nil {
			body, err = os.ReadFile(base + ".body")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, model, _ := strings.Cut(about.URL, "/model/")
		model, _, _ = strings.Cut(model, "/converse")
		all = append(all, recording{filepath.Base(base), model, about.URL, about.Type, about.Status, about.Request, body})
	}
	return all
}

// MO-13, MO-15, MO-32: streams of Bedrock say what a plain reader reads of them, wherever they are cut.
func TestRecordedAnswersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range recorded(t) {
		if r.status != http.StatusOK {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			want := readPlainly(t, r.body)
			readers := map[string]io.Reader{
				"whole":        bytes.NewReader(r.body),
				"cut":          cut{bytes.NewReader(r.body), rand.New(rand.NewPCG(1, 2))},
				"byte by byte": iotest.OneByteReader(bytes.NewReader(r.body)),
			}
			for name, from := range readers {
				got, _ := readOurs(t, r.model, answering{kind: streamType, body: from})
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
		if r.status != http.StatusOK || len(r.body) > 4<<10 {
			continue
		}
		want := readPlainly(t, r.body)
		for at := range r.body {
			m, err := newProvider(t, Options{Transport: answering{kind: streamType, body: bytes.NewReader(r.body[:at])}, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(r.model)
			if err != nil {
				t.Fatal(err)
			}
			text, finish := "", ""
			var failed error
			for c, err := range m.Stream(t.Context(), adapter.Request{}) {
				text, finish, failed = text+c.Text, c.Finish, err
			}
			if failed == nil && (text != want.Text || finish != want.Finish) || failed != nil && !strings.HasPrefix(want.Text, text) {
				t.Fatalf("%s, cut after %d bytes: %q, %q, %v", r.name, at, text, finish, failed)
			}
		}
	}
}

// MO-16: recorded refusals.
func TestRecordedRefusalsHaveTheirCodes(t *testing.T) {
	for _, r := range recorded(t) {
		if r.status == http.StatusOK {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			e := failureOf(t, answering{status: r.status, kind: r.kind, body: bytes.NewReader(r.body)})
			if want := map[int]string{400: adapter.CodeInvalid, 403: adapter.CodeAuth}[r.status]; e.Code != want || e.Status != r.status || e.ContextLength != (r.status == 400) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// failureOf asks where a refusal is the answer.
func failureOf(t *testing.T, from answering) *adapter.Error {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(haiku)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Stream(t.Context(), adapter.Request{}) {
		if e, ok := errors.AsType[*adapter.Error](err); ok {
			return e
		}
	}
	t.Fatal("no error")
	return nil
}

// MO-01, MO-02, MO-32: what a recorded conversation gave back, our next request gives back.
func TestTheNextRequestGivesBackWhatTheRecordedOneDid(t *testing.T) {
	all := recorded(t)
	for i := 1; i < len(all); i++ {
		before, r := all[i-1], all[i]
		if before.status != http.StatusOK || r.name[:len(r.name)-1] != before.name[:len(before.name)-1] {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			var want struct {
				Messages []struct {
					Role    string
					Content []any
				}
			}
			if err := json.Unmarshal(r.request, &want); err != nil {
				t.Fatal(err)
			}
			_, msg := readOurs(t, r.model, answering{kind: streamType, body: bytes.NewReader(before.body)})
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
