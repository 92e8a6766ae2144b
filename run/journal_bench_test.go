package run

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/tube"
)

// A restart with ten thousand runs that were going on, or that had ended.
func BenchmarkRestart(b *testing.B) {
	for _, ended := range []bool{false, true} {
		b.Run(fmt.Sprintf("ended=%v", ended), func(b *testing.B) {
			const count = 10_000
			for b.Loop() {
				b.StopTimer()
				folder := b.TempDir()
				d, err := openDisk(folder)
				if err != nil {
					b.Fatal(err)
				}
				j, _, err := file.Open(d.root, journalFolderName, file.Options{Tube: func() *tube.Options { return TubeOptions(0) }})
				if err != nil {
					b.Fatal(err)
				}
				for i := range count {
					r := goingRun(noLog{}, i)
					for range 100 {
						r.say("article/text", "blue")
					}
					if ended {
						if err := r.tube.Close(StatusCompleted); err != nil {
							b.Fatal(err)
						}
						if _, err := d.save(r); err != nil {
							b.Fatal(err)
						}
					} else {
						(&Service{shared: &Shared{Runs: localLog{j}}}).keepInLog(r)
					}
				}
				if err := j.Close(); err != nil {
					b.Fatal(err)
				}
				var bytes int64
				for _, name := range logFiles(folder) {
					bytes += must(os.Stat(name)).Size()
				}
				if err := d.close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if d, err = openDisk(folder); err != nil {
					b.Fatal(err)
				}
				s := bareService(Options{}, d)
				err = s.restore(time.Now())
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if n := len(s.onDisk); n != count {
					b.Fatalf("%d runs", n)
				}
				b.ReportMetric(float64(bytes)/count, "journal-B/run")
				if err := errors.Join(s.closeJournal(), s.keys.close(), d.close()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
