package tables

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/lingserve/lingserve/store"
)

// A table is a file: a head, and behind it a frame for each change, in the order of revisions. All numbers are little-endian.
//
//	head    8 bytes "LSTABLE1", revision (8), CRC-32C of both (4)
//	frame   80 bytes, see putHead; key; meta; body, unless it is that of an earlier frame
//
// A checksum covers the frame's offset too, so a frame that is left over at another place is not taken for one of the file.

const (
	fileMark  = "LSTABLE1"
	fileHead  = len(fileMark) + 8 + 4
	frameHead = 80
)

var frameMark = []byte{0xf1, 'L', 'S', 'R'}

// kind is what a frame says of its key.
type kind uint8

const (
	kindPut    kind = 1
	kindDelete kind = 2
	kindDead   kind = 3 // its key and meta are erased; a deletion still has its IDs and revisions
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is the head of a frame, with its key and meta.
type frame struct {
	kind      kind
	key, meta []byte // the meta of a deletion is the ID of the put that was deleted
	bodyCRC   uint32
	bodyLen   uint32
	bodyAt    int64 // where the body is in the file; of a deletion, the revision that was deleted
	made, rev uint64
	at        int64 // Unix ms
	expires   int64 // Unix ms; 0: never
	id        [16]byte
}

// headLen is the length of the frame without its body.
func (f *frame) headLen() int64 { return int64(frameHead + len(f.key) + len(f.meta)) }

// len is the length of the frame at an offset.
func (f *frame) len(off int64) int64 {
	if n := f.headLen(); f.bodyAt == off+n {
		return n + int64(f.bodyLen)
	}
	return f.headLen()
}

// size is what counts for the bound of bytes.
func (f *frame) size() int64 { return int64(len(f.key) + len(f.meta) + int(f.bodyLen)) }

func (f *frame) expired(now time.Time) bool { return f.expires != 0 && now.UnixMilli() >= f.expires }

// appendHead appends the frame without its body, for an offset.
func (f *frame) appendHead(dst []byte, off int64) []byte {
	start := len(dst)
	dst = append(dst, frameMark...)
	dst = append(dst, 0, 0, 0, 0) // the checksum
	dst = binary.LittleEndian.AppendUint32(dst, f.bodyCRC)
	dst = append(dst, byte(f.kind), 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.key)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.meta)))
	dst = binary.LittleEndian.AppendUint32(dst, f.bodyLen)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.bodyAt))
	dst = binary.LittleEndian.AppendUint64(dst, f.made)
	dst = binary.LittleEndian.AppendUint64(dst, f.rev)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.at))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.expires))
	dst = append(dst, f.id[:]...)
	dst = append(dst, f.key...)
	dst = append(dst, f.meta...)
	binary.LittleEndian.PutUint32(dst[start+4:], checksum(dst[start+8:], off))
	return dst
}

// checksum is that of a frame behind it, at an offset.
func checksum(rest []byte, off int64) uint32 {
	sum := ^uint32(0) // of the 8 bytes of the offset; what is given to crc32 is allocated
	for shift := 0; shift < 64; shift += 8 {
		sum = castagnoli[byte(sum)^byte(off>>shift)] ^ sum>>8
	}
	return crc32.Update(^sum, castagnoli, rest)
}

// parseLens returns the lengths of the key and meta of a frame whose first frameHead bytes are given; ok is false if it is none.
func parseLens(head []byte) (key, meta int, ok bool) {
	key, meta = int(binary.LittleEndian.Uint16(head[14:])), int(binary.LittleEndian.Uint32(head[16:]))
	return key, meta, bytes.HasPrefix(head, frameMark) && meta <= store.MaxMeta
}

// parseHead reads the frame without its body that text is, at an offset. It shares the text's memory.
func parseHead(text []byte, off int64) (f frame, ok bool) {
	if len(text) < frameHead {
		return f, false
	}
	key, meta, ok := parseLens(text)
	if !ok || len(text) != frameHead+key+meta || binary.LittleEndian.Uint32(text[4:]) != checksum(text[8:], off) {
		return f, false
	}
	f = frame{
		kind:    kind(text[12]),
		key:     text[frameHead : frameHead+key],
		meta:    text[frameHead+key:],
		bodyCRC: binary.LittleEndian.Uint32(text[8:]),
		bodyLen: binary.LittleEndian.Uint32(text[20:]),
		bodyAt:  int64(binary.LittleEndian.Uint64(text[24:])),
		made:    binary.LittleEndian.Uint64(text[32:]),
		rev:     binary.LittleEndian.Uint64(text[40:]),
		at:      int64(binary.LittleEndian.Uint64(text[48:])),
		expires: int64(binary.LittleEndian.Uint64(text[56:])),
		id:      [16]byte(text[64:80]),
	}
	return f, f.kind >= kindPut && f.kind <= kindDead && f.bodyLen <= store.MaxBody && f.bodyAt >= 0
}

// record is what the frame says, without its body.
func (f *frame) record() store.Record { return f.recordOf(string(f.key), bytes.Clone(f.meta)) }

// recordOf is record with copies of the key and meta.
func (f *frame) recordOf(key string, meta []byte) store.Record {
	r := store.Record{Key: key, Made: f.made, Rev: f.rev, Meta: meta, At: time.UnixMilli(f.at)}
	if f.expires != 0 {
		r.Expires = time.UnixMilli(f.expires)
	}
	return r
}

// appendFileHead appends the head of a file whose frames have revisions above rev.
func appendFileHead(dst []byte, rev uint64) []byte {
	start := len(dst)
	dst = append(dst, fileMark...)
	dst = binary.LittleEndian.AppendUint64(dst, rev)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func parseFileHead(head []byte) (rev uint64, ok bool) {
	at := len(fileMark)
	ok = len(head) == fileHead && string(head[:at]) == fileMark && binary.LittleEndian.Uint32(head[at+8:]) == crc32.Checksum(head[:at+8], castagnoli)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint64(head[at:]), true
}
