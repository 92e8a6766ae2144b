//go:build linux

package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/runlog"
	logfile "github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/tube"
)

// BenchmarkASingleServer compares what may keep the runs of a single server: package runlog/file, and this package on files. Runs begin, get
// tokens at a steady pace for some seconds, and end. An operation is one token; "none" keeps nothing.
func BenchmarkASingleServer(b *testing.B) {
	for _, load := range []struct{ runs, rate int }{{200, 50}, {2000, 10}} {
		for _, kind := range []string{"none", "file", "logs"} {
			b.Run(fmt.Sprintf("runs=%d/%s", load.runs, kind), func(b *testing.B) {
				for b.Loop() {
					keepRuns(b, kind, load.runs, load.rate)
				}
			})
		}
	}
}

func openSingle(b *testing.B, kind, dir string) runlog.Log {
	switch kind {
	case "file":
		root, err := vfs.At(dir).Open()
		if err != nil {
			b.Fatal(err)
		}
		l, _, err := logfile.Open(root, "running", logfile.Options{Tube: runlogtest.Tube})
		if err != nil {
			b.Fatal(err)
		}
		return l
	case "logs":
		e, err := file.Open(vfs.At(dir), file.Options{})
		if err != nil {
			b.Fatal(err)
		}
		l, err := logs.Open(b.Context(), logs.Options{Logs: e, Tables: e, Bus: replicas.NoBus{}, Replica: "one", Tube: runlogtest.Tube})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close() })
		return l
	}
	return nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func written() int64 {
	text, _ := os.ReadFile("/proc/self/io")
	_, rest, _ := bytes.Cut(text, []byte("wchar: "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseInt(string(line), 10, 64)
	return n
}

func keepRuns(b *testing.B, kind string, runs, rate int) {
	const seconds = 6
	dir := b.TempDir()
	l := openSingle(b, kind, dir)
	tubes, entries := make([]*tube.Tube, runs), make([]runlog.Entry, runs)
	began, bytesBefore := cpu(), written()
	for i := range runs {
		o := runlogtest.Tube()
		o.Held = l != nil && l.Holds()
		id := fmt.Sprint("run", i)
		tubes[i] = tube.New(id, o)
		if l != nil {
			entries[i] = l.Keep(runlog.Run{ID: id, Opening: []byte(`{"workflow":"chat"}`), Tube: tubes[i]})
		}
	}
	flush := func() {
		if l != nil {
			if err := l.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	flush()
	beginning := cpu() - began
	// A reader sees how long the events of one run are held.
	sent := make(chan time.Time, rate*seconds+1)
	waits := make(chan []time.Duration, 1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		var all []time.Duration
		for e, err := range tubes[0].AllEvents(ctx, 0) {
			if err != nil {
				break
			}
			if e.Kind == tube.Append {
				all = append(all, time.Since(<-sent))
			}
		}
		waits <- all
	}()
	began = cpu()
	uri, value := []byte("article/text"), []byte("blue ")
	start, n := time.Now(), 0
	for total := runs * rate * seconds; n < total; {
		due := min(total, int(time.Since(start).Seconds()*float64(runs*rate)))
		for ; n < due; n++ {
			if n%runs == 0 {
				sent <- time.Now()
			}
			if _, err := tubes[n%runs].Send(tube.Event{Kind: tube.Append, URI: uri, Value: value}); err != nil {
				b.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	tokens := cpu() - began
	files := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
		if d != nil && d.Type().IsRegular() {
			files++
		}
		return nil
	})
	began = cpu()
	for i := range runs {
		if err := tubes[i].Close("completed"); err != nil {
			b.Fatal(err)
		}
		if l != nil {
			entries[i].End([]byte(`{"status":"completed"}`))
		}
	}
	flush()
	ending := cpu() - began
	all := <-waits
	slices.Sort(all)
	if l != nil {
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens.Nanoseconds())/float64(n)/1e3, "µs/token")
	b.ReportMetric(float64((beginning+ending).Nanoseconds())/float64(runs)/1e3, "µs/run")
	b.ReportMetric(float64(written()-bytesBefore)/float64(n), "B/token")
	b.ReportMetric(float64(files), "files")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1e3, "p99-ms")
}
