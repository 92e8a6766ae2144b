package logs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/tape"
)

// Sync says when what was appended is made durable against the end of the machine. The end of the process loses nothing, whatever it is.
type Sync int

const (
	SyncInterval Sync = iota // within a second
	SyncTurn                 // when a turn ends
	SyncAlways               // before Append returns, with one sync for all who wait
	SyncNone                 // when the system likes to
)

// syncInterval is how long what was appended may be lost with the machine; there is time left for the sync itself.
const syncInterval = 900 * time.Millisecond

// FolderOptions are the settings of tapes in files. The zero value is the default.
type FolderOptions struct {
	Sync     Sync
	Log      *slog.Logger  // what is wrong with files; nil: no log
	Observer tape.Observer // is told what is written; may be nil
}

// OpenFolder opens the tapes in a folder, which is made if it does not exist. Several processes may use it.
func OpenFolder(dir string, o FolderOptions) (*Store, error) { return openFolder(vfs.At(dir), o) }

// NewMemory returns an empty store that keeps at most so many bytes of entries and blobs in memory; 0: 256 MiB. Beyond them an append is
// [tape.ErrTooLarge].
func NewMemory(maxBytes int64, observer tape.Observer) *Store {
	if maxBytes == 0 {
		maxBytes = 256 << 20
	}
	s, err := openLines(vfs.InMemory(), Options{MaxBytes: maxBytes, Observer: observer}, file.Options{Alone: true, Interval: -1, Unsynced: true})
	if err != nil {
		panic(err) // nothing in memory fails
	}
	return s
}

func openFolder(dir vfs.Dir, o FolderOptions) (*Store, error) {
	options := Options{SyncTurns: o.Sync == SyncTurn, Log: o.Log, Observer: o.Observer}
	engine := file.Options{Log: o.Log}
	switch o.Sync {
	case SyncAlways:
		options.Durability = store.Synced
	case SyncInterval:
		engine.Interval = syncInterval
	case SyncTurn:
		engine.Interval = -1
	case SyncNone:
		engine.Interval, engine.Unsynced = -1, true
	}
	if o.Observer != nil {
		engine.Synced = o.Observer.Synced
	}
	return openLines(dir, options, engine)
}

// layout is how tapes lie in a folder.
var layout = map[string]file.Layout{Space: {Codec: lines{}, Folder: ".", NoEmpty: true}}

// openLines opens tapes as lines in a folder.
func openLines(dir vfs.Dir, o Options, engine file.Options) (*Store, error) {
	d, err := dir.Open()
	if err != nil {
		return nil, fmt.Errorf("tape folder: %w", vfs.Explain(err))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	engine.Beside = true
	engine.Spaces = layout
	e, err := file.Open(func(bool) (vfs.Folder, error) { return d, nil }, engine)
	if err != nil {
		return nil, fmt.Errorf("tape folder: %w", err)
	}
	o.Leases = &lockedFiles{disk: d, log: o.Log}
	s, err := Open(context.Background(), e, o)
	if err != nil {
		return nil, fmt.Errorf("tape folder: %w", err)
	}
	s.disk, s.closeEngine = d, e.Close
	return s, nil
}
