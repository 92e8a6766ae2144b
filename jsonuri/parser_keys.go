package jsonuri

import "hash/maphash"

// seenKeys finds repeated keys of the open objects by a hash of each. The hashes of all open objects lie on one stack,
// the innermost object's on top, so that opening and closing an object costs nothing; an object with many keys gets a
// table over its part of the stack.
type seenKeys struct {
	seed   maphash.Seed
	hashes []uint64
}

// fewKeys is how many keys are looked through one by one before a table pays.
const fewKeys = 12

// add notes a key of the object whose hashes begin at start, and says whether it was there. table is the object's own;
// it is empty while keys are few.
func (s *seenKeys) add(start int, table *keyTable, key []byte) (repeated bool) {
	h := maphash.Bytes(s.seed, key)
	own := s.hashes[start:]
	if len(own) < fewKeys {
		for _, o := range own {
			if o == h {
				return true
			}
		}
		s.hashes = append(s.hashes, h)
		return false
	}
	if 4*len(own) >= 3*len(*table) {
		table.rebuild(own)
	}
	if !table.insert(h) {
		return true
	}
	s.hashes = append(s.hashes, h)
	return false
}

// keyTable is an open-addressed set of hashes; its length is a power of two or zero. A slot holds the upper half of a
// hash, whose lower half says where the slot is: half the memory, and still hardly a wrong match among a billion keys.
type keyTable []uint32

// rebuild makes room for three times as many hashes as own has, and inserts them. Only the part in use is cleared, so
// that memory left by a large object costs a small one nothing.
func (t *keyTable) rebuild(own []uint64) {
	size := 64
	for size < 4*len(own) {
		size *= 2
	}
	if cap(*t) < size {
		*t = make(keyTable, size)
	} else {
		*t = (*t)[:size]
		clear(*t)
	}
	for _, h := range own {
		t.insert(h)
	}
}

// insert adds h; false if it was there.
func (t keyTable) insert(h uint64) bool {
	mask := uint64(len(t) - 1)
	mark := uint32(h>>32) | 1 // zero marks a free slot
	for i := h & mask; ; i = (i + 1) & mask {
		switch t[i] {
		case 0:
			t[i] = mark
			return true
		case mark:
			return false
		}
	}
}
