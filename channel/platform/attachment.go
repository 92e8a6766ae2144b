package platform

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/lingserve/lingserve/channel"
)

// Attachment is a file of a message, as a platform tells of it. Platforms embed it.
type Attachment struct {
	Fact     channel.MediaFact
	Name     string // as the sender calls it
	TooLarge bool
}

// Attached returns the attachment.
func (a Attachment) Attached() Attachment { return a }

// MediaFacts are the facts of files that are not loaded.
func MediaFacts[A interface{ Attached() Attachment }](list []A) (all []channel.MediaFact) {
	for _, a := range list {
		all = append(all, a.Attached().Fact)
	}
	return all
}

// LoadMedia gets files with fetch, and returns their facts, and notes for the agent on those that it does not get. Without a folder it gets none.
// failed is called for each that could not be loaded.
func LoadMedia[A interface{ Attached() Attachment }](s *MediaStore, list []A, fetch func(A) (path string, size int64, err error), failed func(channel.MediaKind, error)) (all []channel.MediaFact, notes []string) {
	for _, one := range list {
		a := one.Attached()
		what := string(a.Fact.Kind)
		if a.Name != "" {
			what += " " + strconv.Quote(a.Name)
		}
		var err error
		switch {
		case a.TooLarge:
			notes = append(notes, fmt.Sprintf("[%s is too large: %d bytes; expected at most %d]", what, a.Fact.Size, s.Limit))
		case s.Dir != "":
			a.Fact.Path, a.Fact.Size, err = fetch(one)
		}
		switch {
		case errors.Is(err, ErrTooLarge):
			notes = append(notes, fmt.Sprintf("[%s is too large; expected at most %d bytes]", what, s.Limit))
		case err != nil:
			failed(a.Fact.Kind, err)
			notes = append(notes, fmt.Sprintf("[%s could not be loaded]", what))
		}
		all = append(all, a.Fact)
	}
	return all, notes
}
