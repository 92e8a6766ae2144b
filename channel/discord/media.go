package discord

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// attachment is a file of a message.
type attachment struct {
	platform.Attachment
	id, address string
}

// attachments returns the files of a message; limit is the largest size that is loaded.
func attachments(m *message, limit int64) (list []attachment) {
	for _, f := range m.Attachments {
		contentType, _, _ := strings.Cut(f.ContentType, ";")
		list = append(list, attachment{id: f.ID, address: f.URL, Attachment: platform.Attachment{
			Name: f.Filename, TooLarge: int64(f.Size) > limit,
			Fact: channel.MediaFact{
				Kind: mediaKind(contentType), ContentType: contentType, MessageID: m.ID, Size: int64(f.Size), Width: f.Width, Height: f.Height,
				Duration: time.Duration(f.DurationSecs * float64(time.Second)),
			},
		}})
	}
	return list
}

func mediaKind(contentType string) channel.MediaKind {
	switch family, _, _ := strings.Cut(contentType, "/"); family {
	case "image":
		return channel.MediaImage
	case "audio":
		return channel.MediaAudio
	case "video":
		return channel.MediaVideo
	}
	return channel.MediaDocument
}

// load loads files, and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []attachment) (all []channel.MediaFact, notes []string) {
	return platform.LoadMedia(&c.store, list, func(a attachment) (string, int64, error) { return c.fetch(ctx, a) }, func(kind channel.MediaKind, err error) {
		c.log.WarnContext(ctx, "cannot load a message's file", "channel", c.name, "kind", kind, "error", err)
	})
}

// fetch loads one file. Its address is signed, and the token is not sent there.
func (c *Channel) fetch(ctx context.Context, a attachment) (path string, size int64, err error) {
	name := c.store.Name(a.id, a.Name, "")
	if path, size, ok := c.store.Find(name); ok {
		return path, size, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.address, nil)
	if err != nil {
		return "", 0, fmt.Errorf("discord: a file has no address")
	}
	res, err := c.api.http.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("discord: load a file: %w", platform.Bare(ctx, err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("discord: load a file: status %d", res.StatusCode)
	}
	return c.store.Put(name, func(w io.Writer) error {
		if _, err := io.Copy(w, res.Body); err != nil {
			return platform.Bare(ctx, err)
		}
		return nil
	})
}
