package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
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
	if got.Body != aPNG || got.Header.Get("Content-Type") != "image/png" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") ||
		got.Header.Get("Content-Disposition") != "inline; filename=a.png" {
		t.Errorf("%+v", got)
	}
	pdf := a.upload("a.pdf", aPDF, ann)
	if got := a.whole("GET", "/v1/files/"+pdf.ID+"/content", "", ann); got.Header.Get("Content-Disposition") != "attachment; filename=a.pdf" {
		t.Errorf("%+v", got)
	}
	body := `{"agent":"assistant","input":"x","files":[{"type":"image","file_id":"` + pdf.ID + `"}]}`
	refusedWith(t, a.do("POST", "/v1/runs", body, ann), 400, wire.CodeInvalid, "/files/0: expected an image, found a file of the type application/pdf")
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
func TestExpiredFileIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.Files.Retention = time.Minute })
		defer a.s.Close()
		a.servePipes()
		f := a.upload("a.pdf", aPDF)
		time.Sleep(time.Minute + time.Second)
		if got := a.whole("GET", "/v1/files/"+f.ID, ""); got.Status != 404 {
			t.Errorf("%+v", got)
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

// MO-15: what a model makes is a file of the caller's, on each wire, and its sources are on the tape.
func TestSourcesAndMediaOfModelsAreToldAndKept(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	m := new(making)
	a := newAgentBench(t, func(o *Options, ao *agent.Options) { o.Access.Door, ao.Models = k.door, m })
	a.serve()
	ann := k.bearer["ann"]
	said := text(t, a.say("hi", `,"include":["reserved"]`, ann))
	image := regexp.MustCompile(`/v1/files/file_\w+/content`).FindString(said)
	if image == "" || !strings.Contains(said, `{"url":"https://a","title":"A","end":3}`) || strings.Contains(said, "base64") {
		t.Fatalf("%s", said)
	}
	if mine, theirs := a.whole("GET", image, "", ann), a.whole("GET", image, "", k.bearer["bob"]); mine.Body != aPNG || theirs.Status != 404 {
		t.Errorf("%+v %+v", mine, theirs)
	}
	tape := a.whole("GET", "/v1/sessions/s/tape", "", ann).Body
	if !strings.Contains(tape, `"name":"citations","data":[{"url":"https://a","title":"A","end":3}]`) || !strings.Contains(tape, `"name":"media","data":[{"type":"image/png","handle":"`) {
		t.Errorf("%s", tape)
	}
	if ui := text(t, a.do("POST", "/v1/ui/assistant", uiBody("u", "hi"), ann)); !strings.Contains(ui, `{"type":"file","url":"/v1/files/file_`) {
		t.Errorf("%s", ui)
	}
	if said := text(t, a.do("POST", completions, chatBody("assistant", "hi", streaming), ann)); !strings.Contains(said, `"url_citation"`) || strings.Contains(said, "base64") {
		t.Errorf("%s", said)
	}
}
