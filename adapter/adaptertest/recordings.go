package adaptertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/longtest"
)

// recordings is where answers of real providers are kept, beside the project, as a test in a folder of an adapter sees it.
const recordings = "../../../shared/data/recordings"

// Recording is an answer of a real provider, with the request that led to it.
type Recording struct {
	Name    string          `json:"-"` // the host, a slash, and the name of the test that recorded it
	URL     string          `json:"url"`
	Status  int             `json:"status"`
	Type    string          `json:"content_type"`
	Request json.RawMessage `json:"request"`
	Body    []byte          `json:"-"`
}

// Recordings returns the recordings whose address has a part, in the order of their names: a conversation's are in its order. It skips the test
// where there are none.
func Recordings(t testing.TB, part string) (all []Recording) {
	t.Helper()
	files, err := filepath.Glob(recordings + "/*/*.json")
	if err != nil || len(files) == 0 {
		t.Skip("the recordings are not here: ", recordings)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".json")
		r := Recording{Name: filepath.Base(filepath.Dir(base)) + "/" + filepath.Base(base)}
		about, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(about, &r)
		}
		if err == nil && !strings.Contains(r.URL, part) {
			continue
		}
		if err == nil {
			if r.Body, err = os.ReadFile(base + ".body"); os.IsNotExist(err) {
				r.Body, err = os.ReadFile(base + ".bin")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// IsContinuedBy says whether the next recording is the next one of the same conversation: their names differ in the number at their end.
func (r *Recording) IsContinuedBy(next *Recording) bool {
	const digits = "0123456789"
	return strings.TrimRight(r.Name, digits) == strings.TrimRight(next.Name, digits)
}

// Transport gives the recorded answer.
func (r *Recording) Transport() *Answering {
	return &Answering{Status: r.Status, Type: r.Type, Body: bytes.NewReader(r.Body)}
}

// Cuts are readers of the recorded body that give it in different pieces, by what they do: at once; in pieces of random length, as often as asked;
// cut in two where it is short, in the long form after each byte; and byte by byte where that does not take long.
func (r *Recording) Cuts(random int) map[string]io.Reader {
	whole := func() io.Reader { return bytes.NewReader(r.Body) }
	readers := map[string]io.Reader{"whole": whole()}
	for seed := range uint64(random) {
		readers[fmt.Sprint("pieces of seed ", seed)] = &pieces{r.Body, rand.New(rand.NewPCG(seed, 2))}
	}
	if len(r.Body) < 4<<10 {
		for at := 1; at < len(r.Body); at += longtest.Times(13, 1) {
			readers[fmt.Sprintf("cut at %d", at)] = io.MultiReader(bytes.NewReader(r.Body[:at]), bytes.NewReader(r.Body[at:]))
		}
	}
	if len(r.Body) < 64<<10 {
		readers["byte by byte"] = iotest.OneByteReader(whole())
	}
	return readers
}

// Answering is a transport that gives an answer, and keeps what it was asked last.
type Answering struct {
	Status int // default 200
	Type   string
	Header http.Header // more of the answer's
	Body   io.Reader

	Request *http.Request
	Asked   []byte // the body of the request
}

// RoundTrip gives the answer.
func (a *Answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.Request = r; r.Body != nil {
		a.Asked, _ = io.ReadAll(r.Body)
	}
	res := response(max(a.Status, http.StatusOK), a.Type, a.Body)
	for name, values := range a.Header {
		res.Header[name] = values
	}
	return res, nil
}

// Answer is what a model has said, whatever its pieces were.
type Answer struct {
	Text, Reasoning string
	Calls           []adapter.ToolCall
	Citations       []adapter.Citation
	Media           []adapter.Media
	Usage           adapter.Usage
	Finish          string
	Code            string // of the error with which it ended
}

// ReadAnswer reads a stream up to its end or to an error, and makes of it the message that goes into the history.
func ReadAnswer(stream iter.Seq2[adapter.Chunk, error]) (r Answer, msg adapter.Message, err error) {
	var maker adapter.Maker
	model := ""
	for c, failure := range stream {
		if err = failure; err != nil {
			r.Code = "other"
			if e, ok := errors.AsType[*adapter.Error](err); ok {
				r.Code = e.Code
			}
			continue
		}
		maker.Take(&c)
		model += c.Model
		r.Text += c.Text
		r.Reasoning += c.Reasoning
		r.Finish += c.Finish
		if c.Usage != nil {
			r.Usage = *c.Usage
		}
		if c.Citation != nil {
			r.Citations = append(r.Citations, *c.Citation)
		}
		if c.Media != nil {
			r.Media = append(r.Media, *c.Media)
		}
		if p := c.ToolCall; p != nil {
			for len(r.Calls) <= p.Index {
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls)})
			}
			call := &r.Calls[p.Index]
			call.ID, call.Name, call.Arguments = call.ID+p.ID, call.Name+p.Name, call.Arguments+p.Arguments
		}
	}
	msg = adapter.Message{Role: adapter.Assistant, Content: r.Text, ToolCalls: append([]adapter.ToolCall(nil), r.Calls...)}
	msg.Made = maker.Made(model, func(i int) string { return r.Calls[i].ID })
	return r, msg, err
}
