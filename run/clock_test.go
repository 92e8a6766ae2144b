package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
)

// FT-27: somebody sets the clock by an hour while the server is down. What was promised to be kept is kept, and nothing is kept for ever.
func TestClockThatIsSetBetweenTwoServersLosesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		first, second time.Duration // the clock when each server starts
		plain         error         // of an ended run without a key
	}{
		"not at all":      {0, 0, nil},
		"back by an hour": {time.Hour, 0, nil},
		"on by an hour":   {0, time.Hour, ErrExpired}, // the five minutes of the run are over
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			var plain, keyed string
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.first)
				s := startOn(t, folder, writer, nil)
				r, _ := writeRun(t, s, 1, "")
				k, _ := writeRun(t, s, 1, "k")
				plain, keyed = r.ID, k.ID
				// The file system does not know the time of the bubble.
				err := errors.Join(s.Close(), filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
					return errors.Join(err, os.Chtimes(path, time.Now(), time.Now()))
				}))
				if err != nil {
					t.Fatal(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.second)
				s := startOn(t, folder, writer, nil)
				defer s.Close()
				for i, later := range []time.Duration{SweepEvery + time.Second, 22 * time.Hour, 4 * time.Hour} {
					if r, _ := writeRun(t, s, 1, "k"); r.ID != keyed {
						t.Errorf("at %v the key leads to %s, not to %s", time.Now(), r.ID, keyed)
					}
					time.Sleep(later)
					if _, err := s.Find(t.Context(), access.Local, plain); i == 0 && !errors.Is(err, row.plain) {
						t.Errorf("the run without a key: %v, want %v", err, row.plain)
					}
				}
				if r, _ := writeRun(t, s, 1, "k"); r.ID == keyed {
					t.Error("the key is kept for more than a day")
				}
			})
		})
	}
}
