package file

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tube"

	"github.com/lingserve/lingserve/internal/vfs"
)

// A token, with the journal that writes it down and without. What the journal costs beside is CPU of its goroutine.
func BenchmarkToken(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			const runs = 200
			var list []*testRun
			if kept {
				root, err := vfs.At(b.TempDir()).Open()
				if err != nil {
					b.Fatal(err)
				}
				defer root.Close()
				l, _, err := Open(root, "running", Options{Tube: tubeOptions})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				for i := range runs {
					list = append(list, goingRun(l, i))
				}
			} else {
				for i := range runs {
					id := fmt.Sprint("run", i)
					list = append(list, &testRun{id: id, tube: tube.New(id, tubeOptions())})
				}
			}
			uri, value := []byte("article/text"), []byte("blue")
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := list[i%runs].tube.Send(tube.Event{Kind: tube.Append, URI: uri, Value: value}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// A look at ten thousand runs that wait, as happens four times a second.
func BenchmarkLookAtWaitingRuns(b *testing.B) {
	j := newByHand(newMemoryFolder()).Log
	for i := range 10_000 {
		goingRun(j, i)
	}
	j.pass(true)
	j.synced = time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		j.pass(true)
	}
}
