package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// readEvents opens a file of lines and returns their events, and what the log says.
func readEvents(r *rapid.T, root vfs.Folder) (events []string, said string) {
	var log bytes.Buffer
	l, err := openLineLog(root, ledgerFile, slog.New(slog.NewTextHandler(&log, nil)), func(line []byte) {
		var v ledgerLine
		if err := json.Unmarshal(line, &v); err != nil {
			r.Fatal(err)
		}
		events = append(events, v.Event)
	})
	if err == nil {
		err = l.close()
	}
	if err != nil {
		r.Fatal(err)
	}
	return events, log.String()
}

// DO-06: whatever bytes of a file of lines are flipped, zeroed, overwritten, cut out or cut off, no line is read that was not written, each
// line that is unchanged is read, and where one is missing CheckLines and the log say so. An end that was cut off is that of a crash. A
// change that takes the checksum away and leaves JSON makes a line of an older version, which is read.
func TestDO_06_EachDamageOfAFileOfLinesIsFoundAndCostsNothingElse(t *testing.T) {
	top := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := filepath.Join(top, fmt.Sprint(n))
		defer os.RemoveAll(dir)
		root, err := vfs.At(dir).Open()
		if err != nil {
			r.Fatal(err)
		}
		defer root.Close()
		l, err := openLineLog(root, ledgerFile, nil, func([]byte) {})
		if err != nil {
			r.Fatal(err)
		}
		var all []string
		for i := range rapid.IntRange(1, 10).Draw(r, "lines") {
			all = append(all, fmt.Sprint(i, strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 1000}).Draw(r, "long"))))
			if _, err := l.append(ledgerLine{Event: all[i]}); err != nil {
				r.Fatal(err)
			}
		}
		if err := l.close(); err != nil {
			r.Fatal(err)
		}
		path := filepath.Join(dir, ledgerFile)
		old, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		d := vfstest.DrawDamage(r, old)
		for line := range bytes.Lines(d.Text) {
			if _, summed, _ := crcline.Cut(bytes.TrimSuffix(line, []byte("\n"))); !summed && json.Valid(line) {
				return
			}
		}
		if err := os.WriteFile(path, d.Text, 0o600); err != nil {
			r.Fatal(err)
		}
		var must []string
		from := 0
		for line := range bytes.Lines(old) {
			to := from + len(line)
			if d.Keeps(old, max(0, from-1), to) { // with the line feed before it
				must = append(must, all[bytes.Count(old[:from], []byte("\n"))])
			}
			from = to
		}
		var list []string
		_, err = CheckLines(dir, func(file string, offset int64, what string) {
			list = append(list, fmt.Sprint(file, ":", offset, ": ", what))
		})
		if err != nil {
			r.Fatal(err)
		}
		got, said := readEvents(r, root)
		what := fmt.Sprintf("%s of %d–%d", d.Kind, d.First, d.Last)
		for _, e := range got {
			if !slices.Contains(all, e) {
				r.Fatalf("%s: nobody has written %q", what, e)
			}
		}
		for _, e := range must {
			if !slices.Contains(got, e) {
				r.Fatalf("%s: %q is missing", what, e)
			}
		}
		torn := !bytes.HasSuffix(d.Text, []byte("\n")) || len(d.Text) == d.First
		missing := len(d.Text) == len(old) && !slices.Equal(got, all) && !torn
		if missing && (len(list) == 0 || !strings.Contains(said, ledgerFile)) {
			r.Fatalf("%s: %d of %d lines are left; Check says %q, the log %q", what, len(got), len(all), list, said)
		}
	})
}

// DO-06: lines of an older version have no checksum and are read as they are.
func TestDO_06_LinesWithoutAChecksumAreRead(t *testing.T) {
	dir := t.TempDir()
	text := `{"event":"a","mark":{"state":1,"at":"2999-01-01T00:00:00Z"}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := CheckLines(dir, func(file string, offset int64, what string) { t.Errorf("%s:%d: %s", file, offset, what) })
	if err != nil || files != 1 {
		t.Errorf("%d files, %v", files, err)
	}
	l, err := OpenLedger(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if state, err := l.Seen(t.Context(), "a"); err != nil || state != ReceiptState(1) {
		t.Errorf("%v, %v", state, err)
	}
}
