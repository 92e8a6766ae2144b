package linear

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
)

// ErrTakenBack says that the document has changed in a part that was written: the text cannot become the document any more. It
// happens where a model that has answered in part is asked again.
var ErrTakenBack = errors.New("linear: the document has changed in a part that was written")

// maxRewrites is how many times as much as has arrived may be compared with what was written; it keeps the time linear.
const maxRewrites = 16

// Writer writes one document. The zero value is an empty document, {}. It is not safe for concurrent use.
type Writer struct {
	doc   jsonuri.Document
	roots [][]string      // where bots were expected to write
	done  map[string]bool // uris whose value is complete
	uri   []byte          // of the last delta if it was an append; nil after anything else
	waits bool            // the innermost open value is not complete, and nothing but content has come since that was found

	// The frontier: the values that are being written, the root first. It is empty before anything is written.
	open []frame
	path []string // the segments that lead to the innermost one

	uris []byte // see setPrefixes
	ends []int

	text     []byte // what was written
	pos      int    // how much of text the frontier has reached; less than all after a restart
	sent     int    // how much of text AppendText has returned
	received int    // bytes of deltas
	compared int    // bytes that were written again
	final    bool
	err      error
}

// frame is a value that is being written.
type frame struct {
	node  jsonuri.Node
	begun bool // its first byte is written
	next  int  // of a container: the index of the next child; of a string: how many bytes of its content are written
}

// Expect says that a bot will write at the uri root and below, where a segment that is "*" stands for any. A value around it is
// complete when its Done has come and this bot has begun and has completed its own value. Call it before the first delta.
func (w *Writer) Expect(root string) {
	if list, err := jsonuri.Parse(root); err == nil && len(list) > 0 {
		w.roots = append(w.roots, list)
	}
}

// Apply takes a delta. What a [jsonuri.Document] refuses is left out, and so is what stands beside the document.
func (w *Writer) Apply(d jsonuri.Delta) {
	w.received += len(d.URI) + len(d.Value)
	if w.uri != nil && d.Op == jsonuri.Append && bytes.Equal(d.URI, w.uri) {
		_ = w.doc.Append(d.URI, d.Value)
		return
	}
	list, err := jsonuri.Parse(string(d.URI))
	if err != nil || jsonuri.Reserved(d.URI) {
		return
	}
	w.waits = false
	restart := w.changesWritten(list, d)
	if w.doc.Apply(d) != nil {
		return
	}
	w.forgetDone(list)
	if restart {
		w.open, w.path, w.pos = w.open[:0], w.path[:0], 0
	}
	w.uri = nil
	if d.Op == jsonuri.Append {
		w.uri = append(make([]byte, 0, len(d.URI)+1), d.URI...)
	}
}

// changesWritten reports whether d changes a value that is written or was begun. To append to a string that is being written
// does not, nor does {} for an object.
func (w *Writer) changesWritten(list []string, d jsonuri.Delta) bool {
	if len(w.open) == 0 {
		return false
	}
	n := w.doc.Root()
	for i, segment := range list {
		f := w.open[i]
		if !f.begun {
			return false
		}
		if n.Kind() != '{' && n.Kind() != '[' {
			return true
		}
		at := n.Find(segment)
		if at < 0 || at >= f.next {
			return false
		}
		_, n = n.Child(at)
		if isOpen := at == f.next-1 && i+1 < len(w.open); !isOpen {
			return !(d.Op == jsonuri.Set && string(d.Value) == "{}" && i == len(list)-1 && n.Kind() == '{')
		}
	}
	switch {
	case !w.open[len(list)].begun:
		return false
	case d.Op == jsonuri.Append:
		return n.Kind() != '"'
	}
	return string(d.Value) != "{}" || n.Kind() != '{'
}

// forgetDone notes that a value has changed, and with it those around it that the same bot writes.
func (w *Writer) forgetDone(list []string) {
	w.setPrefixes(list)
	for n := len(list); n > 0; n-- {
		delete(w.done, string(w.uris[:w.ends[n]]))
		if w.isRoot(list[:n]) {
			return
		}
	}
}

// setPrefixes makes uris[:ends[n]] the uri of the first n segments of list.
func (w *Writer) setPrefixes(list []string) {
	w.uris, w.ends = w.uris[:0], append(w.ends[:0], 0)
	for _, segment := range list {
		w.uris = jsonuri.AppendSegment(w.uris, segment)
		w.ends = append(w.ends, len(w.uris))
	}
}

// Done says that the value at a uri is complete. At the root it says nothing: several bots write there.
func (w *Writer) Done(uri []byte) {
	w.uri, w.waits = nil, false
	if len(uri) == 0 || jsonuri.Reserved(uri) {
		return
	}
	if w.done == nil {
		w.done = map[string]bool{}
	}
	w.done[string(uri)] = true
}

// AppendText appends what can be written since the last time.
func (w *Writer) AppendText(dst []byte) []byte {
	w.advance()
	dst = append(dst, w.text[w.sent:]...)
	w.sent = len(w.text)
	return dst
}

// Close appends the end of the text. The only error is [ErrTakenBack].
func (w *Writer) Close(dst []byte) ([]byte, error) {
	w.final = true
	dst = w.AppendText(dst)
	if w.pos < len(w.text) {
		w.err = ErrTakenBack
	}
	return dst, w.err
}

// Err returns [ErrTakenBack] where the text cannot become the document any more; it can no longer grow then.
func (w *Writer) Err() error { return w.err }

// isRoot reports whether a bot was expected to write at the path list.
func (w *Writer) isRoot(list []string) bool {
	return slices.ContainsFunc(w.roots, func(root []string) bool { return len(root) == len(list) && matches(root, list) })
}

// matches reports whether list begins with what root says.
func matches(root, list []string) bool {
	for i, segment := range list {
		if root[i] != "*" && root[i] != segment {
			return false
		}
	}
	return true
}

// complete reports whether nothing more can come for the innermost open value: its Done has come, or that of a value around it
// which the same bot writes, and all bots have begun that write below it at a name. A bot that writes to each of its elements
// has begun with the last one.
func (w *Writer) complete() bool {
	if w.final || w.waits {
		return w.final
	}
	n := len(w.path)
	w.setPrefixes(w.path)
	for around := n; !w.done[string(w.uris[:w.ends[around]])]; around-- {
		if around == 0 || w.isRoot(w.path[:around]) {
			return false
		}
	}
	node := w.open[len(w.open)-1].node
	for _, root := range w.roots {
		if len(root) > n && root[n] != "*" && matches(root, w.path) && node.Find(root[n]) < 0 {
			return false
		}
	}
	return true
}

// advance writes what can be written.
func (w *Writer) advance() {
	root := w.doc.Root()
	if w.err != nil || w.final && len(w.open) == 0 && w.pos > 0 {
		return
	}
	if len(w.open) == 0 {
		if root.Kind() != '[' && root.Kind() != '"' && root.Len() == 0 && !w.final {
			return // it may still become another kind of value
		}
		w.open = append(w.open, frame{})
	}
	for i := range w.open { // a change may have moved them
		if w.open[i].node = root; i < len(w.open)-1 {
			_, root = root.Child(w.open[i].next - 1)
		}
	}
	for w.err == nil && len(w.open) > 0 && w.step() {
		w.waits = false
	}
	w.waits = true
}

// step writes more of the innermost open value; false where that has to wait.
func (w *Writer) step() bool {
	f := &w.open[len(w.open)-1]
	switch kind := f.node.Kind(); kind {
	case '"':
		return w.string(f)
	case '{', '[':
		if !f.begun {
			f.begun = true
			w.write(kind)
		}
		if f.next < f.node.Len() {
			w.openChild(f, kind)
			return true
		}
		if !w.complete() {
			return false
		}
		w.write(kind + 2) // ASCII has the closing bracket two after the opening one
	default:
		if kind == 'n' && !w.complete() {
			return false // null stands for a value that is about to come
		}
		w.write(f.node.Text()...)
	}
	w.end()
	return true
}

// openChild begins the next child of the open container f.
func (w *Writer) openChild(f *frame, kind byte) {
	if f.next > 0 {
		w.write(',')
	}
	key, child := f.node.Child(f.next)
	if kind == '{' {
		quoted := jsonuri.AppendEscaped([]byte{'"'}, key)
		w.write(append(quoted, '"', ':')...)
	} else {
		key = strconv.Itoa(f.next)
	}
	f.next++
	w.open, w.path = append(w.open, frame{node: child}), append(w.path, key)
}

// end leaves the innermost open value, which is written.
func (w *Writer) end() {
	w.open, w.path = w.open[:len(w.open)-1], w.path[:max(0, len(w.path)-1)]
}

// string writes more of the open string f.
func (w *Writer) string(f *frame) bool {
	content := f.node.Text()[f.next:]
	if len(w.open) == 1 {
		f.begun = true
		f.next += w.plain(content)
		return false
	}
	if !f.begun {
		f.begun = true
		w.write('"')
	}
	w.write(content...)
	f.next += len(content)
	if !w.complete() {
		return false
	}
	w.write('"')
	w.end()
	return true
}

// plain writes what the content of a string says and returns how much of it that was: half a surrogate pair at its end waits.
func (w *Writer) plain(content []byte) int {
	if bytes.IndexByte(content, '\\') < 0 {
		w.write(content...)
		return len(content)
	}
	decode := func() (text []byte) {
		var s string
		_ = json.Unmarshal(slices.Concat([]byte{'"'}, content, []byte{'"'}), &s) // the content of a string is valid
		return []byte(s)
	}
	replacement := []byte("\uFFFD")
	text := decode()
	if !w.final && bytes.HasSuffix(text, replacement) && !bytes.HasSuffix(content, replacement) {
		content = content[:len(content)-len(`\ud83c`)]
		text = decode()
	}
	w.write(text...)
	return len(content)
}

// write adds to the text. After a restart it compares with what was written before.
func (w *Writer) write(b ...byte) {
	n := min(len(b), len(w.text)-w.pos)
	w.compared += n
	if !bytes.Equal(b[:n], w.text[w.pos:w.pos+n]) || w.compared > maxRewrites*(w.received+1024) {
		w.err = ErrTakenBack
		return
	}
	w.text = append(w.text, b[n:]...)
	w.pos += len(b)
}
