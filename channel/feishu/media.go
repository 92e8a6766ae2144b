package feishu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// Limits of the platform, in bytes.
const (
	maxDownload = 100 << 20
	maxImage    = 10 << 20 // of an upload
	maxFile     = 30 << 20
)

// load downloads files, and returns their facts, and notes for the agent about those that could not be loaded.
func (c *Channel) load(ctx context.Context, list []attachment) (facts []channel.MediaFact, notes []string) {
	download := func(a attachment) (string, int64, error) { return c.download(ctx, a) }
	return platform.LoadMedia(c.media, list, download, func(kind channel.MediaKind, err error) {
		c.s.Log.WarnContext(ctx, "cannot load a message's file", "channel", c.s.Name, "kind", kind, "error", err)
	})
}

// download stores a file in the media folder, unless it is there.
func (c *Channel) download(ctx context.Context, a attachment) (path string, size int64, err error) {
	name := a.fileName(c.media)
	if path, size, ok := c.media.Find(name); ok { // the file of a key does not change
		return path, size, nil
	}
	resource := "file"
	if a.image {
		resource = "image"
	}
	return c.media.Put(name, func(w io.Writer) error { // the store bounds the size, which the platform does not say
		_, err := c.api.call(ctx, request{
			name: "load a file", method: http.MethodGet, file: w,
			path: messagePath(a.messageID) + "/resources/" + url.PathEscape(a.key) + "?type=" + resource,
		})
		return err
	})
}

// fileName returns the name of a file in the media folder. Nothing but its end comes from the sender.
func (a *attachment) fileName(s *platform.MediaStore) string {
	sum := sha256.Sum256([]byte(a.messageID + "/" + a.key))
	ends := map[channel.MediaKind]string{channel.MediaImage: ".jpg", channel.MediaAudio: ".ogg", channel.MediaVideo: ".mp4"}
	return s.Name(hex.EncodeToString(sum[:16]), a.Name, ends[a.Fact.Kind])
}

// sendFile sends a file of the media folder.
func (c *Channel) sendFile(ctx context.Context, t target, m channel.MediaFact) (id string, err error) {
	data, err := c.media.Read(m.Path, maxFile)
	if err != nil {
		return "", &channel.NotSentError{Err: fmt.Errorf("feishu: %w", err)}
	}
	return c.upload(ctx, t, filepath.Base(m.Path), data, m.Kind == channel.MediaImage && len(data) <= maxImage) // a larger image is sent as a file
}

// upload sends data as a file, or as an image.
func (c *Channel) upload(ctx context.Context, t target, name string, data []byte, image bool) (id string, err error) {
	r := request{name: "upload a file", method: http.MethodPost, path: "im/v1/files", repeatable: true}
	form := &platform.Form{Fields: map[string]string{"file_type": "stream", "file_name": name}, Name: "file", File: name, Data: data}
	if image {
		r.path, form.Name, form.Fields = "im/v1/images", "image", map[string]string{"image_type": "message"}
	}
	r.in = form
	got, err := c.api.do(ctx, r)
	if err != nil {
		if _, ok := errors.AsType[*channel.NotSentError](err); !ok {
			err = &channel.NotSentError{Err: err, Retryable: true} // an upload is not visible
		}
		return "", err
	}
	b := body{fileType: "file", fileKey: got.Data.FileKey}
	if image {
		b = body{fileType: "image", fileKey: got.Data.ImageKey}
	}
	return c.send(ctx, t, b)
}
