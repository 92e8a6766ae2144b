package agui

import (
	"bytes"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// steps are the bots of a workflow that are at work: a step is open from a bot's first event to the last "usage" of those that
// have begun under its name.
type steps struct {
	bots []step
	last []byte // the root that was seen last
}

type step struct {
	Bot
	pattern *jsonuri.Pattern // of what is at its root or below
	depth   int              // segments of the root
	roots   map[string]bool  // that it has written at
	ended   int
	open    bool
}

func (s *steps) init(bots []Bot) {
	for _, b := range bots {
		below := b.Root + "/**"
		if b.Root == "" {
			below = "**"
		}
		if p, err := jsonuri.CompilePattern(below); err == nil {
			s.bots = append(s.bots, step{Bot: b, pattern: p, depth: segments(b.Root)})
		}
	}
}

// segments counts those of a uri or a pattern.
func segments(uri string) (n int) {
	for at := 0; uri != "" && at <= len(uri); n++ {
		at = segmentEnd([]byte(uri), at) + 1
	}
	return n
}

// segmentEnd is where the segment ends that begins at start.
func segmentEnd(uri []byte, start int) int {
	for i := start; i < len(uri); i++ {
		if uri[i] == '\\' {
			i++
		} else if uri[i] == '/' {
			return i
		}
	}
	return len(uri)
}

// see notes that something was written at a uri.
func (s *steps) see(dst, uri []byte) []byte {
	if len(s.bots) == 0 || s.last != nil && bytes.Equal(s.last, uri) {
		return dst
	}
	s.last = append(s.last[:0], uri...)
	if s.last == nil {
		s.last = []byte{}
	}
	at := -1
	for i := range s.bots {
		if b := &s.bots[i]; (at < 0 || b.depth > s.bots[at].depth) && b.pattern.Match(uri) {
			at = i
		}
	}
	if at < 0 {
		return dst
	}
	b, end := &s.bots[at], 0
	for i := range b.depth {
		if i > 0 {
			end++
		}
		end = segmentEnd(uri, end)
	}
	if b.roots[string(uri[:end])] {
		return dst
	}
	if b.roots == nil {
		b.roots = map[string]bool{}
	}
	b.roots[string(uri[:end])] = true
	if b.open || b.ended >= len(b.roots) {
		return dst
	}
	b.open = true
	return b.tell(dst, stepStarted)
}

// end notes that a bot's model has ended.
func (s *steps) end(dst []byte, bot string) []byte {
	for i := range s.bots {
		b := &s.bots[i]
		if b.Name != bot {
			continue
		}
		if b.ended++; b.open && b.ended >= len(b.roots) {
			b.open = false
			return b.tell(dst, stepFinished)
		}
	}
	return dst
}

// reopen tells a client of the steps that are open, which has not been told.
func (s *steps) reopen(dst []byte) []byte {
	for i := range s.bots {
		if b := &s.bots[i]; b.open {
			dst = b.tell(dst, stepStarted)
		}
	}
	return dst
}

// close ends all steps.
func (s *steps) close(dst []byte) []byte {
	for i := range s.bots {
		if b := &s.bots[i]; b.open {
			b.open = false
			dst = b.tell(dst, stepFinished)
		}
	}
	return dst
}

func (b *step) tell(dst []byte, kind string) []byte {
	return frame.End(frame.Text(frame.Begin(dst, kind), "stepName", b.Name))
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
