package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/runlog"
)

// drawLog writes a log: runs begin, go on, end and are dropped, and files are begun.
func drawLog(r *rapid.T) *byHand {
	j := newByHand(newMemoryFolder())
	var runs []*testRun
	for step := range rapid.IntRange(3, 30).Draw(r, "steps") {
		switch what := rapid.IntRange(0, 9).Draw(r, "what"); {
		case len(runs) == 0 || what <= 1:
			runs = append(runs, goingRun(j.Log, step))
		case what == 2:
			i := rapid.IntRange(0, len(runs)-1).Draw(r, "end")
			runs[i].finish()
			if rapid.Bool().Draw(r, "drop") {
				runs[i].entry.Drop()
			}
			runs = slices.Delete(runs, i, i+1)
		case what == 3 && len(j.segments) > 0:
			j.segments[len(j.segments)-1].began = time.Now().Add(-segmentAge) // as if it were time for another file
			j.pass(true)
		default:
			run := rapid.SampledFrom(runs).Draw(r, "run")
			run.say("a", strings.Repeat(fmt.Sprint(step, " "), rapid.SampledFrom([]int{1, 1, 10, 200}).Draw(r, "long")))
			j.pass(true)
		}
	}
	j.pass(true)
	return j
}

// states are the runs of a folder, as text.
func states(left []*runlog.Left) map[string]string {
	all := map[string]string{}
	for _, p := range left {
		all[p.ID] = fmt.Sprintf("%q %q %d %s", p.Opening, p.Head, p.Tube.Len(), documentOf(p.Tube))
	}
	return all
}

// wholeFrames calls each with the bounds of all frames of a file that is not damaged.
func wholeFrames(r *rapid.T, name string, text []byte, each func(from, to int64)) {
	number, _ := segmentNumber(name)
	at := headSize
	bad := frames(number, text, func([8]byte) {}, func(payload []byte) bool {
		end := at + frameHead + int64(len(payload))
		each(at, end)
		at = end
		return true
	})
	if len(bad) > 0 {
		r.Fatalf("%s is not damaged: %+v", name, bad)
	}
}

// DO-06: whatever bytes of a file of running runs are flipped, zeroed, overwritten, cut out or cut off, the log names the file and
// the place, and every frame that is unchanged at its place is read, before the damage and behind it. Two kinds of damage cost more: of a
// file's head, which every checksum needs, that file; and bytes that are cut out, the frames behind them.
//
// Nobody can see two changes, which lose nothing that a frame had: a file that ends earlier, behind a whole frame, and another head of a
// file that has no frame.
func TestDO_06_EachDamageOfARunLogIsFoundAndCostsNothingElse(t *testing.T) {
	property := func(r *rapid.T) {
		j := drawLog(r)
		names, _ := j.folder.names()
		if len(names) == 0 {
			return // all runs were dropped
		}
		name := rapid.SampledFrom(names).Draw(r, "file")
		old := j.folder.files[name].data
		d := vfstest.DrawDamage(r, old)
		if bytes.Equal(d.Text, old) {
			return
		}
		j.folder.files[name].data = d.Text
		what := fmt.Sprintf("%s of %s, %d–%d", d.Kind, name, d.First, d.Last)

		// The same files without the frames that are damaged.
		rest := newMemoryFolder()
		shorter := len(d.Text) == d.First
		visible, behind := !shorter && len(old) > int(headSize) || d.First < len(mark), false
		for _, other := range names {
			text := j.folder.files[other].data
			if other != name {
				rest.files[other] = &memoryFile{data: text}
				continue
			}
			if !d.Keeps(old, 0, int(headSize)) {
				continue
			}
			number, _ := segmentNumber(name)
			kept := bytes.Clone(old[:headSize])
			boot := [8]byte(old[len(mark):])
			wholeFrames(r, name, old, func(from, to int64) {
				visible = visible || d.First > int(from) && d.First < int(to)
				if d.Keeps(old, int(from), int(to)) {
					behind = behind || int(from) > d.First
					at := int64(len(kept))
					kept = append(kept, old[from:to]...)
					binary.LittleEndian.PutUint32(kept[at+4:], checksum(boot, number, at, kept[at+frameHead:]))
				}
			})
			rest.files[name] = &memoryFile{data: kept}
		}
		want, err := newByHand(rest).read()
		if err != nil {
			r.Fatal(err)
		}
		next := newByHand(j.folder)
		got, err := next.read()
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(states(want), states(got)); diff != "" {
			r.Fatalf("%s: %s", what, diff)
		}
		said := next.log.String()
		if visible && !strings.Contains(said, name) {
			r.Fatalf("%s: the log says %q", what, said)
		}
		if behind && !strings.Contains(said, "level=WARN") {
			r.Fatalf("%s: a crash does not leave that; expected a warning, got %q", what, said)
		}
		if shorter && strings.Contains(said, "level=WARN") {
			r.Fatalf("%s: a crash can leave that; expected no warning, got %q", what, said)
		}
	}
	for range 5 {
		rapid.Check(t, property)
	}
}
