// Package admin is the listener for the people who operate a server: metrics, costs, profiles and health. It is apart from the listener
// for callers, so that a mistake in a proxy's rules does not publish how the server works inside.
//
// The handlers of net/http/pprof make the profiles. The one that shows the command line, which may have keys, is not used. The package adds
// them all to http.DefaultServeMux, which no listener of this program serves.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/web"
)

// handler answers the requests of the listener.
type handler struct {
	door        *access.Door
	hosts       *access.Hosts // nil takes any
	open        bool          // everybody who can reach it is an admin
	openMetrics bool
	metrics     http.Handler
	budget      *adapter.Budget
	log         *slog.Logger
	refusals    *trail.LineLimiter // of the lines of refused requests
	profiling   sync.Mutex         // one profile at a time: each slows all requests down, and two disturb each other
	mux         *http.ServeMux
}

// Refusals of the admin listener.
var (
	errNotAdmin = &access.Refusal{
		Status: http.StatusForbidden, Code: "forbidden", Reason: "not_admin",
		Detail: "this request needs an admin's API key; create one with \"lingserve keys new --role admin\"",
	}
	errNoAdminKeys = &access.Refusal{
		Status: http.StatusForbidden, Code: "forbidden", Reason: "no_keys",
		Detail: "without API keys, this server only gives metrics to other machines; " +
			"listen on localhost, or create an admin's key with \"lingserve keys new --role admin\"",
	}
	errAdminSite = &access.Refusal{
		Status: http.StatusForbidden, Code: "forbidden", Reason: "origin", Detail: "pages of other sites may not send this request",
	}
	errAdminPath = &access.Refusal{
		Status: http.StatusNotFound, Code: "not_found", Reason: "not_found",
		Detail: "unknown path; expected /metrics, /cost, /debug/pprof/, /healthz or /readyz",
	}
	errProfiling = &access.Refusal{
		Status: http.StatusConflict, Code: "conflict", Reason: "profiling",
		Detail: "another profile is running; wait until it ends", RetryAfter: 10 * time.Second,
	}
)

// Bounds of profiles, in seconds.
const (
	profileSeconds    = 30 // by default
	maxProfileSeconds = 120
	traceSeconds      = 1  // by default
	maxTraceSeconds   = 10 // it grows by megabytes in each
)

func newHandler(
	c *config.Config, door *access.Door, m *telemetry.Metrics, budget *adapter.Budget, public http.Handler, log *slog.Logger,
) (*handler, error) {
	a := &handler{
		door: door, open: c.AdminOpen(), openMetrics: c.Admin.OpenMetrics, metrics: m.Handler(log), budget: budget, log: log,
		refusals: trail.NewLineLimiter(),
	}
	if c.AdminLocal() { // a page of another site can lead its name here, and count for the browser as a page of this listener
		var err error
		if a.hosts, err = access.NewHosts(c.HTTP.Hosts); err != nil {
			return nil, err
		}
	}
	a.mux = http.NewServeMux()
	a.mux.HandleFunc("GET /metrics", a.metrics.ServeHTTP)
	a.mux.HandleFunc("GET /cost", a.cost)
	a.mux.HandleFunc("GET /healthz", public.ServeHTTP)
	a.mux.HandleFunc("GET /readyz", public.ServeHTTP)
	a.mux.HandleFunc("GET /debug/pprof", a.index)
	a.mux.HandleFunc("GET /debug/pprof/{$}", a.index)
	a.mux.HandleFunc("GET /debug/pprof/profile", a.exclusive(limited(maxProfileSeconds, pprof.Profile)))
	a.mux.HandleFunc("GET /debug/pprof/trace", a.exclusive(limited(maxTraceSeconds, pprof.Trace)))
	a.mux.HandleFunc("GET /debug/pprof/{name}", a.exclusive(limited(maxProfileSeconds, writeProfile)))
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { web.Refuse(w, errAdminPath) })
	return a, nil
}

// ServeHTTP answers the requests of admins.
func (a *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := a.enter(r); err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		refusal, ok := errors.AsType[*access.Refusal](err)
		if !ok {
			a.log.ErrorContext(r.Context(), "cannot read the keys for the admin listener", "error", err)
			refusal = errNotAdmin
		}
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		if a.refusals.Allow(trail.Repeated{Reason: refusal.Reason, Client: client}) {
			a.log.WarnContext(r.Context(), "admin listener refused a request", "path", r.URL.Path, "reason", refusal.Reason, "client", client)
		}
		web.Refuse(w, refusal)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// enter returns why a request is refused; nil if it is not.
func (a *handler) enter(r *http.Request) error {
	switch r.URL.Path {
	case "/healthz", "/readyz":
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default: // a profile slows the server down even if the page cannot read it
		return errAdminSite
	}
	if a.hosts != nil {
		if err := a.hosts.Check(r); err != nil {
			return err
		}
	}
	if a.open {
		return nil
	}
	if r.URL.Path == "/metrics" && a.openMetrics {
		return nil
	}
	if a.door.Open() {
		return errNoAdminKeys
	}
	if r.URL.Query().Has(access.TicketParameter) { // tickets are for streams; they would be used up
		return access.ErrNobody
	}
	v, err := a.door.Enter(r)
	switch {
	case err != nil:
		return err
	case !v.Administers():
		return errNotAdmin
	}
	return nil
}

// cost tells what was spent today, in millionths of a dollar: by all, and by each caller.
func (a *handler) cost(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.budget.Today()) // the client may have gone away
}

// index lists the profiles.
func (a *handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Profiles, to be read with \"go tool pprof FILE\"; debug=1 gives text.\n\n")
	for _, p := range runtimepprof.Profiles() {
		fmt.Fprintf(w, "  %-14s%d\n", p.Name(), p.Count())
	}
	fmt.Fprintf(w, "  %-14sof the CPU, for ?seconds=%d, %d at most\n", "profile", profileSeconds, maxProfileSeconds)
	fmt.Fprintf(w, "  %-14sfor ?seconds=%d, %d at most; to be read with \"go tool trace FILE\"\n", "trace", traceSeconds, maxTraceSeconds)
}

// exclusive answers one request for a profile at a time.
func (a *handler) exclusive(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.profiling.TryLock() {
			web.Refuse(w, errProfiling)
			return
		}
		defer a.profiling.Unlock()
		h(w, r)
	}
}

// writeProfile writes one of the profiles of the runtime.
func writeProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if runtimepprof.Lookup(name) == nil {
		web.Refuse(w, errAdminPath)
		return
	}
	pprof.Handler(name).ServeHTTP(w, r)
}

// limited refuses requests for profiles of more seconds, or of a number that is none.
func limited(maxSeconds int, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("seconds")
		if n, err := strconv.Atoi(text); text != "" && (err != nil || n <= 0 || n > maxSeconds) {
			web.Refuse(w, &access.Refusal{
				Status: http.StatusBadRequest, Code: "invalid_request", Reason: "invalid",
				Detail: fmt.Sprintf("query parameter seconds: expected a whole number up to %d", maxSeconds),
			})
			return
		}
		h(w, r)
	}
}

// Listen opens the admin listener and serves it until stop is called. Without an address it does nothing.
func Listen(
	c *config.Config, door *access.Door, m *telemetry.Metrics, budget *adapter.Budget, public http.Handler, log *slog.Logger,
) (stop func(), err error) {
	if c.Admin.Addr == "" {
		return func() {}, nil
	}
	a, err := newHandler(c, door, m, budget, public, log)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.Admin.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin.addr (%s): %w", c.Source("admin.addr"), err)
	}
	server := &http.Server{
		Handler: a, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		WriteTimeout: (maxProfileSeconds + 30) * time.Second,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("admin listener stopped", "error", err)
		}
	})
	auth := "an admin's key"
	switch {
	case a.open:
		auth = "none"
	case a.openMetrics:
		auth = "none for metrics, otherwise an admin's key"
	}
	if c.AdminInClear() {
		log.Warn("an admin's key travels unencrypted; set admin.addr to localhost, or use an encrypting proxy",
			"addr", l.Addr().String())
	}
	log.Info("admin listener is open", "addr", l.Addr().String(), "auth", auth)
	return func() {
		server.Close()
		wg.Wait()
	}, nil
}
