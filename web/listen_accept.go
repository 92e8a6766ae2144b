package web

import (
	"container/list"
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/web/wire"
)

// listener accepts connections, and bounds those that are open at once. One that is too many is not left to hang: it is a surplus one, whose
// request gets its refusal, or an answer where it only asks whether the server lives, and which ends after that. Surplus connections are few
// and short.
//
// A silent connection has sent no complete request yet. The oldest ones make room for new ones when there is none: clients that only open
// connections cannot keep others out, nor health checks. Without a silent one, a connection beyond the surplus ones is closed at once.
//
// The connections of one address are bounded in the same way: beyond its share a silent one of the same address makes room, then
// surplusLeast are surplus ones, and all others are closed at once.
type listener struct {
	net.Listener
	most, surplus int64
	share         func(netip.Addr) int64 // most of one address
	log           *slog.Logger

	probed bool // the connection that was accepted last is a health check; of the one goroutine that accepts

	open   atomic.Int64
	full   atomic.Bool // it has been said in the log
	turned atomic.Uint64

	mu     sync.Mutex
	silent list.List        // of *accepted, the oldest first
	of     map[string]int64 // open connections, by address
}

const (
	// surplusTime is what a surplus connection has from its beginning to its end.
	surplusTime = 5 * time.Second
	// surplusShare and surplusLeast say how many there can be: a part of the others, and enough for those who watch the server.
	surplusShare = 16
	surplusLeast = 8
	// silentTime is how long a silent connection keeps its place at least. A surplus one may lose it at once.
	silentTime = time.Second
	// unlimited is more connections than there are files.
	unlimited = math.MaxInt32
	// connectionsRetry is when whoever was refused may come back.
	connectionsRetry = 5 * time.Second
)

// listenTo accepts what l does, with limits on the connections of all clients, 0 is no limit, and on those of one address. Proxies that
// are trusted speak for many clients and have no share; nor have connections from this machine, unless a share is set.
func listenTo(l net.Listener, limits Limits, proxies access.Proxies, log *slog.Logger) *listener {
	most := int64(limits.Connections)
	if most <= 0 {
		most = unlimited
	}
	share := func(a netip.Addr) int64 {
		switch perAddress := int64(limits.ConnectionsPerAddress); {
		case !a.IsValid(), proxies.Trusts(a), perAddress <= 0 && a.IsLoopback():
			return unlimited
		case perAddress > 0:
			return perAddress
		}
		return max(1, most/2)
	}
	return &listener{Listener: l, most: most, surplus: max(most/surplusShare, surplusLeast), share: share, log: log, of: map[string]int64{}}
}

// Accept waits for the next connection that is not closed at once. Its errors are those of the listener; whoever serves waits before it
// tries again where there are no more files.
//
// A health check goes before the connections that came with it: its goroutine, which was started last, runs before more are accepted. Behind
// two thousand requests that come within a moment it would wait for its turn for a tenth of a second.
func (l *listener) Accept() (net.Conn, error) {
	if l.probed {
		l.probed = false
		runtime.Gosched()
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a := &accepted{Conn: c, of: l, since: time.Now()}
		if !l.admit(a) {
			l.turned.Add(1)
			_ = a.Close() // there is nothing to lose
			continue
		}
		if !a.until.IsZero() {
			_ = c.SetDeadline(a.until)
		}
		l.probed = isProbe(c)
		return a, nil
	}
}

// isProbe reports whether a connection has sent the beginning of a health check. It reads nothing of it, and does not wait for what has not come.
func isProbe(c net.Conn) bool {
	var start [12]byte
	switch string(start[:peek(c, start[:])]) {
	case "GET /healthz", "GET /readyz ", "HEAD /health", "HEAD /readyz":
		return true
	}
	return false
}

// admit counts a connection, makes room for it where there is none, and reports whether it may stay, perhaps as a surplus one.
func (l *listener) admit(a *accepted) bool {
	addr := addressOf(a.Conn)
	a.from = access.Caller(addr)
	l.mu.Lock()
	l.of[a.from]++
	mine := l.of[a.from]
	l.mu.Unlock()
	n := l.open.Add(1)

	old := func(other *accepted) bool { return a.since.Sub(other.since) >= silentTime }
	share := l.share(addr)
	if mine > share {
		if l.makeRoom(func(other *accepted) bool { return other.from == a.from && old(other) }) {
			mine, n = mine-1, n-1
		}
		if mine > share+surplusLeast {
			return false
		}
	}
	if n > l.most && !l.full.Swap(true) {
		l.log.Warn("connection limit reached; refusing new connections", "connections", l.most)
	}
	if n > l.most && l.makeRoom(old) {
		n--
	}
	if n > l.most+l.surplus && l.makeRoom(func(other *accepted) bool { return !other.until.IsZero() }) {
		n--
	}
	switch {
	case n > l.most+l.surplus:
		return false
	case n > l.most:
		a.refusal = reached(limitConnections, "the server has too many open connections; retry later", connectionsRetry)
	case mine > share:
		a.refusal = wire.NewProblem(wire.CodeRateLimited, "your address has "+wording.Plural(share, "connection")+" open, the limit of one address; close some")
		a.refusal.Reason, a.refusal.Retry = limitConnectionsPerAddress, connectionsRetry
	}
	if a.refusal != nil {
		a.until = a.since.Add(surplusTime)
	}
	l.mu.Lock()
	a.silent = l.silent.PushBack(a)
	l.mu.Unlock()
	return true
}

// addressOf returns the address of a connection's client; it is not valid for a connection without one.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// makeRoom closes the oldest silent connection that may go.
func (l *listener) makeRoom(mayGo func(*accepted) bool) bool {
	l.mu.Lock()
	var oldest *accepted
	for e := l.silent.Front(); e != nil && oldest == nil; e = e.Next() {
		if a := e.Value.(*accepted); mayGo(a) {
			oldest = a
		}
	}
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	l.turned.Add(1)
	_ = oldest.Close()
	return true
}

// heard says that a connection has sent a request.
func (l *listener) heard(a *accepted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.silent != nil {
		l.silent.Remove(a.silent)
		a.silent = nil
	}
}

// left counts a connection that is closed.
func (l *listener) left(a *accepted) {
	l.mu.Lock()
	if l.of[a.from]--; l.of[a.from] == 0 {
		delete(l.of, a.from)
	}
	l.mu.Unlock()
	if n := l.open.Add(-1); n <= l.most-l.most/8 && l.full.Load() && l.full.Swap(false) {
		l.log.Info("accepting connections again", "connections", n)
	}
}

// accepted is a connection that is counted as open, and whose time for the headers of the first request begins with its first byte, as
// net/http has it for those that follow. It reads the first 14 bytes by themselves, to see whether they are HTTP/2's, and is then out of time
// for the rest where the process has stood still since it accepted the connection: a request of which everything is there would be answered
// with 400.
type accepted struct {
	net.Conn
	of      *listener
	from    string // its address, as [access.Caller] names it
	since   time.Time
	until   time.Time     // the end of a surplus one; zero for the others
	refusal *wire.Problem // what the requests of a surplus one are answered; nil for the others
	silent  *list.Element // nil after the first request; guarded by of.mu
	begun   bool          // the first byte is read; of the one goroutine at a time that reads
	once    sync.Once

	requested atomic.Bool
}

func (c *accepted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun {
		c.begun = true
		_ = c.SetReadDeadline(time.Now().Add(headerTimeout)) // one that is closed fails at its next byte
	}
	return n, err
}

func (c *accepted) Close() error {
	c.once.Do(func() {
		c.of.heard(c) // it has no place to give any more
		c.of.left(c)
	})
	return c.Conn.Close()
}

// NetConn returns what is below.
func (c *accepted) NetConn() net.Conn { return c.Conn }

func (c *accepted) SetDeadline(t time.Time) error     { return c.Conn.SetDeadline(c.within(t)) }
func (c *accepted) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.within(t)) }

func (c *accepted) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.within(t))
}

// within is a deadline that is no later than the end of a surplus connection.
func (c *accepted) within(t time.Time) time.Time {
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		return c.until
	}
	return t
}

type acceptedKey struct{}

// connContext says in the context of requests which connection they came by.
func connContext(ctx context.Context, c net.Conn) context.Context {
	for {
		if a, ok := c.(*accepted); ok {
			return context.WithValue(ctx, acceptedKey{}, a)
		}
		wrapped, ok := c.(interface{ NetConn() net.Conn }) // by TLS
		if !ok {
			return ctx
		}
		c = wrapped.NetConn()
	}
}

// heardRequests tells the listener which connections send requests.
func heardRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(acceptedKey{}).(*accepted); ok && !a.requested.Swap(true) {
			a.of.heard(a)
		}
		next.ServeHTTP(w, r)
	})
}

// notSurplus refuses the requests of surplus connections, but for health checks: a server that has much to do must not be restarted for it.
func notSurplus(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := r.Context().Value(acceptedKey{}).(*accepted)
		if !ok || a.refusal == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		refusal := *a.refusal // each request of a connection of HTTP/2 has its own
		writeProblem(w, r, &refusal)
	})
}
