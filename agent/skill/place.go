package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Place is a folder of skills. Make one with [Dir].
type Place struct{ dir, sub string }

// Dir is the folder at the path sub below dir, which need not exist. No link leads out of it.
func Dir(dir, sub string) Place { return Place{dir, sub} }

// open opens the folder, or one of the folders in it.
func (p Place) open(folder ...string) (*os.Root, error) {
	root, err := os.OpenRoot(p.dir)
	for _, name := range append([]string{filepath.FromSlash(p.sub)}, folder...) {
		if err != nil {
			return nil, err
		}
		outer := root
		root, err = outer.OpenRoot(name)
		outer.Close()
	}
	return root, err
}

// read reads the skills in the order of their names, and returns an error for each folder that is none. Files and names that begin with
// a dot are no skills.
func (p Place) read() (skills []found, problems []error) {
	root, err := p.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // most people have none
	}
	var entries []fs.DirEntry
	if err == nil {
		defer root.Close()
		entries, err = fs.ReadDir(root.FS(), ".")
	}
	if err != nil {
		return nil, []error{&FileError{File: p.sub, Message: "cannot read the folder: " + reason(err)}}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		info, err := root.Stat(e.Name()) // a broken link is no file, and leads to a warning
		return strings.HasPrefix(e.Name(), ".") || err == nil && !info.IsDir()
	})
	if len(entries) > maxSkills {
		first := short(entries[maxSkills].Name())
		message := fmt.Sprintf("there are more than %d skills; those from %q on are ignored", maxSkills, first)
		problems = append(problems, &FileError{File: p.sub, Message: message})
		entries = entries[:maxSkills]
	}
	for _, e := range entries {
		s, err := readSkill(root, e.Name())
		if s.place = p; err == nil {
			skills = append(skills, s)
			continue
		}
		fe, ok := errors.AsType[*FileError](err)
		if !ok {
			fe = &FileError{Message: reason(err)}
		}
		fe.File = path.Join(p.sub, e.Name(), File)
		problems = append(problems, fe)
	}
	return skills, problems
}

func readSkill(root *os.Root, name string) (s found, err error) {
	folder, err := root.OpenRoot(name)
	if err != nil {
		return s, err
	}
	defer folder.Close()
	src, err := readFile(folder, File, maxFront+maxText)
	if err != nil {
		return s, err
	}
	s.Skill, s.text, err = parse(name, src)
	return s, err
}

// Errors of files.
var (
	errNoFile = errors.New("it is not a regular file")
	errNoText = errors.New("it is not UTF-8 text")
)

// reason says why something cannot be read, without the paths that errors carry.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it is missing; expected a file with a name and a description, then the text"
	}
	if errors.Is(err, fs.ErrPermission) {
		return "this user may not read it"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error() // "path escapes from parent", "not a directory", …
	}
	return err.Error()
}

// readFile reads a regular file of at most so many bytes. Other files could block a reader forever.
func readFile(folder *os.Root, name string, most int) (string, error) {
	info, err := folder.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errNoFile
	case info.Size() > int64(most):
		return "", fmt.Errorf("it is too long; expected at most %d KiB", most>>10)
	}
	text, err := folder.ReadFile(name)
	return string(text), err
}

// others lists the files of a skill's folder but its own, in the order of their names. Links are not followed.
func others(folder *os.Root) []string {
	var files []string
	seen := 0
	// What cannot be read is not listed.
	_ = fs.WalkDir(folder.FS(), ".", func(name string, e fs.DirEntry, err error) error {
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
