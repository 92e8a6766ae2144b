package logs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/store"
)

// An entry of a run's log is one byte, entryLast or entryMore, and records. Records that are too long for an entry go on in the next one
// of the same batch. A record is one byte and what it has:
//
//	r  first event, length, opening   the run begins, or is run once more: nothing before counts
//	a  nothing                        another replica has adopted the run
//	o  length, opening                the run has another opening from now on
//	l  number                         events go on with this number
//	p  number of the block's first event, offset in it, length, bytes
//	e  length, head                   the run has ended
//
// An entry of a page log is one byte, pageItems or pageSeal. Behind pageItems there is for each run
//
//	run      uvarint: which of the replica's runs
//	after    uvarint: number of the last entry of the run's own log
//	records  length and bytes
const (
	entryLast = 0
	entryMore = 1

	pageItems = 'P'
	pageSeal  = 'S'

	recordRun   = 'r'
	recordAdopt = 'a'
	recordOther = 'o'
	recordLeap  = 'l'
	recordPiece = 'p'
	recordEnd   = 'e'

	headVersion = 1
	maxNumber   = 1 << 53 // of an event: browsers have no higher numbers
)

// head is the head of a run's log.
type head struct {
	replica string // the owner, or the last one
	run     uint64 // which of its runs
	life    uint64 // of its page log that may have more of the run
	page    uint64 // number of the last page of which all is in the run's log
	begin   uint64 // number of the entry that the run begins in
	opening uint64 // of the entry that its opening is in
	end     uint64 // of the entry that its end is in; 0: it goes on
}

func (h *head) append(dst []byte) []byte {
	dst = appendText(append(dst, headVersion), h.replica)
	for _, n := range [...]uint64{h.run, h.life, h.page, h.begin, h.opening, h.end} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func parseHead(data []byte) (h head, err error) {
	if len(data) == 0 {
		return h, errRecord
	}
	if data[0] != headVersion {
		return h, fmt.Errorf("%w: version %d; this program reads version %d", errRecord, data[0], headVersion)
	}
	p := parser{rest: data[1:]}
	h.replica = string(p.text())
	h.run, h.life, h.page, h.begin, h.opening, h.end = p.number(), p.number(), p.number(), p.number(), p.number(), p.number()
	if p.bad {
		return h, errRecord
	}
	return h, nil
}

// sameOwner reports whether the same replica writes the run as the same one of its runs.
func (h *head) sameOwner(o *head) bool { return h.replica == o.replica && h.run == o.run }

func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// errRecord says that what is stored, or was sent by another replica, has no known form.
var errRecord = errors.New("runlog: invalid record")

// parser reads numbers and texts.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) text() []byte {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	t := p.rest[:n:n]
	p.rest = p.rest[n:]
	return t
}

// record is one record. What it does not have is zero.
type record struct {
	kind   byte
	number uint64 // of an event
	offset int
	text   []byte // a part of what was parsed
}

// parseRecords gives take each record.
func parseRecords(b []byte, take func(record) error) error {
	for p := (parser{rest: b}); len(p.rest) > 0; {
		r := record{kind: p.rest[0]}
		p.rest = p.rest[1:]
		switch r.kind {
		case recordAdopt:
		case recordLeap:
			r.number = p.number()
		case recordRun:
			r.number, r.text = p.number(), p.text()
		case recordOther, recordEnd:
			r.text = p.text()
		case recordPiece:
			r.number, r.offset, r.text = p.number(), int(p.number()&(1<<31-1)), p.text()
		default:
			return errRecord
		}
		if p.bad || r.number > maxNumber {
			return errRecord
		}
		if err := take(r); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf makes entries of records that begin with room for one byte.
func entriesOf(records []byte) (entries []store.Entry) {
	for len(records) > store.MaxEntry {
		part := append([]byte{}, records[:store.MaxEntry]...)
		part[0] = entryMore
		entries = append(entries, store.Entry{Data: part})
		records = records[store.MaxEntry-1:]
	}
	records[0] = entryLast
	return append(entries, store.Entry{Data: records})
}

// pageItem is what a page has of a run.
type pageItem struct {
	run, after uint64
	records    []byte
}

// parsePage gives take what a page has.
func parsePage(data []byte, take func(pageItem) error) error {
	if len(data) == 0 || data[0] != pageItems && data[0] != pageSeal {
		return errRecord
	}
	for p := (parser{rest: data[1:]}); len(p.rest) > 0; {
		it := pageItem{p.number(), p.number(), p.text()}
		if p.bad {
			return errRecord
		}
		if err := take(it); err != nil {
			return err
		}
	}
	return nil
}
