package bot

import (
	"context"
	"errors"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxExtras is how many sources, and how many images and sounds, a bot may have.
const maxExtras = 512

// What [Env].Keep fails with where a medium is larger than one may be, and where the data are none.
var (
	ErrMediaTooLarge = errors.New("bot: the medium is too large")
	ErrMediaBroken   = errors.New("bot: the data are no image and no sound")
)

// sendExtras sends the sources, images and sounds of a chunk: $citations/N and $media/N below the bot's root.
func (i *inference) sendExtras(chunk *adapter.Chunk) error {
	b := i.bot
	if c := chunk.Citation; c != nil && b.cited < maxExtras {
		if err := i.sendExtra("$citations", b.cited, c); err != nil {
			return err
		}
		b.cited++
	}
	m := chunk.Media
	if m == nil || b.media == maxExtras {
		return nil
	}
	made, failure := KeepMedia(b.env.Context, m, b.env.Keep)
	if failure != nil {
		b.report(failure)
		return nil
	}
	if err := i.sendExtra("$media", b.media, made); err != nil {
		return err
	}
	b.media++
	return nil
}

// Media is an image or a sound as clients see it.
type Media struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Bytes int    `json:"bytes,omitempty"`
}

// KeepMedia stores the data of an image or a sound by keep, which returns the address; nil stores none. Media with an address stay as they are.
func KeepMedia(ctx context.Context, m *adapter.Media, keep func(ctx context.Context, kind string, data []byte) (url string, err error)) (Media, *Failure) {
	if !strings.HasPrefix(m.URL, "data:") {
		return Media{Type: m.Type, URL: m.URL}, nil
	}
	kind, data, ok := adapter.OpenDataURL(m.URL)
	url, err := "", error(nil)
	if !ok {
		err = ErrMediaBroken
	} else if keep != nil {
		url, err = keep(ctx, kind, data)
	}
	if url == "" {
		return Media{}, mediaFailure(err)
	}
	return Media{m.Type, url, len(data)}, nil
}

// mediaFailure is the error for users whose image or sound could not be stored; err is that of [Env].Keep, nil if nothing stores them.
func mediaFailure(err error) *Failure {
	f := &Failure{Code: CodeInternal, Message: "the server could not store an image or a sound of the model", Cause: err}
	switch {
	case err == nil:
		f.Code, f.Message = CodeOutputInvalid, "the model made an image or a sound, but this server stores no files"
	case errors.Is(err, ErrMediaBroken):
		f.Code, f.Message = adapter.CodeProtocol, "the model sent an image or a sound that is broken"
	case errors.Is(err, ErrMediaTooLarge):
		f.Code, f.Message = CodeTooLarge, "an image or a sound of the model exceeds the server's limit"
	}
	return f
}

func (i *inference) sendExtra(name string, n int, value any) error {
	text := rawjson.MustMarshal(value)
	if !i.out.admit(string(text)) {
		return i.out.failure
	}
	return i.out.set(name, n, text)
}
