package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Place is a folder of skills, with a name for warnings.
type Place struct {
	name string
	open func() (folder, error)
}

// Dir is the folder at the path sub below dir, which need not be there. No link leads out of dir.
func Dir(dir, sub string) Place {
	return Place{name: filepath.ToSlash(sub), open: func() (folder, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return folder{}, err
		}
		defer root.Close()
		return folder{root: root}.sub(filepath.FromSlash(sub))
	}}
}

// Files is a file system whose folders are skills: those that are built in.
func Files(name string, files fs.FS) Place {
	return Place{name: name, open: func() (folder, error) { return folder{FS: files}, nil }}
}

// folder is an open folder, out of which nothing leads.
type folder struct {
	fs.FS
	root *os.Root // nil where it is not one of the disk
}

func (f folder) sub(name string) (folder, error) {
	if f.root == nil {
		inner, err := fs.Sub(f.FS, name)
		return folder{FS: inner}, err
	}
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return folder{}, err
	}
	return folder{FS: root.FS(), root: root}, nil
}

func (f folder) close() {
	if f.root != nil {
		f.root.Close() // it was only read
	}
}

// skill opens the folder of a skill.
func (p Place) skill(name string) (folder, error) {
	f, err := p.open()
	if err != nil {
		return folder{}, err
	}
	defer f.close()
	return f.sub(name)
}

// read calls found for each folder that may be a skill, in the order of the names. Files and names that begin with a dot are no skills.
func (p Place) read(found func(folder string, s Skill, err error)) error {
	f, err := p.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // most people have none
	}
	var list []fs.DirEntry
	if err == nil {
		defer f.close()
		list, err = fs.ReadDir(f.FS, ".")
	}
	if err != nil {
		return &FileError{File: p.name, Message: "cannot read the folder: " + reason(err)}
	}
	n := 0
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") || !isFolder(f, e) {
			continue
		}
		if n++; n > maxSkills {
			return &FileError{File: p.name, Message: fmt.Sprintf("there are more than %d skills; those from %q on are ignored", maxSkills, short(e.Name()))}
		}
		s, err := readSkill(f, e.Name())
		if err != nil {
			fe, ok := errors.AsType[*FileError](err)
			if !ok {
				fe = &FileError{Message: reason(err)}
			}
			fe.File = path.Join(p.name, e.Name(), File)
			err = fe
		}
		s.Place = p.name
		found(e.Name(), s, err)
	}
	return nil
}

// isFolder reports whether an entry is a folder or a link, unless it leads to a file. A broken link counts, and leads to a warning.
func isFolder(f folder, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fs.Stat(f.FS, e.Name())
	return err != nil || info.IsDir()
}

func readSkill(f folder, name string) (Skill, error) {
	inner, err := f.sub(name)
	if err != nil {
		return Skill{}, err
	}
	defer inner.close()
	src, err := readWhole(inner, File, maxFront+maxText)
	if err != nil {
		return Skill{}, err
	}
	s, _, err := parse(name, src)
	return s, err
}

// errKind is what something on a disk is not.
type errKind string

func (e errKind) Error() string { return string(e) }

const (
	errNoFile  = errKind("it is not a regular file")
	errNoText  = errKind("it is not UTF-8 text")
	errTooLong = errKind("it is too long; expected at most 64 KiB of text")
)

// reason says why something cannot be read, without the paths that errors carry.
func reason(err error) string {
	if kind, ok := errors.AsType[errKind](err); ok {
		return string(kind)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it is missing; expected a file with a name and a description, then the text"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not read it"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error() // "path escapes from parent", "not a directory", …
	}
	return err.Error()
}

// readWhole reads a regular file of at most so many bytes. Other files could block a reader forever.
func readWhole(f folder, name string, most int) (string, error) {
	info, err := fs.Stat(f.FS, name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		return "", err
	}
	file, err := f.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err != nil {
		return "", err
	}
	if len(text) > most {
		return "", errTooLong
	}
	return string(text), nil
}

// readPiece reads a piece of a text, from and to the borders of characters.
func readPiece(f folder, name string, offset int64) (Text, error) {
	text, err := readWhole(f, name, maxFile)
	if err != nil {
		return Text{}, err
	}
	size := int64(len(text))
	if offset < 0 || offset > size {
		return Text{}, &Error{Message: fmt.Sprintf("the offset is %d; expected one from 0 to %d, which is the size of the file", offset, size)}
	}
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return Text{}, &Error{Message: fmt.Sprintf("the file %q is not text", short(name))}
	}
	begin := offset
	for begin < size && !utf8.RuneStart(text[begin]) {
		begin++
	}
	end := min(begin+maxText, size)
	for end < size && !utf8.RuneStart(text[end]) {
		end--
	}
	t := Text{Content: text[begin:end]}
	if end < size {
		t.Next = end
	}
	return t, nil
}

// others lists the files of a skill's folder but its own, in the order of their names. Links are not followed.
func others(f folder) []string {
	var files []string
	seen := 0
	// What cannot be read is not listed.
	_ = fs.WalkDir(f.FS, ".", func(name string, e fs.DirEntry, err error) error {
		switch seen++; {
		case err != nil, name == "." || name == File:
		case seen > 10*maxFiles || len(files) == maxFiles:
			return fs.SkipAll
		case strings.HasPrefix(e.Name(), "."), e.IsDir() && strings.Count(name, "/") >= maxDepth-1:
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})
	return slices.Clip(files)
}
