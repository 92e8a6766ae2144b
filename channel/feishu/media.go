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
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
)

const (
	platformMaxMedia = 100 << 20 // what the platform gives

	maxImage = 10 << 20 // that can be sent
	maxFile  = 30 << 20
)

// load gets the files of a message and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []attachment) (all []channel.MediaFact, notes []string) {
	return media.Load(&c.store, list, func(a attachment) (string, int64, error) { return c.fetch(ctx, a) }, func(kind channel.MediaKind, err error) {
		c.log.WarnContext(ctx, "cannot load a message's file", "channel", c.name, "kind", kind, "error", err)
	})
}

// fetch gets one file and returns where it is.
func (c *Channel) fetch(ctx context.Context, a attachment) (string, int64, error) {
	name := c.fileName(a)
	if path, size, ok := c.store.Find(name); ok { // a key is of one file for ever
		return path, size, nil
	}
	kind := "file"
	if a.image {
		kind = "image"
	}
	return c.store.Put(name, func(w io.Writer) error { // the platform does not say beforehand how large a file is
		return c.api.call(ctx, request{
			what: "load a file", method: http.MethodGet, out: w,
			path: "im/v1/messages/" + url.PathEscape(a.message) + "/resources/" + url.PathEscape(a.key) + "?type=" + kind,
		})
	})
}

// fileName is the name of a file in the folder.
func (c *Channel) fileName(a attachment) string {
	sum := sha256.Sum256([]byte(a.message + "/" + a.key))
	end := ""
	switch a.Fact.Kind {
	case channel.MediaImage:
		end = ".jpg" // the platform shows pictures as such, and does not say more
	case channel.MediaAudio:
		end = ".ogg"
	case channel.MediaVideo:
		end = ".mp4"
	}
	return c.store.Name(hex.EncodeToString(sum[:16]), a.Name, end)
}

// upload gives the platform a file of the media folder, and sends it.
func (c *Channel) upload(ctx context.Context, t *target, m channel.MediaFact) (string, error) {
	data, err := c.store.Read(m.Path, maxFile)
	if err != nil {
		return "", &channel.NotSentError{Err: fmt.Errorf("feishu: %w", err)}
	}
	return c.uploadData(ctx, t, filepath.Base(m.Path), data, m.Kind == channel.MediaImage && len(data) <= maxImage) // larger pictures are files
}

// uploadData gives the platform a file, and sends it, as a picture if it is one.
func (c *Channel) uploadData(ctx context.Context, t *target, name string, data []byte, image bool) (string, error) {
	var got struct {
		Data struct {
			Image string `json:"image_key"`
			File  string `json:"file_key"`
		} `json:"data"`
	}
	r := request{what: "give the platform a file", method: http.MethodPost, out: &got, harmless: true, slow: t.slow}
	if image {
		r.path, r.in = "im/v1/images", &attempt.Form{
			Fields: map[string]string{"image_type": "message"}, Name: "image", File: name, Data: data,
		}
	} else {
		r.path, r.in = "im/v1/files", &attempt.Form{
			Fields: map[string]string{"file_type": "stream", "file_name": name}, Name: "file", File: name, Data: data,
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
