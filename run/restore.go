package run

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/once"
)

// lineage is what a key says of its run: what it is of, whose it is, and when it was claimed.
type lineage struct {
	claimed
	at time.Time
}

// restore finds what earlier servers have left in the folder: ended runs, runs that they were in the middle of, and keys of runs that have
// left nothing.
func (s *Service) restore(now time.Time) error {
	s.disk.settler.start()
	files, err := s.disk.list()
	if err != nil {
		return err
	}
	heads := make(map[string]header, len(files))
	for id := range files {
		if h, err := s.disk.header(id); err == nil { // what is wrong with it is found out when it is asked for
			heads[id] = header{Owner: h.Owner, Keyed: h.Keyed} // there may be many runs
		}
	}
	lost, err := s.keyedWithout(heads)
	if err != nil {
		return err
	}
	for id, info := range files {
		h, readable := heads[id]
		if l, keyed := lost[id]; !readable { // it is as its key says; without one it is nobody's in particular
			h.Owner, h.Keyed = l.Owner, keyed
		}
		// The file's age by the wall clock, which may have been set meanwhile: never less than nothing.
		age := max(0, now.Sub(info.ModTime()))
		expires := now.Add(s.retention(h.Keyed) - age)
		if !now.Before(expires) {
			if err := s.disk.remove(id); err != nil {
				return err
			}
			s.expired.add(id, h.Owner)
			continue
		}
		s.onDisk[id] = stored{owner: h.Owner, expires: expires, size: info.Size()}
	}
	if err := s.restoreRunning(now, files); err != nil {
		return err
	}
	maps.DeleteFunc(lost, func(id string, _ lineage) bool { return files[id] != nil || s.known(id) })
	return s.restoreLost(lost)
}

// keyedWithout returns the runs that keys lead to and that have no file which can be read.
func (s *Service) keyedWithout(heads map[string]header) (map[string]lineage, error) {
	lost := map[string]lineage{}
	err := s.keys.Each(s.ctx, func(run string) bool {
		_, ok := heads[run]
		return !ok && ValidID(run)
	}, func(c once.Claim) bool {
		l := lineage{at: c.At}
		_ = json.Unmarshal(c.Of, &l.claimed) // of a key that was moved it may be another run's
		lost[c.Run] = l
		return true
	})
	return lost, err
}

// restoreLost sees to runs that have left nothing but a key: the server ended in their middle. What they had made is lost, and they must not
// run again.
func (s *Service) restoreLost(lost map[string]lineage) error {
	free := map[string]bool{}
	for id, l := range lost {
		if w, ok := s.o.Workflows.Get(l.Workflow); ok && w.Info().Restart {
			// It does nothing before it is written down, and may do twice what it does: the key is free again.
			free[id] = true
		} else if s.save(newLostRun(id, l)) {
			s.log.Warn("run cut off: the server ended", "run", id)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return s.keys.Each(s.ctx, func(run string) bool { return free[run] }, func(once.Claim) bool { return false })
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
func newLostRun(id string, l lineage) *Run {
	failure := ling.ErrorData{Code: codeInternal, Message: LostMessage, Retryable: true, Fatal: true}
	r := &Run{
		ID: id, Of: l.Subject, owner: l.Owner, tube: tube.New(id, TubeOptions(0)), Keyed: true, Lost: true, Began: l.at,
		done: make(chan struct{}), entry: noLog{}, result: Result{Status: StatusInterrupted, Errors: []ling.ErrorData{failure}},
	}
	started, _ := json.Marshal(struct {
		Run string `json:"run"`
		Subject
	}{id, l.Subject})
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
