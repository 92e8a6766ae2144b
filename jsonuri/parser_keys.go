package jsonuri

import (
	"hash/maphash"
	"slices"
)

// seenKeys finds repeated keys of the open objects by a hash of each. The hashes of all open objects lie on one stack, the
// innermost object's on top, so that opening and closing an object costs nothing; an object with many keys gets a table
// over its part of the stack.
type seenKeys struct {
	seed   maphash.Seed
	hashes []uint64
}

// fewKeys is how many keys are looked through one by one before a table pays.
const fewKeys = 12

// add notes a key of the object whose hashes begin at start, and reports whether it was there. table is the object's own; it
// is empty while keys are few.
func (s *seenKeys) add(start int, table *keyTable, key []byte) (repeated bool) {
	hash := maphash.Bytes(s.seed, key)
	known := s.hashes[start:]
	if len(known) < fewKeys {
		repeated = slices.Contains(known, hash)
	} else {
		if 4*len(known) >= 3*len(*table) {
			table.rebuild(known)
		}
		repeated = !table.insert(hash)
	}
	if !repeated {
		s.hashes = append(s.hashes, hash)
	}
	return repeated
}

// keyTable is an open-addressed set of hashes; its length is a power of two or zero. A slot holds the upper half of a hash,
// whose lower half says where the slot is: half the memory of a whole one, and hardly a wrong match among a billion keys.
type keyTable []uint32

// rebuild makes the table large enough for three times as many hashes as known has, and inserts those. It clears only the part
// in use, so that what a large object has left costs a small one nothing.
func (t *keyTable) rebuild(known []uint64) {
	size := 64
	for size < 4*len(known) {
		size *= 2
	}
	*t = slices.Grow((*t)[:0], size)[:size]
	clear(*t)
	for _, hash := range known {
		t.insert(hash)
	}
}

// insert adds hash; false if it was there.
func (t keyTable) insert(hash uint64) bool {
	mask := uint64(len(t) - 1)
	mark := uint32(hash>>32) | 1 // zero marks a free slot
	for i := hash & mask; ; i = (i + 1) & mask {
		switch t[i] {
		case 0:
			t[i] = mark
			return true
		case mark:
			return false
		}
	}
}
