package wire

import (
	"bytes"

	"github.com/lingserve/lingserve/adapter"
)

// maxAround is how many bytes around a text are kept to recognise the next event.
const maxAround = 1 << 10

// event is what stands around the text of an event. The deltas of a block differ in their text and their padding only, so that one with the same bytes
// around its text needs no parsing.
type event struct {
	block  *Block // which has to be the newest one still
	before []byte
	after  []byte // without spaces: Anthropic pads its events with a varying number
	padded bool   // it ends before a member "p", with which Amazon pads its events
}

var padding = []byte(`,"p":"`)

// Piece passes on a piece of a block's text as Write does. text is a part of an event, which is remembered for Again.
func (r *BlockReader) Piece(b *Block, data, text []byte) error {
	if r.last.block = nil; len(data)-len(text) <= maxAround && len(text) > 0 && b.Kind != adapter.PartOther {
		e := &r.last
		at := Offset(data, text)
		e.block, e.before = b, append(e.before[:0], data[:at]...)
		var after []byte
		after, _, e.padded = bytes.Cut(data[at+len(text)+1:], padding)
		e.after = append(e.after[:0], bytes.ReplaceAll(after, []byte(" "), nil)...)
	}
	return r.Write(b, text)
}

// Again passes on the text of an event that differs from the last one in its text only; again is false where it is another one.
func (r *BlockReader) Again(data []byte) (again bool, err error) {
	b, n := r.last.block, len(r.open)
	if b == nil || n == 0 || b != r.open[n-1] || !bytes.HasPrefix(data, r.last.before) {
		return false, nil
	}
	raw := r.last.textOf(data[len(r.last.before):])
	if raw == nil {
		return false, nil
	}
	text, err := b.text.Next(raw)
	if err != nil {
		return true, err
	}
	return true, r.Say(b, text)
}

// textOf returns the escaped text at the start of the rest of an event; nil where the event goes on otherwise than the last one.
func (e *event) textOf(rest []byte) []byte {
	end := 0
	for ; end < len(rest) && rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			end++
		} else if rest[end] < ' ' {
			return nil
		}
	}
	if end >= len(rest) {
		return nil
	}
	at := 0
	for i, c := range rest[end+1:] {
		switch {
		case at == len(e.after) && e.padded:
			if !bytes.HasPrefix(rest[end+1+i:], padding) {
				return nil
			}
			return rest[:end]
		case c == ' ':
		case at == len(e.after) || c != e.after[at]:
			return nil
		default:
			at++
		}
	}
	if at < len(e.after) || e.padded {
		return nil
	}
	return rest[:end]
}
