package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/web/wire"
)

const (
	aPNG = "\x89PNG\r\n\x1a\n and the rest of it"
	aPDF = "%PDF-1.7\nand the rest of it"
)

// upload sends a file and returns what is said of it.
func (b *bench) upload(name, data string, header ...string) (f upload) {
	b.t.Helper()
	resp := b.do("POST", "/v1/files?filename="+name, data, append([]string{"Content-Type: application/octet-stream"}, header...)...)
	if said := text(b.t, resp); resp.StatusCode != 201 || json.Unmarshal([]byte(said), &f) != nil || resp.Header.Get("Location") != "/v1/files/"+f.ID {
		b.t.Fatalf("%d %s", resp.StatusCode, said)
	}
	return f
}

func refusedWith(t *testing.T, resp *http.Response, status int, code, detail string) {
	t.Helper()
	if p := readProblem(t, resp); p.Status != status || p.Code != code || !strings.Contains(p.Detail, detail) {
		t.Errorf("%+v, want %d %s %s", p, status, code, detail)
	}
}

// MO-25
func TestAFileIsUploadedReadAndErasedByItsOwnerAlone(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user", "root:admin")
	a := keyedBench(t, k, nil)
	ann, bob := k.bearer["ann"], k.bearer["bob"]
	f := a.upload("a.png", aPNG, ann)
	if f.Type != "image/png" || f.Bytes != int64(len(aPNG)) || f.Filename != "a.png" || len(f.SHA256) != 64 || f.ExpiresAt-f.CreatedAt != 7*24*3600 || f.Object != "file" {
		t.Errorf("%+v", f)
	}
	if got := a.whole("GET", "/v1/files/"+f.ID, "", ann); got.Status != 200 || !strings.Contains(got.Body, f.SHA256) {
		t.Errorf("%+v", got)
	}
	got := a.whole("GET", "/v1/files/"+f.ID+"/content", "", ann)
	if got.Body != aPNG || got.Header.Get("Content-Type") != "image/png" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%+v", got)
	}
	for _, other := range []string{bob, k.bearer["root"]} {
		none := a.whole("GET", "/v1/files/file_none", "", other)
		for _, path := range []string{"", "/content"} {
			if got := a.whole("GET", "/v1/files/"+f.ID+path, "", other); got.Status != 404 || got.Body != none.Body {
				t.Errorf("%s: %+v", path, got)
			}
		}
		if got := a.whole("DELETE", "/v1/files/"+f.ID, "", other); got.Status != 404 {
			t.Errorf("%+v", got)
		}
		body := `{"agent":"assistant","input":[{"type":"text","text":"x"},{"type":"image","file_id":"` + f.ID + `"}]}`
		if got := a.whole("POST", "/v1/runs", body, other); got.Status != 400 || !strings.Contains(got.Body, `"pointer":"/files/0"`) {
			t.Errorf("%+v", got)
		}
	}
	if got := a.whole("DELETE", "/v1/files/"+f.ID, "", ann); got.Status != 200 || !strings.Contains(got.Body, `"deleted":true`) {
		t.Errorf("%+v", got)
	}
	if got := a.whole("GET", "/v1/files/"+f.ID, "", ann); got.Status != 404 {
		t.Errorf("%+v", got)
	}
	if got := a.whole("GET", "/v1/sessions", "", ann); strings.Contains(got.Body, "file_") {
		t.Errorf("a file is in the list of sessions: %s", got.Body)
	}
}

// MO-25: as OpenAI's clients do it.
func TestAFileIsUploadedByAForm(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	form := func(field string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("purpose", "user_data")
		part, _ := w.CreateFormFile(field, "../notes.csv")
		_, _ = part.Write([]byte("a,b\n1,2\n"))
		_ = w.Close()
		return b.String(), "Content-Type: " + w.FormDataContentType()
	}
	body, kind := form("file")
	resp := a.do("POST", "/v1/files", body, kind)
	if said := text(t, resp); resp.StatusCode != 201 || !strings.Contains(said, `"filename":"notes.csv"`) || !strings.Contains(said, `"type":"text/`) {
		t.Errorf("%d %s", resp.StatusCode, said)
	}
	body, kind = form("other")
	refusedWith(t, a.do("POST", "/v1/files", body, kind), 400, wire.CodeInvalid, "expected a form with the file in the field file")
}

// MO-25: files lie in whatever store the sessions are in, and outlive the server.
func TestAFileOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	open := func() *bench {
		store, err := logs.OpenFolder(dir, logs.FolderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, func(o *Options) { o.Tapes = store }).serve()
		t.Cleanup(func() { store.Close() })
		return b
	}
	first := open()
	f := first.upload("a.pdf", aPDF)
	if err := first.s.Close(); err != nil {
		t.Error(err)
	}
	first.s.o.Tapes.Close()
	second := open()
	if got := second.whole("GET", "/v1/files/"+f.ID+"/content", ""); got.Body != aPDF || got.Header.Get("Content-Disposition") != "attachment; filename=a.pdf" {
		t.Errorf("%+v", got)
	}
	if got := second.whole("DELETE", "/v1/files/"+f.ID, ""); got.Status != 200 {
		t.Errorf("%+v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "__") }) {
		t.Errorf("left behind: %q", left)
	}
}

// MO-25
func TestFilesAreBounded(t *testing.T) {
	a := newAgentBench(t, func(o *Options, _ *agent.Options) {
		o.Files = Files{MaxSize: 100, MaxCount: 2, MaxBytes: 120, Retention: time.Hour}
	})
	a.serve()
	raw := func(data string) *http.Response {
		return a.do("POST", "/v1/files?filename=x", data, "Content-Type: application/octet-stream")
	}
	refusedWith(t, raw(aPNG+strings.Repeat("x", 100)), 413, wire.CodeTooLarge, "larger than 100 bytes")
	refusedWith(t, a.do("POST", "/v1/files", strings.Repeat("x", 100_000), "Content-Type: text/plain"), 413, wire.CodeTooLarge, "larger than 100 bytes")
	refusedWith(t, raw("PK\x03\x04\x00\x00"), 415, wire.CodeInvalid, "application/zip; this server takes image, pdf, audio, text")
	refusedWith(t, a.do("POST", "/v1/files", "\x7fELF\x00\x01", "Content-Type: image/png"), 415, wire.CodeInvalid, "application/octet-stream")
	refusedWith(t, raw(""), 400, wire.CodeInvalid, "the file is empty")
	a.upload("a", strings.Repeat("x", 70))
	refusedWith(t, raw(strings.Repeat("x", 60)), 429, wire.CodeRateLimited, "your files would exceed 120 bytes")
	f := a.upload("b", "y")
	refusedWith(t, raw("z"), 429, wire.CodeRateLimited, "2 files")
	a.do("DELETE", "/v1/files/"+f.ID, "").Body.Close()
	a.upload("c", "z")
}

// MO-25
func TestAFileThatHasExpiredIsNotThereAndIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.Files.Retention = time.Hour })
		defer a.s.Close()
		a.servePipes()
		f := a.upload("a.pdf", aPDF)
		time.Sleep(time.Hour + time.Second)
		if got := a.whole("GET", "/v1/files/"+f.ID, ""); got.Status != 404 {
			t.Errorf("%+v", got)
		}
		time.Sleep(sweepFilesEvery)
		synctest.Wait()
		for in := range a.s.o.Tapes.Sessions(t.Context(), tape.SessionQuery{}) {
			t.Errorf("there is a tape still: %s", in.Session)
		}
	})
}

// MO-25: on every wire, to an agent and to a workflow, as data and by an id.
func TestImagesAndFilesReachTheModelFromEveryWire(t *testing.T) {
	inline := `{"name":"w","input":{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}},"bots":{"b":{"model":"talk:talk","root":"b","format":"text"},"c":{"model":"talk:talk","root":"c","format":"text","on":{"done":"b"}}}}`
	data := "data:application/pdf;base64," + base64.StdEncoding.EncodeToString([]byte(aPDF))
	const token = "$ID"
	for name, tt := range map[string]struct{ path, body string }{
		"runs, an agent":               {"/v1/runs", `{"agent":"assistant","input":[{"type":"text","text":"look"},{"type":"file","file_id":"$ID"}]}`},
		"runs, an agent, beside":       {"/v1/runs", `{"agent":"assistant","input":"look","files":[{"type":"file","file":{"filename":"a.pdf","file_data":"` + data + `"}}]}`},
		"runs, a workflow":             {"/v1/runs", `{"workflow":` + inline + `,"input":{"q":"look"},"files":[{"type":"file","file_id":"$ID"}]}`},
		"runs, a workflow, parts":      {"/v1/runs", `{"workflow":` + inline + `,"input":[{"type":"text","text":"look"},{"type":"file","file_id":"$ID"}]}`},
		"OpenAI, an agent":             {"/v1/chat/completions", `{"model":"assistant","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"file","file":{"file_id":"$ID"}}]}]}`},
		"OpenAI, an agent, data":       {"/v1/chat/completions", `{"model":"assistant","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"file","file":{"filename":"a.pdf","file_data":"` + data + `"}}]}]}`},
		"OpenAI, a model":              {"/v1/chat/completions", `{"model":"talk:talk","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"file","file":{"file_id":"$ID"}}]}]}`},
		"AI SDK":                       {"/v1/ui/assistant", `{"id":"c","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"look"},{"type":"file","mediaType":"application/pdf","filename":"a.pdf","url":"` + data + `"}]}]}`},
		"AI SDK, a file of the server": {"/v1/ui/assistant", `{"id":"c","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"look"},{"type":"file","mediaType":"application/pdf","url":"/v1/files/$ID/content"}]}]}`},
		"AG-UI":                        {"/v1/agui/assistant", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"text","text":"look"},{"type":"document","source":{"type":"data","value":"` + data[len("data:application/pdf;base64,"):] + `","mimeType":"application/pdf"}}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.InlineWorkflows = true })
			a.serve()
			f := a.upload("a.pdf", aPDF)
			resp := a.do("POST", tt.path, strings.ReplaceAll(tt.body, token, f.ID))
			if said := text(t, resp); resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, said)
			}
			for i, req := range a.talk.requests() {
				last := req.Messages[len(req.Messages)-1]
				if i > 0 { // of a workflow, the bot that another has started
					if len(last.Parts) > 0 {
						t.Errorf("%+v", last)
					}
					continue
				}
				if len(last.Parts) != 2 || !strings.HasSuffix(last.Parts[0].Text, "look") || last.Parts[1].File != data {
					t.Errorf("%+v", last)
				}
			}
			if len(a.talk.requests()) == 0 {
				t.Error("no model was asked")
			}
		})
	}
}

// DP-11: a chat of the AI SDK takes each image, sound and file that chat completions take, and refuses it with the same words.
func TestAChatTakesThePartsThatACompletionTakes(t *testing.T) {
	const pixel = "data:image/png;base64,iVBORw0KGgo="
	a := newAgentBench(t, nil)
	a.serve()
	f := a.upload("a.pdf", aPDF)
	for _, part := range []string{
		`{"type":"image_url","image_url":{"url":"` + pixel + `"}}`,
		`{"type":"image_url","image_url":"` + pixel + `"}`,
		`{"type":"input_audio","input_audio":{"data":"UklGRgAAAABXQVZF","format":"wav"}}`,
		`{"type":"file","file":{"filename":"a.png","file_data":"` + pixel + `"}}`,
		`{"type":"file","file":{"file_id":"` + f.ID + `"}}`,
		`{"type":"image","mediaType":"image/png","url":"` + pixel + `"}`,
		`{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}`,
		`{"type":"image_url"}`,
	} {
		last := func(path, body string) (parts []adapter.Part, refusal string) {
			before := len(a.talk.requests())
			resp := a.do("POST", path, body)
			if said := text(t, resp); resp.StatusCode != http.StatusOK {
				return nil, said
			}
			asked := a.talk.requests()
			if len(asked) != before+1 {
				t.Fatalf("%s: %d requests at the model, expected one", part, len(asked)-before)
			}
			parts = asked[before].Messages[len(asked[before].Messages)-1].Parts
			_, said, dated := strings.Cut(parts[0].Text, "Z\n\n") // a second may begin between the two messages
			if !dated || said != "look" {
				t.Errorf("%s: the model got %q, want a date and look", part, parts[0].Text)
			}
			parts[0].Text = said
			return parts, ""
		}
		want, refused := last("/v1/chat/completions", `{"model":"assistant","messages":[{"role":"user","content":[{"type":"text","text":"look"},`+part+`]}]}`)
		got, refusal := last("/v1/ui/assistant", `{"id":"`+run.NewID()+`","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"look"},`+part+`]}]}`)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-completion +chat):\n%s", part, diff)
		}
		if (refused == "") != (refusal == "") || refusal != "" && !strings.HasPrefix(refusal, "/messages/0/parts/1/image_url") {
			t.Errorf("%s: %q, and of a completion %q", part, refusal, refused)
		}
	}
}

// MO-25
func TestWhatIsNoImageOrFileIsRefusedWithItsPlace(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for body, want := range map[string]string{
		`"input":[{"type":"text","text":"x"},{"type":"video"}]`:                                                   "/input/1/type: expected text, image_url, input_audio or file",
		`"input":"x","files":[{"type":"file","file_id":"file_x"}]`:                                                "/files/0: unknown file",
		`"input":"x","files":[{"type":"image_url","image_url":{"url":"https://example.com/x"}}]`:                  "the server does not fetch addresses",
		`"input":"x","files":[{"type":"image_url","image_url":{"url":"data:image/png;base64,PGh0bWw+PGgxPg=="}}]`: "expected an image, found text/html",
		`"input":"x","files":[{"type":"file","file":{"file_data":"data:application/pdf;base64,%%%"}}]`:            "/files/0/file: expected data in base64",
		`"input":"x","files":[{"type":"text","text":"x"}]`:                                                        "expected only images and files",
		`"input":"x","files":{}`: "/files: expected an array of parts",
	} {
		refusedWith(t, a.do("POST", "/v1/runs", `{"agent":"assistant",`+body+`}`), 400, wire.CodeInvalid, want)
	}
	f := a.upload("a.pdf", aPDF)
	refusedWith(t, a.do("POST", "/v1/runs", `{"agent":"assistant","input":"x","files":[{"type":"image","file_id":"`+f.ID+`"}]}`), 400, wire.CodeInvalid, "/files/0: expected an image, found a file of the type application/pdf")
}

// MO-25: the run says what is wrong, and no model is asked.
func TestAModelThatTakesNoFilesRefusesThemBeforeItIsAsked(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.InlineWorkflows = true
		o.Models.Media = []adapter.MediaRule{{Model: "test:*", Takes: []string{adapter.KindImage}}}
	}).serve()
	resp := b.do("POST", "/v1/chat/completions", `{"model":"test:story","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRgAAAABXQVZF","format":"wav"}}]}]}`)
	if said := text(t, resp); resp.StatusCode != 400 || !strings.Contains(said, "the model test:story does not accept audio; expected text and images") {
		t.Errorf("%d %s", resp.StatusCode, said)
	}
}

// making is a model that names a source and makes an image.
type making struct{ talker }

func (m *making) Model(string) (adapter.Model, error) { return m, nil }

func (m *making) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		_ = yield(adapter.Chunk{Text: "See "}, nil) &&
			yield(adapter.Chunk{Citation: &adapter.Citation{URL: "https://a", Title: "A", Start: 0, End: 3}}, nil) &&
			yield(adapter.Chunk{Media: &adapter.Media{Type: "image/png", URL: adapter.DataURL("image/png", []byte(aPNG))}}, nil) &&
			yield(adapter.Chunk{Text: "it.", Finish: adapter.FinishStop}, nil)
	}
}

// MO-15: for agents and models; the image is a file of the caller's, and the sources are on the tape.
func TestSourcesAndMediaOfModelsAreToldAndKept(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	m := new(making)
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		o.Access.Door, ao.Models = k.door, m
		o.Models.Register("making", m)
	})
	a.serve()
	ann := k.bearer["ann"]
	var d struct {
		Result   string
		Reserved struct {
			Cited map[string]json.RawMessage `json:"$citations"`
			Media map[string]json.RawMessage `json:"$media"`
		}
	}
	said := text(t, a.say("hi", `,"include":["reserved"]`, ann))
	if err := json.Unmarshal([]byte(said), &d); err != nil || d.Result != "See it." || string(d.Reserved.Cited["0"]) != `{"url":"https://a","title":"A","end":3}` {
		t.Errorf("%s", said)
	}
	var image struct {
		Type, URL string
		Bytes     int
	}
	if json.Unmarshal(d.Reserved.Media["0"], &image) != nil || image.Type != "image/png" || image.Bytes != len(aPNG) || strings.Contains(said, "base64") {
		t.Errorf("%s", said)
	}
	if got := a.whole("GET", image.URL, "", ann); got.Body != aPNG {
		t.Errorf("%+v", got)
	}
	if got := a.whole("GET", image.URL, "", k.bearer["bob"]); got.Status != 404 {
		t.Errorf("%+v", got)
	}
	tape := a.whole("GET", "/v1/sessions/s/tape", "", ann).Body
	if !strings.Contains(tape, `"name":"citations","data":[{"url":"https://a","title":"A","end":3}]`) || !strings.Contains(tape, `"name":"media","data":[{"type":"image/png","handle":"`) {
		t.Errorf("%s", tape)
	}
	const cited = `"annotations":[{"type":"url_citation","url_citation":{"url":"https://a","title":"A","start_index":0,"end_index":3}}]`
	ui := text(t, a.do("POST", "/v1/ui/assistant", `{"id":"u","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, ann))
	if !strings.Contains(ui, `{"type":"source-url","sourceId":"$citations/0","url":"https://a","title":"A"}`) || !strings.Contains(ui, `{"type":"file","url":"/v1/files/file_`) {
		t.Errorf("%s", ui)
	}
	for _, more := range []string{``, `,"stream":true`} {
		for _, model := range []string{"assistant", "making:m"} {
			said := text(t, a.do("POST", "/v1/chat/completions", chatBody(model, "hi", more), ann))
			if strings.Count(said, cited) != 1 || strings.Contains(said, "base64") {
				t.Errorf("%s%s: %s", model, more, said)
			}
		}
	}
}
