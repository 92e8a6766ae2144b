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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
)

// publicMaxMedia is how large files are that the public server gives, in bytes (CH-178).
const publicMaxMedia = 20 << 20

// attachment is a file that a message has.
type attachment struct {
	media.Attachment
	id     string // of the file
	unique string
}

// attachments are the files of a message; limit is how many bytes of one are wanted.
func attachments(m *models.Message, limit int64) []attachment {
	var list []attachment
	add := func(kind channel.MediaKind, contentType, id, unique, name string, size int64, width, height, seconds int) {
		list = append(list, attachment{
			id: id, unique: unique, Attachment: media.Attachment{Name: name, TooLarge: size > limit, Fact: channel.MediaFact{
				Kind: kind, ContentType: contentType, MessageID: strconv.Itoa(m.ID), Size: size, Width: width, Height: height,
				Duration: time.Duration(seconds) * time.Second,
			}},
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

// load gets the files of a message and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []attachment) (all []channel.MediaFact, notes []string) {
	return media.Load(&c.store, list, func(a attachment) (string, int64, error) { return c.fetch(ctx, a) }, func(kind channel.MediaKind, err error) {
		c.log.WarnContext(ctx, "cannot load a message's file", "channel", c.name, "kind", kind, "error", err)
	})
}

// fetch gets one file and returns where it is.
func (c *Channel) fetch(ctx context.Context, a attachment) (string, int64, error) {
	name := c.fileName(a)
	if path, size, ok := c.store.Find(name); ok { // a file's unique id is its content's
		return path, size, nil
	}
	var f models.File
	if err := c.api.do(ctx, request{method: "getFile", in: &bot.GetFileParams{FileID: a.id}, out: &f, harmless: true}); err != nil {
		return "", 0, err
	}
	if f.FileSize > c.store.Limit {
		return "", 0, media.ErrTooLarge
	}
	from, err := c.open(ctx, f.FilePath)
	if err != nil {
		return "", 0, err
	}
	defer from.Close()
	return c.store.Put(name, func(w io.Writer) error {
		if _, err := io.Copy(w, from); err != nil {
			return attempt.Bare(ctx, err)
		}
		return nil
	})
}

// fileName is the name of a file in the folder. Where its sender does not say what it is, the platform does.
func (c *Channel) fileName(a attachment) string {
	end := ""
	switch family, kind, _ := strings.Cut(a.Fact.ContentType, "/"); {
	case kind == "jpeg":
		end = ".jpg"
	case kind == "png", kind == "gif", kind == "webp", kind == "mp4", kind == "ogg", kind == "pdf":
		end = "." + kind
	case kind == "mpeg" && family == "audio":
		end = ".mp3"
	}
	return c.store.Name(a.unique, a.Name, end)
}

// open opens what getFile names: a path below the server's address, or, of a local server, a file below the folder of the settings.
func (c *Channel) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if filepath.IsAbs(name) {
		if c.files == "" {
			return nil, errors.New("telegram: the Bot API server stores files locally; set files to its folder")
		}
		below, err := filepath.Rel(c.files, name)
		if err != nil {
			return nil, errors.New("telegram: the Bot API server named a file outside the folder of the setting files")
		}
		root, err := os.OpenRoot(c.files)
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
			return nil, errors.New("telegram: the Bot API server named something that is not a file")
		}
		return f, nil
	}
	if !fs.ValidPath(name) {
		return nil, errors.New("telegram: the Bot API returned no path for the file")
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api.base+"/file/bot"+c.api.token+"/"+strings.Join(parts, "/"), nil)
	if err != nil {
		return nil, errors.New("telegram: api is not an address; expected one such as https://api.telegram.org")
	}
	res, err := c.api.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("telegram: load a file: %w", attempt.Bare(ctx, err))
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("telegram: load a file: status %d", res.StatusCode)
	}
	return res.Body, nil
}
