package nats

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
)

// Headers of the last message of a batch; see [logHead]. Texts that are no line are in base64.
const (
	headerLog     = "Log"
	headerLogHead = "Log-Head"
	headerLabel   = "Log-Label"
	headerLogName = "Log-Name" // if the subject does not tell it
	headerPage    = "Log-Page"

	headerPart = "Log-Part" // of the other messages: the ID and the numbers of a part

	base64Suffix = "-Base64"
)

// Headers of an atomic publish.
const (
	headerAtomicID     = "Nats-Batch-Id"
	headerAtomicNumber = "Nats-Batch-Sequence"
	headerAtomicCommit = "Nats-Batch-Commit"

	mostParts = 1000 // as servers have it by default
)

// States of a log.
const (
	stateLives   = iota
	stateDeleted // a marker: a log that is made again begins behind it
	stateGone    // there is nothing but a batch whose writer has not come to its end
)

// logHead is what the last message of a log says: all that is known of the log without its entries, and where the batches before it are. A
// batch without entries is a fence; a trim is a message that only says that entries were removed.
type logHead struct {
	seq  uint64
	tail uint64 // the last message of the subject, which may be one of a batch that has no end
	name string // "" if the subject tells it
	// The message, if it is at hand.
	message *jetstream.RawStreamMsg
	blob    *blobBefore // of an older version

	id              [16]byte // of the batch
	state           uint64
	rev             uint64 // of a trim: the revision, which it does not change; 0: seq
	after           uint64 // the revision before; 0: this made the log
	before          uint64 // the last message before that says what the log is
	born            uint64 // all messages of the log come behind this one, which is another one's or none
	created         int64  // µs since 1970
	updated         int64
	first, last     uint64 // numbers
	entries, bytes  uint64 // since the log was made
	gone, goneBytes uint64 // of them, those that were removed

	n, size, from uint64 // of the batch: entries, bytes of their data, and the first number
	parts         uint64 // messages of the batch; 0: a fence or a trim
	base          uint64 // the last number before this message

	mark       uint64 // the last marked number
	markAt     uint64 // the last message of its batch; 0: this one
	markBefore uint64 // of a batch with a mark: the last message of the batch with a mark before it

	// The page lists the batches before this one, up to where the page begins; pageBefore is the last message of the page before.
	page       page
	pageBefore uint64

	label string
	head  []byte
	old   bool // written by an older version
}

// partHead is what a message says that is not the last of a batch.
type partHead struct {
	id     [16]byte
	number uint64 // from 1
	of     uint64
	base   uint64 // the last number before this message
	before uint64 // the message before in the log; in an atomic batch only the first part says it
	old    bool   // written by an older version
}

func (h *logHead) lives() bool { return h != nil && h.state == stateLives }

// revision is that of the log; 0: there is none.
func (h *logHead) revision() uint64 {
	switch {
	case !h.lives():
		return 0
	case h.rev > 0:
		return h.rev
	}
	return h.seq
}

// expected is the last message of the subject.
func (h *logHead) expected() uint64 {
	if h == nil {
		return 0
	}
	return max(h.seq, h.tail)
}

// same reports whether a later head is one of the same log.
func (h *logHead) same(later *logHead) bool {
	return later.lives() && later.born == h.born && later.created == h.created
}

// at is the last message of the batch with the last mark; 0: there is none.
func (h *logHead) at() uint64 {
	if !h.lives() {
		return 0
	}
	if h.mark > 0 && h.markAt == 0 {
		return h.seq
	}
	return h.markAt
}

func (h *logHead) info(name string) store.Info {
	if !h.lives() {
		return store.Info{Name: name}
	}
	i := store.Info{
		Name: name, Label: h.label, Rev: revOf(h.revision()), First: h.first, Last: h.last, LastMark: h.mark,
		Entries: int64(h.entries - h.gone), Bytes: int64(h.bytes - h.goneBytes), Head: h.head,
		Created: time.UnixMicro(h.created), Updated: time.UnixMicro(h.updated),
	}
	if i.LastMark < i.First {
		i.LastMark = 0
	}
	return i
}

func revOf(n uint64) store.Rev {
	if n == 0 {
		return store.New
	}
	return store.Rev(strconv.FormatUint(n, 10))
}

// sequenceOf undoes revOf. It is not ok for a text that is no revision.
func sequenceOf(r store.Rev) (n uint64, ok bool) {
	n, err := strconv.ParseUint(string(r), 10, 64)
	return n, r == store.New || err == nil && n > 0 && revOf(n) == r
}

func (h *logHead) header(withName bool) client.Header {
	header := client.Header{headerLog: {numbersText(
		h.id, h.state, h.rev, h.after, h.before, h.born, uint64(h.created), uint64(h.updated),
		h.first, h.last, h.entries, h.bytes, h.gone, h.goneBytes,
		h.n, h.size, h.from, h.parts, h.base, h.mark, h.markAt, h.markBefore, h.pageBefore,
	)}}
	setText(header, headerLogHead, h.head)
	setText(header, headerLabel, []byte(h.label))
	if len(h.page.raw) > 0 {
		header[headerPage] = []string{base64.RawStdEncoding.EncodeToString(h.page.raw)}
	}
	if withName {
		header[headerLogName] = []string{h.name}
	}
	return header
}

func (p *partHead) text() string { return numbersText(p.id, p.number, p.of, p.base, p.before) }

// numbersText writes an ID and numbers, without the zeros at the end.
func numbersText(id [16]byte, numbers ...uint64) string {
	last := len(numbers)
	for last > 0 && numbers[last-1] == 0 {
		last--
	}
	text := base64.RawURLEncoding.AppendEncode(make([]byte, 0, 256), id[:])
	for _, n := range numbers[:last] {
		text = strconv.AppendUint(append(text, ' '), n, 10)
	}
	return string(text)
}

// readNumbers undoes numbersText.
func readNumbers(text string, numbers []uint64) (id [16]byte, err error) {
	first, rest, _ := strings.Cut(text, " ")
	if len(first) != idLength {
		return id, store.ErrDamaged
	}
	if _, err := base64.RawURLEncoding.Decode(id[:], []byte(first)); err != nil {
		return id, store.ErrDamaged
	}
	for i := 0; rest != ""; i++ {
		var field string
		field, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil || i == len(numbers) {
			return id, store.ErrDamaged
		}
		numbers[i] = n
	}
	return id, nil
}

// setText sets a header to any bytes.
func setText(header client.Header, name string, text []byte) {
	switch {
	case len(text) == 0:
	case isText(text):
		header[name] = []string{string(text)}
	default:
		header[name+base64Suffix] = []string{base64.StdEncoding.EncodeToString(text)}
	}
}

// isText reports whether bytes can be a header's value as they are.
func isText(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return text[0] != ' ' && text[len(text)-1] != ' '
}

func getText(header client.Header, name string) ([]byte, error) {
	if line := header[name]; len(line) == 1 {
		return []byte(line[0]), nil
	}
	line := header[name+base64Suffix]
	if len(line) != 1 {
		return nil, nil
	}
	text, err := base64.StdEncoding.DecodeString(line[0])
	if err != nil {
		return nil, store.ErrDamaged
	}
	return text, nil
}

// read reads the headers of a message: those of a batch's last message, or of another one.
func (l *Log) read(m *jetstream.RawStreamMsg) (h *logHead, p partHead, err error) {
	switch {
	case len(m.Header[headerLog]) == 1:
		if h, err = readHeadOfLog(m.Header); err == nil {
			p = partHead{id: h.id, number: h.parts, of: h.parts, base: h.base}
		}
	case len(m.Header[headerPart]) == 1:
		p, err = readPart(m.Header)
	case l.before:
		h, p, err = readBefore(m)
	default:
		err = store.ErrDamaged
	}
	if err != nil {
		return nil, p, fmt.Errorf("message %d: %w", m.Sequence, err)
	}
	if h != nil {
		h.seq, h.tail, h.message = m.Sequence, m.Sequence, m
	}
	return h, p, nil
}

// readPart reads what is needed to read the entries of a message.
func readPart(header client.Header) (p partHead, err error) {
	if len(header[headerLog]) == 1 {
		var n [numbersOfLog]uint64
		p.id, err = readNumbers(header[headerLog][0], n[:])
		p.number, p.of, p.base = n[partsNumber], n[partsNumber], n[partsNumber+1]
		return p, err
	}
	if len(header[headerPart]) != 1 {
		return p, store.ErrDamaged
	}
	var n [4]uint64
	p.id, err = readNumbers(header[headerPart][0], n[:])
	p.number, p.of, p.base, p.before = n[0], n[1], n[2], n[3]
	return p, err
}

const (
	numbersOfLog = 22
	partsNumber  = 16 // the place of parts among them, with base behind it
)

func readHeadOfLog(header client.Header) (*logHead, error) {
	h := &logHead{}
	var n [numbersOfLog]uint64
	var err error
	if h.id, err = readNumbers(header[headerLog][0], n[:]); err != nil {
		return nil, err
	}
	h.state, h.rev, h.after, h.before, h.born, h.created, h.updated = n[0], n[1], n[2], n[3], n[4], int64(n[5]), int64(n[6])
	h.first, h.last, h.entries, h.bytes, h.gone, h.goneBytes = n[7], n[8], n[9], n[10], n[11], n[12]
	h.n, h.size, h.from, h.parts, h.base = n[13], n[14], n[15], n[16], n[17]
	h.mark, h.markAt, h.markBefore, h.pageBefore = n[18], n[19], n[20], n[21]
	if line := header[headerLogName]; len(line) == 1 {
		h.name = line[0]
	}
	label, err := getText(header, headerLabel)
	if err != nil {
		return nil, err
	}
	h.label = string(label)
	if h.head, err = getText(header, headerLogHead); err != nil {
		return nil, err
	}
	if line := header[headerPage]; len(line) == 1 {
		if h.page.raw, err = base64.RawStdEncoding.DecodeString(line[0]); err != nil {
			return nil, store.ErrDamaged
		}
	}
	return h, nil
}

// spot is where a batch lies.
type spot struct {
	seq   uint64 // of its last message; in an Indexed space the others come directly before
	parts uint64
	first uint64 // number
	size  uint64 // about how many bytes it has
}

// spot is that of the batch of a head.
func (h *logHead) spot() spot { return spot{h.seq, h.parts, h.from, h.size} }

const (
	pageLen  = 64  // batches of a page: some 600 bytes of a header
	sizeUnit = 256 // of the sizes in a page
)

// page is a list of batches, as numbers: the differences of sequences, the parts, the differences of first numbers, and the sizes. Pages of
// older versions have no sizes.
type page struct {
	raw []byte
	old bool // of an older version: without sizes
}

func encodePage(all []spot) page {
	raw := make([]byte, 0, 8*len(all))
	var last spot
	for _, s := range all {
		for _, n := range [...]uint64{s.seq - last.seq, s.parts, s.first - last.first, (s.size + sizeUnit - 1) / sizeUnit} {
			raw = binary.AppendUvarint(raw, n)
		}
		last = s
	}
	return page{raw: raw}
}

// sizeBefore is what a batch of an older version is taken to have.
const sizeBefore = 8 << 10

func (p page) spots() ([]spot, error) {
	if len(p.raw) == 0 {
		return nil, nil
	}
	numbers := 4
	if p.old {
		numbers = 3
	}
	all := make([]spot, 0, pageLen+1)
	var last spot
	for raw := p.raw; len(raw) > 0; {
		n := [4]uint64{3: sizeBefore / sizeUnit}
		for i := range n[:numbers] {
			var size int
			if n[i], size = binary.Uvarint(raw); size <= 0 {
				return nil, store.ErrDamaged
			}
			raw = raw[size:]
		}
		last = spot{last.seq + n[0], n[1], last.first + n[2], n[3] * sizeUnit}
		if last.parts < 1 || last.parts > last.seq || len(all) == pageLen {
			return nil, store.ErrDamaged
		}
		all = append(all, last)
	}
	return all, nil
}

// spots are the batches of the page up to this head, which is the last.
func (h *logHead) spots() ([]spot, error) {
	all, err := h.page.spots()
	if err != nil {
		return nil, err
	}
	if h.parts > 0 {
		all = append(all, h.spot())
	}
	return all, nil
}

func (h *logHead) cost() int { return headCost + len(h.head) + len(h.label) + len(h.page.raw) }

// sequence is that of the message; 0: there is none.
func (h *logHead) sequence() uint64 {
	if h == nil {
		return 0
	}
	return h.seq
}

// light returns the head without its message.
func (h *logHead) light() *logHead {
	if h.message == nil {
		return h
	}
	light := *h
	light.message = nil
	return &light
}
