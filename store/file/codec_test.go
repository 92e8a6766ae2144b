package file_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/store/storetest"
)

// lines are the lines of a test: {"n":1,"mark":true,"data":"…","more":true}. Logs whose name begins with "plain" do not have them.
type lines struct{}

type lineOf struct {
	N    uint64 `json:"n"`
	Mark bool   `json:"mark,omitempty"`
	Last uint64 `json:"last"`
	Data string `json:"data"`
	More bool   `json:"more,omitempty"`
	End  string `json:"end"`
}

func (lines) File(name string) (string, bool) {
	return strings.ReplaceAll(name, "/", "@"), len(name) < 200 && !strings.HasPrefix(name, "plain")
}

func (lines) Name(file string) (string, bool) { return strings.ReplaceAll(file, "@", "/"), true }
func (lines) End() string                     { return ".jsonl" }
func (lines) SideEnd() string                 { return ".side" }
func (lines) SplitLine(text []byte) int       { return len(text) }

func (lines) AppendLine(dst []byte, e store.Entry, last uint64, more bool) []byte {
	text, _ := json.Marshal(lineOf{e.N, e.Mark, last, base64.StdEncoding.EncodeToString(e.Data), more, "."})
	return append(append(dst, text...), '\n')
}

func (lines) ParseLine(text []byte) (l file.Line, err error) {
	var one lineOf
	if err := json.Unmarshal(text, &one); err != nil || one.End != "." || one.N == 0 {
		return l, errors.New("it is no line")
	}
	data, err := base64.StdEncoding.DecodeString(one.Data)
	return file.Line{Entry: store.Entry{N: one.N, Mark: one.Mark, Data: data}, Before: int64(one.Last), More: one.More}, err
}

func (lines) Rebuild(head []byte) file.Head { return &rebuilt{now: head} }

// rebuilt has the last number in the head, where the writer has none.
type rebuilt struct{ now, kept []byte }

func (r *rebuilt) Add(e store.Entry, err error) (at time.Time) {
	if err != nil {
		r.now = append(bytes.Clone(r.now), " damaged"...)
	} else {
		r.now = fmt.Append(nil, "rebuilt ", e.N)
	}
	return at
}

func (r *rebuilt) Keep()        { r.kept = r.now }
func (r *rebuilt) Text() []byte { return r.kept }

func (lines) AppendSide(dst []byte, label string, _ []byte) []byte {
	return append(dst, "side "+label...)
}

func (lines) Begin(_ string, side []byte) (string, []byte) {
	return strings.TrimPrefix(string(side), "side "), []byte("rebuilt")
}

// codecFolder is a folder with logs in lines.
type codecFolder struct{ logFolder }

func newCodecFolder(dir vfs.Dir) *codecFolder {
	layout := file.Layout{Codec: lines{}}
	spaces := map[string]file.Layout{}
	for _, space := range []string{"logs", "indexed", "plain", "synced", "more"} {
		spaces[space] = layout
	}
	for i := range 2000 {
		spaces[fmt.Sprint("model", i)] = layout
	}
	return &codecFolder{logFolder{dir, spaces}}
}

// DamageEntry implements [storetest.Damager].
func (f *codecFolder) DamageEntry(t testing.TB, space, name string, n uint64) {
	t.Helper()
	if space == "plain" {
		f.logFolder.DamageEntry(t, space, name, n)
		return
	}
	d, err := f.dir.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path := space + ".logs/" + name + ".jsonl"
	text, err := vfs.ReadFile(d, path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, fmt.Appendf(nil, `{"n":%d,`, n))
	file, err := d.Open(path, os.O_RDWR)
	if err != nil || at < 0 {
		t.Fatal(err, at)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("X"), int64(at)); err != nil {
		t.Fatal(err)
	}
}

// TestLogsInLines has logs in the lines of a codec.
func TestLogsInLines(t *testing.T) {
	storetest.Logs(t, storetest.Setup{
		New:    func(testing.TB) storetest.Place { return newCodecFolder(vfs.InMemory()) },
		Bubble: true,
		NoTrim: true,
	})
}
