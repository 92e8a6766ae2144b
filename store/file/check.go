package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file/internal/tables"
)

// Damage is what [Check] finds at a place.
type Damage struct {
	File   string // its path in the folder
	Line   int64  // from 1; 0 where it is not about a line
	Offset int64
	What   string
}

// Checked counts what [Check] has read of a log.
type Checked struct {
	Log            string
	Entries, Bytes int64 // Bytes are those of the file
}

// Check reads all logs of an Indexed space in a folder, changes nothing, and tells found of all damage and read of all logs. A server may
// use the folder meanwhile: a log in which something is wrong is looked at again after the time settle.
func Check(ctx context.Context, dir vfs.Dir, space string, o Options, settle time.Duration, found func(Damage), read func(Checked)) error {
	d, err := dir.OpenExisting()
	if err != nil {
		return vfs.Explain(err)
	}
	o.Beside = true
	e, err := Open(func(bool) (vfs.Folder, error) { return d, nil }, o)
	if err != nil {
		return err
	}
	defer e.Close()
	l, err := e.Log(ctx, store.LogOptions{Space: space, Indexed: true})
	if err != nil {
		return err
	}
	s := l.(*Space)
	names, err := s.namesOfFiles()
	if err != nil {
		return vfs.Explain(err)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := checker{ctx: ctx, s: s, name: name}
		err := c.run()
		if len(c.found) > 0 && err == nil {
			if err = backoff.Sleep(ctx, settle); err == nil {
				c = checker{ctx: ctx, s: s, name: name}
				err = c.run()
			}
		}
		if err != nil {
			return fmt.Errorf("log %s: %w", name, vfs.Explain(err))
		}
		for _, damage := range c.found {
			found(damage)
		}
		if c.there {
			read(c.Checked)
		}
	}
	return nil
}

// namesOfFiles are the names of logs of which there is any file.
func (s *Space) namesOfFiles() (map[string]bool, error) {
	names := map[string]bool{}
	err := s.disk.List(".", func(d fs.DirEntry) bool {
		if name, ok := s.nameOf(d.Name()); ok {
			names[name] = true
			return true
		}
		for _, end := range s.besideEnds() {
			base, ok := strings.CutSuffix(d.Name(), end)
			if !ok {
				continue
			}
			// Which form the log has, its name says.
			for _, logEnd := range []string{s.logEnd(), logEnd} {
				if name, ok := s.nameOf(base + logEnd); ok {
					if path, end, _ := s.fileOf(name); path == base && end == logEnd {
						names[name] = true
						return true
					}
				}
			}
		}
		return true
	})
	return names, err
}

// logEnd is the ending of logs that have the space's own form.
func (s *Space) logEnd() string {
	if s.codec != nil {
		return s.codec.End()
	}
	return logEnd
}

// besideEnds are the endings of files beside those of logs.
func (s *Space) besideEnds() []string {
	ends := []string{indexEnd, tornEnd, fillEnd}
	if s.codec != nil {
		ends = append(ends, s.codec.SideEnd())
	}
	return ends
}

// checker reads what there is of one log.
type checker struct {
	ctx  context.Context
	s    *Space
	name string
	Checked
	there bool
	found []Damage
}

func (c *checker) damaged(file string, line, offset int64, format string, args ...any) {
	c.found = append(c.found, Damage{file, line, offset, fmt.Sprintf(format, args...)})
}

func (c *checker) run() error {
	l := &log{s: c.s, name: c.name}
	path, end, f := c.s.fileOf(c.name)
	l.path, l.full, l.framing = path, path+end, f
	l.onDamage = func(line int64, d damage) { c.damaged(l.full, line, d.offset, "%v", d.why) }
	c.Log = c.name
	index, err := vfs.ReadFile(c.s.disk, l.path+indexEnd)
	hasIndex := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, err := c.s.disk.Open(l.full, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if hasIndex {
			c.damaged(l.full, 0, 0, "the log of this index is missing")
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	c.there = true
	x, err := c.log(l, r, index)
	if err != nil {
		return err
	}
	c.index(l.path+indexEnd, index, x)
	return c.side(l, x)
}

// log reads the lines.
func (c *checker) log(l *log, f vfs.File, index []byte) (x indexed, err error) {
	at, err := f.Stat()
	if err != nil {
		return x, err
	}
	size := at.Size()
	in := &canceled{c.ctx, f}
	t, damaged, err := l.scan(in, l.framing.begin(l.name, l.readSide()), size, nil)
	if err == nil && damaged {
		t, err = l.takeDamaged(in, size)
	}
	if err != nil {
		return x, err
	}
	c.Entries, c.Bytes = t.entries, size
	if t.bytes < size {
		c.damaged(l.full, 0, t.bytes, "the last %d bytes are not a complete batch; the next write moves them to %s", size-t.bytes, l.path+tornEnd)
	}
	x = readIndex(bytes.NewReader(index), l.name, f, size)
	if lost := t.lost(&x, l.framing); lost != "" {
		if now, err := f.Stat(); err != nil || now.Size() < x.last.bytes { // else it has grown since
			c.damaged(l.full, 0, min(t.bytes, x.last.bytes), "the end of the log is damaged: %s", lost)
		}
	}
	return x, nil
}

// lost says what is wrong with the end of a log that its newest state in the index does not fit; "": nothing.
func (s *state) lost(x *indexed, f framing) string {
	last := &x.last
	if last.count == 0 || x.best.bytes == last.bytes {
		return ""
	}
	// The index may be of an earlier log of that name.
	if _, ok := f.(own); ok && s.there() && s.life != last.life || s.entries > 0 && s.created != last.created {
		return ""
	}
	if last.bytes <= s.bytes {
		return "its checksum does not match"
	}
	return fmt.Sprintf("it had %d bytes more, with %d entries", last.bytes-s.bytes, last.entries-s.entries)
}

// index looks at the slots and the marks.
func (c *checker) index(file string, text []byte, x indexed) {
	damaged := func(offset int) {
		c.damaged(file, 0, int64(offset), "the index is damaged; the server rebuilds it")
	}
	if x.size == 0 {
		if len(text) >= 4 {
			damaged(0)
		}
		return
	}
	notZero := func(r rune) bool { return r != 0 }
	for offset := 0; offset < len(text) && offset < slots*x.size; offset += x.size {
		slot := text[offset:min(len(text), offset+x.size)]
		if _, ok := parseState(slot, c.name); !ok && bytes.ContainsFunc(slot, notZero) {
			damaged(offset)
		}
	}
	for offset := slots * x.size; offset+markSize <= len(text); offset += markSize {
		if _, ok := parseMark(text[offset : offset+markSize]); !ok {
			damaged(offset)
		}
	}
}

// side looks at the side file, which fits the state in the index.
func (c *checker) side(l *log, x indexed) error {
	end := l.framing.sideEnd()
	if end == "" || x.best.count == 0 {
		return nil
	}
	text, err := vfs.ReadFile(c.s.disk, l.path+end)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && hashOf(text) != x.best.side {
		c.damaged(l.path+end, 0, 0, "what no line says of the log is damaged; the server rebuilds it")
	}
	return err
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

// CheckTables reads the tables in a folder, changes nothing, and tells found of all damage. It returns how many tables there are. If a server
// uses the folder, what it is writing at this moment may be told of.
func CheckTables(dir string, found func(file string, offset int64, what string)) (int, error) {
	return tables.Check(dir, found)
}
