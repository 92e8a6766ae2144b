package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/web/wire"
)

// revokeEvery is how soon a stream is broken off when its key was taken away, beside the time in which a file of keys is read again.
const revokeEvery = time.Second

// closeTime is how long streams that are broken off may take to notice. They do so at once.
const closeTime = 100 * time.Millisecond

// granted knows the clients that wait for what a key or a token has opened.
type granted struct {
	mu   sync.Mutex
	open map[*grantedStream]struct{}
}

// grantedStream is one of them.
type grantedStream struct {
	grant  access.Grant
	cancel context.CancelCauseFunc
}

// enter counts a client until leave is called. The request that is returned ends with what has let it in.
func (g *granted) enter(r *http.Request, grant access.Grant) (_ *http.Request, leave func()) {
	if grant == (access.Grant{}) {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	s := &grantedStream{grant, cancel}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[*grantedStream]struct{}{}
	}
	g.open[s] = struct{}{}
	return r.WithContext(ctx), func() {
		g.mu.Lock()
		delete(g.open, s)
		g.mu.Unlock()
		cancel(nil)
	}
}

// revoke breaks off those whose key or token does not count any more, and returns how many.
func (g *granted) revoke(door *access.Door) (count int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.open {
		if !door.Holds(s.grant) {
			delete(g.open, s)
			s.cancel(wire.ErrRevoked)
			count++
		}
	}
	return count
}

// watchGrants revokes until the server ends. It begins at once: runs that were restarted may be of a key that was revoked meanwhile.
func (s *Server) watchGrants() {
	door := s.o.Access.Door
	for {
		if n := s.granted.revoke(door); n > 0 {
			s.log.Info("closed streams whose keys are no longer valid", "streams", n)
			_ = backoff.Sleep(s.ctx, closeTime) // so that none of them has the end of its run
		}
		if n := s.runs.CancelRevoked(door.Revoked); n > 0 {
			s.log.Info("canceled runs whose keys were revoked", "runs", n)
		}
		if backoff.Sleep(s.ctx, revokeEvery) != nil {
			return
		}
	}
}

// keyTagOf returns the tag of the API key that let a request in.
func keyTagOf(r *http.Request) string {
	if rec := recorderOf(r); rec != nil {
		return rec.visitor.Grant.KeyTag()
	}
	return ""
}
