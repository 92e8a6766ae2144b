package bot

import "strings"

// textReader reads answers that are text, which is one string.
type textReader struct {
	*output
	text escaper
	line bool // it ends with a line
	gap  bool // it goes on in the next round
	from int  // length of what was written in the rounds before, as content
}

func (r *textReader) write(chunk string) error {
	r.buf = r.text.append(r.buf[:0], chunk)
	if len(r.buf) == 0 {
		return nil
	}
	if r.gap && r.wrote && !r.line { // the texts before calls and after them are two paragraphs
		r.add([]byte(`\n\n`))
	}
	r.gap, r.line = false, strings.HasSuffix(chunk, "\n")
	r.add(r.buf)
	return nil
}

// hold ends what the model says before its calls.
func (r *textReader) hold() {
	if r.buf = r.text.close(r.buf[:0]); len(r.buf) > 0 {
		r.add(r.buf)
	}
	r.text, r.gap, r.from = escaper{}, true, len(r.collected)
}

func (r *textReader) close() error {
	r.buf = r.text.close(r.buf[:0])
	if len(r.buf) > 0 || !r.wrote {
		r.add(r.buf)
	}
	r.completeString()
	return nil
}

func (r *textReader) MayStop() bool           { return false } // any text may go on
func (r *textReader) Complete() bool          { return false }
func (r *textReader) Repairs() map[string]int { return nil }
