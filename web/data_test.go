package web

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

func TestADataFolderThatCannotBeWrittenStopsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{file, filepath.Join(file, "data")} {
		s, err := New(Options{Data: folder})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "data folder") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// SE-09: who had a run whose file is damaged is told so, however they ask; to others it is as if it were not there, and it is not even read.
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
	path := filepath.Join(folder, run.FileOf(id))
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, whole[:len(whole)-9], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

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
