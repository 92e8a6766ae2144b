package web

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
)

// DH-15: a client that prefers to wait for some seconds gets the document by then, or 202.
func TestAClientWaitsForTheTimeThatItPrefers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		began := time.Now()
		answered := b.post("/v1/runs", `{"workflow":"steps"}`, "Prefer: wait=10")
		st := <-b.steps.came
		st.set("a", "1")
		resp := <-answered
		d := readDocument(t, resp)
		if took := time.Since(began); resp.StatusCode != 202 || took != 10*time.Second || resp.Header.Get("Preference-Applied") != "wait=10" ||
			resp.Header.Get("Location") != "/v1/runs/"+d.Run || d.Status != run.StatusRunning || string(d.Result) != `{"a":1}` {
			t.Errorf("%d %v after %v: %+v", resp.StatusCode, resp.Header, took, d)
		}
		st.finish()
		answered = b.post("/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async, wait=10")
		st = <-b.steps.came
		time.AfterFunc(4*time.Second, st.finish)
		resp = <-answered
		if d := readDocument(t, resp); resp.StatusCode != 200 || d.Status != run.StatusCompleted || resp.Header.Get("Preference-Applied") != "" {
			t.Errorf("%d %+v", resp.StatusCode, d)
		}
		b.down()
	})
}

// DH-15: an object that fails before its first byte has a status, however long that took and whatever the model thought before.
func TestAnObjectThatFailsBeforeItsFirstByteHasAStatus(t *testing.T) {
	for name, c := range map[string]struct {
		first  func(st *stepped)
		status int
	}{
		"late": {func(st *stepped) {
			time.Sleep(time.Minute)
			st.fail(&adapter.Error{Code: adapter.CodeUnavailable, Message: "it broke off", Retryable: true})
		}, 502},
		"after thoughts": {func(st *stepped) {
			st.set("a/$reasoning_context", `"hm"`)
			st.fail(&adapter.Error{Code: adapter.CodeAuth, Message: "the key was refused"})
		}, 424},
		"canceled":    {func(st *stepped) { st.m.Stop(run.ErrAsked) }, 499},
		"not at all":  {func(st *stepped) { st.set("a", "1"); st.finish() }, 200},
		"half an end": {func(st *stepped) { st.set("a", "1"); st.fail(&adapter.Error{Code: adapter.CodeAuth, Message: "x"}) }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil).servePipes()
				answered := b.post("/v1/ui/steps/object", "{}")
				st := <-b.steps.came
				go c.first(st)
				resp := <-answered
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != c.status || resp.Header.Get("X-Run-Id") == "" || (err != nil) != (name == "half an end") {
					t.Errorf("%d %v: %q, %v", resp.StatusCode, resp.Header, body, err)
				}
				b.down()
			})
		})
	}
}

// DH-15
func TestHEADOfEventsHasTheHeadersAndFollowsNothing(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	defer st.finish()
	for query, media := range map[string]string{"": "text/event-stream", "?format=jsonl": "application/x-ndjson", "?format=json": "application/json"} {
		resp := b.do("HEAD", "/v1/runs/"+id+"/events"+query, "")
		if body := text(t, resp); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != media || resp.Header.Get("X-Run-Id") != id || body != "" {
			t.Errorf("%s: %d %v %q", query, resp.StatusCode, resp.Header, body)
		}
	}
}

// DH-15: what OpenAI's clients expect of a file object.
func TestAFileObjectHasAPurposeAndAStatus(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	made := a.upload("a.txt", "some text")
	for _, f := range []upload{made, get[upload](a.bench, "/v1/files/"+made.ID)} {
		if f.Purpose != "user_data" || f.Status != "processed" {
			t.Errorf("%+v", f)
		}
	}
}
