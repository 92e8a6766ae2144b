package slack

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// attachments are the files of a message.
func attachments(m *message) (list []platform.Attachment) {
	for _, f := range m.Files {
		if f.Mode == "tombstone" || f.Mode == "hidden_by_limit" || f.Mode == "" { // deleted, too old for the workspace's plan, or not understood
			continue
		}
		a := platform.Attachment{ID: f.ID, Name: f.Name, Source: cmp.Or(f.URLPrivateDownload, f.URLPrivate), Fact: channel.MediaFact{
			Kind: platform.MediaKind(f.Mimetype), ContentType: f.Mimetype, MessageID: m.Timestamp, Size: int64(f.Size), Width: f.OriginalW, Height: f.OriginalH,
			Duration: time.Duration(f.DurationMs) * time.Millisecond,
		}}
		if f.IsExternal || f.Mode == "external" {
			a.Source = "" // another service has it
		}
		list = append(list, a)
	}
	return list
}

// fetch writes a file. The library sends the token to Slack's hosts only.
func (c *Channel) fetch(ctx context.Context, a platform.Attachment, w io.Writer) error {
	return c.call(ctx, "load a file", func(ctx context.Context) error { return c.api.GetFileContext(ctx, a.Source, w) })
}

// maxUpload bounds a file that is sent.
const maxUpload = 20 << 20

// upload sends a file. It is visible to no one before the last of the library's three calls.
func (c *Channel) upload(ctx context.Context, t target, f *platform.File) error {
	return c.repeat(ctx, "files.upload", false, func(ctx context.Context) error {
		_, err := c.api.UploadFileContext(ctx, slackgo.UploadFileParameters{
			Filename: f.Name, Title: f.Name, FileSize: len(f.Data), Reader: bytes.NewReader(f.Data), Channel: t.conversation, ThreadTimestamp: t.thread,
		})
		return err
	})
}
