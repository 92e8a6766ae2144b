package control

import "time"

// Remembered is how long an answer is known after it was given, for those who ask again: longer than anybody waits for one. Beyond
// so many answers, and bytes of them, the oldest are forgotten earlier.
const (
	Remembered = time.Minute

	mostServed      = 4096
	mostServedBytes = 8 << 20
	// mostWaiting is how many may wait for one answer: who asks again does so every second.
	mostWaiting = 64
)

// served knows the requests with an ID that are being served, and the answers of those that were. The lock of the desk guards it.
type served struct {
	known map[string]*serving
	over  []*serving // those that have an answer, the oldest first
	bytes int        // of their answers
}

// serving is one request.
type serving struct {
	key    string // "" for one that is not remembered
	wait   []func([]byte, error)
	over   bool
	answer []byte
	err    error
	at     time.Time // when it had its answer
}

// keyOf is what a request is known by: no command does what another one with the same id was asked for.
func keyOf(r Request) string {
	if r.ID == "" {
		return ""
	}
	return r.Command + "\x00" + r.ID
}

// find finds a request that came before; nil is none.
func (s *served) find(r Request, now time.Time) *serving {
	s.forget(now)
	if r.ID == "" {
		return nil
	}
	return s.known[keyOf(r)]
}

// begin notes a request, and who waits for its answer.
func (s *served) begin(r Request, done func([]byte, error)) *serving {
	k := &serving{key: keyOf(r), wait: []func([]byte, error){done}}
	if k.key != "" {
		if s.known == nil {
			s.known = map[string]*serving{}
		}
		s.known[k.key] = k
	}
	return k
}

// add lets somebody else wait for the answer; false where too many do.
func (k *serving) add(done func([]byte, error)) bool {
	if len(k.wait) >= mostWaiting {
		return false
	}
	k.wait = append(k.wait, done)
	return true
}

// end keeps an answer, and returns those who wait for it.
func (s *served) end(k *serving, answer []byte, err error, now time.Time) (wait []func([]byte, error)) {
	wait, k.wait = k.wait, nil
	if k.key != "" {
		k.over, k.answer, k.err, k.at = true, answer, err, now
		s.over = append(s.over, k)
		s.bytes += len(answer)
		s.forget(now)
	}
	return wait
}

// forget forgets the answers whose time is over, and the oldest while there are too many.
func (s *served) forget(now time.Time) {
	n := 0
	for n < len(s.over) && (now.Sub(s.over[n].at) >= Remembered || len(s.over)-n > mostServed || s.bytes > mostServedBytes) {
		delete(s.known, s.over[n].key)
		s.bytes -= len(s.over[n].answer)
		s.over[n] = nil
		n++
	}
	s.over = s.over[n:]
}
