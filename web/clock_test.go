package web

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// FT-27: somebody sets the clock by an hour while the server is down. What was promised to be kept is kept, and nothing is kept for ever.
func TestClockThatIsSetBetweenTwoServersLosesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		first, second time.Duration // the clock when each server starts
		plain         int           // the status of an ended run without a key
	}{
		"not at all":      {0, 0, 200},
		"back by an hour": {time.Hour, 0, 200},
		"on by an hour":   {0, time.Hour, 410}, // the five minutes of the run are over
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			const body = `{"workflow":"chat","input":"q"}`
			var plain, keyed document
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.first)
				b := newBench(t, func(o *Options) { o.Data = data }).servePipes()
				plain = readDocument(t, b.do("POST", "/v1/runs", body))
				keyed = readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k"))
				b.down()
				// The file system does not know the time of the bubble.
				if err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					return os.Chtimes(path, time.Now(), time.Now())
				}); err != nil {
					t.Fatal(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.second)
				b := newBench(t, func(o *Options) { o.Data = data }).servePipes()
				defer b.down()
				again := func() document { return readDocument(t, b.do("POST", "/v1/runs", body, "Idempotency-Key: k")) }
				if d := again(); d.Run != keyed.Run || string(d.Result) != string(keyed.Result) {
					t.Errorf("the start again: %+v", d)
				}
				time.Sleep(6 * time.Second) // after a sweep
				if resp := b.do("GET", "/v1/runs/"+plain.Run, ""); resp.StatusCode != row.plain {
					t.Errorf("the run without a key: %d, want %d", resp.StatusCode, row.plain)
				}
				time.Sleep(22 * time.Hour)
				if d := again(); d.Run != keyed.Run {
					t.Errorf("after most of a day: %+v", d)
				}
				time.Sleep(4 * time.Hour)
				if d := again(); d.Run == keyed.Run {
					t.Error("the key is kept for more than a day")
				}
			})
		})
	}
}
