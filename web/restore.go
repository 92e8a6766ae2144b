package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// restore finds what earlier servers have left in the folder: keys, ended runs, and runs that they were in the middle of.
func (rs *runs) restore(now time.Time) error {
	rs.disk.log = rs.log
	subjects, err := rs.disk.loadKeys(rs.keys, now)
	if err != nil {
		return err
	}
	rs.disk.settler.start()
	files, err := rs.disk.list()
	if err != nil {
		return err
	}
	keyed := make(map[string]time.Time, len(rs.keys.entries))
	for _, e := range rs.keys.entries {
		keyed[e.id()] = time.Unix(e.at, 0)
	}
	for id, info := range files {
		_, k := keyed[id]
		// The file's age by the wall clock, which may have been set meanwhile: never less than nothing.
		age := max(0, now.Sub(info.ModTime()))
		expires := now.Add(rs.retention(k) - age)
		owner, err := rs.disk.owner(id)
		if err != nil {
			owner = subjects[id].Owner // as its key says; without one it is nobody's in particular. It is found out when it is asked for.
		}
		if !now.Before(expires) {
			if err := rs.disk.remove(id); err != nil {
				return err
			}
			rs.expired.add(id, owner)
			continue
		}
		rs.onDisk[id] = stored{owner: owner, expires: expires, size: info.Size()}
	}
	if err := rs.restoreRunning(now, files); err != nil {
		return err
	}
	// A key whose run has left nothing: the server ended in its middle. What it had made is lost, and it must not run again.
	for id, began := range keyed {
		if _, ok := files[id]; !ok && !rs.known(id) {
			if w, ok := rs.o.Workflows.Get(subjects[id].Workflow); ok && w.Info().Restart {
				// It does nothing before it is written down, and may do twice what it does: the key is free again.
				rs.keys.forget(id)
				continue
			}
			if rs.save(lostRun(id, subjects[id], began)) {
				rs.log.Warn("run cut off: the server ended", "run", id)
			}
		}
	}
	return nil
}

// restoreRunning finds the runs that the server before was in the middle of, in its journal.
func (rs *runs) restoreRunning(now time.Time, files map[string]fs.FileInfo) error {
	list, err := rs.openJournal()
	if err != nil {
		return err
	}
	for _, p := range list {
		if _, ok := files[p.Run]; ok {
			// It had ended, and was written; where the end of the machine has taken that back, it is written again.
			if _, gone := rs.expired.owner(p.Run); gone {
				p.entry.Drop()
				continue
			}
			if r, err := rs.disk.load(p.Run, rs.o.MaxLog); err == nil {
				r.entry = p.entry
				rs.settle(r, 1)
				continue
			}
		}
		r := rs.resume(p, now)
		if r == nil {
			rs.cutOff = append(rs.cutOff, p)
			continue
		}
		rs.put(r)
	}
	rs.disk.settler.pass() // what was put above stays in the log until it is safe
	return nil
}

// resume is what becomes of a run that a journal has: it has ended, and is returned; nil is one that is to be run again.
func (rs *runs) resume(p *replayed, now time.Time) *run {
	over := isOver(p.tube)
	message := rs.again(p, now)
	if message == "" {
		return nil
	}
	r := p.run(message)
	if !over {
		rs.log.WarnContext(r.context(), "run cut off: the server ended", "run", r.id, "events", r.tube.Len()%epoch)
	}
	return r
}

// again says why a run is not run again that was cut off, as its clients are told; "" where it is.
func (rs *runs) again(p *replayed, now time.Time) string {
	over := isOver(p.tube)
	message := cutMessage
	if p.Again != nil && (!over || p.status() == statusInterrupted) {
		if !over {
			p.Attempt++ // one that has crashed; a server that is told to go says so to its runs
		}
		switch {
		case p.Attempt >= maxAttempts:
			message += fmt.Sprintf("; it already started %d times", p.Attempt)
		case now.Sub(p.Began) >= rs.o.KeyRetention:
			message += "; it is too old to restart"
		default:
			return ""
		}
	}
	return message
}

// put keeps an ended run: on disk, or else in memory.
func (rs *runs) put(r *run) {
	if rs.save(r) {
		return
	}
	now := time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.expires = now.Add(rs.retention(r.keyed))
	rs.inMemory[r.id] = r
	rs.keepLocked(r, now)
}

// known says whether a restored run is there, or is about to be.
func (rs *runs) known(id string) bool {
	_, stored := rs.onDisk[id]
	return stored || rs.inMemory[id] != nil ||
		slices.ContainsFunc(rs.cutOff, func(p *replayed) bool { return p.Run == id })
}

// lostMessage is what clients are told about a run that a crash has cut off.
const lostMessage = "the server stopped during this run, and its events are lost; " +
	"start it again with another Idempotency-Key"

// lostRun stands for a run that a crash has cut off.
func lostRun(id string, of lineage, began time.Time) *run {
	failure := ling.ErrorData{Code: codeInternal, Message: lostMessage, Retryable: true, Fatal: true}
	r := &run{
		id: id, of: of.subject, owner: of.Owner, tube: tube.New(id, tubeOptions(0)), keyed: true, lost: true, began: began,
		done: make(chan struct{}), outcome: outcome{Status: statusInterrupted, Errors: []ling.ErrorData{failure}},
	}
	started, _ := json.Marshal(struct {
		Run string `json:"run"`
		subject
	}{id, of.subject})
	data, _ := json.Marshal(failure)
	for _, e := range []tube.Event{
		{Kind: tube.Named, Name: "started", Value: started},
		{Kind: tube.Named, Name: "error", Value: data},
	} {
		if _, err := r.tube.Send(e); err != nil { // cannot be: the tube is new
			panic(err)
		}
	}
	_ = r.tube.Close(statusInterrupted)
	close(r.done)
	return r
}

// surplusLocked forgets ended runs while they take too much of the disk, those that expire first, and returns their ids.
func (rs *runs) surplusLocked() (ids []string) {
	var total int64
	for _, st := range rs.onDisk {
		total += st.size
	}
	if total <= rs.o.MaxDisk {
		return nil
	}
	for id := range rs.onDisk {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(rs.onDisk[a].expires.Compare(rs.onDisk[b].expires), cmp.Compare(a, b))
	})
	n := 0
	for total > rs.o.MaxDisk {
		total -= rs.onDisk[ids[n]].size
		rs.forgetLocked(ids[n])
		n++
	}
	return ids[:n]
}

// maxSettles is how often a run's file is written anew that cannot be made durable.
const maxSettles = 3

// settle has a run's file made durable, and drops it from the journal then.
func (rs *runs) settle(r *run, attempt int) {
	rs.disk.settler.add(settling{r.id, func(err error) {
		if err == nil {
			r.unkeep()
			return
		}
		// As another file, since of this one nobody knows what the disk has.
		if attempt < maxSettles {
			if _, err = rs.disk.save(r); err == nil {
				rs.settle(r, attempt+1)
				return
			}
		}
		rs.log.ErrorContext(r.context(), "cannot sync an ended run", "run", r.id, "code", codeNotDurable, "error", err)
		r.unkeep()
	}})
}
