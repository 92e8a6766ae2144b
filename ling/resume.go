package ling

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/tube"
)

// Resumed is a run that goes on after its process was lost.
type Resumed struct {
	Tube    *tube.Tube // the events so far, behind [tube.Tube.Leap]; readers see its end as Options.HoldEnd says
	Notes   [][]byte   // that the workflow has made with [Manager.Note]
	Attempt int        // 2 for the first time that the run goes on
}

// note is a note of the workflow, and the number of the event that follows it.
type note struct {
	at   uint64
	text []byte
}

// resume takes over what there is of the run.
func (m *Manager) resume(r *Resumed) {
	m.tube = r.Tube
	if m.options.HoldEnd {
		m.tube.HoldEnd()
	}
	m.sum = ResultOf(m.tube)
	m.sum.Status, m.sum.Reason = "", ""
	document, _ := m.tube.Snapshot(true)
	m.written.Store(int64(len(document)))
}

// Note notes what the workflow has done, for [Resumed.Notes] of the run if it is resumed. It is stored together with the events that were sent
// before.
func (m *Manager) Note(text []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, note{m.tube.Len(), text})
}

// Notes returns the notes whose events are all below a number, once.
func (m *Manager) Notes(end uint64) (list [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.notes) > 0 && m.notes[0].at <= end {
		list = append(list, m.notes[0].text)
		m.notes = m.notes[1:]
	}
	return list
}

// Resumed returns the notes of the run before it was resumed; ok is false for a run that begins.
func (m *Manager) Resumed() (notes [][]byte, ok bool) {
	if m.options.Resumed == nil {
		return nil, false
	}
	return m.options.Resumed.Notes, true
}

// Part is what a bot that begins again has written.
type Part struct {
	Bot   string   `json:"bot"`
	Root  string   `json:"root"`
	URIs  []string `json:"-"` // of the document, at its root or below
	Quiet bool     `json:"-"` // clients do not see the bot
}

// TakeBack tells readers that the run goes on, and takes back what bots have written that begin again. What stands at the roots of kept stays.
func (m *Manager) TakeBack(parts []Part, kept []string) {
	hidden := map[string]bool{} // by uri
	for _, p := range parts {
		for _, uri := range p.URIs {
			hidden[uri] = p.Quiet || m.tube.Hides([]byte(uri))
		}
	}
	maps.DeleteFunc(hidden, func(uri string, _ bool) bool {
		return inside(uri, hidden)
	})
	_, reserved := m.tube.Snapshot(true)
	all := m.tube.Document(true)
	var beside map[string]json.RawMessage
	_ = json.Unmarshal(reserved, &beside)
	for uri := range beside {
		root, _, _ := strings.Cut("/"+uri, "/$")
		for _, p := range parts {
			if "/"+p.Root == root || p.Root == root {
				hidden[uri] = p.Quiet || m.tube.Hides([]byte(uri))
			}
		}
	}
	uris := slices.Sorted(maps.Keys(hidden))
	m.Restarted(slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.Quiet || p.Bot == "" }),
		slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return hidden[uri] }))
	set := func(uri string, value []byte, hidden bool) {
		// A run that was just canceled takes no more.
		_, _ = m.tube.Send(tube.Event{Kind: tube.Set, URI: []byte(uri), Value: value, Hidden: hidden})
	}
	for _, uri := range uris {
		_, there := all.Get(uri)
		if there || beside[uri] != nil {
			set(uri, []byte("null"), hidden[uri])
		}
		if uri == "" {
			set(uri, []byte("{}"), hidden[uri])
		}
	}
	for _, root := range kept {
		if value, there := all.Get(root); there && inside(root, hidden) {
			set(root, value, m.tube.Hides([]byte(root)))
		}
	}
}

// inside reports whether uri is inside of one of the uris of a map.
func inside(uri string, outer map[string]bool) bool {
	for i := range len(uri) {
		if _, ok := outer[uri[:i]]; ok && (i == 0 || uri[i] == '/') {
			return true
		}
	}
	return false
}

// Restarted tells readers that the run goes on after its process was lost: which bots begin again, and what is taken back of the document.
func (m *Manager) Restarted(bots []Part, uris []string) {
	_ = m.send("restarted", struct { // a run that was just canceled takes no more
		Attempt int      `json:"attempt"`
		Bots    []Part   `json:"bots"`
		Parts   []string `json:"parts"`
	}{m.options.Resumed.Attempt, append([]Part{}, bots...), append([]string{}, uris...)})
}

// Failures makes failures of before the run was resumed count as its own where keep says so, and as handled otherwise: what has failed is done
// again.
func (m *Manager) Failures(keep func(ErrorData) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range m.sum.Errors {
		switch {
		case !e.Failed || e.Handled:
		case keep(e):
			m.failures = append(m.failures, errors.New(e.Message))
		default:
			m.sum.Errors[i].Handled = true
		}
	}
}
