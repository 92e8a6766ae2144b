package logs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store/file"
)

// Checked counts what [CheckFolder] has read.
type Checked struct {
	Tapes, Entries, Blobs, Bytes int64
}

// CheckFolder reads all tapes in a folder, changes nothing, and tells found of all damage. A server may use the folder meanwhile.
func CheckFolder(ctx context.Context, dir string, found func(file.Damage)) (sum Checked, err error) {
	return checkFolder(ctx, dir, settle, found)
}

// settle is how long a tape is given in which something is wrong before it is looked at again: a server may have been writing it.
const settle = 200 * time.Millisecond

func checkFolder(ctx context.Context, dir string, settle time.Duration, found func(file.Damage)) (sum Checked, err error) {
	o := file.Options{Spaces: layout, Log: slog.New(slog.DiscardHandler)}
	err = file.Check(ctx, vfs.At(dir), Space, o, settle, found, func(c file.Checked) {
		if strings.Contains(c.Log, "/"+blobPart+"/") {
			sum.Blobs++
		} else {
			sum.Tapes++
			sum.Entries += c.Entries
		}
		sum.Bytes += c.Bytes
	})
	if err != nil {
		err = fmt.Errorf("tape folder: %w", err)
	}
	return sum, err
}
