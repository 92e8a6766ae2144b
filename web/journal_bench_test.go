package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tube"
)

// A token, with the journal that writes it down and without. What the journal costs beside is CPU of its goroutine.
func BenchmarkToken(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			var j *journal
			if kept {
				d, err := openDisk(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				defer d.close()
				folder, err := openJournalFolder(d.root)
				if err != nil {
					b.Fatal(err)
				}
				j = newJournaled(newMemoryFolder()).journal
				j.folder = folder
				j.start(nil)
				defer j.close()
			}
			const runs = 200
			var list []*run
			for i := range runs {
				list = append(list, goingRun(j, i))
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
	j := newJournaled(newMemoryFolder()).journal
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

// A restart with ten thousand runs that were going on, or that had ended.
func BenchmarkRestart(b *testing.B) {
	for _, ended := range []bool{false, true} {
		b.Run(fmt.Sprintf("ended=%v", ended), func(b *testing.B) {
			const runs = 10_000
			for b.Loop() {
				b.StopTimer()
				folder := b.TempDir()
				d, err := openDisk(folder)
				if err != nil {
					b.Fatal(err)
				}
				running, err := openJournalFolder(d.root)
				if err != nil {
					b.Fatal(err)
				}
				j := newJournaled(newMemoryFolder()).journal
				j.folder = running
				for i := range runs {
					r := goingRun(nil, i)
					for range 100 {
						r.say("article/text", "blue")
					}
					if ended {
						if err := r.tube.Close(statusCompleted); err != nil {
							b.Fatal(err)
						}
						if _, err := d.save(r); err != nil {
							b.Fatal(err)
						}
					} else {
						j.add(r)
					}
				}
				j.pass(true)
				var bytes int64
				for _, s := range j.segments {
					bytes += s.size
				}
				if err := d.close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				s, err := New(Options{Data: folder})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if n := len(s.runs.onDisk); n != runs {
					b.Fatalf("%d runs", n)
				}
				b.ReportMetric(float64(bytes)/runs, "journal-B/run")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
