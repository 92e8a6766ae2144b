package adaptertest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

const (
	damages = 400      // streams that are damaged, each in its own way
	most    = 24 << 10 // bytes of a damaged stream
)

// testDamaged damages answers as bad networks, proxies and servers do, and some as nobody does: whatever comes, the stream ends, by
// a finish or by one error, and says the same however it is cut. It takes no more memory than its length is worth.
func testDamaged(t *testing.T, s Subject) {
	w := s.Wire
	streams := [][]byte{
		s.recorded(t, s.everything(difficult)),
		[]byte(w.Open + w.Ping + w.Text("Hello") + w.Text(", ") + w.Ping + w.Text("world") + w.Finish + w.Done),
		[]byte(w.Open + w.Text(Key) + w.Error + w.Finish + w.Done),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for seed := range uint64(damages) {
		stream := Damaged(seed, streams...)
		if s.feed(t, stream); t.Failed() {
			t.Fatalf("seed %d: %q", seed, stream)
		}
	}
	runtime.ReadMemStats(&after)
	// Each is read four times; a reader's own buffers and the errors of one answer are far below this.
	if each := (after.TotalAlloc - before.TotalAlloc) / damages; each > 4<<20 {
		t.Errorf("%d KiB are allocated for a stream of at most %d KiB", each>>10, most>>10)
	}
}

// Damaged returns one of the streams as it may arrive after all sorts of accidents; which ones comes from the seed.
func Damaged(seed uint64, streams ...[]byte) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	stream := streams[random.IntN(len(streams))]
	other := streams[random.IntN(len(streams))]
	for range 1 + random.IntN(3) {
		stream = damage(random, stream, other)
	}
	return stream
}

// damage changes a stream in one way.
func damage(random *rand.Rand, stream, other []byte) []byte {
	if len(stream) == 0 {
		return other
	}
	frames := framesOf(stream)
	i, j := random.IntN(len(frames)), random.IntN(len(frames))
	switch random.IntN(10) {
	case 0: // a bit
		stream = bytes.Clone(stream)
		stream[random.IntN(len(stream))] ^= 1 << random.IntN(8)
		return stream
	case 1: // a byte that means something to somebody
		const marks = "\"\\{}[]:,\n\r\x00 0e-\xf0\x9f\xed\xa0\xff"
		stream = bytes.Clone(stream)
		stream[random.IntN(len(stream))] = marks[random.IntN(len(marks))]
		return stream
	case 2: // the end is missing
		return stream[:random.IntN(len(stream))]
	case 3: // a piece is missing, with no regard to frames
		from := random.IntN(len(stream))
		return slices.Concat(stream[:from], stream[min(len(stream), from+1+random.IntN(40)):])
	case 4: // a frame is missing
		frames = slices.Delete(frames, i, i+1)
	case 5: // a frame comes twice
		frames = slices.Insert(frames, j, frames[i])
	case 6: // frames come in another order
		frames[i], frames[j] = frames[j], frames[i]
	case 7: // a frame comes again and again
		n := min(300, max(1, (most-len(stream))/max(1, len(frames[i]))))
		frames = slices.Insert(frames, j, slices.Repeat([][]byte{frames[i]}, n)...)
	case 8: // two answers are mixed
		frames = slices.Concat(frames[:i], framesOf(other), frames[i:])
	default: // a line's end is another one
		return bytes.ReplaceAll(stream, []byte("\n"), []byte([]string{"\r\n", "\r", "\n\n", ""}[random.IntN(4)]))
	}
	return slices.Concat(frames...)
}

// framesOf takes a stream apart: at blank lines, or at every line where there are none. Messages of an AWS event stream begin with their
// length.
func framesOf(stream []byte) (frames [][]byte) {
	for rest := stream; len(rest) > 4 && rest[0] == 0; {
		n := min(len(rest), max(1, int(binary.BigEndian.Uint32(rest))))
		if frames, rest = append(frames, rest[:n]), rest[n:]; len(rest) == 0 {
			return frames
		}
	}
	end := []byte("\n\n")
	if !bytes.Contains(stream, end) {
		end = end[:1]
	}
	return bytes.SplitAfter(stream, end)
}
