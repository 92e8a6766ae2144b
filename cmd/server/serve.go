package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/admin"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/https"
	"github.com/lingserve/lingserve/internal/systemd"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tool/mcp"
	"github.com/lingserve/lingserve/web"
)

func serveCommand(s streams) *cobra.Command {
	var settings config.Flags
	printConfig := false
	cmd := loaded("serve", &settings, func(c *config.Config, _ []string) error {
		if printConfig {
			return c.Print(s.out)
		}
		// The signals are caught before anything is started, so that none of them finds a server that is half started.
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer signal.Stop(signals)
		return serve(c, signals, s.err)
	})
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print all settings with their sources, and exit")
	addSettings(cmd.Flags(), &settings)
	return cmd
}

// server is what "lingserve serve" runs.
type server struct {
	core
	traces    *telemetry.Traces
	access    *accessRules
	encrypted *https.Encryption
	metrics   *telemetry.Metrics
	channels  *channels
	web       *web.Server
}

// serve runs the server until a signal ends it. Its errors are for the user: each line says one thing that is wrong.
func serve(c *config.Config, signals <-chan os.Signal, stderr io.Writer) error {
	if err := errors.Join(c.CheckListen(), c.CheckAdmin(), c.CheckWorkspace()); err != nil {
		return err
	}
	s := &server{core: core{c: c, log: newLog(stderr, c)}}
	defer s.close()
	for _, step := range []func() error{s.prepare, s.openModels, s.openStore, s.assemble} {
		if err := step(); err != nil {
			return err
		}
	}
	return s.run(signals, stderr)
}

// prepare opens the traces, the access rules and the certificates.
func (s *server) prepare() error {
	traces, stopTraces, err := openTraces(s.c, s.log)
	if err != nil {
		return err
	}
	s.traces = traces
	s.atClose(stopTraces)
	for _, warning := range s.c.Warnings {
		s.log.Warn("check a setting", "warning", warning)
	}
	if s.access, err = newAccess(s.c, s.log); err != nil {
		return err
	}
	s.atClose(s.access.close)
	s.encrypted, err = https.New(s.c, build().version, s.log)
	return err
}

// openStore opens the database if the address is free and no other server uses it.
func (s *server) openStore() error {
	// An address that is in use often means that this server runs already. Then its database must not be opened.
	if err := checkFree(s.c.Addr); err != nil {
		return listenError(s.c, err)
	}
	if err := s.openDatabase(); err != nil {
		return err
	}
	if err := s.database.inUse; err != nil {
		return databaseError(s.c, fmt.Errorf("%w; stop that one, or give this server its own database", err))
	}
	s.access.Door.Tickets = access.NewTickets(access.TicketsOptions{
		Store: s.database.Values(db.Tickets, db.ValueOptions{MaxRows: access.MostTickets}), Life: s.c.Auth.TicketLife,
	})
	return nil
}

// assemble makes the server of what was opened. It does not listen yet.
func (s *server) assemble() (err error) {
	c, log := s.c, s.log
	o := serverOptions(c, s.workflows, s.models, log)
	s.metrics = newMetrics(c, s.models, s.workflows)
	o.Observer, o.AccessLog = s.metrics, c.Log.Access
	if err := s.openTapes(s.metrics, s.database.Usage()); err != nil {
		return err
	}
	o.Runs, o.FileStore, o.Tapes = s.database.Runs(), s.database.Files(), s.tapes
	if err := s.openTurns(o.Ledger); err != nil {
		return err
	}
	if s.channels, err = newChannels(&s.core); err != nil {
		return err
	}
	s.atClose(func() {
		if err := s.channels.Close(); err != nil {
			log.Warn("cannot close the channels cleanly", "error", err)
		}
	})
	s.channels.warn(c, log)
	o.Access, o.Proxies = s.access.Access, s.access.proxies
	if s.shared != nil {
		o.Cluster, o.Holder, o.Away = s.shared.Cluster, s.shared.leases.Holder, s.shared.away
	}
	o.Servers = func() map[string]string {
		states := map[string]string{}
		for _, st := range s.servers.Status() {
			if st.State != mcp.Ready {
				states[st.Name] = cmp.Or(st.Reason, st.State)
			}
		}
		return states
	}
	o.Turns, o.Agents, o.Channels, o.Kernel = s.turns, s.agents, s.channels, s.channels.Kernel
	o.ChannelNames = config.ChannelTypes()
	for _, ch := range c.Channels {
		o.ChannelNames = append(o.ChannelNames, ch.Name)
	}
	o.Tracer, s.channels.Kernel.Tracer = s.traces.Provider(), s.traces.Channels()
	if s.web, err = web.New(o); err != nil {
		return databaseError(c, err)
	}
	s.atClose(func() { s.web.Close() })
	if s.shared != nil {
		s.shared.Serve(s.web.Handler())
	}
	s.watch()
	return nil
}

// run serves until a signal ends it.
func (s *server) run(signals <-chan os.Signal, stderr io.Writer) error {
	c, log := s.c, s.log
	stopAdmin, err := admin.Listen(c, s.access.Door, s.metrics, s.models.Budget, s.web.Handler(), log)
	if err != nil {
		return err
	}
	defer stopAdmin()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	listener, err := s.web.Listen(ctx, c.Addr)
	if err != nil {
		return listenError(c, err)
	}
	server := s.web.HTTPServer()
	served := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { served <- s.encrypted.Serve(server, listener) })
	defer server.Close()
	if c.Watch {
		wg.Go(func() { s.workflows.Watch(ctx, s.workflowsReloaded) })
	}
	defer cancel()
	if err := s.encrypted.Start(ctx, &wg, listener.Addr()); err != nil {
		return err
	}
	s.channels.Start(queueOptions(s.shared, s.log))
	base := s.encrypted.Base(listener.Addr())
	s.announce(stderr, base)
	systemd.Ready(base)
	wg.Go(func() { systemd.Watch(ctx, s.web.Handler()) })

	for {
		select {
		case err := <-served:
			return fmt.Errorf("the server stopped: %w", err)
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.workflowsReloaded(s.workflows.Reload())
				s.reloadSettings()
				if s.access.Door.Keys != nil && s.access.Door.Keys.Reload() == nil { // which logs its errors
					s.log.InfoContext(ctx, "API keys reloaded")
				}
				s.encrypted.Reload()
				continue
			}
			systemd.Stopping(c.Grace)
			return s.shutDown(server, signals)
		}
	}
}

// errAtOnce ends the program without waiting for anything.
var errAtOnce = errors.New("a second signal stopped the server at once; running work is lost")

// shutDown lets running work end within the grace period and breaks off the rest (FT-21).
func (s *server) shutDown(server *http.Server, signals <-chan os.Signal) error {
	log := s.log
	log.Info("shutting down", "grace", s.c.Grace)
	ctx, cancel := context.WithTimeout(context.Background(), s.c.Grace)
	defer cancel()
	drained := make(chan error, 1)
	go func() {
		// Channels first: the turns that they have let in need the framework to their end.
		var wg sync.WaitGroup
		wg.Go(s.channels.Drain)
		err := s.web.Drain(ctx)
		wg.Wait()
		err = errors.Join(err, s.turns.Drain(ctx))
		// What Drain has let end may still have its last bytes to write; a second is plenty for those.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		drained <- err
	}()
	for {
		select {
		case err := <-drained:
			if err != nil {
				log.WarnContext(ctx, "grace period ended; cut off the remaining work", "error", err)
			}
			log.InfoContext(ctx, "stopped")
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				// Nothing is waited for, deferred calls neither: that is what a second signal asks for.
				fmt.Fprintf(os.Stderr, "lingserve: %v\n", errAtOnce)
				os.Exit(exitFailed)
			}
		}
	}
}

// reloadSettings reads the configuration once more and takes what a running server can take: who may talk on channels, and the keys of providers.
// The log names what needs a restart. A configuration that is wrong changes nothing.
func (s *server) reloadSettings() {
	next, err := s.c.Reload()
	var changed []string
	if err == nil {
		changed = s.c.NeedsRestart(next)
		next.Workspace = s.c.Workspace // another one counts after a restart
		err = next.CheckWorkspace()
	}
	if err == nil {
		err = s.channels.tree.Set(next.Access)
	}
	if err != nil {
		for _, line := range errorLines(err) {
			s.log.Error("configuration is invalid; keeping the settings", "error", line)
		}
		return
	}
	secrets := next.Secrets()
	telemetry.HideSecrets(s.log, secrets)
	s.traces.HideSecrets(secrets)
	s.log.Info("channel settings reloaded")
	if names := s.keys.Reload(next); len(names) > 0 {
		s.log.Info("provider keys reloaded", "providers", names)
	}
	if !reflect.DeepEqual(s.c.Channels, next.Channels) {
		s.log.Warn("changed channels need a restart")
	}
	if len(changed) > 0 {
		s.log.Warn("changed settings need a restart", "settings", changed)
	}
}

// workflowsReloaded logs what came of reading the workflows once more.
func (s *server) workflowsReloaded(err error) {
	if err == nil {
		s.log.Info("workflows reloaded")
	} else {
		for _, line := range errorLines(err) {
			s.log.Error("workflow is invalid; keeping the previous one", "error", line)
		}
	}
}

// checkFree reports whether the server can listen on addr.
func checkFree(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// listenError says in words what kept the server from listening.
func listenError(c *config.Config, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is in use; stop the program that uses it, or choose another with --addr (addr is set by: %s)", c.Addr, c.Source("addr"))
	}
	return fmt.Errorf("cannot listen on %s (addr is set by: %s): %w", c.Addr, c.Source("addr"), err)
}

// errAtStart is why a server ends that a signal stopped before it had started.
var errAtStart = errors.New("a signal stopped the server while it was starting")
