package logs

// Slots is how many tapes the store remembers.
func (s *Store) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}
