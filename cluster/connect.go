package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/store"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	connectWait   = 2 * time.Second        // of one attempt at one server
	openWait      = 5 * time.Second        // of Open for a connection, where its context has no end: servers may start at the same time
	leaderWait    = 20 * time.Second       // of Open for JetStream: an election takes up to 9 s
	openClustered = time.Minute            // of Open for both with a server of a cluster, which waits for another one of it
	retryWait     = 100 * time.Millisecond // between attempts to open
	reconnectWait = 200 * time.Millisecond // between attempts at all servers; as much again is random
	requestWait   = 5 * time.Second        // of a request to JetStream whose context has no end
	ackWait       = 10 * time.Second       // of a publish that nobody waits for

	// A connection whose other side does not answer pings for so long is made anew: 6 s. It is less than the least time in
	// which JetStream elects.
	pingEvery = 2 * time.Second
	pingsOut  = 2

	// Messages that PublishAsync may have on their way, of all that is stored. A batch of a run has a few KiB.
	asyncPending = 4096
)

// The oldest server that has all that is used: the life of single messages.
const oldestMajor, oldestMinor = 2, 11

// Levels of JetStream's interface, which say what a server knows.
const levelAsyncPersist = 2 // since 2.12

// Errors of [Open] that a caller may branch on.
var (
	ErrUnreachable = errors.New("cluster: cannot connect to any server")
	ErrRefused     = errors.New("cluster: the servers refused this replica's login")
	ErrForbidden   = errors.New("cluster: the servers deny a permission that this replica needs") // subjects, to its user
	ErrNoJetStream = errors.New("cluster: the servers have no JetStream")
	ErrTooOld      = errors.New("cluster: the servers are too old")
	ErrNoCluster   = errors.New("cluster: several copies need a cluster of servers")
)

// Cluster is the connection of a replica. Its methods are safe for concurrent use.
type Cluster struct {
	options Options
	replica string
	server  *Server // embedded, or nil
	conn    *nats.Conn
	js      jetstream.JetStream
	level   int // of JetStream's interface
	copies  int

	end     context.Context // of all that is started here
	stop    context.CancelFunc
	running sync.WaitGroup
	kick    chan struct{} // the connection has changed

	allowed context.Context // ended by the first subject that is not
	forbid  context.CancelCauseFunc

	joining sync.Mutex // held while members is made

	mu       sync.Mutex
	members  *replicas.Members // nil until a caller joins
	tables   store.Engine      // of the members
	state    State
	watchers map[*watcher]struct{}
	streams  []string // that the probe asks for
	closed   bool
	told     map[string]bool // errors of the connection since it last changed
}

// Open connects a replica. Where the servers do not answer it tries again until ctx ends; where ctx has no end, for 5 s, and for
// 20 s where they answer and are electing a leader, and for a minute with an embedded server of a cluster, which needs another
// one of it. Close ends what Open has started.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Cluster{
		options: o, replica: newID(), kick: make(chan struct{}, 1),
		watchers: map[*watcher]struct{}{}, told: map[string]bool{},
	}
	c.end, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.allowed, c.forbid = context.WithCancelCause(context.Background())
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) open(ctx context.Context) error {
	if c.options.embedded() {
		s, err := StartServer(c.options)
		if err != nil {
			return err
		}
		c.server = s
	}
	connecting, cancel := c.limit(ctx, openWait)
	defer cancel()
	if err := c.connect(connecting); err != nil {
		return err
	}
	if err := c.checkVersion(); err != nil {
		return err
	}
	ctx, cancel = c.limit(ctx, leaderWait)
	defer cancel()
	ctx, cancel = c.whileAllowed(ctx)
	defer cancel()
	js, err := jetstream.New(c.conn, jetstream.WithDefaultTimeout(requestWait),
		jetstream.WithPublishAsyncMaxPending(asyncPending), jetstream.WithPublishAsyncTimeout(ackWait))
	if err != nil {
		return fmt.Errorf("cluster: JetStream: %w", err)
	}
	c.js = js
	if err := c.checkJetStream(ctx); err != nil {
		return err
	}
	if c.options.Copies > 1 && c.conn.ConnectedClusterName() == "" {
		return fmt.Errorf("%w: %d copies at %s", ErrNoCluster, c.options.Copies, c.serverName())
	}
	if err := c.decideCopies(ctx); err != nil {
		return c.forbidden(err)
	}
	c.set(State{Connected: true, Server: c.serverName()})
	c.running.Go(c.keep)
	return nil
}

// limit ends a context that has no end of its own.
func (c *Cluster) limit(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	if c.options.routed() {
		wait = openClustered
	}
	return context.WithTimeout(ctx, wait)
}

// whileAllowed ends a context when the servers refuse a subject: who asks for something there would wait for an answer that never comes.
func (c *Cluster) whileAllowed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.allowed, func() { cancel(context.Cause(c.allowed)) })
	return ctx, func() { stop(); cancel(nil) }
}

// forbidden is what the servers have refused a subject with, or else err.
func (c *Cluster) forbidden(err error) error {
	if cause := context.Cause(c.allowed); errors.Is(cause, ErrForbidden) {
		return cause
	}
	if last := c.conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) { // of which complain has not been told yet
		return fmt.Errorf("%w: %s", ErrForbidden, c.violation(last))
	}
	return err
}

// violation is what was refused, without the client's words for it.
func (c *Cluster) violation(err error) string {
	return strings.TrimPrefix(c.reason(err), nats.ErrPermissionViolation.Error()+": ")
}

// connect connects, and again where it may help.
func (c *Cluster) connect(ctx context.Context) error {
	options, err := c.connOptions()
	if err != nil {
		return err
	}
	where := c.options.Servers
	if c.server != nil {
		where, options = "", append(options, nats.InProcessServer(c.server.nats))
	}
	for {
		c.conn, err = nats.Connect(where, options...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
			errors.Is(err, nats.ErrAccountAuthExpired):
			return fmt.Errorf("%w: %s: %s", ErrRefused, redactAll(c.options.Servers), c.reason(err))
		case isTLS(err):
			return fmt.Errorf("%w: %s: %s", ErrUnreachable, redactAll(c.options.Servers), c.reason(err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %s", ErrUnreachable, redactAll(c.options.Servers), c.reason(err))
		case <-time.After(retryWait):
		}
	}
}

// isTLS is for errors that do not go away by themselves.
func isTLS(err error) bool {
	text := err.Error()
	return errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) ||
		strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ")
}

// reason is an error's text without what may be secret in it: a client names URLs.
func (c *Cluster) reason(err error) string {
	text := err.Error()
	all, _ := urls(c.options.Servers)
	for _, u := range all {
		text = strings.ReplaceAll(text, u.String(), redact(u))
		if u.User != nil {
			text = strings.ReplaceAll(text, u.User.String()+"@", "")
		}
	}
	for _, secret := range []string{c.options.Password, c.options.Token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

func (c *Cluster) connOptions() ([]nats.Option, error) {
	o := &c.options
	options := []nats.Option{
		nats.Name(o.Prefix + " " + o.Name + " " + c.replica),
		nats.Timeout(connectWait),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.PingInterval(cmp.Or(o.ping, pingEvery)), nats.MaxPingsOutstanding(pingsOut),
		// Nothing waits in the client while there is no connection: who publishes knows at once that it was not sent,
		// instead of never whether it was.
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // what was let in once is tried for ever: a server may come back before its accounts
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.changed() }),
		nats.ReconnectHandler(func(*nats.Conn) { c.changed() }),
		nats.ErrorHandler(c.complain),
	}
	switch {
	case o.User != "":
		options = append(options, nats.UserInfo(o.User, o.Password))
	case o.Token != "":
		options = append(options, nats.Token(o.Token))
	case o.local != "":
		options = append(options, nats.Token(o.local))
	case o.Creds != "":
		if _, err := os.ReadFile(o.Creds); err != nil {
			return nil, fmt.Errorf("cluster: cannot read the credentials: %w", err)
		}
		options = append(options, nats.UserCredentials(o.Creds))
	case o.NKey != "":
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("cluster: cannot use the nkey in %s: %w", o.NKey, err)
		}
		options = append(options, key)
	}
	if c.options.embedded() {
		return options, nil // in the process
	}
	secure, err := o.TLS.client()
	return append(options, secure...), err
}

func (c *Cluster) checkVersion() error {
	version := c.conn.ConnectedServerVersion()
	parts := strings.SplitN(version, ".", 3)
	if len(parts) == 3 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s has version %.40s; expected %d.%d or newer", ErrTooOld, c.serverName(), version, oldestMajor, oldestMinor)
}

// checkJetStream waits for JetStream, which in a cluster needs a leader.
func (c *Cluster) checkJetStream(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, connectWait)
		info, err := c.js.AccountInfo(attempt)
		cancel()
		switch {
		case err == nil:
			c.level = info.API.Level
			return nil
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			return fmt.Errorf("%w: it is not enabled on %s", ErrNoJetStream, c.serverName())
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("%w: it is not enabled for this replica's account on %s", ErrNoJetStream, c.serverName())
		}
		select {
		case <-ctx.Done():
			return c.forbidden(fmt.Errorf("%w that answers: %s: %s", ErrNoJetStream, c.serverName(), c.reason(err)))
		case <-time.After(retryWait):
		}
	}
}

func (c *Cluster) serverName() string {
	name := c.conn.ConnectedServerName()
	if c.options.embedded() {
		return name + " (embedded)"
	}
	if u := c.conn.ConnectedUrlRedacted(); u != "" {
		all, err := urls(u)
		if err == nil && len(all) == 1 {
			return name + " " + redact(all[0])
		}
	}
	return name
}

// complain is told what goes wrong on a connection: a slow subscription, a subject that is not permitted. Each is in the log once
// between two changes of the connection.
func (c *Cluster) complain(_ *nats.Conn, s *nats.Subscription, err error) {
	const most = 100 // of texts that are remembered
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.forbid(fmt.Errorf("%w: %s", ErrForbidden, c.violation(err)))
	}
	text := c.reason(err)
	if s != nil {
		text = s.Subject + ": " + text
	}
	c.mu.Lock()
	tell := !c.told[text] && len(c.told) < most
	if tell {
		c.told[text] = true
	}
	c.mu.Unlock()
	if tell {
		c.options.Log.LogAttrs(context.Background(), slog.LevelWarn, "NATS complains", slog.String("error", text))
	}
}

// JetStream is the client, for what has no method here.
func (c *Cluster) JetStream() jetstream.JetStream { return c.js }

// Conn is the connection, for messages that are not stored.
func (c *Cluster) Conn() *nats.Conn { return c.conn }

// Replica is the id of this process, another one after each start. It can be a token of a subject.
func (c *Cluster) Replica() string { return c.replica }

// Copies is how many copies of what is stored there are.
func (c *Cluster) Copies() int { return c.copies }

// Server is the embedded server, nil where there is none.
func (c *Cluster) Server() *Server { return c.server }

// Close leaves the others, who are told, and ends the connection and the embedded server. It may be called more than once.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.stop()
	c.joining.Lock() // who joins now is refused
	p, tables := c.members, c.tables
	c.joining.Unlock()
	c.running.Wait()
	var err error
	if p != nil {
		err = errors.Join(p.Close(), tables.Close())
	}
	if c.conn != nil {
		c.conn.Close()
	}
	if c.server != nil {
		err = errors.Join(err, c.server.Stop())
	}
	return err
}

// newID is as good as unique, and fits into a subject.
func newID() string { return strings.ToLower(rand.Text()[:16]) }
