package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/channel"
)

// Attachment is a file of a message, as a platform tells of it.
type Attachment struct {
	Fact   channel.MediaFact
	ID     string // of the content: the file is stored by it
	Name   string // as the sender calls it
	Ending string // of a file whose name has none: ".jpg", or ""
	Source string // what the channel loads it from, such as an address
}

// MediaKind returns the kind of files of a media type.
func MediaKind(contentType string) channel.MediaKind {
	family, _, _ := strings.Cut(contentType, "/")
	if kind := channel.MediaKind(family); kind == channel.MediaImage || kind == channel.MediaVideo || kind == channel.MediaAudio {
		return kind
	}
	return channel.MediaDocument
}

func factsOf(list []Attachment) (all []channel.MediaFact) {
	for _, a := range list {
		all = append(all, a.Fact)
	}
	return all
}

// Load loads files, and returns their facts, and notes for the agent on those that it does not load. Without a folder it loads none.
func (s *MediaStore) Load(ctx context.Context, list []Attachment) (all []channel.MediaFact, notes []string) {
	for _, a := range list {
		what := string(a.Fact.Kind)
		if a.Name != "" {
			what += " " + strconv.Quote(a.Name)
		}
		var err error
		switch {
		case a.Fact.Size > s.Limit:
			notes = append(notes, fmt.Sprintf("[%s is too large: %d bytes; expected at most %d]", what, a.Fact.Size, s.Limit))
		case s.Dir != "":
			a.Fact.Path, a.Fact.Size, err = s.fetch(ctx, a)
		}
		switch {
		case errors.Is(err, ErrTooLarge):
			notes = append(notes, fmt.Sprintf("[%s is too large; expected at most %d bytes]", what, s.Limit))
		case err != nil:
			s.Log.WarnContext(ctx, "cannot load a message's file", "kind", a.Fact.Kind, "error", err)
			notes = append(notes, fmt.Sprintf("[%s could not be loaded]", what))
		}
		all = append(all, a.Fact)
	}
	return all, notes
}

// fetch returns where a file is and how large. One that is stored already is not loaded.
func (s *MediaStore) fetch(ctx context.Context, a Attachment) (path string, size int64, err error) {
	name := s.Name(a.ID, a.Name, a.Ending)
	if path, size, ok := s.Find(name); ok {
		return path, size, nil
	}
	return s.Put(name, func(w io.Writer) error { return s.Fetch(ctx, a, w) })
}
