package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// SE-09, SE-10: what a key has opened is broken off when the key is taken away: without an end that looks like the run's, so that the client
// comes back, and is told that it may not.
func TestStreamsEndWithTheKeyThatHasOpenedThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.txt")
	ann, annText := access.NewKey(access.Principal{Name: "ann"}, time.Time{})
	bob, bobText := access.NewKey(access.Principal{Name: "bob"}, time.Time{})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ann.Entry() + "\n" + bob.Entry())
	keys, err := access.NewKeys(access.KeysOptions{File: file, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	door := &access.Door{Keys: keys, Tickets: newTickets(t)}
	b := newBench(t, func(o *Options) { o.Access.Door = door }).serve()
	asAnn, asBob := "Authorization: Bearer "+annText, "Authorization: Bearer "+bobText
	id := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, asAnn, "Prefer: respond-async")).Run
	st := <-b.steps.came
	path := "/v1/runs/" + id + "/events"
	theirs := b.do("POST", "/v1/runs?format=sse", `{"workflow":"steps"}`, asBob)
	other := <-b.steps.came
	ticket := func() string {
		return readTicket(t, b.do("POST", "/v1/tickets", `{"path":"/v1/runs/`+id+`"}`, asAnn))
	}
	open := map[string]*http.Response{
		"its stream":  b.do("GET", path+"?format=sse", "", asAnn),
		"its lines":   b.do("GET", path+"?format=jsonl", "", asAnn),
		"of a ticket": b.do("GET", path+"?format=sse&ticket="+ticket(), ""),
	}
	late := ticket()
	waits := make(chan error, 1)
	go func() {
		resp, err := b.try(t.Context(), "GET", path+"?format=json", "", asAnn)
		if err == nil {
			if resp.StatusCode == http.StatusUnauthorized { // a client that asks again by itself, as Go's does
				err = wire.ErrRevoked
			}
			resp.Body.Close()
		}
		waits <- err
	}()
	eventually(t, "all are there", func() bool {
		n := 0
		b.s.granted.streams.Range(func(any, any) bool { n++; return true })
		return n == 5
	})
	write(bob.Entry())
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	for name, resp := range open {
		text, err := io.ReadAll(resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(text), "finished") || strings.Contains(string(text), "canceled") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if err := <-waits; err == nil {
		t.Error("who waits for a document got one")
	}
	for path, header := range map[string]string{path: asAnn, path + "?ticket=" + late: "X-None: 1"} {
		if resp := b.do("GET", path, "", header, "Last-Event-ID: "+id+":1"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("coming back: %s", resp.Status)
		}
	}
	// The run is canceled (DS-02), and others' go on.
	<-st.ctx.Done()
	other.send("a", "still here")
	other.finish()
	if f := fold(t, theirs); f.json() != `{"a":"still here"}` || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
	for _, said := range []string{"closed streams whose keys are no longer valid", "end=" + wire.StreamRevoked} {
		eventually(t, "the log says "+said, func() bool { return strings.Contains(b.log.String(), said) })
	}
}

func readTicket(t *testing.T, resp *http.Response) string {
	t.Helper()
	var d struct{ Ticket string }
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil || d.Ticket == "" {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	return d.Ticket
}

// DS-02: revoking a key cancels its runs, also those that a restart of the server begins again.
func TestRunsEndWithTheKeyThatStartedThem(t *testing.T) {
	ann, annText := access.NewKey(access.Principal{Name: "ann"}, time.Time{})
	bob, bobText := access.NewKey(access.Principal{Name: "bob"}, time.Time{})
	started := make(chan context.Context, 9)
	serve := func(data string, entries ...string) (*bench, *access.Keys, string) {
		file := filepath.Join(t.TempDir(), "keys.txt")
		if err := os.WriteFile(file, []byte(strings.Join(entries, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := access.NewKeys(access.KeysOptions{File: file, Poll: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(keys.Close)
		w, err := flow.ParseSpec("anew.yaml", []byte("name: anew\nbots: {writer: {format: text, message: hi, root: answer}}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := &scripted{say: func(ctx context.Context, _ string, _ adapter.Request, _ func(string) bool) error {
			started <- ctx
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		b := newBench(t, func(o *Options) {
			o.Data, o.Access.Door = data, &access.Door{Keys: keys, Tickets: newTickets(t)}
			o.Models = &adapter.Registry{Default: "test:story", Retries: adapter.Retries{Attempts: 1}}
			o.Models.Register("test", m) // asked as soon as the server is there, after a crash
			o.Workflows.Register(w)
		})
		return b.serve(), keys, file
	}
	start := func(b *bench, key string) string {
		id := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"anew"}`, "Authorization: Bearer "+key, "Prefer: respond-async")).Run
		<-started
		return id
	}
	runOf := func(b *bench, name, id string) *run.Run {
		r, err := b.s.runs.Find(t.Context(), access.Principal{Name: name}, id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	resultOf := func(b *bench, id string) run.Result {
		r := runOf(b, "ann", id)
		<-r.Done()
		o, _, _ := r.Result()
		return o
	}
	b, keys, file := serve(t.TempDir(), ann.Entry(), bob.Entry())
	hers, his := start(b, annText), start(b, bobText)
	crashed := b.crashed()
	ann.Revoked = true
	if err := os.WriteFile(file, []byte(ann.Entry()+"\n"+bob.Entry()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	if d := resultOf(b, hers); d.Status != run.StatusCanceled || !strings.Contains(d.Reason, "revoked") {
		t.Errorf("%+v", d)
	}
	if runOf(b, "bob", his).Ended() {
		t.Error("a run of another key was canceled too")
	}
	b.down()
	b, _, _ = serve(crashed, bob.Entry())
	if d := resultOf(b, hers); d.Status != run.StatusCanceled || !strings.Contains(d.Reason, "revoked") {
		t.Errorf("after a crash: %+v", d)
	}
	if runOf(b, "bob", his).Ended() {
		t.Error("after a crash, a run of another key was canceled too")
	}
}
