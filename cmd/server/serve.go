package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/admin"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/https"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/internal/systemd"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

func serveCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	var settings config.Flags
	settings.Bind(set)
	printConfig := set.Bool("print-config", false, "print all settings with their sources, and exit")
	rest, help, err := parseFlags(set, args)
	switch {
	case help != noHelp:
		explain(stdout, set, rest, help == fullHelp)
		return exitOK
	case err != nil:
		return usage(stderr, "serve", "%v", err)
	case len(rest) > 0:
		return usage(stderr, "serve", "unexpected argument %q", rest[0])
	}
	c, err := config.Load(&settings, os.Environ())
	if err != nil {
		return fail(stderr, err)
	}
	if *printConfig {
		if err := c.Print(stdout); err != nil {
			return fail(stderr, err)
		}
		return exitOK
	}
	// The signals are caught before anything is started, so that none of them finds the server half made.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := serve(c, signals, stderr); err != nil {
		return fail(stderr, err)
	}
	return exitOK
}

// serve runs the server until a signal ends it. Its errors are for the user: each line says one thing that is wrong.
func serve(c *config.Config, signals <-chan os.Signal, stderr io.Writer) error {
	if err := errors.Join(c.CheckListen(), c.CheckAdmin(), c.CheckWorkspace()); err != nil {
		return err
	}
	log := newLog(stderr, c)
	traces, stopTraces, err := openTraces(c, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	for _, warning := range c.Warnings {
		log.Warn("check a setting", "warning", warning)
	}
	entrance, err := newEntrance(c, log)
	if err != nil {
		return err
	}
	defer entrance.close()
	encrypted, err := https.New(c, build().version, log)
	if err != nil {
		return err
	}
	models, stop, err := providers.New(c)
	if err != nil {
		return err
	}
	defer stop()
	models.Log = log
	workflows, from, err := openWorkflows(c)
	if err != nil {
		return err
	}
	// An address that is in use often means that this server runs already: its data folder must not be touched then.
	if err := free(c.Addr); err != nil {
		return listenError(c, err)
	}
	starting, started := untilSignal(signals)
	shared, err := openEngine(starting, c, log)
	started()
	if starting.Err() != nil { // also where it was in time
		shared.close(log)
		return context.Cause(starting)
	}
	if err != nil {
		return err
	}
	defer shared.close(log) // the last of all that keeps something
	tables, err := openTables(context.Background(), c, shared, log)
	if err != nil {
		return err
	}
	if shared == nil { // else shared closes them
		defer func() {
			if err := tables.Close(); err != nil {
				log.Warn("cannot close the tables cleanly", "error", err)
			}
		}()
	}
	if entrance.door.Tickets, err = newTickets(context.Background(), c, tables); err != nil {
		return tablesError(c, err)
	}
	o := serverOptions(c, workflows, models, log)
	metrics, names := newMetrics(c, models, workflows)
	o.Observer, o.AccessLog = metrics, c.Log.Access
	if o.Tapes, err = openTapes(c, shared, log, metrics); err != nil {
		return err
	}
	defer o.Tapes.Close()
	models.Budget = newBudget(c, o.Tapes, true, log)
	defer models.Budget.Close()
	turns, agents, stopTurns, err := newTurns(c, models, workflows, o.Tapes, o.Ledger, log)
	if err != nil {
		return err
	}
	defer stopTurns()
	agents.WarnOfMissingWorkflows(log)
	channels, err := newChannels(context.Background(), c, shared, tables, turns, agents, o.Ledger, log)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is on its way has had its time
		if err := channels.Close(ctx); err != nil {
			log.WarnContext(ctx, "cannot close the channels' files cleanly", "error", err)
		}
	}()
	channels.look(c, agents, log)
	entrance.into(&o)
	if err := shared.into(context.Background(), c, &o, log); err != nil {
		return err
	}
	o.Turns, o.Agents, o.Channels, o.Kernel = turns, agents, channels, channels.Kernel
	o.ChannelNames = slices.AppendSeq(config.ChannelTypes(), maps.Keys(c.Access.Channels))
	o.Tracer, channels.Kernel.Tracer = traces.Provider(), traces.Channels()
	s, err := web.New(o)
	if err != nil { // which is about the data folder
		return fmt.Errorf("data (%s): cannot use the folder %s: %s", c.Source("data"), c.Data, strings.TrimPrefix(err.Error(), "data folder: "))
	}
	defer s.Close()
	watch(metrics, names, s, models, turns, agents, channels.Manager, shared)
	stopAdmin, err := admin.Listen(c, o.Access.Door, metrics, models.Budget, s.Handler(), log)
	if err != nil {
		return err
	}
	defer stopAdmin()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	listener, err := s.Listen(ctx, c.Addr)
	if err != nil {
		return listenError(c, err)
	}
	server := s.HTTPServer()
	served := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { served <- encrypted.Serve(server, listener) })
	defer server.Close()
	if c.Watch {
		wg.Go(func() {
			workflows.Watch(ctx, func(err error) { logReload(log, err); warnOfOptions(log, c, workflows) })
		})
	}
	defer cancel()
	if err := encrypted.Start(ctx, &wg, listener.Addr()); err != nil {
		return err
	}
	channels.Start()
	base := encrypted.Base(listener.Addr())
	announce(stderr, c, log, base, workflows, from, models, agents.Names(), channels.Names())
	watcher := systemd.New(os.Getenv)
	watcher.Ready(base)
	wg.Go(func() { watcher.Watch(ctx, s.Handler()) })

	for {
		select {
		case err := <-served:
			return fmt.Errorf("the server stopped: %w", err)
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				logReload(log, workflows.Reload())
				warnOfOptions(log, c, workflows)
				reloadChannels(c, channels, log)
				entrance.reload()
				encrypted.Reload()
				continue
			}
			watcher.Stopping(c.Grace)
			return shutDown(c, s, channels, turns, server, signals, log)
		}
	}
}

// errAtOnce ends the program without waiting for anything.
var errAtOnce = errors.New("a second signal stopped the server at once; running work is lost")

// shutDown lets running work end within the grace period and breaks off the rest (FT-21).
func shutDown(c *config.Config, s *web.Server, channels *channels, turns *turn.Framework, server *http.Server, signals <-chan os.Signal, log *slog.Logger) error {
	log.Info("shutting down", "grace", c.Grace)
	ctx, cancel := context.WithTimeout(context.Background(), c.Grace)
	defer cancel()
	drained := make(chan error, 1)
	go func() {
		// Channels first: the turns that they have let in need the framework to their end.
		var wg sync.WaitGroup
		wg.Go(channels.Drain)
		err := s.Drain(ctx)
		wg.Wait()
		err = errors.Join(err, turns.Drain(ctx))
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

// reloadChannels reads the configuration once more and takes what it says of who may talk on channels. One that is wrong changes
// nothing.
func reloadChannels(c *config.Config, channels *channels, log *slog.Logger) {
	next, err := c.Reload()
	if err == nil {
		next.Workspace = c.Workspace // another one counts after a restart
		err = next.CheckWorkspace()
	}
	if err == nil {
		err = channels.tree.Set(next.Access)
	}
	if err == nil {
		log.Info("channel settings reloaded")
		if !reflect.DeepEqual(c.Channels, next.Channels) {
			log.Warn("changed channels need a restart")
		}
		return
	}
	for line := range strings.Lines(err.Error()) {
		log.Error("configuration is invalid; keeping the channels' settings", "error", strings.TrimRight(line, "\n"))
	}
}

func logReload(log *slog.Logger, err error) {
	if err == nil {
		log.Info("workflows reloaded")
		return
	}
	for line := range strings.Lines(err.Error()) {
		log.Error("workflow is invalid; keeping the previous one", "error", strings.TrimRight(line, "\n"))
	}
}

// warnOfOptions tells of options in workflow files that do not reach the models.
func warnOfOptions(log *slog.Logger, c *config.Config, workflows *flow.Registry) {
	for _, w := range workflows.All() {
		for _, problem := range flow.Lacking(w, c.Lacking) {
			log.Warn("workflow sets an option that its provider lacks", "workflow", w.Info().Name, "error", problem)
		}
	}
}

// free says whether addr can be listened on.
func free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// listenError says in words what kept the server from listening.
func listenError(c *config.Config, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the address %s is in use; stop the program that uses it, or choose another with --addr (addr is set by: %s)", c.Addr, c.Source("addr"))
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listening on %s is not permitted; ports below 1024 are reserved, so choose another with --addr", c.Addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; choose another with --addr", c.Addr)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("cannot resolve the name %s; choose another address with --addr", e.Name)
	}
	return fmt.Errorf("cannot listen on %s: %w", c.Addr, err)
}

// announce says what is there and how to try it.
func announce(w io.Writer, c *config.Config, log *slog.Logger, base string, workflows *flow.Registry, from string, models *adapter.Registry, agents, channels []string) {
	var names []string
	for _, w := range workflows.All() {
		info := w.Info()
		names = append(names, info.Name)
		for _, model := range info.Models() {
			if _, err := models.Model(model); err != nil {
				log.Warn("workflow names an unknown model", "workflow", info.Name, "error", err)
			}
		}
	}
	warnOfOptions(log, c, workflows)
	providers := []string{} // as JSON, too, there is a list
	for _, p := range c.Providers {
		if p.Set && p.Missing() == "" {
			providers = append(providers, p.Name)
		}
	}
	if c.Log.Format == "json" {
		log.Info("listening", "url", base, "model", c.Model, "model_from", c.Source("model").String(), "providers", providers,
			"workflows", names, "agents", agents, "channels", channels, "version", build().version)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lingserve %s listens on %s\n", build().version, base)
	fmt.Fprintf(&b, "  model      %s", c.Model)
	if from := c.Source("model"); from.Kind == config.Default && from.Name != "" {
		fmt.Fprintf(&b, " (%s)", from.Name)
	}
	fmt.Fprintln(&b)
	switch {
	case !strings.HasPrefix(c.Model, "demo:"):
	case len(providers) > 0 && c.Source("model").Kind == config.Default:
		// One that is set up and has no models listed, or it would be the default.
		fmt.Fprintf(&b, "             scripted: needs no network, knows nothing. %s is set up, but no model of it is chosen:\n"+
			"             use --model %s:NAME, or list models in providers.%s.models\n", providers[0], providers[0], providers[0])
	default:
		fmt.Fprint(&b, "             scripted: needs no network, knows nothing. For a real model, set OPENAI_API_KEY or another provider's key,\n"+
			"             or use --model ollama:NAME if Ollama runs; docs/models.md lists all providers\n")
	}
	if len(providers) > 0 {
		fmt.Fprintf(&b, "  providers  %s\n", strings.Join(providers, ", "))
	}
	if len(names) == 0 {
		fmt.Fprintf(&b, "  workflows  none (%s)\n", from)
	} else {
		fmt.Fprintf(&b, "  workflows  %s (%s)\n", strings.Join(names, ", "), from)
	}
	fmt.Fprintf(&b, "  agents     %s\n", strings.Join(agents, ", "))
	if len(channels) > 0 {
		fmt.Fprintf(&b, "  channels   %s\n", strings.Join(channels, ", "))
	}
	if try := tryLine(base, c.Auth.On(), workflows); try != "" {
		fmt.Fprintf(&b, "  try        %s\n", try)
	}
	fmt.Fprintln(&b)
	io.WriteString(w, b.String())
}

// tryLine is a command that works when it is pasted into a terminal.
func tryLine(base string, keyed bool, workflows *flow.Registry) string {
	const question = "Why is the sky blue?"
	input, _ := json.Marshal(question)
	var first string
	for _, w := range workflows.All() {
		name := w.Info().Name
		if _, err := flow.Prepare(w, input); err == nil && (first == "" || name == "encyclopedia") {
			first = name
		}
	}
	if first == "" {
		return ""
	}
	query := "workflow=" + url.QueryEscape(first) + "&input=" + url.QueryEscape(question) + "&format=jsonl"
	key := ""
	if keyed {
		key = `-H "Authorization: Bearer $` + config.ClientKey + `" `
	}
	return "curl -N " + key + "'" + base + "/v1/runs?" + query + "'"
}
