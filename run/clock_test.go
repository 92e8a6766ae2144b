package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/store/db"
)

func openFile(t *testing.T, folder string) *db.DB {
	d, err := db.Open(context.Background(), "sqlite:"+folder+"/runs.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

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
				s, _ := startOn(t, openFile(t, folder), writer, nil)
				r, _ := writeRun(t, s, 1, "")
				k, _ := writeRun(t, s, 1, "k")
				plain, keyed = r.ID, k.ID
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.second)
				s, _ := startOn(t, openFile(t, folder), writer, nil)
				defer s.Close()
				for i, later := range []time.Duration{2 * time.Minute, 22 * time.Hour, 4 * time.Hour} {
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
