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

// granted holds the streams of clients with a key or token.
type granted struct {
	streams sync.Map // *grantedStream to nothing
}

type grantedStream struct {
	grant  access.Grant
	cancel context.CancelCauseFunc
}

// add returns the request with a context that ends when its key or token is revoked. remove must be called.
func (g *granted) add(r *http.Request) (_ *http.Request, remove func()) {
	grant := recorderOf(r).visitor.Grant
	if grant == (access.Grant{}) {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	s := &grantedStream{grant, cancel}
	g.streams.Store(s, nil)
	return r.WithContext(ctx), func() {
		g.streams.Delete(s)
		cancel(nil)
	}
}

// revoke breaks off the streams whose key or token is no longer valid, and returns how many.
func (g *granted) revoke(door *access.Door) (count int) {
	for s := range g.streams.Range {
		if s := s.(*grantedStream); !door.Holds(s.grant) {
			g.streams.Delete(s)
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
