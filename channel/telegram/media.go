package telegram

import (
	"context"
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

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
)

const (
	defaultMaxMedia = 10 << 20
	publicMaxMedia  = 20 << 20 // what the public server gives (CH-178)
	maxFolder       = 1 << 30  // of all media that are kept: the oldest go first
)

// attachment is a file that a message has.
type attachment struct {
	fact     channel.MediaFact
	id       string // of the file
	unique   string
	name     string // as the sender calls it
	tooLarge bool
}

// attachments are the files of a message; limit is how many bytes of one are wanted.
func attachments(m *models.Message, limit int64) []attachment {
	var list []attachment
	add := func(kind channel.MediaKind, contentType, id, unique, name string, size int64, width, height, seconds int) {
		list = append(list, attachment{
			id: id, unique: unique, name: name, tooLarge: size > limit,
			fact: channel.MediaFact{
				Kind: kind, ContentType: contentType, MessageID: strconv.Itoa(m.ID), Size: size, Width: width, Height: height,
				Duration: time.Duration(seconds) * time.Second,
			},
		})
	}
	if n := len(m.Photo); n > 0 { // sizes of one picture, the smallest first
		p := m.Photo[0]
		for _, size := range m.Photo[1:] {
			if int64(size.FileSize) <= limit && size.Width*size.Height >= p.Width*p.Height {
				p = size
			}
		}
		add(channel.MediaImage, "image/jpeg", p.FileID, p.FileUniqueID, "", int64(p.FileSize), p.Width, p.Height, 0)
	}
	switch {
	case m.Animation != nil: // comes with a document that is the same
		f := m.Animation
		add(channel.MediaVideo, f.MimeType, f.FileID, f.FileUniqueID, f.FileName, f.FileSize, f.Width, f.Height, f.Duration)
	case m.Document != nil:
		f := m.Document
		kind := channel.MediaDocument
		if strings.HasPrefix(f.MimeType, "image/") {
			kind = channel.MediaImage
		}
		add(kind, f.MimeType, f.FileID, f.FileUniqueID, f.FileName, f.FileSize, 0, 0, 0)
	}
	if f := m.Audio; f != nil {
		add(channel.MediaAudio, f.MimeType, f.FileID, f.FileUniqueID, f.FileName, f.FileSize, 0, 0, f.Duration)
	}
	if f := m.Voice; f != nil {
		add(channel.MediaAudio, f.MimeType, f.FileID, f.FileUniqueID, "", f.FileSize, 0, 0, f.Duration)
	}
	if f := m.Video; f != nil {
		add(channel.MediaVideo, f.MimeType, f.FileID, f.FileUniqueID, f.FileName, f.FileSize, f.Width, f.Height, f.Duration)
	}
	if f := m.VideoNote; f != nil {
		add(channel.MediaVideo, "video/mp4", f.FileID, f.FileUniqueID, "", int64(f.FileSize), f.Length, f.Length, f.Duration)
	}
	return list
}

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
	files string // the folder of a local Bot API server, below which its paths are read; "" for none
	limit int64
	mu    sync.Mutex // of pruning
}

// load gets the files of a message and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []attachment) (all []channel.MediaFact, notes []string) {
	for _, a := range list {
		fact := a.fact
		what := string(fact.Kind)
		if a.name != "" {
			what += " " + strconv.Quote(a.name)
		}
		if a.tooLarge {
			notes = append(notes, fmt.Sprintf("[%s is too large to be loaded: %d bytes, at most %d]", what, fact.Size, c.store.limit))
		} else if c.store.dir != "" {
			var err error
			if fact.Path, fact.Size, err = c.fetch(ctx, a); err != nil {
				c.log.WarnContext(ctx, "a file of a message cannot be loaded", "channel", c.name, "kind", fact.Kind, "error", err)
				notes = append(notes, fmt.Sprintf("[%s could not be loaded]", what))
			}
		}
		all = append(all, fact)
	}
	return all, notes
}

var errTooLarge = errors.New("telegram: the file is larger than was said")

// fetch gets one file and returns where it is.
func (c *Channel) fetch(ctx context.Context, a attachment) (string, int64, error) {
	target := filepath.Join(c.store.dir, fileName(a))
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() { // a file's unique id is its content's
		_ = os.Chtimes(target, time.Time{}, time.Now()) // it is in use: others go first
		return target, info.Size(), nil
	}
	var f models.File
	if err := c.api.do(ctx, request{method: "getFile", in: &bot.GetFileParams{FileID: a.id}, out: &f, harmless: true}); err != nil {
		return "", 0, err
	}
	if f.FileSize > c.store.limit {
		return "", 0, errTooLarge
	}
	from, err := c.open(ctx, f.FilePath)
	if err != nil {
		return "", 0, err
	}
	defer from.Close()
	if err := os.MkdirAll(c.store.dir, 0o700); err != nil {
		return "", 0, err
	}
	to, err := os.CreateTemp(c.store.dir, ".new-*") // 0600
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(to.Name()) // nothing is there when it was renamed
	n, err := io.Copy(to, io.LimitReader(from, c.store.limit+1))
	if err != nil {
		err = bare(ctx, err)
	}
	if err = errors.Join(err, to.Close()); err == nil && n > c.store.limit {
		err = errTooLarge
	}
	if err == nil {
		err = os.Rename(to.Name(), target)
	}
	if err != nil {
		return "", 0, err
	}
	c.store.prune(target)
	return target, n, nil
}

// fileName is a name that no sender chooses. Its end is that of the sender's name, if there is nothing in it but letters: agents and
// their tools look at it.
func fileName(a attachment) string {
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, a.unique)
	end := strings.ToLower(path.Ext(a.name))
	if len(end) > 6 || strings.Trim(end, ".abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		end = ""
	}
	if end == "" {
		switch family, kind, _ := strings.Cut(a.fact.ContentType, "/"); {
		case kind == "jpeg":
			end = ".jpg"
		case kind == "png", kind == "gif", kind == "webp", kind == "mp4", kind == "ogg", kind == "pdf":
			end = "." + kind
		case kind == "mpeg" && family == "audio":
			end = ".mp3"
		}
	}
	return "telegram-" + clean + end
}

// open opens what getFile names: a path below the server's address, or, of a local server, a file below the folder of the settings.
func (c *Channel) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if filepath.IsAbs(name) {
		if c.store.files == "" {
			return nil, errors.New("telegram: the Bot API server keeps files in a folder of its own; set files to that folder")
		}
		below, err := filepath.Rel(c.store.files, name)
		if err != nil {
			return nil, errors.New("telegram: the Bot API server names a file outside of the folder files")
		}
		root, err := os.OpenRoot(c.store.files)
		if err != nil {
			return nil, fmt.Errorf("telegram: open the folder files: %w", err)
		}
		defer root.Close()
		f, err := root.Open(below)
		if err != nil {
			return nil, fmt.Errorf("telegram: open a file of the Bot API server: %w", err)
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			f.Close()
			return nil, errors.New("telegram: the Bot API server names something that is no file")
		}
		return f, nil
	}
	if !fs.ValidPath(name) {
		return nil, errors.New("telegram: the Bot API names no path of a file")
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api.base+"/file/bot"+c.api.token+"/"+strings.Join(parts, "/"), nil)
	if err != nil {
		return nil, errors.New("telegram: api is no address; expected one such as https://api.telegram.org")
	}
	res, err := c.api.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("telegram: load a file: %w", bare(ctx, err))
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("telegram: load a file: status %d", res.StatusCode)
	}
	return res.Body, nil
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
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), "telegram-") {
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
