package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/run"
	runlogfile "github.com/lingserve/lingserve/runlog/file"
	storefile "github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// exitUnread is the code of a check that could not read everything.
const exitUnread = 2

// settle is how long a file is given in which something is wrong before it is looked at again: a server may have been writing it.
const settle = 200 * time.Millisecond

// damage is what is wrong at a place, as check prints it.
type damage struct {
	File    string `json:"file,omitempty"` // below the data folder
	Line    int64  `json:"line,omitempty"`
	Offset  int64  `json:"offset"`
	Session string `json:"session,omitempty"` // of a store that has no files
	Damage  string `json:"damage"`
}

// check says what is damaged of all that is stored.
func (t *tapes) check(ctx context.Context, c *config.Config) int {
	n := 0
	var failed error // of the first line that could not be printed
	found := func(d damage) {
		n++
		failed = cmp.Or(failed, t.damage(d))
	}
	var sum logs.Checked
	runs, tables := 0, 0
	err := c.CheckTape()
	if err == nil && c.Tape.Store != "file" {
		sum, err = t.checkStore(ctx, c, found)
	}
	if err == nil && c.Data != "" {
		if _, err = os.Stat(c.Data); err != nil {
			err = dataError(c, err)
		}
	}
	if err == nil && c.Data != "" {
		if c.Tape.Store == "file" {
			sum, err = logs.CheckFolder(ctx, tapesFolder(c), func(d storefile.Damage) {
				found(damage{File: "tapes/" + d.File, Line: d.Line, Offset: d.Offset, Damage: d.What})
			})
			err = missing(err)
		}
		for _, part := range []struct {
			folder string
			files  *int
			check  func(string, func(string, int64, string)) (int, error)
		}{
			{"running", &runs, runlogfile.Check},
			{".", &runs, run.CheckData},
			{"store", &tables, storefile.CheckTables},
		} {
			if err == nil {
				n := 0
				n, err = checkFolder(ctx, c.Data, part.folder, part.check, found)
				*part.files += n
			}
		}
	}
	switch err = cmp.Or(err, failed); {
	case err != nil && ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		fail(t.stderr, err)
		return exitUnread
	}
	if !t.json {
		_, err = fmt.Fprintf(t.stdout, "%d tapes, %d entries, %d blobs, %d bytes; %d files of runs, %d tables: %s\n",
			sum.Tapes, sum.Entries, sum.Blobs, sum.Bytes, runs, tables, damages(n))
	}
	if n > 0 || err != nil {
		return exitFailed
	}
	return exitOK
}

func damages(n int) string {
	if n == 0 {
		return "nothing is damaged"
	}
	return fmt.Sprintf("%d damaged places", n)
}

// damage prints damage on a line.
func (t *tapes) damage(d damage) error {
	if t.json {
		return printJSON(t.stdout, d)
	}
	place := fmt.Sprintf("%s: byte %d", textview.Clean(d.File), d.Offset)
	switch {
	case d.File == "":
		place = "session " + show(d.Session)
	case d.Line > 0:
		place = fmt.Sprintf("%s:%d: byte %d", textview.Clean(d.File), d.Line, d.Offset)
	}
	_, err := fmt.Fprintf(t.stdout, "%s: %s\n", place, textview.Clean(d.Damage))
	return err
}

// missing is nil for a folder that was not yet made.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkFolder checks a folder below the data folder, twice where something is wrong with it: a server may have been writing.
func checkFolder(ctx context.Context, data, folder string, check func(string, func(string, int64, string)) (int, error), found func(damage)) (files int, err error) {
	var list []damage
	look := func() {
		list = nil
		files, err = check(filepath.Join(data, folder), func(file string, offset int64, what string) {
			list = append(list, damage{File: path.Join(folder, file), Offset: offset, Damage: what})
		})
	}
	if look(); len(list) > 0 && err == nil {
		if err := backoff.Sleep(ctx, settle); err != nil {
			return 0, err
		}
		look()
	}
	if err = missing(err); err == nil {
		for _, d := range list {
			found(d)
		}
	}
	return files, err
}

// checkStore reads all sessions of a database to the end. What their own checksums say is in the errors.
func (t *tapes) checkStore(ctx context.Context, c *config.Config, found func(damage)) (sum logs.Checked, err error) {
	err = withStore(ctx, c, t.stderr, func(store tape.Whole, _ *engine) error {
		for in, err := range store.Sessions(ctx, tape.SessionQuery{}) {
			if err != nil {
				return err
			}
			sum.Tapes++
			sum.Bytes += in.Bytes
			entries := int64(0)
			for _, err := range store.Read(ctx, in.Tape, tape.Query{Before: in.LastID + 1}) {
				if errors.Is(err, tape.ErrDeleted) || errors.Is(err, tape.ErrNotFound) { // erased meanwhile
					entries = in.Entries
				} else if ctx.Err() != nil || errors.Is(err, tape.ErrAway) {
					return err
				} else if err != nil {
					found(damage{Session: in.Session, Damage: err.Error()})
					entries = in.Entries // it is said already
				} else {
					sum.Entries++
					entries++
				}
			}
			if entries != in.Entries {
				found(damage{Session: in.Session, Damage: fmt.Sprintf("%d entries expected, only %d readable", in.Entries, entries)})
			}
		}
		return nil
	})
	return sum, err
}
