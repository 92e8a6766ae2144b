package bot

import (
	"bytes"
	"encoding/json"
	"strings"
)

// restart makes thoughts of the text that has come so far: see [adapter.Chunk.Restart]. A document that was found in them is taken back when the
// answer's document begins; text is taken back at once.
func (i *inference) restart() error {
	i.said, i.over, i.rest = nil, false, 0
	i.stopTimer()
	i.late = nil
	if text, ok := i.out.reader.(*textReader); ok {
		text.restart()
		return i.out.failure
	}
	old, out := i.out, newOutput(i.bot)
	old.muted = true
	_ = old.reader.close() // sends what it holds back; how that ends does not matter
	old.writes.close()
	out.failure, out.thoughts, out.pause, out.begin = old.failure, old.thoughts, old.thoughts, old.begin
	if old.started {
		out.begin = func() { out.retract(old.begun, func(json.RawMessage) bool { return true }) }
	}
	i.out, i.calls.out = out, out
	return out.reader.write("</think>") // counts as a repair
}

// restart makes thoughts of the text of this round.
func (r *textReader) restart() {
	if r.buf = r.text.close(r.buf[:0]); len(r.buf) > 0 {
		r.add(r.buf)
	}
	text := bytes.Clone(r.collected)
	if !r.keep {
		text = bytes.Trim(r.here(), `"`)
	}
	before, thoughts := text[:r.from], text[r.from:]
	r.writes.close()
	r.empty(r.value())
	r.begin, r.wrote, r.collected = nil, false, r.collected[:0]
	if len(before) > 0 {
		r.add(before)
	}
	r.text, r.gap, r.line = escaper{}, true, strings.HasSuffix(string(before), `\n`)
	r.think(thoughts)
}

// addMember notes the member of the document that uri is, or is in.
func (o *output) addMember(uri []byte) {
	if len(o.begun) > 0 && len(o.begun[0]) == len(o.root) {
		return // it is all of the document
	}
	uri = o.memberOf(uri)
	if n := len(o.begun); n == 0 || !bytes.Equal(o.begun[n-1], uri) {
		o.begun = append(o.begun, bytes.Clone(uri))
	}
}

// memberOf returns the beginning of a uri that is a member of the answer, or its root.
func (o *output) memberOf(uri []byte) []byte {
	end := len(o.root)
	for end < len(uri) && (uri[end] != '/' || end == len(o.root) && end > 0) {
		if uri[end] == '\\' {
			end++
		}
		end++
	}
	return uri[:min(end, len(uri))]
}
