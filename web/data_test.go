package web

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

func TestADataFolderThatCannotBeWrittenStopsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"a file": file, "below a file": filepath.Join(file, "data")} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{Data: folder})
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			if !strings.HasPrefix(err.Error(), "data folder") {
				t.Error(err)
			}
		})
	}
	t.Run("read-only", func(t *testing.T) {
		folder := t.TempDir()
		if err := os.Chmod(folder, 0o500); err != nil {
			t.Fatal(err)
		}
		if os.WriteFile(filepath.Join(folder, "probe"), nil, 0o600) == nil {
			t.Skip("this user may write anywhere")
		}
		if s, err := New(Options{Data: folder}); err == nil {
			s.Close()
			t.Error("started")
		}
	})
}

// FT-25
func TestADiskThatTakesNothingMoreDoesNotStopTheServer(t *testing.T) {
	folder := t.TempDir()
	b := newBench(t, func(o *Options) { o.Data = folder }).serve()
	if err := os.RemoveAll(filepath.Join(folder, "runs")); err != nil {
		t.Fatal(err)
	}
	id, st := b.startAsync("Idempotency-Key: k")
	st.send("a", "b")
	st.finish()
	<-b.runOf(id).Done()
	eventually(t, "the log says so", func() bool { return strings.Contains(b.log.String(), "cannot write an ended run") })
	// From memory it is still there.
	if d := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k")); d.Run != id || string(d.Result) != `{"a":"b"}` {
		t.Errorf("%+v", d)
	}
	// And when there is room again, it is written.
	if err := os.Mkdir(filepath.Join(folder, "runs"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.quiet()
	b.s.runs.Inspect().SaveAll()
	if files, err := b.s.runs.Inspect().Files(); err != nil || files != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// A run whose file is damaged is not said to be too old: who had it is told so, however they ask, and the log says which.
func TestARunWhoseRecordIsDamagedIsSaidToBe(t *testing.T) {
	for name, text := range map[string]string{"in its middle": "", "in its first line": "\x00\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			b := newBench(t, func(o *Options) { o.Data = folder }).serve()
			id, st := b.startAsync("Idempotency-Key: k")
			st.send("a", "b")
			st.finish()
			<-b.runOf(id).Done()
			b.down()
			path := filepath.Join(folder, run.FileOf(id))
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text == "" {
				text = string(whole[:len(whole)-9])
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b = newBench(t, func(o *Options) { o.Data = folder }).serve()
			for name, resp := range map[string]*http.Response{
				"its key":    b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k"),
				"its id":     b.do("GET", "/v1/runs/"+id, ""),
				"its events": b.do("GET", "/v1/runs/"+id+"/events?format=sse", ""),
			} {
				if p := readProblem(t, resp); p.Status != 410 || p.Code != wire.CodeGone || p.Detail != run.DamagedMessage || p.Run != id {
					t.Errorf("%s: %+v", name, p)
				}
			}
			resp := b.do("GET", "/v1/runs/"+id+"/events?format=jsonl", "", "Last-Event-ID: "+id+":1")
			said, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(string(said), run.DamagedMessage) || !strings.Contains(string(said), run.StatusInterrupted) {
				t.Errorf("coming back: %s, %v", said, err)
			}
			if log := b.log.String(); !strings.Contains(log, `msg="cannot read an ended run" run=`+id) {
				t.Error(log)
			}
			if b.steps.started() != 0 {
				t.Error("it was run again")
			}
		})
	}
}

// SE-09: of a run on disk that is another's nothing is read, damaged or not: the answer is the one for a run that there is not, byte for
// byte.
func TestAnothersRunOnDiskIsNotEvenRead(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:user")
	folder := t.TempDir()
	edit := func(o *Options) { o.Data, o.Access.Door = folder, k.door }
	b := newBench(t, edit).serve()
	id := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, k.bearer["ann"], "Prefer: respond-async")).Run
	(<-b.steps.came).finish()
	<-b.runOf(id).Done()
	b.down()
	b = newBench(t, edit).serve()
	whole, err := os.ReadFile(filepath.Join(folder, run.FileOf(id)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, run.FileOf(id)), whole[:len(whole)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	none := run.NewID()
	theirs, nobodys := b.whole("GET", "/v1/runs/"+id, "", k.bearer["bob"]), b.whole("GET", "/v1/runs/"+none, "", k.bearer["bob"])
	if d := cmp.Diff(nobodys, theirs); d != "" || theirs.Status != 404 {
		t.Error(d)
	}
	if log := b.log.String(); strings.Contains(log, "cannot read an ended run") {
		t.Errorf("it was read:\n%s", log)
	}
	if own := b.whole("GET", "/v1/runs/"+id, "", k.bearer["ann"]); own.Status != 410 {
		t.Errorf("its owner gets %+v", own)
	}
}
