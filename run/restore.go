package run

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// restore finds what earlier servers have left in the folder: keys, ended runs, and runs that they were in the middle of.
func (s *Service) restore(now time.Time) error {
	s.disk.log = s.log
	subjects, err := s.disk.loadKeys(s.keys, now)
	if err != nil {
		return err
	}
	s.disk.settler.start()
	files, err := s.disk.list()
	if err != nil {
		return err
	}
	keyed := make(map[string]time.Time, len(s.keys.entries))
	for _, e := range s.keys.entries {
		keyed[e.id()] = time.Unix(e.at, 0)
	}
	for id, info := range files {
		_, k := keyed[id]
		// The file's age by the wall clock, which may have been set meanwhile: never less than nothing.
		age := max(0, now.Sub(info.ModTime()))
		expires := now.Add(s.retention(k) - age)
		owner, err := s.disk.owner(id)
		if err != nil {
			owner = subjects[id].Owner // as its key says; without one it is nobody's in particular. It is found out when it is asked for.
		}
		if !now.Before(expires) {
			if err := s.disk.remove(id); err != nil {
				return err
			}
			s.expired.add(id, owner)
			continue
		}
		s.onDisk[id] = stored{owner: owner, expires: expires, size: info.Size()}
	}
	if err := s.restoreRunning(now, files); err != nil {
		return err
	}
	// A key whose run has left nothing: the server ended in its middle. What it had made is lost, and it must not run again.
	for id, began := range keyed {
		if _, ok := files[id]; !ok && !s.known(id) {
			if w, ok := s.o.Workflows.Get(subjects[id].Workflow); ok && w.Info().Restart {
				// It does nothing before it is written down, and may do twice what it does: the key is free again.
				s.keys.forget(id)
				continue
			}
			if s.save(newLostRun(id, subjects[id], began)) {
				s.log.Warn("run cut off: the server ended", "run", id)
			}
		}
	}
	return nil
}

// restoreRunning finds the runs that the server before was in the middle of, in its journal.
func (s *Service) restoreRunning(now time.Time, files map[string]fs.FileInfo) error {
	list, err := s.openJournal()
	if err != nil {
		return err
	}
	for _, p := range list {
		if _, ok := files[p.Run]; ok {
			// It had ended, and was written; where the end of the machine has taken that back, it is written again.
			if _, gone := s.expired.owner(p.Run); gone {
				p.entry.Drop()
				continue
			}
			if r, err := s.disk.load(p.Run, s.o.MaxLog); err == nil {
				r.entry = p.entry
				s.settle(r, 1)
				continue
			}
		}
		r := s.restoreEnded(p, now)
		if r == nil {
			s.toRestart = append(s.toRestart, p)
			continue
		}
		s.keepEnded(r)
	}
	s.disk.settler.pass() // what was put above stays in the log until it is safe
	return nil
}

// restoreEnded is what becomes of a run that a journal has: it has ended, and is returned; nil is one that is to be run again.
func (s *Service) restoreEnded(p *leftRun, now time.Time) *Run {
	over := hasEnded(p.tube)
	message := s.whyNotRestarted(p, now)
	if message == "" {
		return nil
	}
	r := p.run(message)
	if !over {
		s.log.WarnContext(r.Context(), "run cut off: the server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
	return r
}

// whyNotRestarted says why a run is not run again that was cut off, as its clients are told; "" where it is.
func (s *Service) whyNotRestarted(p *leftRun, now time.Time) string {
	over := hasEnded(p.tube)
	message := cutMessage
	if p.Again != nil && (!over || p.status() == StatusInterrupted) {
		if !over {
			p.Attempt++ // one that has crashed; a server that is told to go says so to its runs
		}
		switch {
		case p.Attempt >= MaxAttempts:
			message += fmt.Sprintf("; it already started %d times", p.Attempt)
		case now.Sub(p.Began) >= s.o.KeyRetention:
			message += "; it is too old to restart"
		default:
			return ""
		}
	}
	return message
}

// LostMessage is what clients are told about a run that a crash has cut off.
const LostMessage = "the server stopped during this run, and its events are lost; " +
	"start it again with another Idempotency-Key"

// newLostRun stands for a run that a crash has cut off.
func newLostRun(id string, of lineage, began time.Time) *Run {
	failure := ling.ErrorData{Code: codeInternal, Message: LostMessage, Retryable: true, Fatal: true}
	r := &Run{
		ID: id, Of: of.Subject, owner: of.Owner, tube: tube.New(id, TubeOptions(0)), Keyed: true, Lost: true, Began: began,
		done: make(chan struct{}), entry: noLog{}, result: Result{Status: StatusInterrupted, Errors: []ling.ErrorData{failure}},
	}
	started, _ := json.Marshal(struct {
		Run string `json:"run"`
		Subject
	}{id, of.Subject})
	data, _ := json.Marshal(failure)
	for _, e := range []tube.Event{
		{Kind: tube.Named, Name: "started", Value: started},
		{Kind: tube.Named, Name: "error", Value: data},
	} {
		if _, err := r.tube.Send(e); err != nil { // cannot be: the tube is new
			panic(err)
		}
	}
	_ = r.tube.Close(StatusInterrupted)
	close(r.done)
	return r
}
