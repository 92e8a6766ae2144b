package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive: its text, or where that is.
type file struct {
	name string
	from string
	text []byte
	mode fs.FileMode
}

// given are the files of the sources that stand in each archive.
func given(src string) ([]file, error) {
	files := []file{{name: "lingserve.yaml.example", from: filepath.Join(src, "deploy", "lingserve.yaml")}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		files = append(files, file{name: name, from: filepath.Join(src, name)})
	}
	for _, dir := range []string{"deploy", "docs", "workflows"} {
		err := filepath.WalkDir(filepath.Join(src, dir), func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if strings.HasSuffix(name, ".go") {
				return nil // how the files come into the binary, and their tests
			}
			rel, err := filepath.Rel(src, name)
			files = append(files, file{name: filepath.ToSlash(rel), from: name})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// all opens the files in the order of their names, with the modes that they get.
func all(files []file, write func(name string, size int64, mode fs.FileMode, r io.Reader) error) error {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		mode := f.mode
		if mode == 0 {
			mode = 0o644
		}
		if f.from == "" {
			if err := write(f.name, int64(len(f.text)), mode, strings.NewReader(string(f.text))); err != nil {
				return err
			}
			continue
		}
		r, err := os.Open(f.from)
		if err != nil {
			return err
		}
		info, err := r.Stat()
		if err == nil {
			err = write(f.name, info.Size(), mode, r)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func writeTar(to, root string, files []file, date time.Time) error {
	return create(to, func(w io.Writer) error {
		zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		tw := tar.NewWriter(zw)
		err = all(files, func(name string, size int64, mode fs.FileMode, r io.Reader) error {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(root, name), Size: size, Mode: int64(mode), ModTime: date, Format: tar.FormatPAX}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
			_, err := io.Copy(tw, r)
			return err
		})
		return errors.Join(err, tw.Close(), zw.Close())
	})
}

func writeZip(to, root string, files []file, date time.Time) error {
	return create(to, func(w io.Writer) error {
		zw := zip.NewWriter(w)
		err := all(files, func(name string, _ int64, mode fs.FileMode, r io.Reader) error {
			h := &zip.FileHeader{Name: path.Join(root, name), Method: zip.Deflate, Modified: date}
			h.SetMode(mode)
			w, err := zw.CreateHeader(h)
			if err != nil {
				return err
			}
			_, err = io.Copy(w, r)
			return err
		})
		return errors.Join(err, zw.Close())
	})
}

func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// untar reads what git archive has written: files, folders and links between them.
func untar(r io.Reader, to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // the padding, or git would find nobody to write it to
			return err
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeXGlobalHeader: // the commit's name
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			var f *os.File
			if f, err = root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, fs.FileMode(h.Mode)&0o777); err == nil {
				_, err = io.Copy(f, tr)
				err = errors.Join(err, f.Close())
			}
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", h.Name)
		}
		if err != nil {
			return err
		}
	}
}
