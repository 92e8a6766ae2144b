package bot

// textReader reads answers that are text, which is one string.
type textReader struct {
	*output
	text escaper
}

func (r *textReader) write(chunk string) error {
	r.buf = r.text.append(r.buf[:0], chunk)
	if len(r.buf) > 0 {
		r.add(r.buf)
	}
	return nil
}

func (r *textReader) close() error {
	r.buf = r.text.close(r.buf[:0])
	if len(r.buf) > 0 || !r.wrote {
		r.add(r.buf)
	}
	r.completeString()
	return nil
}

func (r *textReader) mayStop() bool           { return false } // any text may go on
func (r *textReader) complete() bool          { return false }
func (r *textReader) repairs() map[string]int { return nil }
