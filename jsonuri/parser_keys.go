package jsonuri

import (
	"hash/maphash"
	"slices"
)

// seenKeys finds repeated keys of the open objects by a hash of each. The hashes of all open objects lie on one stack, the
// innermost object's on top, so that opening and closing an object costs nothing; an object with many keys gets a set.
type seenKeys struct {
	seed   maphash.Seed
	hashes []uint64
}

// fewKeys is how many keys are looked through one by one before a set pays.
const fewKeys = 12

// add notes a key of the object whose hashes begin at start, and reports whether it was there. set is the object's own; it is
// empty while keys are few.
func (s *seenKeys) add(start int, set *map[uint64]struct{}, key []byte) (repeated bool) {
	hash := maphash.Bytes(s.seed, key)
	few := s.hashes[start:]
	if slices.Contains(few, hash) {
		return true
	}
	if len(few) < fewKeys {
		s.hashes = append(s.hashes, hash)
		return false
	}
	if *set == nil {
		*set = map[uint64]struct{}{}
	}
	n := len(*set)
	(*set)[hash] = struct{}{}
	return len(*set) == n
}
