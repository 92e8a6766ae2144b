package platform

import (
	"strings"

	"github.com/lingserve/lingserve/channel"
)

// TextAndFiles returns the text of a block, with the addresses of its media below it, and the files that are sent with it.
func TextAndFiles(b *channel.Block) (text string, files []channel.MediaFact) {
	text = b.Text
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			files = append(files, m)
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	return text, files
}

// SendMessages sends a block as so many messages, in order, and returns its receipt, which is r with their ids. If the block has a preview, edit puts the
// first message in its place; found is false if the preview is gone. edit may be nil. An error after the first message is a [*channel.PartialError].
func SendMessages(b *channel.Block, r channel.Receipt, count int, edit func(id string) (found bool, err error), send func(n int) (id string, err error)) (channel.Receipt, error) {
	if count == 0 {
		return channel.Receipt{State: channel.Suppressed}, nil
	}
	for n := range count {
		id, found := "", false
		var err error
		if id = b.Preview.First(); n == 0 && edit != nil && id != "" {
			found, err = edit(id)
		}
		if !found && err == nil {
			id, err = send(n)
		}
		if err != nil && n > 0 {
			err = &channel.PartialError{Receipt: r, Err: err}
		}
		if err != nil {
			return r, err
		}
		if id != "" {
			r.MessageIDs = append(r.MessageIDs, id)
		}
	}
	return r, nil
}
