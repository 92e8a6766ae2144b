package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lingserve/lingserve/internal/filelock"
)

const (
	startWait = 10 * time.Second // for a server's listeners; they are there within milliseconds

	// Embedded servers keep no stream in memory: this is for what others than us may put there.
	mostMemory = 256 << 20

	// Attempts to reach another server, of which the first is told and then each so-many-th: an hour's, one a second.
	reportAttempts = 3600
)

// Server is a NATS server in this process.
type Server struct {
	nats *server.Server
	lock *os.File
	stop sync.Once
}

// StartServer runs the server that the options describe. [Open] does it for a replica; by itself it is for those who want
// to stop the two one by one. It does not wait for the other servers of a cluster.
func StartServer(o Options) (*Server, error) {
	o.Servers = Embedded
	if err := o.complete(); err != nil {
		return nil, err
	}
	settings, err := o.server()
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := start(settings, o.Log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: the embedded server does not start: %w", err), lock.Close())
	}
	return &Server{nats: s, lock: lock}, nil
}

func start(settings *server.Options, log *slog.Logger) (*server.Server, error) {
	s, err := server.NewServer(settings)
	if err != nil {
		return nil, err
	}
	l := &serverLog{log: log, told: map[string]time.Time{}}
	s.SetLoggerV2(l, false, false, false)
	s.Start() // returns; a failure is a Fatalf
	if !s.ReadyForConnections(startWait) {
		err = l.fatal()
		if err == nil {
			err = fmt.Errorf("it took longer than %v", startWait)
		}
		s.Shutdown()
		s.WaitForShutdown()
		return nil, err
	}
	return s, nil
}

// Stop ends the server and returns when it has ended. Its leaderships go to others first.
func (s *Server) Stop() error {
	var err error
	s.stop.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		err = errors.Join(filelock.Release(s.lock), s.lock.Close())
	})
	return err
}

// NATS is the server itself.
func (s *Server) NATS() *server.Server { return s.nats }

// server are the settings of the embedded server: JetStream, and nothing else that takes anything from outside.
func (o *Options) server() (*server.Options, error) {
	s := &server.Options{
		ServerName: o.Name,
		DontListen: o.Listen == "",
		NoSigs:     true, NoLog: true, // the process handles signals; the log is ours
		JetStream: true, DisableJetStreamBanner: true, JetStreamMaxMemory: mostMemory,
		StoreDir: o.Dir, SyncAlways: true,
		Username: o.User, Password: o.Password, Authorization: o.Token,
		PingInterval: pingEvery, MaxPingsOut: pingsOut,
		ConnectErrorReports: reportAttempts, ReconnectErrorReports: reportAttempts,
	}
	config, err := o.TLS.server()
	if err != nil {
		return nil, err
	}
	if o.Listen != "" {
		if s.Host, s.Port, err = splitListen(o.Listen); err != nil {
			return nil, err
		}
		if s.Port == 0 {
			s.Port = server.RANDOM_PORT
		}
		s.TLSConfig = config
	}
	if !o.routed() {
		return s, nil
	}
	host, port, err := splitListen(o.ClusterListen)
	if err != nil {
		return nil, err
	}
	s.Cluster = server.ClusterOpts{
		Name: o.Prefix, Host: host, Port: port, TLSConfig: config, ConnectRetries: -1,
		Username: o.User, Password: o.Password, PoolSize: -1,
	}
	if o.Listen == "" { // routing needs a listener for clients; nobody is told of this one
		s.DontListen, s.Host, s.Port = false, "127.0.0.1", server.RANDOM_PORT
		s.Cluster.NoAdvertise = true
		if o.local != "" {
			s.Authorization = o.local
		}
	}
	if o.Token != "" { // servers know no tokens
		s.Cluster.Username, s.Cluster.Password = defaultPrefix, o.Token
	}
	s.Routes, err = urls(strings.Join(o.Routes, ","))
	if err != nil {
		return nil, err
	}
	for _, route := range s.Routes {
		if route.User == nil && s.Cluster.Username != "" {
			route.User = url.UserPassword(s.Cluster.Username, s.Cluster.Password)
		}
	}
	return s, nil
}

// lockFolder makes the folder and takes it for this process: two servers on one folder would destroy what is in it.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: the folder of the embedded server: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: the folder of the embedded server: %w", err)
	}
	ok, err := filelock.Try(f)
	if err == nil && !ok {
		err = errors.New("another process uses it for a server")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: the folder of the embedded server, %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// serverLog tells an operator what a server says, which is a lot: what goes wrong, and each thing once in a while.
type serverLog struct {
	log *slog.Logger

	mu    sync.Mutex
	told  map[string]time.Time // by the format, of which a server has a fixed number
	cause error                // of the end
}

// rebuilt ends what a server says of each stream whose messages have an end when it was not shut down: which ends they have is read from
// the messages then. Nothing is lost, and nobody has anything to do.
const rebuilt = "TTL state is outdated; attempting to recover using linear scan (seq %d to %d)"

// tellEvery is how often one kind of message is told.
const tellEvery = time.Minute

func (l *serverLog) tell(level slog.Level, format string, values []any) {
	l.mu.Lock()
	now := time.Now()
	last, ok := l.told[format]
	if again := !ok || now.Sub(last) >= tellEvery; !again {
		l.mu.Unlock()
		return
	}
	l.told[format] = now
	l.mu.Unlock()
	says := slog.String("says", fmt.Sprintf(format, values...))
	if level >= slog.LevelError {
		l.log.LogAttrs(context.Background(), slog.LevelError, "embedded NATS reports an error", says)
	} else {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "embedded NATS warns", says)
	}
}

func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}
func (l *serverLog) Warnf(format string, values ...any) {
	if strings.HasSuffix(format, rebuilt) {
		l.log.LogAttrs(context.Background(), slog.LevelDebug, "embedded NATS recovers from a crash", slog.String("says", fmt.Sprintf(format, values...)))
		return
	}
	l.tell(slog.LevelWarn, format, values)
}
func (l *serverLog) Errorf(format string, values ...any) { l.tell(slog.LevelError, format, values) }
func (l *serverLog) Fatalf(format string, values ...any) {
	l.mu.Lock()
	if l.cause == nil {
		l.cause = fmt.Errorf(format, values...)
	}
	l.mu.Unlock()
	l.tell(slog.LevelError, format, values)
}
