package feishu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
)

const (
	defaultMaxMedia  = 10 << 20
	platformMaxMedia = 100 << 20 // what the platform gives
	maxFolder        = 1 << 30   // of all media that are kept: the oldest go first

	maxImage = 10 << 20 // that can be sent
	maxFile  = 30 << 20
)

// facts are those of a message's files, not loaded.
func facts(list []attachment) []channel.MediaFact {
	var all []channel.MediaFact
	for _, a := range list {
		all = append(all, a.fact)
	}
	return all
}

// store is the folder of media.
type store struct {
	dir   string // "" loads nothing
	limit int64
	mu    sync.Mutex // of pruning
}

// load gets the files of a message and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []attachment) (all []channel.MediaFact, notes []string) {
	for _, a := range list {
		fact := a.fact
		if c.store.dir != "" {
			what := string(fact.Kind)
			if a.name != "" {
				what += " " + strconv.Quote(a.name)
			}
			var err error
			switch fact.Path, fact.Size, err = c.fetch(ctx, a); {
			case errors.Is(err, errTooLarge):
				notes = append(notes, fmt.Sprintf("[%s is too large to be loaded: at most %d bytes]", what, c.store.limit))
			case err != nil:
				c.log.WarnContext(ctx, "a file of a message cannot be loaded", "channel", c.name, "kind", fact.Kind, "error", err)
				notes = append(notes, fmt.Sprintf("[%s could not be loaded]", what))
			}
		}
		all = append(all, fact)
	}
	return all, notes
}

var errTooLarge = errors.New("feishu: the file is too large")

// limited writes at most so many bytes: the platform does not say beforehand how large a file is.
type limited struct {
	to   io.Writer
	left int64
	n    int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, errTooLarge
	}
	n, err := l.to.Write(p)
	l.left -= int64(n)
	l.n += int64(n)
	return n, err
}

// fetch gets one file and returns where it is.
func (c *Channel) fetch(ctx context.Context, a attachment) (string, int64, error) {
	target := filepath.Join(c.store.dir, fileName(a))
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() { // a key is of one file for ever
		_ = os.Chtimes(target, time.Time{}, time.Now()) // it is in use: others go first
		return target, info.Size(), nil
	}
	if err := os.MkdirAll(c.store.dir, 0o700); err != nil {
		return "", 0, err
	}
	to, err := os.CreateTemp(c.store.dir, ".new-*") // 0600
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(to.Name()) // nothing is there when it was renamed
	kind := "file"
	if a.image {
		kind = "image"
	}
	w := &limited{to: to, left: c.store.limit}
	err = c.api.call(ctx, request{
		what: "load a file", method: http.MethodGet, out: w,
		path: "im/v1/messages/" + url.PathEscape(a.message) + "/resources/" + url.PathEscape(a.key) + "?type=" + kind,
	})
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(to.Name(), target)
	}
	if err != nil {
		return "", 0, err
	}
	c.store.prune(target)
	return target, w.n, nil
}

// ending is the end of a name, if there is nothing in it but letters and digits: agents and their tools look at it.
func ending(name string) string {
	end := strings.ToLower(path.Ext(name))
	if len(end) > 6 || strings.Trim(end, ".abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return end
}

// fileName is a name that no sender chooses.
func fileName(a attachment) string {
	sum := sha256.Sum256([]byte(a.message + "/" + a.key))
	end := ending(a.name)
	if end == "" {
		switch a.fact.Kind {
		case channel.MediaImage:
			end = ".jpg" // the platform shows pictures as such, and does not say more
		case channel.MediaAudio:
			end = ".ogg"
		case channel.MediaVideo:
			end = ".mp4"
		}
	}
	return "feishu-" + hex.EncodeToString(sum[:16]) + end
}

// prune removes the oldest files while there are too many. keep stays.
func (s *store) prune(keep string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var total int64
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), "feishu-") {
			total += info.Size()
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if total <= maxFolder {
			return
		}
		if name := filepath.Join(s.dir, info.Name()); name != keep && os.Remove(name) == nil {
			total -= info.Size()
		}
	}
}

// upload gives the platform a file of the media folder, and sends it.
func (c *Channel) upload(ctx context.Context, t *target, m channel.MediaFact) (string, error) {
	never := func(err error) (string, error) { return "", &channel.NotSentError{Err: err} }
	if c.store.dir == "" {
		return never(errors.New("feishu: there is no media folder to send from"))
	}
	data, err := c.store.read(m.Path)
	if err != nil {
		return never(err)
	}
	var got struct {
		Data struct {
			Image string `json:"image_key"`
			File  string `json:"file_key"`
		} `json:"data"`
	}
	r := request{what: "give the platform a file", method: http.MethodPost, out: &got, harmless: true, slow: t.slow}
	image := m.Kind == channel.MediaImage && len(data) <= maxImage // larger pictures are files
	if image {
		r.path, r.in = "im/v1/images", &form{
			fields: [][2]string{{"image_type", "message"}}, name: "image", file: filepath.Base(m.Path), data: data,
		}
	} else {
		r.path, r.in = "im/v1/files", &form{
			fields: [][2]string{{"file_type", "stream"}, {"file_name", filepath.Base(m.Path)}}, name: "file", file: filepath.Base(m.Path), data: data,
		}
	}
	if err := c.api.do(ctx, r); err != nil {
		if _, ok := errors.AsType[*channel.NotSentError](err); ok {
			return "", err
		}
		return "", &channel.NotSentError{Err: err, Retryable: true} // nobody has seen it
	}
	b := body{kind: "file", key: got.Data.File}
	if image {
		b = body{kind: "image", key: got.Data.Image}
	}
	return c.post(ctx, t, b)
}

// read reads a file of the media folder, and of nowhere else, whatever an agent says.
func (s *store) read(name string) ([]byte, error) {
	root, err := channel.OpenMediaRoot(s.dir, maxFile)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}
