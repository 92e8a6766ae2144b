package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// mostListener bounds the connections that are open at once. One that is too many is not left to hang: it is a surplus one, whose request
// gets its refusal, or an answer where it only asks whether the server lives, and which ends after that. Surplus connections are few and
// short, and those beyond them are closed at once.
type mostListener struct {
	net.Listener
	most, surplus int64
	log           *slog.Logger

	open   atomic.Int64
	full   atomic.Bool // it has been said in the log
	turned atomic.Uint64
}

const (
	// surplusTime is what a surplus connection has from its beginning to its end.
	surplusTime = 5 * time.Second
	// surplusShare and surplusLeast say how many there can be: a part of the others, and enough for those who watch the server.
	surplusShare = 16
	surplusLeast = 8
	// connectionsRetry is when whoever was refused may come back.
	connectionsRetry = 5 * time.Second
)

// bound bounds what l accepts; most is no limit where it is 0.
func bound(l net.Listener, most int, log *slog.Logger) net.Listener {
	if most <= 0 {
		return l
	}
	return &mostListener{Listener: l, most: int64(most), surplus: int64(max(most/surplusShare, surplusLeast)), log: log}
}

// Accept waits for the next connection that is not closed at once. Its errors are those of the listener; whoever serves waits before it
// tries again where there are no more files.
func (l *mostListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := l.open.Add(1)
		if n > l.most && !l.full.Swap(true) {
			l.log.Warn("the server has as many connections as it may; more are refused", "connections", l.most)
		}
		if n > l.most+l.surplus {
			l.left()
			l.turned.Add(1)
			_ = c.Close() // there is nothing to lose
			continue
		}
		counted := &countedConn{Conn: c, of: l}
		if n > l.most {
			counted.until = time.Now().Add(surplusTime)
			_ = c.SetDeadline(counted.until)
		}
		return counted, nil
	}
}

// left counts a connection that is closed.
func (l *mostListener) left() {
	if n := l.open.Add(-1); n <= l.most-l.most/8 && l.full.Load() && l.full.Swap(false) {
		l.log.Info("the server takes connections again", "connections", n)
	}
}

// countedConn is an accepted connection.
type countedConn struct {
	net.Conn
	of    *mostListener
	until time.Time // the end of a surplus one; zero for the others
	once  sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(c.of.left)
	return c.Conn.Close()
}

// NetConn returns what is below.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) SetDeadline(t time.Time) error     { return c.Conn.SetDeadline(c.within(t)) }
func (c *countedConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.within(t)) }

func (c *countedConn) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.within(t))
}

// within is a deadline that is no later than the end of a surplus connection.
func (c *countedConn) within(t time.Time) time.Time {
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		return c.until
	}
	return t
}

type surplusKey struct{}

// connContext marks the requests of a surplus connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	for {
		if counted, ok := c.(*countedConn); ok {
			if !counted.until.IsZero() {
				ctx = context.WithValue(ctx, surplusKey{}, true)
			}
			return ctx
		}
		wrapped, ok := c.(interface{ NetConn() net.Conn }) // by TLS
		if !ok {
			return ctx
		}
		c = wrapped.NetConn()
	}
}

// notSurplus refuses the requests of surplus connections, but for those of who watches the server: it lives, and must not be ended for
// having much to do.
func notSurplus(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(surplusKey{}) == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		reached(limitConnections, "too many connections are open at once", connectionsRetry).at(w, r)
	})
}
