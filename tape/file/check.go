package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/tape"
)

// Damage is what [Check] finds at a place.
type Damage struct {
	File   string // its path in the folder
	Line   int64  // from 1; 0 where it is not about a line
	Offset int64
	What   string
}

// Checked counts what [Check] has read.
type Checked struct {
	Tapes, Entries, Blobs, Bytes int64
}

// settle is how long a tape is given in which something is wrong before it is looked at again: a server may have been writing it.
const settle = 200 * time.Millisecond

// Check reads all that the store in a folder has, changes nothing, and tells found of all damage. A server may use the folder meanwhile.
func Check(ctx context.Context, dir string, found func(Damage)) (Checked, error) {
	return check(ctx, dir, settle, found)
}

func check(ctx context.Context, dir string, settle time.Duration, found func(Damage)) (sum Checked, err error) {
	d, err := vfs.At(dir).OpenExisting()
	if err != nil {
		return sum, fmt.Errorf("tape folder: %w", vfs.Explain(err))
	}
	defer d.Close() // it was only read
	names := map[string]bool{}
	err = d.List(".", func(e fs.DirEntry) bool {
		for _, end := range []string{tapeEnd, indexEnd, sessionEnd, blobsEnd} {
			if name, ok := strings.CutSuffix(e.Name(), end); ok && tape.CheckName(name) == nil {
				names[name] = true
			}
		}
		return true
	})
	if err != nil {
		return sum, fmt.Errorf("tape folder: %w", vfs.Explain(err))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := checker{ctx: ctx, disk: d, name: name}
		err := c.run()
		if len(c.found) > 0 && err == nil {
			if err = sleep(ctx, settle); err == nil {
				c = checker{ctx: ctx, disk: d, name: name}
				err = c.run()
			}
		}
		if err != nil {
			return sum, err
		}
		for _, damage := range c.found {
			found(damage)
		}
		sum.Tapes += c.Tapes
		sum.Entries += c.Entries
		sum.Blobs += c.Blobs
		sum.Bytes += c.Bytes
	}
	return sum, nil
}

// checker reads what there is of one tape.
type checker struct {
	ctx  context.Context
	disk vfs.Folder
	name string
	Checked
	found []Damage
}

func (c *checker) damaged(end string, line, offset int64, format string, args ...any) {
	c.found = append(c.found, Damage{c.name + end, line, offset, fmt.Sprintf(format, args...)})
}

func (c *checker) run() error {
	index, there, err := c.read(indexEnd)
	if err != nil {
		return err
	}
	f, err := c.disk.Open(c.name+tapeEnd, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if there {
			c.damaged(tapeEnd, 0, 0, "the tape of this index is missing")
		}
		return c.blobs()
	}
	if err != nil {
		return fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	defer f.Close()
	c.Tapes++
	fitting, err := c.tape(f, index)
	if err == nil {
		c.index(index)
		err = c.session(fitting)
	}
	if err == nil {
		err = c.blobs()
	}
	return err
}

// read reads a small file.
func (c *checker) read(end string) (text []byte, there bool, err error) {
	f, err := c.disk.Open(c.name+end, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	defer f.Close()
	at, err := f.Stat()
	if err == nil {
		text, err = io.ReadAll(io.NewSectionReader(f, 0, at.Size()))
	}
	if err != nil {
		return nil, false, fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	return text, true, nil
}

// tape reads the lines, and returns the state in the index that fits them.
func (c *checker) tape(f vfs.File, index []byte) (fitting state, err error) {
	at, err := f.Stat()
	if err != nil {
		return fitting, fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	size := at.Size()
	in := &canceled{c.ctx, f}
	t, damaged, err := scan(in, state{Info: tape.Info{Tape: c.name}}, size, nil, nil)
	if err == nil && damaged {
		t, err = takeDamaged(in, c.name, size, func(line int64, d damage) { c.damaged(tapeEnd, line, d.offset, "%v", d.why) })
	}
	if err != nil {
		return fitting, fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	c.Entries += t.Entries
	c.Bytes += size
	if t.Bytes < size {
		c.damaged(tapeEnd, 0, t.Bytes, "the last %d bytes are not a complete batch; the next write moves them to %s", size-t.Bytes, c.name+tornEnd)
	}
	fitting, last, _, _ := newest(bytes.NewReader(index), int64(len(index)), c.name, f, size)
	if fitting.Bytes < last.Bytes {
		if err := t.state.lost(&last, f, size); err != nil {
			c.damaged(tapeEnd, 0, min(t.Bytes, last.Bytes), "the end of the tape is damaged: %v", err)
		}
	}
	return fitting, nil
}

// index looks at the records of the index.
func (c *checker) index(text []byte) {
	for offset := 0; offset+recordSize <= len(text); offset += recordSize {
		record := text[offset : offset+recordSize]
		if _, ok := parseState(record, c.name); !ok && bytes.ContainsFunc(record, func(r rune) bool { return r != 0 }) {
			c.damaged(indexEnd, 0, int64(offset), "the index is damaged; the server rebuilds it from the tape")
		}
	}
}

// session looks at the session's file, which fits the state in the index.
func (c *checker) session(fitting state) error {
	if _, there, err := c.read(sessionEnd); err != nil || !there {
		return err
	}
	if _, hash, ok := readSession(c.disk, c.name); !ok || fitting.Bytes > 0 && hash != fitting.side {
		c.damaged(sessionEnd, 0, 0, "the session's name and title are damaged; the server rebuilds them from the tape")
	}
	return nil
}

// blobs compares what the blobs hold with their names.
func (c *checker) blobs() error {
	var handles []string
	err := c.disk.List(c.name+blobsEnd, func(e fs.DirEntry) bool {
		if !strings.HasSuffix(e.Name(), partEnd) {
			handles = append(handles, e.Name())
		}
		return true
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
	}
	for _, handle := range handles {
		f, err := c.disk.Open(c.name+blobsEnd+"/"+handle, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
		}
		err = checkBlob(&canceled{c.ctx, f}, handle)
		at, stat := f.Stat()
		_ = f.Close() // it was only read
		if errors.Is(err, tape.ErrDamaged) {
			c.damaged(blobsEnd+"/"+handle, 0, 0, "the content's checksum does not match")
		} else if err = errors.Join(err, stat); err != nil {
			return fmt.Errorf("tape %s: %w", c.name, vfs.Explain(err))
		} else {
			c.Bytes += at.Size()
		}
		c.Blobs++
	}
	return nil
}

// canceled is a file whose reading a context ends.
type canceled struct {
	ctx context.Context
	io.ReaderAt
}

func (r *canceled) ReadAt(p []byte, at int64) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.ReaderAt.ReadAt(p, at)
}

// checkBlob returns an error where a blob does not hold what its handle says.
func checkBlob(r io.ReaderAt, handle string) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, 1<<62)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != handle {
		return fmt.Errorf("%w: the checksum of blob %.80s does not match", tape.ErrDamaged, handle)
	}
	return nil
}
