package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/ling"
)

// What a note says.
const (
	noteWorkflow = "workflow" // the run begins; what was noted before does not count
	noteResume   = "resume"   // starts that had not ended begin again, and what they had started does not count
	noteStart    = "start"
	noteRoot     = "root"   // of a start, where it is not all of the document
	noteMember   = "member" // a start writes to a member of its answer
	noteEnd      = "end"    // of a start, or of a bot whose condition has failed
	noteWait     = "wait"   // a wait is over, and has fired
)

// note is what a run has done, and what it goes on from if its process is lost: see [ling.Manager.Note]. A start is noted before its bot writes
// anything, and its end when all that it has fired is noted.
type note struct {
	Do       string          `json:"do"`
	Workflow string          `json:"workflow,omitempty"` // its fingerprint
	Start    int             `json:"start,omitempty"`    // number, from 1
	Bot      int             `json:"bot,omitempty"`      // index
	By       int             `json:"by,omitempty"`       // number of the start that has fired it
	Wait     int             `json:"wait,omitempty"`     // number of the wait that has fired it, from 1
	Event    json.RawMessage `json:"event,omitempty"`    // that has fired it
	URI      string          `json:"uri,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
	Handled  bool            `json:"handled,omitempty"`
}

func (r *run) note(n note) { r.manager.Note(rawjson.MustMarshal(n)) }

// maxNoted is how long a value is that a note has, in bytes of JSON. A longer one is left out: it is in the document.
const maxNoted = 4 << 10

// noteStart notes that bot i is started.
func (r *run) noteStart(i int, ev event) {
	n := note{Do: noteStart, Start: ev.start, Bot: i, By: ev.by, Wait: ev.wait}
	if ev.Event != nil {
		if vars := *ev.Event; len(vars.Value) > maxNoted {
			vars.Value = nil
			ev.Event = &vars
		}
		n.Event = rawjson.MustMarshal(ev)
	}
	r.note(n)
}

// maxMembers is how many members of a start are noted; beyond that, it is taken to have written everywhere at its root.
const maxMembers = 64

// noteMembers returns what notes the members that a start writes.
func (r *run) noteMembers(start int, root string) func(uri string) {
	count := 0
	return func(uri string) {
		if count++; count > maxMembers {
			return
		}
		if count == maxMembers {
			uri = root
		}
		r.note(note{Do: noteMember, Start: start, URI: uri})
	}
}

// started is a start as notes tell it.
type started struct {
	note
	root    string
	members []string
	ended   bool
	failed  bool // and nothing handles that
	gone    bool // it was started by one that began again
	ev      event
}

// history is what the notes of a run come to.
type history struct {
	starts []*started   // by their numbers
	waits  map[int]bool // that have fired
	failed map[int]int  // by bot, how often its condition has failed and nothing handles that
}

// fingerprint is the same for workflows with the same bots and triggers.
func (s *spec) fingerprint() string {
	g := *s.graph()
	for i := range g.Bots {
		g.Bots[i].Model = ""
	}
	text, _ := rawjson.Marshal(g)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// history reads the notes of a run; nil where they are of another workflow.
func (s *spec) history(notes [][]byte) *history {
	var h *history
	for _, text := range notes {
		var n note
		if json.Unmarshal(text, &n) != nil {
			return nil
		}
		if n.Do == noteWorkflow {
			if h = nil; n.Workflow == s.fingerprint() {
				h = &history{waits: map[int]bool{}, failed: map[int]int{}}
			}
		} else if h == nil || !h.add(n, len(s.bots)) {
			return nil
		}
	}
	return h
}

// add adds the next note. It returns false if the note does not fit.
func (h *history) add(n note, bots int) bool {
	switch n.Do {
	case noteResume:
		h.cut()
		return true
	case noteWait:
		h.waits[n.Wait-1] = true
		return true
	case noteStart:
		for len(h.starts) < n.Start-1 { // of one that was counted and could not be noted
			h.starts = append(h.starts, &started{gone: true})
		}
		h.starts = append(h.starts, &started{note: n})
		if n.Wait > 0 {
			h.waits[n.Wait-1] = true
		}
		return n.Start == len(h.starts) && n.Bot < bots && n.By < n.Start
	case noteEnd:
		if n.Start == 0 {
			if !n.Handled {
				h.failed[n.Bot]++
			}
			return n.Bot < bots
		}
	}
	if n.Start < 1 || n.Start > len(h.starts) {
		return false
	}
	s := h.starts[n.Start-1]
	switch n.Do {
	case noteRoot:
		s.root = n.URI
	case noteMember:
		s.members = append(s.members, n.URI)
	case noteEnd:
		s.ended, s.Failed, s.failed = true, n.Failed, n.Failed && !n.Handled
	}
	return true
}

// cut returns the starts that had not ended, which begin again unless another of them has fired them, and all whose output is taken back by that.
func (h *history) cut() (again, back []*started) {
	for _, s := range h.starts {
		if s.gone {
			continue
		}
		by := s.By > 0 && (h.starts[s.By-1].gone || !h.starts[s.By-1].ended)
		if s.ended && !by {
			continue
		}
		old := *s
		back = append(back, &old)
		s.root, s.members = "", nil
		if s.gone = by; !by {
			again = append(again, s)
		}
	}
	return again, back
}

// resume goes on from the notes of a run; false where it begins once more.
func (r *run) resume(notes [][]byte) bool {
	m := r.manager
	r.settled = true // what has fired before is not known, so that nothing is warned of
	h := r.spec.history(notes)
	if h == nil {
		retractAll(m)
		return false
	}
	document := m.Tube().Document(true)
	again, back := h.cut()
	r.retract(h, back)
	r.note(note{Do: noteResume})
	failed := map[string]int{}
	for bot, count := range h.failed {
		failed[r.spec.bots[bot].name] += count
	}
	for _, s := range h.starts {
		if s.gone {
			continue
		}
		p := &r.bots[s.Bot]
		p.started++
		r.hits[s.Bot] = true
		r.started++
		switch {
		case s.Failed && s.ended:
			p.failed++
		case s.ended:
			p.finished++
		default:
			_ = json.Unmarshal(s.Event, &s.ev) // a start that nothing has fired has none
			s.ev.start, s.ev.by, s.ev.wait = s.Start, s.By, s.Wait
			if e := s.ev.Event; e != nil && e.URI != nil && e.Value == nil {
				e.Value, _ = document.Get(*e.URI)
			}
		}
		if s.failed {
			failed[r.spec.bots[s.Bot].name]++
		}
	}
	for bot, count := range h.failed {
		r.bots[bot].failed += count
	}
	m.Failures(func(e ling.ErrorData) bool {
		failed[e.Bot]--
		return failed[e.Bot] >= 0
	})
	r.number, r.fired = len(h.starts), h.waits
	r.begin(again)
	return true
}

// retractAll takes back all that a run has made: it begins once more.
func retractAll(m *ling.Manager) {
	m.TakeBack([]ling.Part{{URIs: []string{""}}}, nil)
	m.Failures(func(ling.ErrorData) bool { return false })
}

// retract takes back what starts have written that begin again, or that these had fired.
func (r *run) retract(h *history, back []*started) {
	var kept []string
	shared := map[string]bool{"": true} // roots at which others have written
	for _, s := range h.starts {
		if s.ended && !s.gone {
			kept = append(kept, s.root)
			shared[s.root] = true
		}
	}
	var parts []ling.Part
	for _, s := range back {
		b := r.spec.bots[s.Bot]
		part := ling.Part{Bot: b.name, Root: s.root, URIs: s.members, Quiet: b.quiet}
		if len(s.members) > 0 && !shared[s.root] {
			part.URIs = []string{s.root}
		}
		parts = append(parts, part)
		if b.filter != nil {
			defer r.manager.Tube().AddFilter(b.filter.below(s.root))()
		}
	}
	r.manager.TakeBack(parts, kept)
}
