package telegram

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// publicMaxMedia is the largest file that the public server sends, in bytes.
const publicMaxMedia = 20 << 20

// endings are for files whose names have none.
var endings = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "video/mp4": ".mp4", "audio/mp4": ".mp4",
	"audio/ogg": ".ogg", "audio/mpeg": ".mp3", "application/pdf": ".pdf",
}

// attachments are the files of a message. limit is the most bytes of a photo that are wanted.
func attachments(m *models.Message, limit int64) (list []platform.Attachment) {
	add := func(kind channel.MediaKind, contentType, id, unique, name string, size int64, width, height, seconds int) {
		f := channel.MediaFact{
			Kind: kind, ContentType: contentType, MessageID: strconv.Itoa(m.ID), Size: size, Width: width, Height: height,
			Duration: time.Duration(seconds) * time.Second,
		}
		list = append(list, platform.Attachment{Fact: f, ID: unique, Name: name, Ending: endings[contentType], Source: id})
	}
	if len(m.Photo) > 0 {
		p := bestSize(m.Photo, limit)
		add(channel.MediaImage, "image/jpeg", p.FileID, p.FileUniqueID, "", int64(p.FileSize), p.Width, p.Height, 0)
	}
	if f := m.Animation; f != nil {
		add(channel.MediaVideo, f.MimeType, f.FileID, f.FileUniqueID, f.FileName, f.FileSize, f.Width, f.Height, f.Duration)
	} else if f := m.Document; f != nil { // an animation is also given as a document
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

// bestSize returns the largest size of a photo within the limit, or else the first, which is the smallest.
func bestSize(sizes []models.PhotoSize, limit int64) models.PhotoSize {
	best := sizes[0]
	for _, s := range sizes[1:] {
		if int64(s.FileSize) <= limit && s.Width*s.Height >= best.Width*best.Height {
			best = s
		}
	}
	return best
}

// fetch writes a file.
func (c *Channel) fetch(ctx context.Context, a platform.Attachment, w io.Writer) error {
	var f models.File
	if err := c.api.Do(ctx, platform.Request{Name: "getFile", In: params{"file_id": a.Source}, Out: &f, Harmless: true}); err != nil {
		return err
	}
	switch {
	case f.FileSize > c.Files.Limit:
		return platform.ErrTooLarge
	case !fs.ValidPath(f.FilePath): // such as an absolute path, of a local server
		return errors.New("telegram: the Bot API returned no path for the file")
	}
	return platform.Download(ctx, c.HTTP, c.s.API+"/file/bot"+string(c.s.Token)+(&url.URL{Path: "/" + f.FilePath}).EscapedPath(), w)
}
