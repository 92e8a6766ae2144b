package slack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/attempt"
	"github.com/lingserve/lingserve/channel/media"
)

// loadable is a file that a message has.
type loadable struct {
	media.Attachment
	id  string
	url string // "" where the platform does not have it
}

// attachments are the files of a message; limit is how many bytes of one are wanted.
func attachments(m *message, limit int64) []loadable {
	var list []loadable
	for _, f := range m.files {
		if f.Mode == "tombstone" || f.Mode == "hidden_by_limit" { // deleted, or too old for what the workspace pays
			continue
		}
		one := loadable{
			id: f.ID, url: cmp.Or(f.Download, f.URL), Attachment: media.Attachment{Name: f.Name, TooLarge: f.Size > limit, Fact: channel.MediaFact{
				Kind: mediaKind(f.Type), ContentType: f.Type, MessageID: m.ts, Size: f.Size, Width: f.Width, Height: f.Height,
				Duration: time.Duration(f.Duration) * time.Millisecond,
			}},
		}
		if f.External || f.Mode == "external" {
			one.url = ""
		}
		list = append(list, one)
	}
	return list
}

func mediaKind(contentType string) channel.MediaKind {
	switch family, _, _ := strings.Cut(contentType, "/"); family {
	case "image":
		return channel.MediaImage
	case "video":
		return channel.MediaVideo
	case "audio":
		return channel.MediaAudio
	}
	return channel.MediaDocument
}

// load gets the files of a message and returns their facts, and notes for the agent on those that it does not get.
func (c *Channel) load(ctx context.Context, list []loadable) (all []channel.MediaFact, notes []string) {
	return media.Load(&c.store, list, func(a loadable) (string, int64, error) { return c.fetch(ctx, a) }, func(kind channel.MediaKind, err error) {
		c.log.WarnContext(ctx, "cannot load a message's file", "channel", c.name, "kind", kind, "error", err)
	})
}

var (
	errElsewhere = errors.New("slack: the file's address is not on a Slack host; only those are trusted")
	errPage      = errors.New("slack: received a web page instead of the file; add the scope files:read to the app")
)

// trusted says whether the token may be sent to an address: to Slack's hosts by https, and to the host of the setting api.
func (a *api) trusted(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if u.Scheme == a.at.Scheme && strings.EqualFold(u.Host, a.at.Host) {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && (host == "slack.com" || strings.HasSuffix(host, ".slack.com"))
}

// fetch gets one file and returns where it is.
func (c *Channel) fetch(ctx context.Context, a loadable) (string, int64, error) {
	name := c.store.Name(a.id, a.Name, "")
	if a.url == "" || name == "" {
		return "", 0, errElsewhere
	}
	from, err := url.Parse(a.url)
	if err != nil || !c.api.trusted(from) {
		return "", 0, errElsewhere
	}
	if path, size, ok := c.store.Find(name); ok { // a file never changes; another version has another id
		return path, size, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return "", 0, errElsewhere
	}
	req.Header.Set("Authorization", "Bearer "+c.api.token)
	res, err := c.api.http.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("slack: load a file: %w", attempt.Bare(ctx, err))
	}
	defer res.Body.Close()
	kind := res.Header.Get("Content-Type")
	switch {
	case res.StatusCode/100 == 3, strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(a.Fact.ContentType, "text/html"):
		return "", 0, errPage // to log in
	case res.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("slack: load a file: status %d", res.StatusCode)
	}
	return c.store.Put(name, func(w io.Writer) error {
		if _, err := io.Copy(w, res.Body); err != nil {
			return attempt.Bare(ctx, err)
		}
		return nil
	})
}

// maxUpload bounds a file that is sent.
const maxUpload = 20 << 20

// upload sends a file of the media folder.
func (c *Channel) upload(ctx context.Context, t target, m channel.MediaFact) error {
	data, err := c.store.Read(m.Path, maxUpload)
	if err != nil {
		return &channel.NotSentError{Err: fmt.Errorf("slack: %w", err)}
	}
	return c.uploadData(ctx, t, filepath.Base(m.Path), data)
}

// uploadData sends a file: the platform names a place for it, it is put there, and then it is shown. Until then nobody can see it.
func (c *Channel) uploadData(ctx context.Context, t target, name string, data []byte) error {
	var slot struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	err := c.api.do(ctx, request{
		method: "files.getUploadURLExternal", form: url.Values{"filename": {name}, "length": {strconv.Itoa(len(data))}}, out: &slot,
		harmless: true, slow: c.pace.slowDown,
	})
	if err == nil {
		err = c.api.put(ctx, slot.URL, data)
	}
	if err != nil {
		if _, ok := errors.AsType[*channel.NotSentError](err); !ok {
			err = &channel.NotSentError{Err: err, Retryable: true}
		}
		return err
	}
	type title struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	err = c.api.do(ctx, request{method: "files.completeUploadExternal", in: &struct {
		Files   []title `json:"files"`
		Channel string  `json:"channel_id"`
		Thread  string  `json:"thread_ts,omitempty"`
	}{[]title{{slot.ID, name}}, t.conversation, t.thread}, slow: c.pace.slowDown})
	if err == nil {
		c.wrote(ctx, t)
	}
	return err
}

// put puts a file where the platform wants it. The address is a secret, too: whoever has it may put something there.
func (a *api) put(ctx context.Context, address string, data []byte) error {
	to, err := url.Parse(address)
	if err != nil || !a.trusted(to) {
		return &channel.NotSentError{Err: errElsewhere}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(data))
	if err != nil {
		return &channel.NotSentError{Err: errElsewhere}
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("slack: send a file: %w", attempt.Bare(ctx, err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("slack: send a file: status %d", res.StatusCode)
	}
	return nil
}
