package tube

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
)

// The log is a list of blocks, and a block is a list of records. A token of four characters takes five bytes:
//
//	head    1 byte: kind (2 bits), hidden, same, length of the value (4 bits, 15: the rest is a uvarint)
//	length  uvarint, what the value has over 15 bytes
//	uri     Append, Set, Done, only where it is not the uri of the record before (same): a uvarint, twice the length,
//	        and the text; or, where it is odd, the half of it is the offset in the block of such a pair
//	name    Named: 1 byte of length, and the text; same marks the terminal event
//	value
//
// What was written never changes, so a reader takes the slice under the lock and decodes it without.
const (
	headKind   = 3
	headHidden = 1 << 2
	headSame   = 1 << 3
	headLong   = 15

	minBlock = 1 << 10  // a short run takes little memory
	maxBlock = 64 << 10 // what leaves the log at a time
)

type block struct {
	first uint64 // number of its first event
	data  []byte // never reallocated
}

// beside yields the events of a block that a document cannot say: the named and Done ones.
func (b block) beside() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for at := (cursor{n: b.first}); at.off < len(b.data); {
			if e, _ := at.read(b.data); e.Kind >= Done && !yield(e) {
				return
			}
		}
	}
}

// span is a part of a block.
type span struct{ off, len int }

func (s span) of(data []byte) []byte { return data[s.off : s.off+s.len : s.off+s.len] }

// log is not safe for concurrent use, but what view returns may be read while records are put.
type log struct {
	blocks []block
	seq    int    // of blocks[0], counted from the beginning of the run
	next   uint64 // number of the next event
	size   int    // bytes of all blocks
	large  int    // size of the largest block that is made for more than one record
	sealed bool   // the last block takes no more records

	// Of the last block: the uri of its last record, and the places of uris written lately, for bots that write at the same time.
	uri    span
	hasURI bool
	lately [4]struct{ at, span span }
	turn   int
}

// begin returns the number of the first event that the log still has.
func (l *log) begin() uint64 {
	if len(l.blocks) == 0 {
		return l.next
	}
	return l.blocks[0].first
}

// same says whether the last record has this uri.
func (l *log) same(uri []byte) bool {
	return l.hasURI && bytes.Equal(l.uri.of(l.blocks[len(l.blocks)-1].data), uri)
}

// put appends a record. hidden and terminal are marks of it.
func (l *log) put(e *Event, hidden, terminal bool) {
	// The most that a record can take: head, two lengths, and what they count.
	need := 1 + 2*binary.MaxVarintLen64 + len(e.URI) + len(e.Name) + len(e.Value)
	if len(l.blocks) == 0 || l.sealed || cap(l.blocks[len(l.blocks)-1].data)-len(l.blocks[len(l.blocks)-1].data) < need {
		l.grow(need)
	}
	b := &l.blocks[len(l.blocks)-1]
	data := b.data

	head := byte(e.Kind)
	if hidden {
		head |= headHidden
	}
	same := terminal || e.Kind != Named && l.same(e.URI)
	if same {
		head |= headSame
	}
	if n := len(e.Value); n < headLong {
		data = append(data, head|byte(n)<<4)
	} else {
		data = append(data, head|headLong<<4)
		data = binary.AppendUvarint(data, uint64(n-headLong))
	}
	switch {
	case e.Kind == Named:
		data = append(data, byte(len(e.Name)))
		data = append(data, e.Name...)
	case !same:
		data = l.putURI(data, e.URI)
	}
	b.data = append(data, e.Value...)
	l.next++
}

func (l *log) putURI(data, uri []byte) []byte {
	l.hasURI = true
	for _, x := range l.lately {
		if x.at.len > 0 && x.span.len == len(uri) && string(x.span.of(data)) == string(uri) {
			l.uri = x.span
			return binary.AppendUvarint(data, uint64(x.at.off)<<1|1)
		}
	}
	at := len(data)
	data = binary.AppendUvarint(data, uint64(len(uri))<<1)
	l.uri = span{len(data), len(uri)}
	l.lately[l.turn].at, l.lately[l.turn].span = span{at, len(data) - at}, l.uri
	l.turn = (l.turn + 1) % len(l.lately)
	return append(data, uri...)
}

// grow adds a block with room for need bytes. Blocks grow with the log, so that no more than a quarter of it is unused.
func (l *log) grow(need int) {
	n := minBlock
	if quarter := l.size / 4; quarter > n {
		n = 1 << (bits.Len(uint(quarter)) - 1)
	}
	n = max(min(n, l.large), need)
	l.blocks = append(l.blocks, block{l.next, make([]byte, 0, n)})
	l.size += n
	l.hasURI, l.sealed = false, false
	clear(l.lately[:])
}

// shift takes the first block out.
func (l *log) shift() {
	l.size -= cap(l.blocks[0].data)
	l.blocks = slices.Delete(l.blocks, 0, 1)
	l.seq++
}

// find moves c to the beginning of the block that holds event n, or would hold it next.
func (l *log) find(c *cursor, n uint64) {
	i, ok := slices.BinarySearchFunc(l.blocks, n, func(b block, n uint64) int { return cmp.Compare(b.first, n) })
	if !ok && i > 0 {
		i--
	}
	*c = cursor{seq: l.seq + i, n: l.next}
	if i < len(l.blocks) {
		c.n = l.blocks[i].first
	}
}

// view returns the records of c's block as far as there are any now; nil when c is at the end of the log, and false when
// its block is no longer there.
func (l *log) view(c *cursor) (data []byte, ok bool) {
	i := c.seq - l.seq
	if i < 0 {
		return nil, false
	}
	if i < len(l.blocks) && c.off == len(l.blocks[i].data) && i+1 < len(l.blocks) {
		i++
		*c = cursor{seq: l.seq + i, n: l.blocks[i].first}
	}
	if i >= len(l.blocks) || c.off == len(l.blocks[i].data) {
		return nil, true
	}
	return l.blocks[i].data, true
}

// cursor is a place in a log. It holds no memory of it.
type cursor struct {
	seq int    // of the block
	off int    // of the next record in it
	n   uint64 // number of that record's event
	uri span   // of the record before, in the same block
}

// read decodes the record at c from its block's data and moves behind it.
func (c *cursor) read(data []byte) (e Event, terminal bool) {
	head := data[c.off]
	i := c.off + 1
	e.N, e.Kind, e.Hidden = c.n, Kind(head&headKind), head&headHidden != 0
	n := int(head >> 4)
	if n == headLong {
		v, k := binary.Uvarint(data[i:])
		n += int(v)
		i += k
	}
	if e.Kind == Named {
		terminal = head&headSame != 0
		k := int(data[i])
		e.Name = string(data[i+1 : i+1+k])
		i += 1 + k
	} else {
		if head&headSame == 0 {
			v, k := binary.Uvarint(data[i:])
			i += k
			at := i
			if v&1 == 0 {
				i += int(v >> 1)
			} else {
				at = int(v >> 1)
				v, k = binary.Uvarint(data[at:])
				at += k
			}
			c.uri = span{at, int(v >> 1)}
		}
		e.URI = c.uri.of(data)
	}
	e.Value = data[i : i+n : i+n]
	c.off = i + n
	c.n++
	return e, terminal
}
