package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tool/fs"
	"github.com/lingserve/lingserve/turn"
)

// spillBytes is the largest result that stays on the tape. Larger ones go to the store's blobs.
const spillBytes = 16 << 10

// What a model gets to see of a result that was spilled, in characters.
const (
	previewHead = 800
	previewTail = 400
)

// spillRead is the tool that reads what was spilled; its own results never are.
const spillRead = "spill.read"

// spilled is what lies on the tape in the place of a large result.
type spilled struct {
	Spilled struct {
		Bytes  int    `json:"bytes"`
		Handle string `json:"handle,omitempty"`
		Note   string `json:"note"`
	} `json:"spilled"`
	Head string `json:"head"`
	Tail string `json:"tail"`
}

// spill returns a result's value as it goes to the tape, and where what was left out of it is.
func (r *run) spill(res tool.Result) (value json.RawMessage, kept []tape.Spill) {
	value = res.Value()
	text := string(value)
	var shown []turn.Part // images and files, which the model sees beside the preview
	if res.Err == nil {
		text = res.Text()
		if len(res.Parts) > 0 && json.Unmarshal(value, &shown) == nil {
			kept = r.storeMedia(shown)
			value = encode(shown)
			shown = slices.DeleteFunc(shown, func(p turn.Part) bool { return p.Type == "text" })
		}
	}
	if len(value) <= spillBytes || res.Name == spillRead || len(text) <= spillBytes && len(shown) > 0 { // it is these that are many
		return value, kept
	}
	var s spilled
	s.Spilled.Bytes = len(text)
	s.Spilled.Note = "the result was too large; these are its start and end, and the rest could not be stored"
	s.Head, s.Tail = preview(text)
	if blob, ok := r.putBlob(text); ok {
		s.Spilled.Handle = blob.Handle
		s.Spilled.Note = "the result was too large; these are its start and end, and spill.read has all of it"
		kept = append(kept, blob)
	}
	if value = encode(s); len(shown) > 0 {
		value = encode(append([]turn.Part{{Type: "text", Text: string(value)}}, shown...))
	}
	return value, kept
}

// preview returns the beginning and the end of a text.
func preview(text string) (head, tail string) {
	first := []rune(text[:min(len(text), utf8.UTFMax*previewHead)])
	last := []rune(text[max(0, len(text)-utf8.UTFMax*previewTail):])
	return string(first[:min(len(first), previewHead)]), string(last[max(0, len(last)-previewTail):])
}

// page is what spill.read returns.
type page struct {
	Text   string `json:"text"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next,omitempty"` // where to go on; none at the end
	Bytes  int64  `json:"bytes"`          // of the whole
}

// Bounds of one page, in bytes.
const (
	defaultPage = 8 << 10
	maxPage     = 64 << 10
)

// readSpill returns a page of what was spilled, on the borders of characters.
func readSpill(ctx context.Context, r *run, in spillReadIn) (page, error) {
	offset, limit := in.Offset, cmp.Or(in.Limit, defaultPage)
	switch {
	case offset < 0:
		return page{}, &tool.Error{Kind: tool.KindArguments, Message: fmt.Sprintf("offset: expected 0 or more, got %d", offset)}
	case limit < 0 || limit > maxPage:
		return page{}, &tool.Error{Kind: tool.KindArguments, Message: fmt.Sprintf("limit: expected 1 to %d bytes, got %d", maxPage, limit)}
	}
	// A few bytes more on both sides, to see where characters begin.
	before := min(offset, utf8.UTFMax-1)
	data, size, err := r.tape.ReadBlob(ctx, in.Handle, offset-before, before+max(limit, utf8.UTFMax)+utf8.UTFMax)
	switch {
	case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrInvalid):
		return page{}, &tool.Error{Kind: tool.KindFailed, Message: fmt.Sprintf("unknown handle %q", wording.ClipChars(in.Handle, 80))}
	case errors.Is(err, tape.ErrDamaged):
		return page{}, &tool.Error{Kind: tool.KindFailed, Message: "the stored result of this handle is damaged"}
	case err != nil:
		return page{}, err
	case offset > size:
		return page{}, &tool.Error{Kind: tool.KindArguments, Message: fmt.Sprintf("offset: expected at most %d, which is the end, got %d", size, offset)}
	}
	from, to := fs.Page(data, int(before), int(limit))
	p := page{Text: strings.ToValidUTF8(string(data[from:to]), "\uFFFD"), Offset: offset - before + int64(from), Bytes: size}
	if end := offset - before + int64(to); end < size {
		p.Next = end
	}
	return p, nil
}

// writing bounds an append: what a turn has to say to its tape is written after its cancellation, too.
const writing = 10 * time.Second

// encode writes JSON with nothing escaped needlessly.
func encode(v any) json.RawMessage {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
