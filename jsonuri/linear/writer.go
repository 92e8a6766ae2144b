package linear

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/jsonuri"
)

// ErrTakenBack says that the document has lost what was written of its root, or that its root is another kind of value now: no text
// can go on to it. It happens where a model is asked again whose bot writes at the root.
var ErrTakenBack = errors.New("linear: the document has taken back what was written of its root")

// Writer writes one document. The zero value is an empty document, {}. It is not safe for concurrent use.
type Writer struct {
	root  *node
	cur   *node // the innermost value that is being written; nil before the first and after the last
	began bool  // something of the root is written
	final bool  // Close has been called
	err   error

	now   uint64 // counts deltas and Dones
	shape shape

	out      []byte
	received int // bytes of deltas
	again    int // bytes that were written once more, about

	ghost  *node  // what was written of the root before it became something else
	before []byte // of a root that is a string again: what was written, which it has to begin with
	seen   int    // how much of before it does begin with

	// The place of the last delta, where nothing has happened since that could have moved it.
	uri  []byte
	last *node
}

// Expect says that a bot will write at the uri root and below, where a segment that is "*" stands for any. So a value around it is
// complete not only when its Done has come, which is that of the bot that has made it, but when this one has begun, too, and has
// completed what it writes. It is called before the first delta. Whoever writes without being expected, or does not write although
// expected, makes the text no less right: what comes late is written once more, and what is waited for comes with the end.
func (w *Writer) Expect(root string) {
	list, err := jsonuri.Parse(root)
	if err != nil {
		return
	}
	s := &w.shape
	for _, segment := range list {
		var kid *shape
		if segment == "*" {
			if s.any == nil {
				s.any = new(shape)
			}
			kid = s.any
		} else {
			if s.kids == nil {
				s.kids = map[string]*shape{}
			}
			if kid = s.kids[segment]; kid == nil {
				kid = new(shape)
				s.kids[segment] = kid
			}
		}
		s = kid
	}
	s.root = true
}

// Apply takes a delta. What a [jsonuri.Document] refuses is left out, and so is what stands beside the document.
func (w *Writer) Apply(d jsonuri.Delta) {
	w.received += len(d.URI) + len(d.Value)
	w.now++
	if d.Op == jsonuri.Append {
		w.append(d.URI, d.Value)
	} else {
		w.set(d.URI, d.Value)
	}
}

// Done says that the value at a uri is complete. At the root it says nothing: several bots write there.
func (w *Writer) Done(uri []byte) {
	w.last = nil
	w.now++
	list, ok := segments(uri)
	if !ok || len(list) == 0 || w.root == nil {
		return
	}
	n := w.root
	for _, segment := range list {
		at := -1
		switch n.kind {
		case object:
			at = n.member(segment)
		case array:
			at = n.element(segment)
		}
		if at < 0 || at >= len(n.kids) || n.kids[at].gone {
			return
		}
		n = n.kids[at]
	}
	n.done = w.now
}

// AppendText appends what can be written since the last time.
func (w *Writer) AppendText(dst []byte) []byte {
	w.advance()
	dst = append(dst, w.out...)
	w.out = w.out[:0]
	return dst
}

// Close appends the end of the text. The only error is [ErrTakenBack]: then the text is JSON all the same, but not the document.
func (w *Writer) Close(dst []byte) ([]byte, error) {
	if !w.final {
		w.final = true
		if w.root == nil {
			w.root = &node{kind: object}
		}
		if w.ghost != nil || len(w.before) > w.seen {
			w.fail()
		}
		w.advance()
	}
	dst = append(dst, w.out...)
	w.out = nil
	return dst, w.err
}

// Err returns [ErrTakenBack] where the text cannot become the document any more; it can no longer grow then.
func (w *Writer) Err() error { return w.err }

// append appends to a string.
func (w *Writer) append(uri, content []byte) {
	n := w.last
	if n == nil || !bytes.Equal(uri, w.uri) {
		if n = w.place(uri); n == nil {
			return
		}
	}
	if n.kind != str {
		n = w.replace(n, &node{kind: str, changed: w.now})
	}
	n.text = append(n.text, content...)
	n.changed = w.now
	w.uri, w.last = append(w.uri[:0], uri...), n
}

// set sets a value.
func (w *Writer) set(uri, value []byte) {
	w.last = nil
	list, ok := segments(uri)
	if !ok {
		return
	}
	fresh := parse(value, len(list), w.now)
	if fresh == nil {
		return
	}
	n := w.place(uri)
	switch {
	case n == nil:
	case fresh.kind == object && len(fresh.kids) == 0 && n.kind == object: // it keeps an object that is there
	default:
		w.become(n, fresh)
	}
}

// place finds the value at a uri, and makes it and what leads to it where it is missing; nil where there can be none. What is
// on the way and was written completely is going to be written once more.
func (w *Writer) place(uri []byte) *node {
	list, ok := segments(uri)
	if !ok {
		return nil
	}
	if w.root == nil {
		w.newRoot(&node{kind: object})
	}
	n := w.root
	for _, segment := range list { // before anything is changed
		if n.kind == array {
			at := n.element(segment)
			if at < 0 {
				return nil
			}
			if at >= len(n.kids) {
				break
			}
			n = n.kids[at]
			continue
		}
		at := -1
		if n.kind == object {
			at = n.member(segment)
		}
		if at < 0 || n.kids[at].gone {
			break
		}
		n = n.kids[at]
	}
	n = w.root
	written := true // as far as the state says
	touch := func() {
		if written = written && n.state != waiting; written && n.state == settled {
			w.abandon(n)
			written = false
		}
	}
	touch()
	for _, segment := range list {
		if n.kind == array {
			at := n.element(segment)
			for len(n.kids) <= at {
				w.add(n, "")
			}
			n = n.kids[at]
			touch()
			continue
		}
		if n.kind != object {
			n = w.replace(n, &node{kind: object, changed: w.now})
			written = written && n.state != waiting
		}
		at := n.member(segment)
		switch {
		case at < 0:
			n = w.add(n, segment)
		case n.kids[at].gone:
			old := n.kids[at]
			n.changed = w.now
			n.put(old, &node{changed: w.now})
			n = n.kids[at]
			n.requeue()
		default:
			n = n.kids[at]
		}
		touch()
	}
	return n
}

// add appends a kid to a container, which is not complete any more, unless a bot was expected to write there.
func (w *Writer) add(n *node, key string) *node {
	kid := n.add(key)
	kid.changed = w.now
	if len(kid.shapes) == 0 {
		n.changed = w.now
	}
	return kid
}

// requeue lets a member be written, once more if it was before.
func (n *node) requeue() {
	if n.queued {
		return
	}
	n.queued = true
	if n.wrote {
		n.parent.late = append(n.parent.late, n.at)
	} else {
		n.parent.fresh = append(n.parent.fresh, n.at)
	}
}

// effective says whether anything of the value is written in the text as it stands.
func (n *node) effective() bool {
	for ; n != nil; n = n.parent {
		if n.state == waiting {
			return false
		}
	}
	return true
}

// replace puts fresh into the place of old, and returns what is there then.
func (w *Writer) replace(old, fresh *node) *node {
	w.last = nil
	if old.parent == nil {
		return w.newRoot(fresh)
	}
	if old.effective() {
		w.abandon(old)
	}
	old.parent.put(old, fresh)
	return fresh
}

// become makes old what fresh is. What is the same in both, and was written, stays so.
func (w *Writer) become(old, fresh *node) {
	if old.parent == nil && (!w.began || w.ghost != nil || old.kind != fresh.kind || old.kind == str) {
		w.newRoot(fresh)
		return
	}
	if !old.effective() {
		if old.parent == nil {
			w.newRoot(fresh)
			return
		}
		w.replace(old, fresh)
		return
	}
	if old.kind == fresh.kind {
		switch old.kind {
		case null:
			return
		case scalar:
			if bytes.Equal(old.text, fresh.text) {
				return
			}
		case str:
			if bytes.HasPrefix(fresh.text, old.text[:min(old.n, len(old.text))]) && old.state == open {
				old.text, old.changed = fresh.text, w.now
				return
			}
			if bytes.Equal(fresh.text, old.text) {
				return
			}
		case array:
			w.becomeArray(old, fresh)
			return
		case object:
			w.becomeObject(old, fresh)
			return
		}
	}
	w.replace(old, fresh)
}

func (w *Writer) becomeArray(old, fresh *node) {
	if len(fresh.kids) < old.next {
		if old.parent == nil {
			w.fail()
		} else {
			w.replace(old, fresh)
			return
		}
	}
	if len(fresh.kids) < len(old.kids) {
		old.kids = old.kids[:len(fresh.kids)]
	}
	if len(fresh.kids) > len(old.kids) && old.state == settled {
		w.abandon(old)
	}
	for i, kid := range fresh.kids {
		if i < len(old.kids) {
			w.merge(old.kids[i], kid)
		} else {
			old.put(w.add(old, ""), kid)
		}
	}
}

func (w *Writer) becomeObject(old, fresh *node) {
	for i, kid := range old.kids {
		if kid.gone {
			continue
		}
		if at := fresh.member(old.keys[i]); at >= 0 {
			continue
		}
		if kid.wrote && old.parent != nil {
			w.replace(old, fresh)
			return
		}
		w.drop(kid)
	}
	for i, kid := range fresh.kids {
		at := old.member(fresh.keys[i])
		switch {
		case at < 0:
			if old.effective() && old.state == settled {
				w.abandon(old)
			}
			old.put(w.add(old, fresh.keys[i]), kid)
		case old.kids[at].gone:
			old.put(old.kids[at], kid)
			kid.requeue()
		default:
			w.merge(old.kids[at], kid)
		}
	}
}

// merge is become for a value inside of one that has become another.
func (w *Writer) merge(old, fresh *node) {
	if old.same(fresh) {
		return
	}
	if old.effective() && old.state == settled {
		w.abandon(old)
	}
	w.become(old, fresh)
}

// drop takes a member out of an object that was not written yet, or out of the root.
func (w *Writer) drop(kid *node) {
	if kid.effective() && kid.state == open {
		w.closeTo(kid)
	}
	kid.gone, kid.state = true, waiting
}

// newRoot makes the root another value.
func (w *Writer) newRoot(fresh *node) *node {
	w.last = nil
	fresh.share([]*shape{&w.shape})
	if w.root == nil || !w.began {
		w.root = fresh
		return fresh
	}
	was := w.ghost
	if was == nil {
		was = w.root
	}
	if fresh.kind != was.kind || was.kind == array {
		w.ghost, w.root = was, fresh
		return fresh
	}
	resumed := w.ghost != nil
	w.ghost, w.root = nil, was
	if was.kind == str {
		if w.before == nil {
			w.before, w.seen = was.text[:was.n], 0
		}
		w.seen = 0
		was.text, was.n = append([]byte(nil), fresh.text...), 0
		return was
	}
	if resumed { // what there was is gone
		for _, kid := range was.kids {
			if !kid.gone {
				w.drop(kid)
			}
		}
	}
	w.becomeObject(was, fresh)
	return was
}

// abandon gives up what is written of a value: the text goes on in the nearest open object around it, where it is written once more.
func (w *Writer) abandon(n *node) {
	for ; n.parent != nil; n = n.parent {
		if n.state == open {
			w.closeTo(n)
		}
		if p := n.parent; p.kind == object && p.state == open {
			n.state = waiting
			n.requeue()
			return
		}
	}
	w.fail()
}

// fail ends the text, which cannot become the document any more.
func (w *Writer) fail() {
	if w.err != nil {
		return
	}
	w.err = ErrTakenBack
	if w.cur == nil {
		return
	}
	root := w.cur
	for root.parent != nil {
		root = root.parent
	}
	w.closeTo(root)
}

// closeTo ends the values that are being written, up to and with n.
func (w *Writer) closeTo(n *node) {
	for {
		c := w.cur
		w.end()
		if c == n {
			return
		}
	}
}

// end ends the innermost value that is being written.
func (w *Writer) end() {
	n := w.cur
	switch n.kind {
	case str:
		if n.parent != nil {
			w.out = append(w.out, '"')
		}
	case array:
		w.out = append(w.out, ']')
	case object:
		w.out = append(w.out, '}')
	}
	n.state = settled
	w.cur = n.parent
}

// advance writes what can be written.
func (w *Writer) advance() {
	if w.err != nil || w.ghost != nil || w.root == nil {
		return
	}
	if !w.began && !w.begin() {
		return
	}
	for w.cur != nil && w.err == nil {
		var more bool
		switch w.cur.kind {
		case str:
			more = w.string(w.cur)
		case array:
			more = w.array(w.cur)
		default:
			more = w.object(w.cur)
		}
		if !more {
			return
		}
	}
}

// begin begins the root, as soon as it is clear what it is.
func (w *Writer) begin() bool {
	n := w.root
	switch n.kind {
	case null, scalar:
		if !w.final {
			return false
		}
		w.began = true
		w.scalar(n)
		return false
	case object:
		if len(n.kids) == 0 && !w.final {
			return false
		}
		w.out = append(w.out, '{')
	case array:
		w.out = append(w.out, '[')
	}
	w.began = true
	n.state, w.cur = open, n
	return true
}

// complete says whether nothing more can come for a value.
func (w *Writer) complete(n *node) bool {
	if w.final {
		return true
	}
	for a := n; a.parent != nil; a = a.parent {
		if a.done > n.changed {
			return n.met()
		}
		if a.isRoot() {
			return false // whoever has made what is around it says nothing of it
		}
	}
	return false
}

func (w *Writer) string(n *node) (more bool) {
	if n.parent == nil {
		return w.text(n)
	}
	w.out = append(w.out, n.text[n.n:]...)
	n.n = len(n.text)
	if !w.complete(n) {
		return false
	}
	w.end()
	return true
}

// text writes the root, which is a string, as what it says.
func (w *Writer) text(n *node) (more bool) {
	if w.before != nil {
		same := min(len(n.text), len(w.before))
		if !bytes.Equal(n.text[w.seen:same], w.before[w.seen:same]) {
			w.fail()
			return false
		}
		if w.seen = same; same < len(w.before) {
			return false
		}
		n.n, w.before, w.seen = same, nil, 0
	}
	end := len(n.text)
	if !w.final {
		end -= half(n.text[n.n:])
	}
	w.out = appendPlain(w.out, n.text[n.n:end])
	n.n = end
	if w.final {
		w.end()
	}
	return false
}

func (w *Writer) array(n *node) (more bool) {
	if n.next < len(n.kids) {
		kid := n.kids[n.next]
		if kid.kind == null && !w.complete(kid) {
			return false
		}
		if n.next > 0 {
			w.out = append(w.out, ',')
		}
		n.next++
		w.value(kid)
		return true
	}
	if !w.complete(n) {
		return false
	}
	w.end()
	return true
}

func (w *Writer) object(n *node) (more bool) {
	for len(n.fresh) > 0 {
		kid := n.kids[n.fresh[0]]
		if kid.gone {
			n.fresh, kid.queued = n.fresh[1:], false
			continue
		}
		if kid.kind == null && !w.complete(kid) {
			return false
		}
		n.fresh, kid.queued = n.fresh[1:], false
		w.member(n, kid)
		return true
	}
	complete := w.complete(n)
	for len(n.late) > 0 {
		kid := n.kids[n.late[0]]
		if kid.gone {
			n.late, kid.queued = n.late[1:], false
			continue
		}
		if kid.kind == null && !w.complete(kid) {
			return false
		}
		if w.again > w.received {
			switch {
			case !complete:
				return false
			case w.put(n):
				return true
			}
		}
		n.late, kid.queued = n.late[1:], false
		kid.renew()
		w.again += kid.size()
		w.member(n, kid)
		return true
	}
	if !complete {
		return false
	}
	if n.parent == nil {
		for _, kid := range n.kids {
			if kid.gone && kid.wrote {
				w.fail()
				return false
			}
		}
	}
	w.end()
	return true
}

// put leaves it to an object further out to write this one once more; false where there is none.
func (w *Writer) put(n *node) bool {
	for p := n.parent; p != nil; p = p.parent {
		if p.kind == object {
			w.abandon(n)
			return true
		}
	}
	return false
}

// member begins a member.
func (w *Writer) member(n, kid *node) {
	if n.next > 0 {
		w.out = append(w.out, ',')
	}
	n.next++
	w.out = append(w.out, '"')
	w.out = jsonuri.AppendEscaped(w.out, n.keys[kid.at])
	w.out = append(w.out, '"', ':')
	kid.wrote = true
	w.value(kid)
}

// value begins a value.
func (w *Writer) value(n *node) {
	n.state, w.cur = open, n
	switch n.kind {
	case null, scalar:
		w.scalar(n)
	case str:
		w.out = append(w.out, '"')
		n.n = 0
	case array:
		w.out = append(w.out, '[')
	case object:
		w.out = append(w.out, '{')
	}
}

// scalar writes a value that comes whole.
func (w *Writer) scalar(n *node) {
	if n.kind == null {
		w.out = append(w.out, "null"...)
	} else {
		w.out = append(w.out, n.text...)
	}
	n.state, w.cur = settled, n.parent
}

// half is how many bytes at the end are the first half of a pair of surrogates, whose other half may be about to come.
func half(content []byte) int {
	const size = len(`\ud83d`)
	if len(content) < size {
		return 0
	}
	tail := content[len(content)-size:]
	if tail[0] != '\\' || tail[1] != 'u' || tail[2]|0x20 != 'd' || bytes.IndexByte([]byte("89abAB"), tail[3]) < 0 {
		return 0
	}
	slashes := 0
	for i := len(content) - size - 1; i >= 0 && content[i] == '\\'; i-- {
		slashes++
	}
	if slashes%2 == 1 { // that backslash is itself what is escaped
		return 0
	}
	return size
}

// appendPlain appends what a string's content says.
func appendPlain(dst, content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return append(dst, content...)
	}
	var text string
	_ = json.Unmarshal(quoted(content), &text) // it is the inside of a string
	return append(dst, text...)
}
