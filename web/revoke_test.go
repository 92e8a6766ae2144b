package web

import (
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
		b.s.granted.mu.Lock()
		defer b.s.granted.mu.Unlock()
		return len(b.s.granted.open) == 5
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
	// The run goes on, and so do others' streams.
	st.send("a", "on")
	st.finish()
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
