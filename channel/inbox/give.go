package inbox

import (
	"context"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
)

// Give implements [channel.Giver]. It catches up with the others' claims first: the answer to a question may come a moment after the question,
// at another process. An event is given once, so that processes
// that have begun two events of a conversation at the same time do not give a third to each other without end.
func (j *Inbox) Give(ctx context.Context, k channel.EventKey) (given bool) {
	if !j.r.Shared() {
		return false
	}
	catchingUp, cancel := context.WithTimeout(ctx, catchUpTime)
	j.r.CatchUp(catchingUp)
	cancel()
	token := owner.Token(k.String())
	defer j.r.Lock(token)()
	e, err := j.mine(token)
	if err != nil || e == nil || e.claim != nil || e.todo != nil || e.record.Given {
		return false
	}
	j.mu.Lock()
	next, last := e.record, e.rev
	next.Owner, next.Given = j.answeringLocked(next.Key), true
	j.mu.Unlock()
	if next.Owner == "" {
		return false
	}
	p := j.put(token, owner.NewID(), last, next)
	p.Lazy = false
	if _, moved, err := j.store(ctx, p); moved != nil || err != nil {
		return false // if it was stored nevertheless, it cannot be claimed here any more
	}
	j.setOwn(token, nil)
	return true
}

// catchUpTime bounds how long an event waits to know of the others' claims.
const catchUpTime = time.Second

// answeringLocked is the other process that runs an event of the same conversation and thread. It is "" if there is none, or if this
// process does, too.
func (j *Inbox) answeringLocked(key string) (owner string) {
	line := key[:strings.LastIndexByte(key, '/')+1]
	for _, e := range j.own {
		if e.claim != nil && strings.HasPrefix(e.record.Key, line) {
			return ""
		}
	}
	for _, o := range j.others {
		if o.record.State == claimed && !j.r.Dead(o.record.Owner) && strings.HasPrefix(o.record.Key, line) {
			owner = o.record.Owner
		}
	}
	return owner
}
