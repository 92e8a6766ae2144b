package nats

import (
	"context"
	"strings"

	"github.com/lingserve/lingserve/channel"
)

// Give implements [channel.Giver]. It asks nobody: it goes by what was heard of the others' claims. An event is given once, so that
// replicas that have begun two events of a conversation at the same time do not give a third to each other without end.
func (j *Journal) Give(ctx context.Context, k channel.EventKey) (given bool) {
	token := token(k.String())
	defer j.locks.lock(token)()
	e, err := j.mine(token)
	if err != nil || e == nil || e.claim != nil || e.todo != nil || e.record.Given {
		return false
	}
	j.mu.Lock()
	next, last := e.record, e.seq
	next.Owner, next.Given = j.answeringLocked(next.Key), true
	j.mu.Unlock()
	if next.Owner == "" {
		return false
	}
	if _, _, err := j.log.put(ctx, step{subject: j.subject(token), id: newID(), header: next.header(), last: last}); err != nil {
		return false // where it was stored all the same, it cannot be claimed here any more
	}
	j.setOwn(token, nil)
	return true
}

// answeringLocked is the other replica that runs an event of the same conversation and thread; "" is none, or this one does, too.
func (j *Journal) answeringLocked(key string) (owner string) {
	line := key[:strings.LastIndexByte(key, '/')+1]
	for _, e := range j.own {
		if e.claim != nil && strings.HasPrefix(e.record.Key, line) {
			return ""
		}
	}
	for _, o := range j.others {
		if o.record.State == claimed && !j.dead[o.record.Owner] && strings.HasPrefix(o.record.Key, line) {
			owner = o.record.Owner
		}
	}
	return owner
}
