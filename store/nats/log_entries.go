package nats

import (
	"encoding/binary"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/store"
)

// The data of a message is a sequence of pieces: how much higher the number is than that of the piece before, or of the base in the header;
// the length of the data and two flags; the data. An entry that does not fit into a message goes on in the next one, with the same number.
const (
	pieceMore = 1 << iota // the entry goes on in the next message
	pieceMark
	pieceFlags = 2

	pieceRoom = 2 * binary.MaxVarintLen64
)

// piece is an entry, or a part of one.
type piece struct {
	store.Entry
	cont bool // it begins in a message before
	more bool
}

// part is the data of a message, and the last number before it.
type part struct {
	data []byte
	base uint64
}

func appendPiece(data []byte, step uint64, e *store.Entry, bytes []byte, more bool) []byte {
	size := uint64(len(bytes)) << pieceFlags
	if more {
		size |= pieceMore
	}
	if e.Mark {
		size |= pieceMark
	}
	return append(binary.AppendUvarint(binary.AppendUvarint(data, step), size), bytes...)
}

// encodeEntries writes entries, which have their numbers, behind a number. A batch of more than inline bytes is cut into chunks.
func encodeEntries(entries []store.Entry, base uint64, inline, chunk int) (parts []part) {
	size := 0
	for i := range entries {
		size += len(entries[i].Data) + pieceRoom
	}
	if size <= inline {
		chunk = size
	}
	now := part{make([]byte, 0, min(size, chunk)), base}
	last := base
	for i := range entries {
		e := &entries[i]
		for rest := e.Data; ; {
			step := e.N - last
			n := min(len(rest), chunk-len(now.data)-pieceRoom)
			if n >= 0 && (n == len(rest) || n > 0) {
				now.data = appendPiece(now.data, step, e, rest[:n], n < len(rest))
				rest, last = rest[n:], e.N
				if len(rest) == 0 {
					break
				}
			}
			parts = append(parts, now)
			now = part{make([]byte, 0, min(size, chunk)), last}
		}
	}
	return append(parts, now)
}

// pieces reads the data of a message. It is an ErrDamaged if the message is not as it was written.
func pieces(m *jetstream.RawStreamMsg, p *partHead, all []piece) ([]piece, error) {
	last := p.base
	for data := m.Data; len(data) > 0; {
		step, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, store.ErrDamaged
		}
		data = data[n:]
		size, n := binary.Uvarint(data)
		if n <= 0 || size>>pieceFlags > uint64(len(data)-n) {
			return nil, store.ErrDamaged
		}
		data = data[n:]
		last += step
		end := size >> pieceFlags
		all = append(all, piece{
			Entry: store.Entry{N: last, Data: data[:end:end], Mark: size&pieceMark != 0}, cont: step == 0, more: size&pieceMore != 0,
		})
		data = data[end:]
	}
	return all, nil
}
