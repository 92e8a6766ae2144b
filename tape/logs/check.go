package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/tape"
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
	if err == nil {
		err = sum.blobsBefore(ctx, dir, found)
	}
	if err != nil {
		err = fmt.Errorf("tape folder: %w", err)
	}
	return sum, err
}

// blobsBefore compares the blobs that earlier versions have written with their names.
func (sum *Checked) blobsBefore(ctx context.Context, dir string, found func(file.Damage)) error {
	d, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return vfs.Explain(err)
	}
	defer d.Close() // it was only read
	var paths []string
	list := d.List(".", func(e fs.DirEntry) bool {
		name, ok := strings.CutSuffix(e.Name(), blobsBefore)
		if ok && e.IsDir() && tape.CheckName(name) == nil {
			err = d.List(e.Name(), func(blob fs.DirEntry) bool {
				if !strings.Contains(blob.Name(), ".") { // else one that was being written
					paths = append(paths, e.Name()+"/"+blob.Name())
				}
				return true
			})
		}
		return err == nil
	})
	if err = errors.Join(err, list); err != nil {
		return vfs.Explain(err)
	}
	for _, path := range paths {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		text, err := vfs.ReadFile(d, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return vfs.Explain(err)
		}
		sum.Blobs++
		sum.Bytes += int64(len(text))
		if hash := sha256.Sum256(text); !strings.HasSuffix(path, "/"+hex.EncodeToString(hash[:])) {
			found(file.Damage{File: path, What: "the content's checksum does not match"})
		}
	}
	return nil
}
