package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func FuzzDecodeLine(f *testing.F) {
	for _, e := range []string{
		`"event":"started","data":{"run":"r1","workflow":"article"}`, `"uri":"title","delta":"sky \"up\""`, `"uri":"title","done":true`,
		`"uri":"n","delta":1.10`, `"event":"usage","data":{"bot":"b"}`,
	} {
		f.Add(`{"id":"r1:3",` + e + `}`)
	}
	f.Add(`{"uri":"a","delta":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, _, err := decodeLine([]byte(text))
		if err != nil {
			return
		}
		if line := e.AppendJSON(nil); !json.Valid(line) || bytes.ContainsAny(line, "\n") && !strings.Contains(text, "\n") {
			t.Errorf("%q was read as an event that is written as %q", text, line)
		}
	})
}

func TestARunOnAServer(t *testing.T) {
	var canceled, started int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Run-Id", "r1")
		switch r.Method + " " + r.URL.Path {
		case "POST /v1/runs":
			if started++; started == 1 {
				w.Header().Del("X-Run-Id")
				http.Error(w, `{"title":"Busy","code":"overloaded"}`, http.StatusServiceUnavailable)
				return
			}
			body, _ := io.ReadAll(r.Body)
			if string(body) != `{"workflow":"text","input":"hi","strict":true}` || r.Header.Get("Authorization") != "Bearer key" {
				t.Errorf("%s, authorization %q", body, r.Header.Get("Authorization"))
			}
			io.WriteString(w, `{"id":"r1:0","event":"started","data":{}}`+"\n"+`{"id":"r1:1","uri":"a","de`) // breaks off
		case "GET /v1/runs/r1/events":
			if last := r.Header.Get("Last-Event-ID"); last != "r1:0" {
				t.Errorf("Last-Event-ID is %q", last)
			}
			io.WriteString(w, `{"id":"r1:1","uri":"a","delta":1}`+"\n"+`{"id":"r1:2","event":"finished","data":{"status":"completed"}}`+"\n")
		case "GET /v1/runs/r1":
			io.WriteString(w, `{"result":{"a":1}}`+"\n")
		case "POST /v1/runs/r1/cancel":
			canceled++
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"title":"Not Found","detail":"unknown run","code":"not_found","errors":[{"parameter":"id","detail":"no such run"}]}`)
		}
	}))
	defer s.Close()
	c, err := New(strings.TrimPrefix(s.URL, "http://")+"/", "key", s.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Start(t.Context(), &Request{Workflow: "text", Input: json.RawMessage(`"hi"`), Strict: true})
	if err != nil || r.ID() != "r1" || started != 2 {
		t.Fatalf("%v, %d starts", err, started)
	}
	refusal, ok := errors.AsType[*Refusal](r.Cancel(t.Context()))
	if !ok || refusal.Error() != "unknown run (not_found)" || refusal.Status != 404 || len(refusal.Errors) != 1 || refusal.Errors[0].Parameter != "id" {
		t.Errorf("%+v", refusal)
	}
	var got []string
	for e, err := range r.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.AppendJSON(nil)))
	}
	if len(got) != 3 || !strings.Contains(got[1], `"delta":1`) || !strings.Contains(got[2], "finished") {
		t.Errorf("%q", got)
	}
	if result, err := r.Result(t.Context()); err != nil || string(result) != `{"result":{"a":1}}` {
		t.Errorf("%s, %v", result, err)
	}
	if err := r.Cancel(t.Context()); err != nil || canceled != 1 {
		t.Errorf("%d cancels, %v", canceled, err)
	}
}
