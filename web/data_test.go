package web

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// SE-09: who had a run whose events are damaged is told so, however they ask; to others it is as if it were not there, and it is not even read.
func TestADamagedRunIsToldToItsOwnerAlone(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	folder, ann, bob := t.TempDir(), k.bearer["ann"], k.bearer["bob"]
	edit := func(o *Options) { o.Data, o.Access.Door = folder, k.door }
	const body, key = `{"workflow":"steps"}`, "Idempotency-Key: k"
	b := newBench(t, edit).serve()
	id := readDocument(t, b.do("POST", "/v1/runs", body, ann, key, "Prefer: respond-async")).Run
	(<-b.steps.came).finish()
	r, err := b.s.runs.Find(t.Context(), access.Principal{Name: "ann"}, id)
	if err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	b.down()
	d, err := sql.Open("sqlite", filepath.Join(folder, "lingserve.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec("UPDATE run_batches SET events = substr(events, 1, length(events) - 9) WHERE run = ?", id); err != nil {
		t.Fatal(err)
	}
	d.Close()

	b = newBench(t, edit).serve()
	theirs, nobodys := b.whole("GET", "/v1/runs/"+id, "", bob), b.whole("GET", "/v1/runs/"+run.NewID(), "", bob)
	if diff := cmp.Diff(nobodys, theirs); diff != "" || theirs.Status != 404 || strings.Contains(b.log.String(), "cannot read an ended run") {
		t.Errorf("%s\n%s", diff, b.log)
	}
	for name, resp := range map[string]*http.Response{
		"its key":    b.do("POST", "/v1/runs", body, ann, key),
		"its id":     b.do("GET", "/v1/runs/"+id, "", ann),
		"its events": b.do("GET", "/v1/runs/"+id+"/events?format=sse", "", ann),
	} {
		if p := readProblem(t, resp); p.Status != 410 || p.Code != wire.CodeGone || p.Detail != run.DamagedMessage || p.Run != id {
			t.Errorf("%s: %+v", name, p)
		}
	}
	said := text(t, b.do("GET", "/v1/runs/"+id+"/events?format=jsonl", "", ann, "Last-Event-ID: "+id+":1"))
	if !strings.Contains(said, run.DamagedMessage) || !strings.Contains(said, run.StatusInterrupted) {
		t.Errorf("coming back: %s", said)
	}
	if log := b.log.String(); !strings.Contains(log, `msg="cannot read an ended run" run=`+id) {
		t.Error(log)
	}
	if other := readDocument(t, b.do("POST", "/v1/runs", body, bob, key, "Prefer: respond-async")).Run; other == id {
		t.Error("her key leads him to her run")
	}
	(<-b.steps.came).finish()
}
