package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/file"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// Runs that go on are kept in a log, for those who come back after a crash: see package runlog. A run that has ended has a file of its own
// as soon as it leaves memory, or has a key, and is dropped from the log when that is safe (see settler).

// journalFolderName is where the log of a server that is alone has its files.
const journalFolderName = "running"

// codeNotDurable is said of what is not kept on disk.
const codeNotDurable = file.CodeNotDurable

// opening is what a log says of a run in its beginning.
type opening struct {
	header
	From    uint64    `json:"from,omitempty"`    // number of its first event
	Attempt int       `json:"attempt,omitempty"` // how often it was begun before
	Again   *Request  `json:"again,omitempty"`   // what it is run again from; nil for one that is not
	Caller  string    `json:"caller,omitempty"`  // whom it is counted for
	Role    tool.Role `json:"role,omitempty"`    // of who has started it
	KeyTag  string    `json:"key_tag,omitempty"` // of the API key that started it
}

// opening is what a log is told of the run.
func (r *Run) opening() []byte {
	o := opening{header: header{Run: r.ID, Owner: r.owner, Subject: r.Of, Keyed: r.Keyed, Began: r.Began.Round(0)}}
	o.Session = r.session
	if r.restart != nil {
		o.From, o.Attempt, o.Again, o.Caller, o.Role, o.KeyTag = r.restart.from, r.restart.crashes(r.machine.is(runHandedOver)), &r.restart.request, r.caller, r.restart.role, r.keyTag
	}
	return mustJSON(o)
}

// mustJSON is for what can always be JSON: our own types, and text of requests that was read as such.
func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("web: %w", err))
	}
	return text
}

// keepInLog has a run kept as it goes.
func (s *Service) keepInLog(r *Run) {
	r.entry = s.shared.Runs.Keep(runlog.Run{ID: r.ID, Opening: r.opening(), Tube: r.tube, Trouble: r.trouble})
	if r.tube.Held() {
		s.moving.Go(func() { s.watchFull(r) })
	}
}

// trouble is told what becomes of a run in its log. It is called by the log's goroutine.
func (r *Run) trouble(err error) {
	m := r.manager.Load()
	switch {
	case errors.Is(err, runlog.ErrFenced), errors.Is(err, runlog.ErrLost):
		r.where.leave()
		if m != nil {
			m.Stop(ErrMoved)
		}
	case m != nil && !r.tube.Held() && !r.warned: // readers of a held tube see that nothing comes
		r.warned = true
		_ = m.SendEvent("warning", map[string]string{
			"code": codeNotDurable, "message": "the server cannot store this run now; a crash would lose the run",
		})
	}
}

// reopen has the beginning of a run written once more: what it says has changed.
func (r *Run) reopen() {
	if e, ok := r.entry.(runlog.Reopener); ok {
		e.Reopen(r.opening())
	}
}

// keepEnd has the rest of a run kept, and what came of it.
func (r *Run) keepEnd() { r.entry.End(mustJSON(headerOf(r))) }

// flush waits until all that runs have sent is kept, or cannot be, or ctx has ended.
func (s *Service) flush(ctx context.Context) {
	_ = s.shared.Runs.Flush(ctx) // the log says by itself what it cannot keep
}

// closeJournal writes what there is, for good, to the log of a server that is alone.
func (s *Service) closeJournal() error {
	if s.disk == nil {
		return nil
	}
	return s.shared.Runs.Close()
}

// openJournal opens the log of a server that is alone, and returns what is left of runs, those that began first first.
func (s *Service) openJournal() ([]*leftRun, error) {
	l, list, err := file.Open(s.disk.root, journalFolderName, file.Options{
		Tube: func() *tube.Options { return TubeOptions(s.o.MaxLog) },
		Log:  s.log,
	})
	if err != nil {
		return nil, err
	}
	s.shared.Runs = localLog{l}
	var runs []*leftRun
	for _, left := range list {
		p, err := readLeft(left)
		if err != nil {
			s.log.Warn("cannot read a stored run", "run", wording.Clip(left.ID), "error", err)
			l.Keep(runlog.Run{ID: left.ID, Tube: left.Tube}).Drop()
			continue
		}
		p.entry = leftEntry{l, left}
		runs = append(runs, p)
	}
	slices.SortFunc(runs, func(a, b *leftRun) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Run, b.Run))
	})
	return runs, nil
}

// leftEntry is of a run that was left and that nobody goes on with: the log has it until it is dropped.
type leftEntry struct {
	log  runlog.Log
	left *runlog.Left
}

// End has nothing to do: what is known of the end, the log has, or it is found out again.
func (leftEntry) End([]byte) {}

// Drop forgets the run.
func (e leftEntry) Drop() {
	e.log.Keep(runlog.Run{ID: e.left.ID, Opening: e.left.Opening, Tube: e.left.Tube}).Drop()
}

// leftRun is a run as a log has it.
type leftRun struct {
	opening
	tube  *tube.Tube
	ended *header // what came of it; nil where that is not known
	entry runlog.Entry
}

// readLeft reads what was left of a run.
func readLeft(left *runlog.Left) (*leftRun, error) {
	p := &leftRun{tube: left.Tube}
	if err := json.Unmarshal(left.Opening, &p.opening); err != nil {
		return nil, fmt.Errorf("its opening: %s", wording.ClipTo(err.Error(), 200))
	}
	if p.Run != left.ID || !ValidID(p.Run) {
		return nil, fmt.Errorf("its opening is of %q", wording.Clip(p.Run))
	}
	if left.Head != nil {
		p.ended = new(header)
		if err := json.Unmarshal(left.Head, p.ended); err != nil {
			return nil, fmt.Errorf("its head: %s", wording.ClipTo(err.Error(), 200))
		}
	}
	return p, nil
}

func hasEnded(t *tube.Tube) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// cutMessage is what clients are told about a run that the end of the server has cut off.
const cutMessage = "the server stopped during this run; the run's events so far are kept"

// Epoch is how many numbers of events each attempt of a run has, and its end after a crash: more than any sends, so that no
// number ever means two events, whatever was seen before it could be written down. They stay far below 2⁵³.
const Epoch = 1 << 32

// nextEpoch is the number of the first event that nobody can have seen.
func nextEpoch(t *tube.Tube) uint64 { return (t.Len()/Epoch + 1) * Epoch }

// run makes of it a run that has ended, cutting it off where it has not.
func (p *leftRun) run(message string) *Run {
	t := p.tube
	r := &Run{
		ID: p.Run, Of: p.Subject, owner: p.Owner, session: p.Session, tube: t, Keyed: p.Keyed, Began: p.Began, done: make(chan struct{}),
		entry: p.entry,
	}
	if !hasEnded(t) {
		if !t.Held() { // nobody has seen what was not stored
			t.Leap(nextEpoch(t))
		}
		if p.Keyed {
			message += "; start it again with another Idempotency-Key"
		}
		data, _ := json.Marshal(ling.ErrorData{Code: codeInternal, Message: message, Retryable: true, Fatal: true})
		_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "error", Value: data}) // cannot fail: it goes on, and this is JSON
		_ = t.Close(StatusInterrupted)
	}
	if p.ended != nil {
		r.result = p.ended.Result
	} else {
		r.result = resultFromEvents(t)
		r.result.Session = p.Session
	}
	close(r.done)
	return r
}

// status is that of one that has ended.
func (p *leftRun) status() string {
	if p.ended != nil {
		return p.ended.Status
	}
	return resultFromEvents(p.tube).Status
}

// resultFromEvents puts together what the events of a run say of it.
func resultFromEvents(t *tube.Tube) Result { return resultOf(ling.ResultOf(t)) }
